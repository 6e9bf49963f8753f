"""Calls of `ManagerLink` as messages between the process with the manager's object and its host."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import BoundArguments, Signature, signature
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.model.manager_items import CodeProblem

PROBLEM = TypeAdapter(CodeProblem)
WITHOUT_ANSWER = frozenset({"enter"})
CLOCK = "now"  # the object has a clock of its own
_SENT_AS: dict[Any, Any] = {Collection: list, Sequence: list, Mapping: dict}


@dataclass(frozen=True)
class Call:
    """A call's signature, and the types for its arguments and its answer. A message has all arguments in order."""

    signature: Signature
    arguments: TypeAdapter[tuple[Any, ...]]
    answer: TypeAdapter[Any]

    def in_order(self, *arguments: Any, **named: Any) -> list[Any]:
        """Return all arguments for a message."""
        bound = self.signature.bind(*arguments, **named)
        bound.apply_defaults()
        own = self.arguments.validate_python(tuple(bound.arguments.values()))
        in_order: list[Any] = self.arguments.dump_python(own, mode="json")
        return in_order

    def bound(self, arguments: tuple[Any, ...]) -> BoundArguments:
        """Return the call for the arguments in a message."""
        return BoundArguments(self.signature, OrderedDict(zip(self.signature.parameters, arguments, strict=True)))


def _call(name: str) -> Call:
    method = getattr(ManagerLink, name)
    own = signature(method)
    parameters = [parameter for parameter in own.parameters.values() if parameter.name != "self"]
    hints = {key: _sent(hint) for key, hint in get_type_hints(method).items()}
    types = tuple(hints[parameter.name] for parameter in parameters)
    return Call(own.replace(parameters=parameters), TypeAdapter(tuple[types]), TypeAdapter(hints["return"]))  # type: ignore[valid-type]


def _sent(hint: Any) -> Any:
    """Return the type in a message: abstract collections arrive as lists and dicts."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return reduce(or_, map(_sent, parts))
    return _SENT_AS[origin][parts] if origin in _SENT_AS else hint


CALLS = {name: _call(name) for name in vars(ManagerLink) if not name.startswith("_") and name != CLOCK}
