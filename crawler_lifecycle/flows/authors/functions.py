"""Functions: names and calls for steps' functions.

Another process has to find the function by its name, so a function must be defined at the top level of a module.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from crawler_lifecycle.base.limits import LONGEST_FUNCTION
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.work import CallForm


def reference(function: Callable[..., Any] | type) -> str:
    """Return `module:qualname`; raise BadInput, with the reason, for a function that another process cannot find."""
    reason = _why_no_function(function) or _why_unfindable(function)
    if reason:
        raise BadInput("job", f"{_title(function)} {reason}: a step is a function at the top level of a module")
    name = f"{_module(function.__module__)}:{function.__qualname__}"
    if len(name) > LONGEST_FUNCTION:
        raise BadInput("job", f"{name[:80]}... has {len(name)} characters, at most {LONGEST_FUNCTION} are possible")
    return name


@contextmanager
def refusals_with_job(name: str) -> Iterator[None]:
    """Name the job in a refusal: a graph may have many functions."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"job of {name!r}", error.expected) from error


def call_form(function: Callable[..., Any]) -> CallForm:
    """Return how a plain function is called: without arguments, with the context, or by its parameters' names."""
    parameters = _parameters(function)
    if not parameters:
        return CallForm.KEYWORDS
    first = parameters[0]
    if len(parameters) == 1 and (first.name == "context" or "Context" in str(first.annotation)):
        return CallForm.CONTEXT
    return CallForm.PARAMETERS


def check_parameters(function: Callable[..., Any], number: int, example: str) -> None:
    """Raise BadInput if the function does not take `number` positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * number)
    except TypeError as error:
        raise BadInput("job", f"{_title(function)} is called as {example}, and cannot be: {error}") from error


def required_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters without defaults, for dependencies or context values with their names."""
    return tuple(part.name for part in _parameters(function) if part.default is inspect.Parameter.empty)


def keyword_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the parameters' names for keywords; None for a function with `**kwargs`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    if any(part.kind is inspect.Parameter.VAR_KEYWORD for part in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(part.name for part in parameters if part.kind in kinds)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:
        raise BadInput("job", f"{_title(function)} does not report its parameters") from error
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [part for part in parameters if part.kind not in variable]


def _why_no_function(function: Any) -> str | None:
    if isinstance(function, functools.partial):
        return "is a partial"
    if inspect.ismethod(function):
        return "is a bound method"
    if not inspect.isfunction(function) and not inspect.isclass(function):
        return "is no function"
    return None


def _why_unfindable(function: Any) -> str | None:
    if function.__name__ == "<lambda>":
        return "has no name"
    if "<locals>" in function.__qualname__:
        return "is defined inside a function"
    if "." in function.__qualname__:
        return "is defined inside a class"
    present = getattr(sys.modules.get(function.__module__), function.__name__, function)
    if inspect.unwrap(present) is not inspect.unwrap(function):
        return f"is not the function that {function.__module__} has under its name"
    return None


def _title(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__qualname__", repr(function)))[:120]


def _module(name: str) -> str:
    """Return the module's name; the main module has the name under which a host imports its file."""
    if name != "__main__":
        return name
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if file is None:
        raise BadInput("job", "is defined in an interactive session, where no other process can find it")
    return PurePath(file).stem
