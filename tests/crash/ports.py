"""What comes between a part and the ports that it works with? The ports are found by the types of its fields, and what
it asks of them in its code: nothing is listed."""

import inspect
import re
import sys
import threading
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from types import ModuleType
from typing import Any, TypeVar

# given `port.method` and the call itself: what comes of it
Way = Callable[[str, Callable[[], Any]], Any]
T = TypeVar("T")
STEPS = re.compile(r"crawler_lifecycle\.(\w+\.activities|temporal\.(boundary|together))\b")  # used by others, too
NAMES = re.compile(r"\b(\w+)(?:\.(\w+))?")
ASKS = re.compile(r"(?=\b_?(\w+)\.(\w+)\b)")


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


def asked_by(part: type) -> set[str]:
    """`port.method`, as the code of this part has it, with that of the steps which it makes use of."""
    return _asked_in([inspect.getsource(step) for step in _steps_of(part)], _methods_by_port(ports_of(part)))


def _steps_of(part: type) -> list[Any]:
    """Return the part, and every class and function of the activities' modules that its code reaches by name."""
    steps: list[Any] = [part]
    for step in steps:  # the list grows in the loop
        names = vars(sys.modules[step.__module__])
        for owner, name in NAMES.findall(inspect.getsource(step)):
            module = names.get(owner)
            reached = getattr(module, name, None) if isinstance(module, ModuleType) else names.get(owner)
            if STEPS.match(getattr(reached, "__module__", "")) and reached not in steps and callable(reached):
                steps.append(reached)
    return steps


def _methods_by_port(ports: Mapping[str, type]) -> dict[str, list[str]]:
    return {name: methods_of(port) for name, port in ports.items()}


def asked_in(modules: Sequence[ModuleType], ports: Mapping[str, Sequence[str]]) -> set[str]:
    """The same of whole modules. `ports`: their methods by what they are called there."""
    return _asked_in([inspect.getsource(module) for module in modules], ports)


def _asked_in(sources: Sequence[str], ports: Mapping[str, Sequence[str]]) -> set[str]:
    called = [found for source in sources for found in ASKS.findall(source)]
    return {f"{port}.{method}" for port, method in called if method in ports.get(port, ())}


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
    def turning(*given: Any, **named: Any) -> Any:
        return Turns(way, point, method(*given, **named))

    @wraps(method)
    async def awaited(*given: Any, **named: Any) -> Any:
        return await way(point, partial(method, *given, **named))

    if typing.get_origin(inspect.signature(method).return_annotation) is Iterator:
        return turning
    return awaited if inspect.iscoroutinefunction(method) else called


class Turns(Iterator[Any]):
    """What is asked for again and again: each time by this way."""

    def __init__(self, way: Way, point: str, inner: Iterator[Any]) -> None:
        self._way = way
        self._point = point
        self._inner = inner
        self._lock = threading.Lock()  # a turn may come late, in the midst of another

    def __next__(self) -> Any:
        answers: list[Any] = []  # who asks for the same turn twice gets the same

        def turn() -> Any:
            with self._lock:
                if not answers:
                    answers.append(next(self._inner))
                return answers[0]

        return self._way(self._point, turn)


def _own_methods(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"]
