"""Count failures in author's code, by job or by phase, and pause after failures.

A phase is the author's hook or page under way in an object's process. Only progress in the same job or phase clears its
failures. So a generator with a failing third page is noticed although hooks continue, and a hook with a failing job
holds up no further job. A job's failure counts for ALL_JOBS, too, and any job's reaction is progress of ALL_JOBS.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from pydantic import JsonValue

from crawler_lifecycle.flows.model.turns import GENERATOR_CHANGED
from crawler_lifecycle.model.manager_items import CodeProblem

START = "start"  # the module's import, and the object's making
CYCLE = "process"  # the process outside of author's code
PAGE_PHASE = "set_parameters_gen"
PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds after failures without progress
Record = dict[str, JsonValue]
ALL_JOBS = "all jobs"  # key beside those of jobs and phases
MOST_IN_A_ROW = 20  # failures of ALL_JOBS: the hooks fail for every job, and not for a single one
FRESH_SECONDS = 900.0  # another host continues with counts of this age; older counts say nothing about the code


@dataclass
class Phases:
    """The phases in an object's process, with their time. Only the object's own time counts: not the host's answers."""

    hook_seconds: float
    page_seconds: float
    name: str = START
    about: str | None = None  # key for the job in question
    _spent: float = 0.0
    _passed: set[str] = field(default_factory=set)  # left without a failure since the last sleep

    def enter(self, phase: str, about: str | None = None) -> None:
        self._passed.add(self.name)
        self.name, self.about, self._spent = phase, about, 0.0

    def spend(self, seconds: float) -> None:
        self._spent += seconds

    @property
    def limit(self) -> float:
        return self.page_seconds if self.name in (START, PAGE_PHASE) else self.hook_seconds

    @property
    def remaining(self) -> float:
        return max(0.0, self.limit - self._spent)

    def take_passed(self) -> Collection[str]:
        """Return the phases that the ending cycle passed. A page is none: its progress counts when it has new sets."""
        self.enter(CYCLE)
        passed, self._passed = self._passed - {PAGE_PHASE}, set()
        return passed


@dataclass
class Setbacks:
    """The failures since the host has the manager. All methods belong to the manager's thread."""

    tries: int  # failures without progress after which the manager is paused
    _failures: dict[str, int] = field(default_factory=dict)  # by job or phase
    _stored: dict[str, int] = field(default_factory=dict)  # the failures in the ledger, for the next host
    _failed_at: float = 0.0  # time of the last failure, by the clock that hosts share
    _held: dict[str, float] = field(default_factory=dict)  # failing jobs, with the monotonic times of their next tries

    def note(self, problem: CodeProblem, *, holds_job: bool) -> CodeProblem:
        """Count the failure. `holds_job`: the job alone is tried again later."""
        self._failed_at = time()
        if holds_job and problem.job is not None:
            self._count(ALL_JOBS)
            failures = self._count(problem.job)
            self._held[problem.job] = monotonic() + pause_after(failures)
        else:
            failures = self._count(problem.phase)
        return problem.model_copy(update={"failures": failures})

    def is_too_much(self, problem: CodeProblem) -> bool:
        if problem.phase == GENERATOR_CHANGED:  # further tries read the same sets
            return True
        return problem.failures >= self.tries or self._failures.get(ALL_JOBS, 0) >= max(self.tries, MOST_IN_A_ROW)

    def to_store(self, progress: Collection[str]) -> Record | None:
        """Return the counts after progress, for the ledger; None if the ledger has these counts already.

        `progress`: phases, or jobs with ALL_JOBS. The caller stores the counts in one transaction with the progress,
        since the next host would otherwise count failures from before the progress. `note_stored` follows the write: a
        write that fails is no progress.
        """
        remaining = self._without(progress)
        return None if remaining == self._stored else {"failures": {**remaining}, "at": self._failed_at}

    def note_stored(self, progress: Collection[str] = ()) -> None:
        """Note that the progress is stored, with the counts after it."""
        self.forget(progress)
        self._stored = dict(self._failures)

    def forget(self, progress: Collection[str]) -> None:
        """Forget the failures of phases, or of jobs with ALL_JOBS."""
        self._failures = self._without(progress)
        for job in progress:
            self._held.pop(job, None)

    def clear(self) -> None:
        self._failures.clear()
        self._held.clear()

    def take_over(self, record: Mapping[str, Any]) -> None:
        """Continue with a previous host's counts: code that fails always must not begin anew with each host."""
        if record:
            self._stored, self._failed_at = dict(record["failures"]), record["at"]
            if time() - self._failed_at < FRESH_SECONDS:
                self._failures.update(record["failures"])

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

    def _without(self, progress: Collection[str]) -> dict[str, int]:
        return {name: number for name, number in self._failures.items() if name not in progress}

    def _count(self, key: str) -> int:
        self._failures[key] = self._failures.get(key, 0) + 1
        return self._failures[key]


def pause_after(failures: int) -> float:
    return PAUSES[min(failures, len(PAUSES)) - 1]
