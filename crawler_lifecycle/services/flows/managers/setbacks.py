"""Setbacks: failures in author's code, by job or by phase, and the pauses after failures.

Only progress in the same job or phase makes good for its failures. So a generator with a failing third page is
noticed although hooks go on, and a hook with a failing job holds up no further job.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from pydantic import JsonValue

from crawler_lifecycle.contract.managers.turns import GENERATOR_CHANGED, OURS, Problem

PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds after failures without progress
MOST_IN_A_ROW = 20  # different jobs' failures without a single reaction: all jobs fail
ALL_JOBS = "all jobs"
SETBACKS = "setbacks"  # subject in the state on record
FRESH_SECONDS = 900.0  # another host goes on with counts of this age; older counts say nothing about the code


@dataclass
class Setbacks:
    """The failures since the host has the manager. All methods belong to the manager's thread."""

    tries: int  # failures without progress after which the manager is paused
    _failures: dict[str, int] = field(default_factory=dict)  # by job or phase
    _held: dict[str, float] = field(default_factory=dict)  # failing jobs, with the times of their next tries

    def note(self, problem: Problem, *, holds_job: bool) -> Problem:
        """Count the failure. `holds_job`: the job alone is tried again later."""
        if holds_job and problem.job is not None:
            self._count(ALL_JOBS)
            failures = self._count(problem.job)
            self._held[problem.job] = monotonic() + pause_after(failures)
        else:
            failures = self._count(problem.phase)
        return problem.model_copy(update={"failures": failures})

    def is_too_much(self, problem: Problem) -> bool:
        if problem.phase == GENERATOR_CHANGED:  # further tries read the same sets
            return True
        return problem.failures >= self.tries or self._failures.get(ALL_JOBS, 0) >= max(self.tries, MOST_IN_A_ROW)

    def end_of_phase(self, phase: str) -> None:
        """Forget a phase's failures after its progress."""
        self._failures.pop(phase, None)

    def end_of_job(self, key: str) -> None:
        """Forget a job's failures after the reaction to its end."""
        self._failures.pop(ALL_JOBS, None)
        self._failures.pop(key, None)
        self._held.pop(key, None)

    def clear(self) -> None:
        self._failures.clear()
        self._held.clear()

    def put_into(self, state: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the manager's state on record with the counts, for the manager's next host."""
        counts: JsonValue = {"failures": {**self._failures}, "at": time()}
        return {**state, OURS: {**_ours_in(state), SETBACKS: counts}}

    def take_over(self, state: Mapping[str, JsonValue]) -> None:
        """Go on with a former host's counts: code that fails always must not begin anew with each host."""
        counts: Any = _ours_in(state).get(SETBACKS)
        if counts and time() - counts["at"] < FRESH_SECONDS:
            self._failures.update(counts["failures"])

    @property
    def failing_jobs(self) -> Collection[str]:
        return set(self._held)

    @property
    def held_jobs(self) -> Collection[str]:
        """Failing jobs whose pause is not over."""
        now = monotonic()
        return {job for job, due in self._held.items() if due > now}

    def seconds_to_next(self) -> float | None:
        """Return the time until a failing job is tried again; None without such a job."""
        return max(0.0, min(self._held.values()) - monotonic()) if self._held else None

    def _count(self, key: str) -> int:
        self._failures[key] = self._failures.get(key, 0) + 1
        return self._failures[key]


def without_setbacks(state: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the manager's state without a host's counts."""
    ours = {subject: values for subject, values in _ours_in(state).items() if subject != SETBACKS}
    others = {name: value for name, value in state.items() if name != OURS}
    return {**others, OURS: ours} if ours else others


def _ours_in(state: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    ours = state.get(OURS)
    return ours if isinstance(ours, dict) else {}


def pause_after(failures: int) -> float:
    return PAUSES[min(failures, len(PAUSES)) - 1]
