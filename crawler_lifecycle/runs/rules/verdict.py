"""Rules for verdicts: how a look changes a task's row. The rules are the same for every cluster.

In the functions for changes, None in place of a change means that the row is right already, or that the look proves no
change.

Further rules select jobs in a look: hopeless, lingering, overdue and leaving jobs, and ended jobs to remove.
`saturation` finds a task that has waited for room or for a node for five minutes, while no task has started.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look, OutcomeFacts, TaskRow
from crawler_lifecycle.model.reasons import (
    CANNOT_START,
    CAPACITY,
    CONTAINER_CONFIG,
    CRASH_LOOP,
    IMAGE_PULL,
    NOT_CONSIDERED,
    ORPHAN_PODS,
    POD_CREATE_REJECTED,
    POD_OVERDUE,
    POD_SANDBOX,
    POD_TERMINATING,
    QUOTA,
    RESOURCE_CLAIM,
    RESULT_UNKNOWN,
    UNSCHEDULABLE,
    VOLUME,
)
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.endings import (
    Ending,
    cause_of,
    ending,
    ending_of_absent,
    ending_of_given_up,
    facts_after,
    facts_before_a_stop,
    facts_on_record,
    reason_while_alive,
)
from crawler_lifecycle.runs.rules.retries import NO_RETRIES, is_absent_for_sure, retry_kind, with_retries

PATIENCE = timedelta(minutes=5)  # a shorter wait for room is usual
# causes of a wait for room or for a node
FULL = frozenset({CAPACITY, QUOTA, UNSCHEDULABLE, NOT_CONSIDERED})
WITHOUT_NODE = (UNSCHEDULABLE, NOT_CONSIDERED)  # a lack of room is a possible reason, among further reasons
# causes that keep a job with room from its start, mostly until a person removes the obstacle
OBSTACLES = frozenset({
    IMAGE_PULL,
    CONTAINER_CONFIG,
    CANNOT_START,
    CRASH_LOOP,
    VOLUME,
    POD_SANDBOX,
    RESOURCE_CLAIM,
    POD_CREATE_REJECTED,
})  # fmt: skip
OBSTACLE_PATIENCE = timedelta(minutes=1)  # a volume may come, and a registry answer, at the next try
# RUNNING is here because a preempted task keeps this status while the task waits for room for its next pod
WAITING = (TaskStatus.QUEUED, TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING)
LOOKS_TO_CONFIRM_ABSENCE = 2  # a single wrong list must not make a task LOST
LOOKS_TO_CONFIRM_ABSENCE_IN_A_STOP = 1  # a stop must not wait, and an absent job has ended anyway
# If more jobs vanish at once than both limits allow, the look is not believed: the look may show a wrong namespace, or
# a cluster restored from a backup.
MAX_VANISHED = 5
MAX_VANISHED_SHARE = 0.2  # of the run's jobs in the cluster
# status of a living task by the phase of its job
ONGOING = {
    JobPhase.WAITING: TaskStatus.PENDING,
    JobPhase.RUNNING: TaskStatus.RUNNING,
    JobPhase.ENDING: TaskStatus.STOPPING,
}


def verdict(
    row: TaskRow,
    look: Look,
    intent: Intent,
    now: datetime,
    stopped_at: datetime | None = None,
    retries: Retries = NO_RETRIES,
) -> TaskChange | None:
    """Return how the row has to change. `stopped_at`: when the run's stop began, if known.

    The change has no next attempt: `verdicts` adds the next attempts.
    """
    if row.status.is_over and row.status is not TaskStatus.LOST:
        return None  # only LOST may be corrected, if the job is found again
    job = look.jobs.get((row.task, row.attempt))
    if job is not None and job.phase is JobPhase.UNCLEAR:
        # A later look may still read the result of a gone job. Two cases do not wait: only remains are left (an
        # orphan), or the run has to stop.
        is_lost = job.gone and (job.is_orphan or intent is not Intent.RUN)
        return _absent(row, intent, now, retries, RESULT_UNKNOWN) if is_lost else _not_absent(row)
    if job is not None and intent is Intent.RUN and _holds_the_name(row, job):
        return None
    if job is not None and _belongs_to(row, job):
        return _present(row, job, intent, now, stopped_at)
    if job is None and not look.complete:
        return None
    return _absent(row, intent, now, retries)  # no job is shown, or a job with another uid


def verdicts(
    rows: Iterable[TaskRow],
    look: Look,
    intent: Intent,
    now: datetime,
    stopped_at: datetime | None = None,
    retries: Retries = NO_RETRIES,
) -> tuple[list[TaskChange], str | None]:
    """Return the changes after a look, and a problem if too many jobs vanish at once: their absences are left out."""
    rows = list(rows)
    all_verdicts = [verdict(row, look, intent, now, stopped_at, retries) for row in rows]
    changes = [change for change in all_verdicts if change is not None]
    in_cluster = sum(row.status.is_in_cluster for row in rows)
    vanishing = sum(change.absent_count == 1 for change in changes)
    if intent is not Intent.RUN:
        return changes, None
    problem = None
    if vanishing > max(MAX_VANISHED, MAX_VANISHED_SHARE * in_cluster):
        # unless the first absences are recorded, the next look finds the same first absences, and is not believed
        # either
        changes = [change for change in changes if not change.absent_count]
        problem = f"{vanishing} of {in_cluster} jobs vanished at once: not believed until somebody looks"
    return with_retries(rows, changes, look, retries, now), problem


def with_facts(row: TaskRow, facts: OutcomeFacts) -> TaskChange | None:
    """Return the change that only records outcome facts before a stop; None without new facts."""
    new_facts = facts_before_a_stop(row, facts)
    return _alive_as_before(row, row.absent_count, new_facts) if new_facts else None


def _holds_the_name(row: TaskRow, job: JobLook) -> bool:
    """Return whether an earlier job, in deletion, still has the name of the task's next job: the deployment waits."""
    return row.job_uid is None and job.phase is JobPhase.ENDING and not job.is_orphan


def _belongs_to(row: TaskRow, job: JobLook) -> bool:
    """Return whether the job is the row's: its uid is recorded, or no uid is recorded and the job is no orphan."""
    return row.job_uid == job.uid or (row.job_uid is None and not job.is_orphan)


def _present(
    row: TaskRow, job: JobLook, intent: Intent, now: datetime, stopped_at: datetime | None
) -> TaskChange | None:
    """Return the change for a row whose job the look shows."""
    facts = facts_after(row, job)
    if job.phase.has_ended:
        if row.status is TaskStatus.LOST and job.phase is JobPhase.VANISHED:
            return None
        return _over(row, job, facts, ending(row, job, facts, intent, stopped_at))
    if row.status is TaskStatus.LOST:
        return None  # a LOST task stays over although its job ran on
    cause = cause_of(row, job, intent)
    is_for_a_stop = intent is not Intent.RUN and job.phase is JobPhase.WAITING  # a stop ends waiting jobs, too
    if not is_for_a_stop and _is_given_up(row, job, cause, now):
        return _over(row, job, facts, ending_of_given_up(cause, job, facts))
    status = _status(row, job, intent, cause)
    reason = reason_while_alive(row, job, cause)
    on_record = (row.status, row.cause, row.reason, row.job_uid, row.absent_count, facts_on_record(row))
    if (status, cause, reason, job.uid, 0, facts) == on_record:
        return None
    return TaskChange(
        task=row.task,
        attempt=row.attempt,
        version=row.version,
        status=status,
        job_uid=job.uid,
        job_name=job.name,
        cause=cause,
        reason=reason,
        exit_code=facts.exit_code if facts else None,
        message=job.message,
        started_at=job.started_at or row.started_at,
        facts=facts,
    )


def _status(row: TaskRow, job: JobLook, intent: Intent, cause: str | None) -> TaskStatus:
    """Return a living task's status. STOPPING never goes back; RUNNING never goes back to PENDING.

    A preempted task waits for its next pod as RUNNING, with a cause.
    """
    ends_by_a_stop = cause == POD_TERMINATING and intent is not Intent.RUN
    if row.status is TaskStatus.STOPPING or ends_by_a_stop or job.overdue:
        return TaskStatus.STOPPING
    status = ONGOING[job.phase]
    has_run = row.status is TaskStatus.RUNNING
    return TaskStatus.RUNNING if has_run and status is TaskStatus.PENDING else status


def _is_given_up(row: TaskRow, job: JobLook, cause: str | None, now: datetime) -> bool:
    """Return whether the cause has been recorded for longer than the job's limit. So no first look ends a task."""
    if job.give_up_after is None or row.cause is None or row.cause != cause:
        return False
    waited = max(timedelta(), now - (row.cause_since or now))  # a clock that was set back gives no negative time
    return waited >= job.give_up_after


def _not_absent(row: TaskRow) -> TaskChange | None:
    """Reset the count of absences and forget a rejection: the look shows a trace of the job, and no rejection."""
    is_changed = row.absent_count or row.cause == POD_CREATE_REJECTED
    return _alive_as_before(row, 0, facts_on_record(row)) if is_changed else None


def _absent(
    row: TaskRow, intent: Intent, now: datetime, retries: Retries, lost_by: str | None = None
) -> TaskChange | None:
    """Return the change for a row whose job is absent, or is treated as absent for the reason `lost_by`.

    A recorded job counts as absent after enough looks in a row, and before a retry only after minutes. A task without
    a recorded job waits for its deployment; in a stop the task is over, unless a claim still allows a deployment at
    this moment.
    """
    if row.status is TaskStatus.LOST:
        return None
    if row.job_uid is None:
        is_claimed = row.claim_expires_at is not None and row.claim_expires_at > now
        if intent is Intent.RUN or is_claimed:
            return None
        return _over(row, None, None, ending_of_absent(row, None, intent))
    facts = facts_on_record(row)
    absent_count = row.absent_count + 1
    end = ending_of_absent(row, facts, intent, lost_by)
    needed = LOOKS_TO_CONFIRM_ABSENCE if intent is Intent.RUN else LOOKS_TO_CONFIRM_ABSENCE_IN_A_STOP
    # a retry beside a job that is shown again would be a second crawl
    is_retried = intent is Intent.RUN and retry_kind(row, end, retries) is not None
    if absent_count < needed or (is_retried and not is_absent_for_sure(row, now)):
        return _alive_as_before(row, absent_count, facts)
    return _over(row, None, facts, end)


def _alive_as_before(row: TaskRow, absent_count: int, facts: OutcomeFacts | None) -> TaskChange:
    """Return a change to the count of absences and the outcome facts, and without a rejection as cause.

    A look without the job shows no rejection of the job's pod: the patience begins anew with the next rejection.
    """
    return TaskChange(
        task=row.task,
        attempt=row.attempt,
        version=row.version,
        status=row.status,
        job_uid=row.job_uid,
        cause=None if row.cause == POD_CREATE_REJECTED else row.cause,
        reason=row.reason,
        exit_code=facts.exit_code if facts else None,
        absent_count=absent_count,
        started_at=row.started_at,
        facts=facts,
    )


def _over(row: TaskRow, job: JobLook | None, facts: OutcomeFacts | None, end: Ending) -> TaskChange:
    """Return the change to the final status of the ending."""
    started_at = (job.started_at if job else None) or (facts.started_at if facts else None)
    return TaskChange(
        task=row.task,
        attempt=row.attempt,
        version=row.version,
        status=end.status,
        job_uid=job.uid if job else row.job_uid,
        job_name=job.name if job else None,
        reason=end.reason,
        exit_code=end.exit_code,
        message=end.message,
        started_at=started_at or row.started_at,
        ended_at=end.ended_at,
        facts=facts,
    )


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


def is_saturated(cause: str | None, since: datetime | None, now: datetime) -> bool:
    """Return whether the wait is for room or for a node, and has lasted for at least five minutes."""
    return cause in FULL and since is not None and now - since >= PATIENCE


def in_words(cause: str | None) -> str:
    """Return the saturation by this cause in words, for people."""
    return "no node takes its pods" if cause in WITHOUT_NODE else "no capacity for over 5 minutes"


def saturation(rows: Iterable[TaskRow], look: Look, now: datetime) -> str | None:
    """Return the cause of the first long wait for room or a node; None without one, or if a task has started lately."""
    rows = list(rows)
    starts = [row.started_at for row in rows] + [job.started_at for job in look.jobs.values()]
    if any(start is not None and now - start < PATIENCE for start in starts):
        return None
    waiting = (row for row in rows if row.status in WAITING)
    return next((row.cause for row in waiting if is_saturated(row.cause, row.cause_since, now)), None)
