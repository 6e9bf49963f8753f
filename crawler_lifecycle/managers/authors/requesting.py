"""The request for a job's run, and the key by which a repeated parameter set is known."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.turns import UNREADABLE
from crawler_lifecycle.managers.authors.parameters import FullJobParams, check_parts
from crawler_lifecycle.model import manager_items as items
from crawler_lifecycle.model.requests import PROJECT, RunParameters, RunRequest, refusals_as_bad_input

KeyFunction = Callable[[FullJobParams], str]
AUTHORS_WORDS = {
    "crawler": "spider",
    "arguments": "spider_args",
    "settings": "job_settings",
    "memory_factor": "units",
}  # by field of a run's request
LISTS = ("tags", "labels")  # sorted in the request, so that the place of an entry says nothing to its author
LONGEST_SHOWN = 100  # characters of a refused tag


def request_of(params: FullJobParams, tags: Iterable[str]) -> RunParameters:
    """Return the request. BadInput names the field that no run accepts."""
    if not params.get("spider"):
        raise BadInput("spider", "the parameters name no spider, and the manager has none")
    fields: dict[str, Any] = {
        "crawler": params["spider"],
        "arguments": texts("spider_args", params.get("spider_args") or {}),
        "settings": texts("job_settings", params.get("job_settings") or {}),
        "tags": sorted({*tags, *(params.get("tags") or [])}),
    }
    if params.get("units") is not None:
        fields["memory_factor"] = _number("units", params["units"] or 1)
    labels = {*(params.get("labels") or []), *project_labels(params.get("project_id"))}
    if labels:
        fields["labels"] = sorted(labels)
    if params.get("priority") is not None:
        fields["priority"] = params["priority"]
    try:
        with refusals_as_bad_input():
            request = RunRequest.model_validate(fields)
    except BadInput as error:
        raise BadInput(*_in_authors_words(error.mistakes, fields)) from error
    return RunParameters.model_validate(request.model_dump(include=set(RunParameters.model_fields), exclude_none=True))


def _in_authors_words(mistakes: Sequence[tuple[str, str]], fields: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the arguments of BadInput with the names that authors write, and with a tag or label in place of its place.

    `fields`: of the run's request.
    """
    first, *rest = ((_field_of(name), _problem_of(name, expected, fields)) for name, expected in mistakes)
    yield from first
    yield from rest


def _field_of(name: str) -> str:
    field, _, rest = name.partition(".")
    if field in LISTS:
        return field
    return ".".join(filter(None, [AUTHORS_WORDS.get(field, field), rest]))


def _problem_of(name: str, expected: str, fields: Mapping[str, Any]) -> str:
    field, _, place = name.partition(".")
    if field in LISTS and place.isdigit():
        return f"{fields[field][int(place)][:LONGEST_SHOWN]!r}: {expected}"
    return f"{expected}; units multiply the memory in the catalogue" if field == "memory_factor" else expected


def project_labels(project_id: object) -> list[str]:
    """Return the labels of a run in the project; none without a project."""
    if project_id is None:
        return []
    if isinstance(project_id, bool) or not isinstance(project_id, int | str) or len(str(project_id).split()) != 1:
        raise BadInput("project_id", f"expected a number or a name, not {str(project_id)[:100]!r}")
    return [f"{PROJECT}{str(project_id).strip()}"]


def texts(field: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as texts: lists and dicts as JSON."""
    return {str(name): _text(f"{field}.{name}", value) for name, value in values.items()}


def _number(field: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise BadInput(field, f"expected a number, not {str(value)[:100]!r}") from error


def _text(field: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, dict | list | tuple):
        return canonical(field, value)
    named = "None: leave the name out" if value is None else type(value).__name__
    raise BadInput(field, f"expected a text, a number, a list or a dict, not {named}")


def canonical(field: str, value: Any) -> str:
    """Return the value as JSON with one form for equal values."""
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()  # half of a surrogate pair has no place in a database
    except (TypeError, ValueError) as error:
        raise BadInput(field, f"is no JSON: {error}") from error
    return text


def item_of(
    params: FullJobParams,
    effective: Callable[[FullJobParams], FullJobParams],
    tags: Iterable[str],
    origin: items.Origin,
    key: str | None = None,
) -> items.Item:
    """Return the item for the ledger. Bad parameters make an item with a problem.

    `effective`: returns the parameters over those of the command line, for the request.
    """
    try:
        override = json.loads(canonical("parameters", params))
    except BadInput as error:
        return items.Item(override={UNREADABLE: repr(params)[:1000]}, key=key, origin=origin, problem=error.message)
    try:
        check_parts(params)
        request = request_of(effective(params), tags)
        return items.Item(override=override, request=request, key=key, origin=origin)
    except BadInput as error:
        return items.Item(override=override, key=key, origin=origin, problem=error.message)


def dedup_key(params: FullJobParams, dedup: bool | KeyFunction, own: object = None) -> str | None:
    """Return the key of a parameter set: the author's own, or of the spider with its arguments as texts.

    None: the set is never a repeat.
    """
    if own is not None:
        return _digest(["key", own])
    if callable(dedup):
        return _digest(["key", dedup(params)])
    if not dedup:
        return None
    arguments = params.get("spider_args") or {}
    with suppress(BadInput):  # the item is refused, with the arguments as its author wrote them
        arguments = texts("spider_args", arguments)
    return _digest([params.get("spider"), arguments])


def refused_key(params: Mapping[str, Any], key: str | None) -> str | None:
    """Return the key of a refused parameter set: a later set without the wrong field is no repeat.

    `key`: the set's usual key.
    """
    return None if key is None else _digest(["refused", key, params]) or _digest(["refused", key])


def _digest(value: object) -> str | None:
    try:
        return hashlib.sha256(canonical("key", value).encode()).hexdigest()
    except BadInput:
        return None  # the item itself is refused
