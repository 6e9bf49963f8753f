"""Looks at a run's jobs, in the same terms for every cluster, and the task rows that a look is compared with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.domain.reasons import POD_OVERDUE

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


class Presence(StrEnum):
    """Presence of a job's object in the cluster. The pods may be in another state."""

    PRESENT = "present"
    BEING_DELETED = "being_deleted"
    HELD = "held"  # deleted long ago without a running pod: a finalizer holds the object
    ABSENT = "absent"  # proved by the cluster; the look describes the remains, such as orphan pods


class Pods(StrEnum):
    """State of a job's pods, or of its processes in the local cluster."""

    MAY_RUN = "may_run"  # now or later
    ENDED = "ended"
    NONE = "none"


class EndRequest(StrEnum):
    """Request to end that a job got before its end."""

    NONE = "none"
    TO_JOB = "to_job"
    TO_PODS = "to_pods"  # pods were ended from outside, without a request to the job
    UNKNOWN = "unknown"  # no trace is left to decide

    @classmethod
    def by(cls, stop_asked: bool | None) -> "EndRequest":
        if stop_asked is None:
            return cls.UNKNOWN
        return cls.TO_JOB if stop_asked else cls.NONE


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
    presence: Presence = Presence.PRESENT
    pods: Pods = Pods.MAY_RUN
    end_request: EndRequest = EndRequest.NONE
    facts: OutcomeFacts | None = None  # about its program, as far as its objects show facts
    give_up_after: timedelta | None = None  # how long its cause may be on record until the task is over

    @property
    def gone(self) -> bool:
        """Return whether no part of the job can run any more."""
        return self.pods is not Pods.MAY_RUN

    @property
    def leaving(self) -> bool:
        """Return whether the job has ended and was deleted, and its object is still there."""
        is_being_deleted = self.presence in (Presence.BEING_DELETED, Presence.HELD)
        return is_being_deleted and self.phase is not JobPhase.ENDING

    @property
    def removable(self) -> bool:
        """Return whether only the ended job's object is left."""
        return self.presence is Presence.PRESENT and self.gone

    @property
    def is_orphan(self) -> bool:
        """Return whether the look shows remains only: the object is gone, or a finalizer holds the object."""
        return self.presence in (Presence.HELD, Presence.ABSENT)

    @property
    def overdue(self) -> bool:
        """Return whether the job should have ended long ago: only force ends the job."""
        return self.cause == POD_OVERDUE

    @property
    def stop_asked(self) -> bool | None:
        """Return whether the job was told to end before its end; None: no trace is left to decide."""
        return None if self.end_request is EndRequest.UNKNOWN else self.end_request is EndRequest.TO_JOB


@dataclass(frozen=True, slots=True)
class Look:
    """All jobs of a run. In an incomplete look (an error, a partial list) a missing job is unknown, not absent."""

    complete: bool
    jobs: Mapping[JobKey, JobLook] = field(default_factory=dict)
    problem: str | None = None
    clock_ahead: timedelta | None = None  # our clock minus the cluster's; None if both share a clock
    keeps_ended_jobs: bool = False  # ended jobs take room in the cluster until their removal


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
