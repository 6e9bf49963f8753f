"""The words for runs', tasks', stops' and exports' states. These words are stored and sent."""

from enum import StrEnum


class Trigger(StrEnum):
    SCHEDULED = "scheduled"
    MANUAL = "manual"
    API = "api"


class RunStatus(StrEnum):
    INITIALIZING = "INITIALIZING"
    PROCESSING = "PROCESSING"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"

    @property
    def is_over(self) -> bool:
        return self in (RunStatus.COMPLETED, RunStatus.FAILED)


class TaskStatus(StrEnum):
    QUEUED = "QUEUED"
    DEPLOYING = "DEPLOYING"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    LOST = "LOST"

    @property
    def is_over(self) -> bool:
        return self in OVER

    @property
    def is_in_cluster(self) -> bool:
        return self in IN_CLUSTER


OVER = (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.STOPPED, TaskStatus.LOST)
ALIVE = tuple(status for status in TaskStatus if status not in OVER)
IN_CLUSTER = (TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.STOPPING)


class Intent(StrEnum):
    """People's wish for a run. The wish only moves down the list, until the run is reopened."""

    RUN = "RUN"
    STOP = "STOP"
    FORCE = "FORCE"


class StopPhase(StrEnum):
    """A stop's phase. Every phase is a line in the run's timeline."""

    QUEUED_CANCELLED = "queued_cancelled"
    JOBS_ASKED = "jobs_asked"
    FORCED = "forced"
    UNCONFIRMED = "unconfirmed"
    PROVED = "proved"


class ExportState(StrEnum):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
