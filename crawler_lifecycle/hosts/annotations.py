"""Annotations: checks values for an author's function, and its result, by the annotations that pydantic understands."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from crawler_lifecycle.flows import Cancel, Graft, Record, Snooze, Workflow

RESULT = "return"
ACTS = (Cancel, Graft, Record, Snooze, Workflow)  # results that are no values


def checked(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in their parameters' types, such as a dict as a model, or raise ValidationError."""
    adapters = _adapters(function)
    return {
        name: adapters[name].validate_python(value) if name in adapters else value for name, value in values.items()
    }


def result_check(function: Callable[..., Any]) -> Callable[[Any], None]:
    """Return a check that raises ValidationError for a result against the function's annotation."""
    adapter = _adapters(function).get(RESULT)
    if adapter is None:
        return lambda _: None
    return lambda value: _check(adapter, value)


def _check(adapter: TypeAdapter[Any], value: Any) -> None:
    """Check the value. Fields of a dataclass are checked one by one: only pydantic's models check their own fields."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    adapter.validate_python(value)


@functools.cache
def _adapters(function: Callable[..., Any]) -> Mapping[str, TypeAdapter[Any]]:
    """Return the checks for annotations that pydantic understands, by the parameter's name or RESULT."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation for the type checker alone may name a missing module
        return {}
    if RESULT in hints:
        hints[RESULT] = _of_value(hints[RESULT])
    adapters = {}
    for name, hint in hints.items():
        if hint is not Any and hint is not type(None):
            try:
                adapters[name] = TypeAdapter(hint)
            except (PydanticUserError, PydanticUndefinedAnnotation):
                continue
    return adapters


def _of_value(hint: Any) -> Any:
    """Return the annotation without the results that are no values, such as a Cancel."""
    if hint in ACTS:
        return Any
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    kept = tuple(part for part in typing.get_args(hint) if part not in ACTS)
    return typing.Union[kept] if kept else Any  # noqa: UP007 - the parts are known at run time alone
