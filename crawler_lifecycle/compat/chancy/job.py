"""Chancy's jobs: the mark for functions, and the constructor for functions without a mark."""

from collections.abc import Callable
from typing import Any, Unpack

from crawler_lifecycle.flows import JobOptions, StepFunction, StepJob, job
from crawler_lifecycle.flows.rules.states import StepState

__all__ = ["IsAJob", "Job", "QueuedJob", "job"]

IsAJob = StepFunction


class Job(StepJob):
    """A job for a function, called with keywords."""

    @classmethod
    def from_func(
        cls, func: Callable[..., Any], *, kwargs: dict[str, Any] | None = None, **options: Unpack[JobOptions]
    ) -> StepJob:
        """Return a job for a function without a mark."""
        step = job(**options)(func).job
        return step if kwargs is None else step.with_kwargs(kwargs)


class QueuedJob:
    """Chancy's words for steps' states."""

    State = StepState
