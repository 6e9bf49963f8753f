"""States for runs, tasks, stops and exports, with the words in the database and in messages."""

from enum import StrEnum


class Trigger(StrEnum):
    SCHEDULED = "scheduled"  # the clock started the run
    MANUAL = "manual"  # a person started the run
    API = "api"  # another program started the run


class Report(StrEnum):
    """The notices of a run. Events and archives of its end do not depend on the report."""

    ALL = "all"  # start, progress and end
    END = "end"  # only the closing notice
    NONE = "none"  # no notice


class RunStatus(StrEnum):
    """A run's status.

    - `INITIALIZING`: the main job has not started yet
    - `PROCESSING`: the main job has started
    - `STOPPING`: a stop is under way
    - `COMPLETED`: all tasks succeeded, or no more tasks failed than the run allows
    - `FAILED`: the run did not end as COMPLETED; a stop may be the reason
    """

    INITIALIZING = "INITIALIZING"
    PROCESSING = "PROCESSING"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"

    @property
    def is_over(self) -> bool:
        """Whether the status is final."""
        return self in (RunStatus.COMPLETED, RunStatus.FAILED)


class ListedStatus(StrEnum):
    """A run's status in people's lists, with stopped runs apart from failures.

    - `STOPPED`: FAILED by a stop
    - `FAILED`: FAILED for another reason
    - all further words: as in `RunStatus`
    """

    INITIALIZING = "INITIALIZING"
    PROCESSING = "PROCESSING"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class TaskStatus(StrEnum):
    """A task's status.

    - `QUEUED`: the task waits for its deployment
    - `DEPLOYING`: a claim is held, and a job may have been created
    - `PENDING`: the job exists and waits in the cluster
    - `RUNNING`: the task's program runs
    - `STOPPING`: the job was asked to end and has not ended yet
    - `SUCCEEDED`: the task's program ended with the exit code 0
    - `FAILED`: the last attempt failed, and none follows
    - `STOPPED`: a stop ended the task
    - `LOST`: the job is absent or unreadable for good, and its result is not known
    """

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
        """Whether the status is final."""
        return self in OVER

    @property
    def is_in_cluster(self) -> bool:
        """Whether the task has a job in the cluster, or may have a job."""
        return self in IN_CLUSTER


OVER = (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.STOPPED, TaskStatus.LOST)
ALIVE = tuple(status for status in TaskStatus if status not in OVER)
# DEPLOYING counts, because the request for the job may have succeeded although its answer is not recorded
IN_CLUSTER = (TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.STOPPING)


class Intent(StrEnum):
    """People's intent for a run. The intent only moves down the list, until the run is reopened.

    - `RUN`: the run continues
    - `STOP`: jobs are asked to end, and are killed after the grace period
    - `FORCE`: jobs are killed at once
    """

    RUN = "RUN"
    STOP = "STOP"
    FORCE = "FORCE"


class StopPhase(StrEnum):
    """A stop's phase. Every phase is a line in the run's timeline."""

    QUEUED_CANCELLED = "queued_cancelled"  # tasks without a job are STOPPED
    JOBS_ASKED = "jobs_asked"  # the jobs were asked to end
    FORCED = "forced"  # the jobs are killed
    UNCONFIRMED = "unconfirmed"  # jobs on silent nodes were killed, or other clusters' jobs were asked: they may run on
    PROVED = "proved"  # a look shows the end for all the run's jobs


class ExportState(StrEnum):
    PENDING = "pending"  # an export is not done yet
    DONE = "done"
    FAILED = "failed"  # an export gave up; the audit repeats the export


class ExportKind(StrEnum):
    RUN_ENDED = "run_ended"  # an end's first event, before the archive is written
    FILES_READY = "files_ready"  # the archive is written, or the run left no files
