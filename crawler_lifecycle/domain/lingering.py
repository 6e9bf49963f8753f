"""Rules that select jobs in a look: lingering jobs, overdue jobs, and jobs that are leaving the cluster."""

from collections.abc import Iterable

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.domain.looks import JobKey, JobLook, Look, TaskRow
from crawler_lifecycle.domain.reasons import ORPHAN_PODS, POD_OVERDUE


def lingering(look: Look, rows: Iterable[TaskRow], intent: Intent) -> list[JobKey]:
    """Return the living jobs that no open task wants, and orphan pods without a request to end.

    The result includes jobs of other attempts, and of tasks without a row: a database or cluster that was restored from
    a backup knows less than its counterpart.
    """
    wanted = {(row.task, row.attempt) for row in rows if not row.status.is_over}
    living = ((key, job) for key, job in look.jobs.items() if not job.gone)
    return sorted(key for key, job in living if key not in wanted or _is_orphan_without_request(job, intent))


def overdue(look: Look, rows: Iterable[TaskRow]) -> list[JobKey]:
    """Return the jobs that were told to end and never end by themselves.

    The first look only records an overdue job, and the next look has the job killed. So a clock that is wrong for a
    moment kills no job.
    """
    not_recorded = {(row.task, row.attempt) for row in rows if not row.status.is_over and row.cause != POD_OVERDUE}
    return sorted(key for key, job in look.jobs.items() if job.overdue and not job.gone and key not in not_recorded)


def leaving(look: Look) -> int:
    """Return how many jobs have ended and are leaving the cluster."""
    return sum(job.leaving for job in look.jobs.values())


def removable(look: Look) -> set[JobKey]:
    """Return the ended jobs that take room in the cluster until their removal."""
    return {key for key, job in look.jobs.items() if look.keeps_ended_jobs and job.removable}


def _is_orphan_without_request(job: JobLook, intent: Intent) -> bool:
    """Return whether orphan pods live on without a request to end. A stop asks them to end anyway."""
    return intent is Intent.RUN and job.cause == ORPHAN_PODS
