"""Looks and the rows beside them, in the same words for every cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.states import TaskStatus

JobKey = tuple[int, int]  # task and attempt of a job


class JobPhase(StrEnum):
    """Phase of a job. A job outside a complete look is absent; absence is not a phase."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    VANISHED = "vanished"  # the job's record is there; its program is gone without a result
    UNCLEAR = "unclear"  # the job could not be observed

    @property
    def has_ended(self) -> bool:
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.VANISHED)


@dataclass(frozen=True, slots=True)
class JobLook:
    """A job as the cluster shows the job now."""

    task: int
    attempt: int
    uid: str
    name: str
    phase: JobPhase
    cause: str | None = None  # why the job waits, or its present trouble
    reason: str | None = None  # why the job failed, or was told to end
    exit_code: int | None = None
    message: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    due_at: datetime | None = None  # when the job should have ended, after a request to end
    overdue: bool = False  # due long ago: only force ends the job
    stop_asked: bool | None = False  # told to end before its end; None: no trace is left to decide
    pods_deleted: bool = False  # its pods were ended from outside, without a request to the job
    gone: bool = False  # no part of the job runs any more
    leaving: bool = False  # ended and deleted, and its object is still there
    left_behind: bool = False  # its object is provably gone; the look describes its remains in the cluster
    removable: bool = False  # ended, and takes room in the cluster until its removal
    facts: OutcomeFacts | None = None  # about its program, as far as its objects show facts
    give_up_after: timedelta | None = None  # how long its cause may be on record until the task is over


@dataclass(frozen=True, slots=True)
class Look:
    """All jobs of a run. In an incomplete look (an error, a partial list) a missing job is unknown, not absent."""

    complete: bool
    jobs: Mapping[JobKey, JobLook] = field(default_factory=dict)
    problem: str | None = None
    clock_ahead: timedelta | None = None  # lead of our clock; None if cluster and service share a clock


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Row of a task, with the columns for verdicts."""

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
    """Return the uids on record of the tasks' jobs."""
    return {(row.task, row.attempt): row.job_uid for row in rows if row.job_uid is not None}
