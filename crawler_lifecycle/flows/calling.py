"""Calling: from a step's work to its function's call, and from the result or exception to the meaning for the step.

Hosts and the kit for tests call functions by these rules.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from importlib import import_module
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from crawler_lifecycle.contract.flows.limits import LONGEST_NAME
from crawler_lifecycle.contract.flows.values import decode
from crawler_lifecycle.contract.flows.work import CallForm, StepWork
from crawler_lifecycle.errors import BadInput, NotFound
from crawler_lifecycle.flows.functions import required_names
from crawler_lifecycle.flows.running import Cancel, Context, RunningJob
from crawler_lifecycle.flows.workflow import Graft, Workflow


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(inspect.unwrap(self.function))

    def __call__(self) -> Any:
        """Return the function's result; for an async function, its coroutine."""
        return self.function(*self.arguments, **self.keywords)


def loaded(function: str) -> Callable[..., Any]:
    """Return the function or class for `module:qualname`; raise NotFound if the module has no such function."""
    module, _, name = function.partition(":")
    try:
        target: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"no function {function}: {error}") from error
    if not callable(target):
        raise NotFound(f"no function {function}: the module has {target!r}"[:300])
    return target  # type: ignore[no-any-return]


def call_of(
    work: StepWork, arguments: JsonValue, job: RunningJob, context: Context, function: Callable[..., Any] | None = None
) -> Call:
    """Return the call. `arguments`: encoded, from the definition or from the last retry.

    A parameter with a model or dataclass as its annotation gets a validated instance.
    """
    chosen = loaded(work.function) if function is None else function
    values = decode(arguments)
    if work.form is CallForm.JOB:
        return Call(chosen().process, (replace(job, args=values or {}),))
    if work.form is CallForm.KEYWORDS:
        return Call(chosen, keywords=_validated(chosen, values or {}))
    if work.form is CallForm.ITEM:
        return Call(chosen, (_validated_item(chosen, values), context))
    if work.form is CallForm.PARAMETERS:
        return Call(chosen, keywords=_validated(chosen, {name: context[name] for name in _taken(chosen, context)}))
    return Call(chosen, (context,))


def meaning(result: object, job: RunningJob) -> Graft | Cancel | object:
    """Return the result. A workflow from a grafter is a graft; a cancel is a cancel of the job."""
    if not isinstance(result, Workflow):
        return result
    if not job.is_grafter:
        raise BadInput(f"result of {job.path!r}", "is a Workflow, and only a job of add_graft may return a Workflow")
    return Workflow.apply_graft(job, result)


def outcome_of(error: BaseException) -> str:
    """Return the word for retry rules: the exception's attribute `outcome`, or its class's name."""
    own = getattr(error, "outcome", None)
    return (own if isinstance(own, str) and own else type(error).__name__)[:LONGEST_NAME]


def reason_of(error: BaseException) -> str:
    """Return the exception in one line."""
    text = " ".join(str(error).split())
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:1000]


def _taken(function: Callable[..., Any], context: Context) -> list[str]:
    """Return the names for all required parameters, and for optional parameters with a value."""
    required = required_names(function)
    parameters = inspect.signature(function).parameters.values()
    possible = [part.name for part in parameters if part.kind in (part.POSITIONAL_OR_KEYWORD, part.KEYWORD_ONLY)]
    return [name for name in possible if name in required or name in context]


def _validated(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    hints = _hints(function)
    return {name: _as_annotated(name, value, hints.get(name)) for name, value in values.items()}


def _validated_item(function: Callable[..., Any], item: Any) -> Any:
    first = next(iter(inspect.signature(function).parameters))
    return _as_annotated(first, item, _hints(function).get(first))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(function))
    except (NameError, TypeError):  # names for the type checker alone
        return {}


def _as_annotated(name: str, value: Any, hint: Any) -> Any:
    """Return the value as the model in its annotation. Other annotations change nothing."""
    if value is None or not _has_model(hint):
        return value
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        raise BadInput(name, f"expected {hint}, and got {value!r}: {error.errors()[0]['msg']}"[:500]) from error


def _has_model(hint: Any) -> bool:
    if inspect.isclass(hint) and not get_args(hint):
        return issubclass(hint, BaseModel) or is_dataclass(hint)
    return any(_has_model(part) for part in get_args(hint))
