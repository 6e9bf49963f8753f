"""What comes between a part and the ports that it works with? The parts are found by their types, not listed."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from typing import Any, TypeVar

# given `port.method` and the call itself: what comes of it
Way = Callable[[str, Callable[[], Any]], Any]
T = TypeVar("T")


def methods_of(protocol: type) -> list[str]:
    return [name for each in protocol.__mro__ for name in _own_methods(each)]


def ports_of(part: type) -> dict[str, type]:
    """The protocols among the fields of a class and of the parts in it."""
    found: dict[str, type] = {}
    for name, hint in typing.get_type_hints(part).items():
        if getattr(hint, "_is_protocol", False):
            found[name] = hint
        elif isinstance(hint, type) and is_dataclass(hint):
            found |= ports_of(hint)
    return found


def by_way_of(way: Way, part: T) -> T:
    """The same part, whose ports are all spoken to in this way."""
    hints = typing.get_type_hints(type(part))
    changed: dict[str, Any] = {}
    for field in fields(part):  # type: ignore[arg-type]  # a dataclass, as all parts are
        value, hint = getattr(part, field.name), hints[field.name]
        if getattr(hint, "_is_protocol", False):
            changed[field.name] = between(way, value, field.name, methods_of(hint))
        elif isinstance(hint, type) and is_dataclass(hint) and ports_of(hint):
            changed[field.name] = by_way_of(way, value)
    return replace(part, **changed)  # type: ignore[type-var]


def between(way: Way, port: T, name: str, methods: list[str]) -> T:
    """Of the port's own type, but these methods of it are called by this way."""
    given = {each: staticmethod(through(way, f"{name}.{each}", getattr(port, each))) for each in methods}
    stand_in: T = object.__new__(type(type(port).__name__, (type(port),), given))
    return stand_in


def through(way: Way, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        return way(point, partial(method, *given, **named))

    @wraps(method)
    async def awaited(*given: Any, **named: Any) -> Any:
        return await way(point, partial(method, *given, **named))

    return awaited if inspect.iscoroutinefunction(method) else called


def _own_methods(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"]
