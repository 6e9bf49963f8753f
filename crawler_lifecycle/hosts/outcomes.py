"""Turn a function's result or exception into the end of its call."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Cancel, Graft, Record, RunningJob, Snooze, Workflow
from crawler_lifecycle.flows.model.requests import GraftMembers
from crawler_lifecycle.flows.model.values import TooLarge, to_text
from crawler_lifecycle.flows.ports.steps import BegunStep, StepEnd
from crawler_lifecycle.flows.rules.words import (
    BY_REQUEST,
    RESULT_MISMATCH,
    RESULT_TOO_LARGE,
    RESULT_UNUSABLE,
    TIMEOUT,
    snoozed,
)
from crawler_lifecycle.model.flow_states import EndKind

Check = Callable[[Any], None]
LONGEST_REASON = 1000  # characters
LONGEST_ERROR = 16_000  # characters; the end of a traceback says the most
PYDANTIC_HINT = "For further information visit"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a call. `graft`: a sub-workflow to attach before the end is stored."""

    kind: EndKind
    reason: str | None = None
    outcome: str | None = None
    error: str | None = None
    result: str | None = None  # encoded, as JSON text
    graft: GraftMembers | None = None
    is_stopped: bool = False  # whether the function ended because the host asked for its end

    def of_step(self, step: BegunStep) -> StepEnd:
        return StepEnd(
            flow_uid=step.flow_uid,
            start=step.start,
            kind=self.kind,
            at=datetime.now(UTC),
            reason=self.reason,
            outcome=self.outcome,
            error=self.error,
            result=self.result,
        )


STOPPED = Ended(EndKind.CANCELLED, reason=BY_REQUEST, is_stopped=True)


def end_of(call: Callable[[], Any], job: RunningJob, most_bytes: int, check: Check) -> Ended:
    """Call the function, and return the end."""
    try:
        value = call()
    except BaseException as error:  # noqa: BLE001 - no function may end its host, not even by SystemExit
        return failure(error)
    return result_end(value, job, most_bytes, check)


def result_end(value: Any, job: RunningJob, most_bytes: int, check: Check) -> Ended:
    """Return the end for a function's result. `check`: raises an exception for a result against its annotation."""
    if isinstance(value, Cancel):
        return Ended(EndKind.CANCELLED, reason=value.reason or None)
    if isinstance(value, Snooze):
        return Ended(EndKind.SNOOZED, reason=snoozed(value.seconds))
    if isinstance(value, Record):
        value = value.value
    if isinstance(value, Workflow) and not job.is_grafter:
        return _unusable(RESULT_UNUSABLE, BadInput("result", "a workflow is only for a job of add_graft to return"))
    try:
        if isinstance(value, Workflow):
            value = Workflow.apply_graft(job, value)
        if isinstance(value, Graft):
            return Ended(EndKind.COMPLETED, graft=value.request)
    except Exception as error:  # noqa: BLE001 - the author's workflow is not valid
        return failure(error)
    return _with_result(value, most_bytes, check)


def _with_result(value: Any, most_bytes: int, check: Check) -> Ended:
    try:
        check(value)
    except BaseException as error:  # noqa: BLE001 - a validator of the author may raise any error
        return _unusable(RESULT_MISMATCH, error)
    if value is None:
        return Ended(EndKind.COMPLETED)
    try:
        return Ended(EndKind.COMPLETED, result=to_text("result", value, most_bytes))
    except TooLarge as error:
        return _unusable(RESULT_TOO_LARGE, error)
    except BaseException as error:  # noqa: BLE001 - a mapping of the author may raise any error
        return _unusable(RESULT_UNUSABLE, error)


def _unusable(reason: str, error: BaseException) -> Ended:
    return replace(failure(error), reason=reason, outcome=reason, error=_without_hints(_text(error))[:LONGEST_ERROR])


def _without_hints(text: str) -> str:
    """Return the text without the addresses that pydantic adds for programmers."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(PYDANTIC_HINT))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the exception's own text may raise an exception
        return ""


def failure(error: BaseException) -> Ended:
    """Return the end for an exception: a failed attempt, or the step's own cancel."""
    if isinstance(error, Cancel):
        return Ended(EndKind.CANCELLED, reason=error.reason or None)
    return Ended(EndKind.FAILED, reason=_in_a_line(error), outcome=type(error).__name__, error=_traceback(error))


def timed_out(seconds: float) -> Ended:
    problem = f"the function did not end within {seconds:g} s"
    return Ended(EndKind.FAILED, reason=problem, outcome=TIMEOUT, error=problem)


def _in_a_line(error: BaseException) -> str:
    """Return the exception for people: a list of jobs says why a job has failed."""
    name, text = type(error).__name__, " ".join(_text(error).split())
    return (f"{name}: {text}" if text else name)[:LONGEST_REASON]


def _traceback(error: BaseException) -> str:
    """Return the traceback without the frames of the host."""
    try:
        lines = traceback.format_exception(type(error), error, _without_host(error.__traceback__))
        return "".join(lines)[-LONGEST_ERROR:]
    except Exception as problem:  # noqa: BLE001 - the exception's own text may raise an exception
        return f"{type(error).__name__}, whose text cannot be made: {type(problem).__name__}"


def _without_host(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and __package__.replace(".", "/") in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return trace
