"""Call an author's function in its step's form.

Parameters with annotations that pydantic understands get checked values, and so does the result.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Cancel, Graft, Record, Snooze, Workflow
from crawler_lifecycle.flows.authors.running import Context, RunningJob
from crawler_lifecycle.flows.model.definition import CallForm, StepWork
from crawler_lifecycle.flows.model.records import TaskReceipt
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.ports.steps import BegunStep
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript

RESULT = "return"
ACTS = (Cancel, Graft, Record, Snooze, Workflow)  # results that are no values
Function = Callable[..., Any]
Call = Callable[[], Any]  # a function with its arguments
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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


def work_of(step: BegunStep) -> StepWork:
    work = step.definition.work
    assert isinstance(work, StepWork), f"{step.path} is no step"
    return work


def job_of(step: BegunStep) -> RunningJob:
    """Return the step's attempt as its author sees the attempt."""
    work = work_of(step)
    arguments = decode(step.arguments) if work.form is CallForm.JOB else None
    return RunningJob(
        flow_id=step.flow_id,
        path=step.path,
        args=arguments or {},
        attempt=step.start.attempt,
        generation=step.start.generation,
        flow_name=step.flow_name,
        flow_uid=step.flow_uid,
        is_grafter=step.is_grafter,
        worker=work.function,
        queue=work.queue,
        priority=step.definition.priority,
        max_attempts=step.definition.retry.max_attempts,
        tags=work.tags,
        scheduled_at=step.scheduled_at,
        errors=tuple(step.errors),
    )


def is_manager(function: Function) -> bool:
    """Return whether the function is the class of a crawl manager."""
    return isinstance(function, type) and issubclass(function, BaseLoopScript)


def is_async(function: Function, form: CallForm) -> bool:
    """Return whether a call gives a coroutine for an event loop."""
    called = getattr(function, "process", None) if form is CallForm.JOB else function
    return inspect.iscoroutinefunction(inspect.unwrap(called)) if callable(called) else False


def check_of(function: Function, step: BegunStep) -> Callable[[Any], None]:
    """Return the check of the function's result by its annotation."""
    return result_check(function.process if work_of(step).form is CallForm.JOB else function)  # type: ignore[attr-defined]


def prepared(function: Function, step: BegunStep, context: Context) -> Call:
    """Return the call with its arguments. Parameters by name load results, so the preparation may take time."""
    match work_of(step).form:
        case CallForm.CONTEXT:
            return functools.partial(function, context)
        case CallForm.ITEM:
            return functools.partial(function, _checked_item(function, step), context)
        case CallForm.JOB:
            return lambda: function().process(context.job)
        case CallForm.KEYWORDS:
            return functools.partial(function, **checked(function, _keywords(step)))
        case CallForm.PARAMETERS:
            return functools.partial(function, **checked(function, _parameters(function, step, context)))
        case CallForm.MANAGER:
            raise BadInput("form", "this host runs no crawl managers")


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


def _keywords(step: BegunStep) -> dict[str, Any]:
    arguments = decode(step.arguments)
    if arguments is not None and not isinstance(arguments, dict):
        raise BadInput("arguments", f"expected keywords, not {type(arguments).__name__}")
    return arguments or {}


def _parameters(function: Function, step: BegunStep, context: Context) -> dict[str, Any]:
    """Return the values for the function's parameters: a retry's arguments, results, and context values."""
    given = _keywords(step)
    values = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in given:
            values[name] = given[name]
        elif name in context:
            values[name] = context[name]
        elif parameter.default is parameter.empty and parameter.kind not in _VARIABLE:
            raise BadInput(name, "is a parameter, but neither a dependency nor a key of the context")
    return values


def _checked_item(function: Function, step: BegunStep) -> Any:
    """Return the item in the type of its parameter; a crawl's task without an annotation is a TaskReceipt."""
    item = decode(step.arguments)
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        return item
    is_task = any(need.task is not None for need in step.definition.needs)
    if is_task and first.annotation is first.empty:
        return TaskReceipt.model_validate(item)
    return checked(function, {first.name: item})[first.name]
