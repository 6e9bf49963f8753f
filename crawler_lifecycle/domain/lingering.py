"""Jobs that live on although nobody wants them any more, never end, or are still listed after their end."""

from collections.abc import Iterable

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.domain.looks import JobKey, JobLook, Look, TaskRow
from crawler_lifecycle.domain.reasons import ORPHAN_PODS, POD_OVERDUE


def lingering(look: Look, rows: Iterable[TaskRow], intent: Intent) -> list[JobKey]:
    """By task and attempt: whatever lives and is not the present job of a task that goes on.

    So also another attempt's job, and one of a task that has no row: a database or a cluster that was restored from a
    backup knows less than the other."""
    wanted = {(row.task, row.attempt) for row in rows if not row.status.is_over}
    living = ((key, job) for key, job in look.jobs.items() if not job.gone)
    return sorted(key for key, job in living if key not in wanted or _nobody_asked(job, intent))


def overdue(look: Look, rows: Iterable[TaskRow]) -> list[JobKey]:
    """Return, by task and attempt, the jobs that were told to end and never do by themselves.

    The first look at an overdue job only puts that on record, and the next one has it killed: a clock that is wrong
    for a moment kills nothing."""
    new = {(row.task, row.attempt) for row in rows if not row.status.is_over and row.cause != POD_OVERDUE}
    return sorted(key for key, job in look.jobs.items() if job.overdue and not job.gone and key not in new)


def leaving(look: Look) -> int:
    """How many have ended and are on their way out."""
    return sum(job.leaving for job in look.jobs.values())


def _nobody_asked(job: JobLook, intent: Intent) -> bool:
    """Its job is gone and what it ran is not; in a stop it is asked to end anyway."""
    return intent is Intent.RUN and job.cause == ORPHAN_PODS
