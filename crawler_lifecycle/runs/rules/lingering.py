"""Rules to select jobs in a look: hopeless, lingering, overdue and leaving jobs, and ended jobs to remove."""

from collections.abc import Iterable

from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.model.reasons import ORPHAN_PODS, POD_OVERDUE
from crawler_lifecycle.model.states import Intent
from crawler_lifecycle.model.task_changes import TaskChange


def is_hopeless(look: Look, change: TaskChange) -> bool:
    """Return whether the change gives up a task because its job still waits in vain, such as for an image.

    The job may start at any moment, and a started crawl must not be ended. So the task ends only by a look immediately
    before the job's deletion.
    """
    job = look.jobs.get((change.task, change.attempt))
    return change.status.is_over and job is not None and job.phase is JobPhase.WAITING and job.uid == change.job_uid


def lingering(look: Look, rows: Iterable[TaskRow], intent: Intent) -> list[JobKey]:
    """Return the living jobs without an open task, and orphan pods without a request to end.

    Jobs with another attempt than the task's row, or without a row, count as jobs without an open task. Such jobs exist
    after the database was restored from a backup.
    """
    wanted = {(row.task, row.attempt) for row in rows if not row.status.is_over}
    living = {key: job for key, job in look.jobs.items() if not job.gone}
    return sorted(key for key, job in living.items() if key not in wanted or _is_orphan_without_request(job, intent))


def _is_orphan_without_request(job: JobLook, intent: Intent) -> bool:
    """Return whether orphan pods live on without a request to end. In a stop, the stop asks these pods to end."""
    return intent is Intent.RUN and job.cause == ORPHAN_PODS


def overdue(look: Look, rows: Iterable[TaskRow]) -> list[JobKey]:
    """Return the living overdue jobs to kill.

    An open task's job is killed only if the task's row shows the job as overdue already. The first look only records
    the job as overdue: a clock may be wrong for a moment, and must kill no wanted job. A job without an open task is
    killed at the first look.
    """
    open_rows = (row for row in rows if not row.status.is_over)
    spared = {(row.task, row.attempt) for row in open_rows if row.cause != POD_OVERDUE}  # not recorded as overdue yet
    living_overdue = (key for key, job in look.jobs.items() if job.overdue and not job.gone)
    return sorted(key for key in living_overdue if key not in spared)


def leaving(look: Look) -> int:
    """Return how many jobs are leaving: they have ended, were deleted and are still listed."""
    return sum(job.leaving for job in look.jobs.values())


def removable(look: Look) -> set[JobKey]:
    """Return the ended jobs to remove; none if the cluster does not keep ended jobs."""
    return {key for key, job in look.jobs.items() if look.keeps_ended_jobs and job.removable}
