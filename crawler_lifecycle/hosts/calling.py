"""Calling: calls an author's function in its step's form. Parameters with annotations get checked values."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.running import Context, RunningJob
from crawler_lifecycle.flows.model.records import TaskReceipt
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.model.work import CallForm, StepWork
from crawler_lifecycle.flows.ports.claims import ClaimedStep
from crawler_lifecycle.hosts.annotations import checked, result_check
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript

Function = Callable[..., Any]
Call = Callable[[], Any]  # a function with its arguments


def work_of(step: ClaimedStep) -> StepWork:
    work = step.definition.work
    assert isinstance(work, StepWork), f"{step.path} is no step"
    return work


def job_of(step: ClaimedStep) -> RunningJob:
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


def check_of(function: Function, step: ClaimedStep) -> Callable[[Any], None]:
    """Return the check of the function's result by its annotation."""
    return result_check(function.process if work_of(step).form is CallForm.JOB else function)  # type: ignore[attr-defined]


def prepared(function: Function, step: ClaimedStep, context: Context) -> Call:
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


def _keywords(step: ClaimedStep) -> dict[str, Any]:
    arguments = decode(step.arguments)
    if arguments is not None and not isinstance(arguments, dict):
        raise BadInput("arguments", f"expected keywords, not {type(arguments).__name__}")
    return arguments or {}


def _parameters(function: Function, step: ClaimedStep, context: Context) -> dict[str, Any]:
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


def _checked_item(function: Function, step: ClaimedStep) -> Any:
    """Return the item in the type of its parameter; a crawl's task without an annotation is a TaskReceipt."""
    item = decode(step.arguments)
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        return item
    is_task = any(need.task is not None for need in step.definition.needs)
    if is_task and first.annotation is first.empty:
        return TaskReceipt.model_validate(item)
    return checked(function, {first.name: item})[first.name]


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
