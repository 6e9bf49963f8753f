"""Looks at a cluster, and rows of the database beside them, in words that are the same for every cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.states import TaskStatus

JobKey = tuple[int, int]  # task and attempt of a job


class JobPhase(StrEnum):
    """Where a job stands. A job that is not listed in a complete look is absent, which is not a phase."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    VANISHED = "vanished"  # the job's record is there; what it ran is gone and left no result
    UNCLEAR = "unclear"  # this job could not be observed

    @property
    def has_ended(self) -> bool:
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.VANISHED)


@dataclass(frozen=True, slots=True)
class JobLook:
    """One job as the cluster shows it now."""

    task: int
    attempt: int
    uid: str
    name: str
    phase: JobPhase
    cause: str | None = None  # why it waits or what ails it
    reason: str | None = None  # why it failed, or was told to end
    exit_code: int | None = None
    message: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    due_at: datetime | None = None  # when it should have ended, as it or what it ran was told to
    overdue: bool = False  # that is long ago: nothing but force ends it
    stop_asked: bool | None = False  # it was told to end before it did; None: nothing of it is left that could tell
    pods_deleted: bool = False  # it was not told, but somebody ended what it ran
    gone: bool = False  # nothing of it runs any more
    leaving: bool = False  # it has ended and was deleted, and its object is still there
    left_behind: bool = False  # its object is provably gone; this is told by what it left in the cluster
    removable: bool = False  # it has ended, and takes room in the cluster until it is removed
    facts: OutcomeFacts | None = None  # of its program, where its objects tell any
    give_up_after: timedelta | None = None  # how long its cause may be on record until the task is over


@dataclass(frozen=True, slots=True)
class Look:
    """All jobs of a run. Incomplete (an error, a partial list): what is missing is unknown, not absent."""

    complete: bool
    jobs: Mapping[JobKey, JobLook] = field(default_factory=dict)
    problem: str | None = None
    clock_ahead: timedelta | None = None  # our clock, of the cluster's; None where both are the same clock


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What the database believes of a task, as far as a verdict needs it."""

    task: int
    status: TaskStatus
    attempt: int
    version: int
    job_uid: str | None = None
    cause: str | None = None
    cause_since: datetime | None = None
    reason: str | None = None
    exit_code: int | None = None
    absent_count: int = 0
    started_at: datetime | None = None
    claim_expires_at: datetime | None = None
    facts: OutcomeFacts | None = None


def uids_of(rows: Iterable[TaskRow]) -> dict[JobKey, str]:
    """Return the uids on record of these tasks' jobs, by task and attempt."""
    return {(row.task, row.attempt): row.job_uid for row in rows if row.job_uid is not None}
