"""Rules for events: the choice of a rule, and the event's values in the rule's request.

Patterns are EventBridge's event patterns, with some of the operators: fields are combined by "and", the entries of a
list by "or". A template is a text. `$.detail.spider` means the value with its type, and `{$.detail.spider}` inside
a text for the value as text.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.triggers.model import FIELDS, Event, TriggerRule

PATH = r"\$(?:\.[\w-]+)+"
WHOLE = re.compile(PATH)
INSIDE = re.compile(rf"\{{({PATH})\}}")
ABSENT = object()  # value of a missing field
Mistakes = Iterator[tuple[str, str]]  # field and expected value
NUMBERS: Mapping[str, Callable[[float, float], bool]] = {
    "=": lambda value, limit: value == limit,
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}
TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "prefix": lambda value, wanted: value.startswith(wanted),
    "suffix": lambda value, wanted: value.endswith(wanted),
    "equals-ignore-case": lambda value, wanted: value.casefold() == wanted.casefold(),
}
OPERATORS = (*TEXTS, "anything-but", "numeric", "exists")


def rule_for(event: Event, rules: Sequence[TriggerRule]) -> TriggerRule:
    """Return the first rule whose pattern fits the event. BadInput if no pattern fits."""
    fields = event.fields
    for rule in rules:
        if matches(rule.pattern, fields):
            return rule
    raise BadInput("event", f"no rule fits source {event.source!r} with detail type {event.detail_type!r}")


def matches(pattern: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Return whether every field of the pattern fits."""
    return all(_fits(wanted, fields.get(name, ABSENT)) for name, wanted in pattern.items())


def _fits(wanted: Any, value: Any) -> bool:
    if isinstance(value, list):  # as in EventBridge, a single fitting entry is enough
        return any(_fits(wanted, entry) for entry in value) if value else _fits(wanted, ABSENT)
    if isinstance(wanted, Mapping):
        return matches(wanted, value if isinstance(value, Mapping) else {})
    return any(_passes(test, value) for test in wanted)


def _passes(test: Any, value: Any) -> bool:
    """Return whether a single value passes a test, a value or an object with an operator."""
    if isinstance(test, Mapping) and "exists" in test:
        return bool(test["exists"]) is (value is not ABSENT)
    if value is ABSENT:
        return False
    if not isinstance(test, Mapping):
        return bool(test == value) and isinstance(test, bool) is isinstance(value, bool)  # true is not 1
    [(operator, operand)] = test.items()
    if operator == "anything-but":
        return not any(_passes(entry, value) for entry in (operand if isinstance(operand, list) else [operand]))
    if operator == "numeric":
        return _is_number(value) and all(NUMBERS[sign](value, limit) for sign, limit in _pairs(operand))
    return isinstance(value, str) and TEXTS[operator](value, operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pairs(operand: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(operand[::2], operand[1::2], strict=True))


def pattern_mistakes(pattern: Any, place: str = "pattern") -> Mistakes:
    """Yield the mistakes in a pattern from a file."""
    if not isinstance(pattern, Mapping) or not pattern:
        yield place, "expected fields of the event, such as source"
        return
    for name, wanted in pattern.items():
        field = f"{place}.{name}"
        if place == "pattern" and name not in FIELDS:
            similar = get_close_matches(name, FIELDS, 1)
            yield field, "an event has no such field" + (f": is {similar[0]} meant?" if similar else "")
        elif isinstance(wanted, Mapping):
            yield from pattern_mistakes(wanted, field)
        elif not isinstance(wanted, list) or not wanted:
            yield field, "expected a list of values, or a table with inner fields"
        else:
            for test in wanted:
                yield from _test_mistakes(test, field)


def _test_mistakes(test: Any, field: str) -> Mistakes:
    if not isinstance(test, Mapping):
        if not _is_scalar(test):
            yield field, "expected texts, numbers, true, false, or a table with an operator"
        return
    if len(test) != 1 or (operator := next(iter(test))) not in OPERATORS:
        yield field, f"expected one of the operators {', '.join(OPERATORS)}"
        return
    operand = test[operator]
    if operator == "exists" and not isinstance(operand, bool):
        yield f"{field}.exists", "expected true or false"
    elif operator == "numeric" and not _is_comparison(operand):
        yield f"{field}.numeric", f'expected comparisons such as [">", 0, "<=", 5], with {" ".join(NUMBERS)}'
    elif operator in TEXTS and not isinstance(operand, str):
        yield f"{field}.{operator}", "expected a text"
    elif operator == "anything-but":
        for entry in operand if isinstance(operand, list) else [operand]:
            if isinstance(entry, Mapping) and not entry.keys() <= TEXTS.keys():
                yield f"{field}.anything-but", f"expected values, or one of the operators {', '.join(TEXTS)}"
            else:
                yield from _test_mistakes(entry, f"{field}.anything-but")


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _is_comparison(operand: Any) -> bool:
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        return False
    return all(sign in NUMBERS and _is_number(limit) for sign, limit in _pairs(operand))


def rendered(value: Any, fields: Mapping[str, Any], place: str, *, as_text: bool = False) -> Any:
    """Return the value with the event's values in place of templates. BadInput if the event lacks a value.

    `as_text`: a value of the event becomes a text, for requests whose values are texts.
    """
    if isinstance(value, Mapping):
        return {name: rendered(inner, fields, f"{place}.{name}", as_text=as_text) for name, inner in value.items()}
    if isinstance(value, list):
        return [rendered(inner, fields, f"{place}.{number}", as_text=as_text) for number, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    if WHOLE.fullmatch(value):
        event_value = _value_at(value, fields, place)
        return _text(event_value) if as_text else event_value
    return INSIDE.sub(lambda template: _text(_value_at(template[1], fields, place)), value)


def _value_at(path: str, fields: Mapping[str, Any], place: str) -> Any:
    value: Any = fields
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        raise BadInput(place, f"the event has no {path}")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def is_template(value: Any) -> bool:
    return isinstance(value, str) and bool(WHOLE.fullmatch(value) or INSIDE.search(value))


def template_mistakes(value: Any, place: str) -> Mistakes:
    """Yield the templates without a value in any event."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from template_mistakes(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from template_mistakes(inner, f"{place}.{number}")
    elif isinstance(value, str):
        paths = INSIDE.findall(value) + ([value] if value.startswith("$.") else [])
        for path in paths:
            if not WHOLE.fullmatch(path) or path.split(".")[1] not in FIELDS:
                yield place, f"{path} is no path in an event: expected a path such as $.detail.name"
        if value.count("{$.") > len(INSIDE.findall(value)):
            yield place, f"{value!r} has a template without its end: expected one such as {{$.detail.name}}"
