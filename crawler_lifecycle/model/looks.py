"""Look at a run's jobs, in the same terms for every cluster, and the task rows that are compared with the look.

A look reads outcome facts from the cluster's objects. The database keeps the facts with the task, since the facts
decide the task's status even when the cluster's objects are gone. Evidence (the last log lines, events, the node) never
decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.reasons import POD_OVERDUE
from crawler_lifecycle.model.states import TaskStatus

JobKey = tuple[int, int]  # task and attempt of a job
# characters in the facts: a look's result with very many ended tasks must fit into a Temporal payload
LONGEST_MESSAGE = 300


class JobPhase(StrEnum):
    """Phase of a job. A job that a complete look does not show is absent; absence is not a phase."""

    WAITING = "waiting"  # the program has not started
    RUNNING = "running"
    ENDING = "ending"  # the job was asked to end, or its object was deleted, and parts of the job may still run
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    VANISHED = "vanished"  # only in the local cluster: the job's record is there; its program is gone without a result
    UNCLEAR = "unclear"  # the job could not be observed

    @property
    def has_ended(self) -> bool:
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.VANISHED)


class Presence(StrEnum):
    """Presence of a job's object in the cluster. The pods may be in another state."""

    PRESENT = "present"
    BEING_DELETED = "being_deleted"
    HELD = "held"  # deleted long ago without a running pod: a finalizer holds the object
    ABSENT = "absent"  # the object surely does not exist; the look describes the remains, such as orphan pods


class Pods(StrEnum):
    """State of a job's pods, or of its processes in the local cluster."""

    MAY_RUN = "may_run"  # a pod runs, or may run later
    ENDED = "ended"  # there are pods, and all have ended
    NONE = "none"  # there is no pod, and there will be none


class EndRequest(StrEnum):
    """Request to end that a job got before its end."""

    NONE = "none"
    TO_JOB = "to_job"  # the job was deleted, or its program was asked to end
    TO_PODS = "to_pods"  # pods were ended from outside, without a request to the job
    UNKNOWN = "unknown"  # the cluster has no trace left that shows a request or its absence

    @classmethod
    def by(cls, stop_asked: bool | None) -> "EndRequest":
        """Return the value for an observation of a request to the job; None: no trace is left."""
        if stop_asked is None:
            return cls.UNKNOWN
        return cls.TO_JOB if stop_asked else cls.NONE


class OutcomeFacts(Message):
    """Facts about a job's program. The facts count only for the task with the same `job_uid` in its row."""

    job_uid: str
    pod_uid: str | None = Field(default=None, description="pod that showed the facts; none: only the job showed facts")
    succeeded: bool | None = Field(
        default=None, description="whether the main program succeeded; none: no end was seen"
    )
    told_to_end: bool | None = Field(
        default=None, description="whether a request to end came before the program's end; none: unknown"
    )
    told_by: str | None = Field(default=None, description="sender of the request to end, in one word")
    reason: str | None = Field(default=None, description="reason of a failure, in one word")
    exit_code: int | None = None
    message: str | None = Field(default=None, description="last message of the program or of its pod")
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: CrawlResult | None = Field(default=None, description="the program's own account")

    @property
    def has_ended(self) -> bool:
        """Whether the facts show the program's end."""
        return self.succeeded is not None

    @property
    def ended_by_itself(self) -> bool:
        """Whether the program surely ended before any request to end."""
        return self.has_ended and self.told_to_end is False


@dataclass(frozen=True, slots=True)
class JobLook:
    """A job as a look shows the job."""

    task: int
    attempt: int
    uid: str
    name: str
    phase: JobPhase
    cause: str | None = None  # why the job waits, or its present trouble
    reason: str | None = None  # why the job failed, or was asked to end
    exit_code: int | None = None
    message: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    due_at: datetime | None = None  # when the job should have ended, after a request to end
    presence: Presence = Presence.PRESENT
    pods: Pods = Pods.MAY_RUN
    end_request: EndRequest = EndRequest.NONE
    facts: OutcomeFacts | None = None  # about its program, as far as its objects show facts
    give_up_after: timedelta | None = None  # how long the cause may stay before the task is over; None: no such limit
    version: str | None = None  # version of the job's object, for a deletion that any change prevents

    @property
    def gone(self) -> bool:
        """Return whether no part of the job can run any more."""
        return self.pods is not Pods.MAY_RUN

    @property
    def leaving(self) -> bool:
        """Return whether the job has ended and was deleted, and its object is still there."""
        is_being_deleted = self.presence in (Presence.BEING_DELETED, Presence.HELD)
        # the phase of a deleted job is ENDING until the job has ended
        return is_being_deleted and self.phase is not JobPhase.ENDING

    @property
    def removable(self) -> bool:
        """Return whether the object is present and no part of the job can run: the object can be deleted."""
        return self.presence is Presence.PRESENT and self.gone

    @property
    def is_orphan(self) -> bool:
        """Return whether the look shows remains only: the object is absent, or only a finalizer holds the object."""
        return self.presence in (Presence.HELD, Presence.ABSENT)

    @property
    def overdue(self) -> bool:
        """Return whether the job's grace period ended long ago and the job did not end: only force ends the job."""
        return self.cause == POD_OVERDUE

    @property
    def stop_asked(self) -> bool | None:
        """Return whether the job was asked to end before its end; None: no trace is left to decide."""
        return None if self.end_request is EndRequest.UNKNOWN else self.end_request is EndRequest.TO_JOB


@dataclass(frozen=True, slots=True)
class Look:
    """All jobs of a run. A job that is not shown is absent if the look is complete, and otherwise unknown."""

    complete: bool  # false after an error or with a partial list
    jobs: Mapping[JobKey, JobLook] = field(default_factory=dict)
    problem: str | None = None  # why the look is incomplete, or what a person should know of a complete look
    clock_ahead: timedelta | None = None  # our clock minus the cluster's; None if both share a clock
    keeps_ended_jobs: bool = False  # ended jobs take room in the cluster until their removal


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task's row, with the columns for verdicts."""

    task: int
    status: TaskStatus
    attempt: int
    version: int
    job_uid: str | None = None
    cause: str | None = None
    cause_since: datetime | None = None
    reason: str | None = None
    exit_code: int | None = None
    absent_count: int = 0  # number of the last looks in a row without the job
    absent_since: datetime | None = None  # time of the first of these looks
    started_at: datetime | None = None
    claim_expires_at: datetime | None = None
    facts: OutcomeFacts | None = None
    infrastructure_failures: int = 0  # retries until now after failures of the infrastructure
    program_failures: int = 0  # retries until now after failures of the program


def uids_of(rows: Iterable[TaskRow]) -> dict[JobKey, str]:
    """Return the uids of the tasks' present jobs; tasks without a recorded job are left out."""
    return {(row.task, row.attempt): row.job_uid for row in rows if row.job_uid is not None}
