"""Rules that select jobs in a look: lingering, overdue and leaving jobs, and ended jobs to remove."""

from collections.abc import Iterable

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.domain.looks import JobKey, JobLook, Look, TaskRow
from crawler_lifecycle.domain.reasons import ORPHAN_PODS, POD_OVERDUE


def lingering(look: Look, rows: Iterable[TaskRow], intent: Intent) -> list[JobKey]:
    """Return the living jobs that no open task wants, and orphan pods without a request to end.

    No open task wants the jobs of its other attempts, or the jobs of tasks without a row. Such jobs exist after the
    database was restored from a backup.
    """
    wanted = {(row.task, row.attempt) for row in rows if not row.status.is_over}
    living = {key: job for key, job in look.jobs.items() if not job.gone}
    return sorted(key for key, job in living.items() if key not in wanted or _is_orphan_without_request(job, intent))


def _is_orphan_without_request(job: JobLook, intent: Intent) -> bool:
    """Return whether orphan pods live on without a request to end. In a stop, the stop asks these pods to end."""
    return intent is Intent.RUN and job.cause == ORPHAN_PODS


def overdue(look: Look, rows: Iterable[TaskRow]) -> list[JobKey]:
    """Return the living overdue jobs that are to be killed.

    The job of an open task is killed only if the task's row shows the job as overdue already: a first look only records
    the job as overdue, so that a clock that is wrong for a moment kills no wanted job. A job that no open task wants is
    killed at the first look.
    """
    not_on_record = {(row.task, row.attempt) for row in rows if not row.status.is_over and row.cause != POD_OVERDUE}
    living_overdue = (key for key, job in look.jobs.items() if job.overdue and not job.gone)
    return sorted(key for key in living_overdue if key not in not_on_record)


def leaving(look: Look) -> int:
    """Return the number of leaving jobs: the jobs have ended, were deleted and are still listed."""
    return sum(job.leaving for job in look.jobs.values())


def removable(look: Look) -> set[JobKey]:
    """Return the ended jobs that this service has to remove; none in a cluster that does not keep ended jobs."""
    return {key for key, job in look.jobs.items() if look.keeps_ended_jobs and job.removable}
