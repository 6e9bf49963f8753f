"""Activities for a look: compare database rows with the cluster, write the differences, remove jobs that are over."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Semaphore
from typing import TypeVar

from temporalio import activity

from crawler_lifecycle.base.ranges import from_ranges, to_ranges
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.clusters.ports import Cluster, Uids
from crawler_lifecycle.delivery.activities.notices import NO_NUDGES, FlowNudges
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model import task_changes
from crawler_lifecycle.model.looks import JobKey, Look, TaskRow, uids_of
from crawler_lifecycle.model.run_plan import Removal, RemoveJobs, RunInput, RunRef
from crawler_lifecycle.model.states import ALIVE, TaskStatus
from crawler_lifecycle.runs.activities.metrics import count_saturated, measure_clocks
from crawler_lifecycle.runs.ports import Runs, Tasks
from crawler_lifecycle.runs.rules.limits import is_held
from crawler_lifecycle.runs.rules.retries import NO_RETRIES, recheck_pause
from crawler_lifecycle.runs.rules.verdict import (
    OBSTACLES,
    in_words,
    is_hopeless,
    leaving,
    lingering,
    overdue,
    removable,
    saturation,
    verdicts,
)

# Temporal refuses a payload of more than 2 MB. A change mostly takes 350 bytes, evidence of a task about 5 kB.
CHANGES_IN_A_LOOK = 3_000
EVIDENCE_IN_A_PAGE = 150
BYTES_IN_A_PAGE = 1_000_000
STOPPING_WITH_EVIDENCE = 100  # stopping tasks of a look: a stop of thousands of jobs must not wait for all their logs
JOBS_REMOVED_IN_A_PAGE = 100  # few, because the removal of a job may first have to store the job's log
TRIES_OF_A_PAGE = 3  # then the page's jobs stay: a single job may be the cause, and must not hold up the next pages
# In the timeline, once: a problem that lasts for all tries. Without a right, such as to read logs, all jobs stay.
NOT_REMOVED = "not_removed"
# The pause after a look grows with the look's duration. A hundred looks at once would slow one another down, and each
# run would then wait as if the cluster were slow.
LOOKS_AT_ONCE = 16
LONGEST_TURN = 60.0  # seconds that a look waits for its turn; then the activity is tried again
NO_ROOM = "{}: tasks wait, and no task of the run has started for minutes"
Item = TypeVar("Item", task_changes.TaskChange, task_changes.TaskEvidence)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReconciliationActivities:
    runs: Runs
    tasks: Tasks
    cluster: Cluster
    nudges: FlowNudges = NO_NUDGES
    turns: Semaphore = field(default_factory=lambda: Semaphore(LOOKS_AT_ONCE))

    @activity.defn(no_thread_cancel_exception=True)
    def get_active_running_tasks(self, step: RunInput) -> task_changes.ActiveTasks:
        """Return the alive tasks, and the LOST tasks, because a look may still find out how a LOST task ended."""
        run = self.runs.state(step.run)
        by_status = self.tasks.by_status(run.run_id)
        active = {status: to_ranges(by_status[status]) for status in (*ALIVE, TaskStatus.LOST) if by_status.get(status)}
        return task_changes.ActiveTasks(by_status=active, nudge=run.nudge_sent, intent=run.intent)

    @activity.defn(no_thread_cancel_exception=True)
    def get_history_statuses_to_sync(self, step: task_changes.LookAt) -> task_changes.Differences:
        """Look at all jobs of the run and return only the differences between rows and cluster."""
        if not self.turns.acquire(timeout=LONGEST_TURN):
            raise TemporaryError(f"the worker looked at {LOOKS_AT_ONCE} other runs for {LONGEST_TURN:.0f} s")
        try:
            return self._differences(step)
        finally:
            self.turns.release()

    def _differences(self, step: task_changes.LookAt) -> task_changes.Differences:
        began_at, run = time.monotonic(), self.runs.state(step.run)
        numbers = [number for ranges in step.active.by_status.values() for number in from_ranges(ranges)]
        # Read time and rows before the look. A job may be recorded, or its claim may expire, while the look is under
        # way: compared with later rows or at a later time, the job would count as absent.
        now, rows = datetime.now(UTC), self.tasks.rows(run.run_id, numbers)
        watched = [(row.task, row.attempt) for row in rows if _may_have_a_job(row)]
        look = self.cluster.look(step.run.run_uid, watched, uids=uids_of(rows))
        measure_clocks(look.clock_ahead, run.cluster)
        # the doubt is a message, if too many jobs vanished at once to believe the look
        retries = run.retries or NO_RETRIES
        all_changes, doubt = verdicts(rows, look, run.intent, now, step.stopped_at, retries)
        changes = [change for change in all_changes if not is_hopeless(look, change)]
        hopeless = [(change.task, change.attempt) for change in all_changes if is_hopeless(look, change)]
        page = list(_limited_to_payload(changes[:CHANGES_IN_A_LOOK]))
        now_over = {change.task for change in changes if change.status.is_over and not change.next_attempt}
        open_rows = [row for row in rows if row.task not in now_over]
        unwanted = (*hopeless, *lingering(look, open_rows, run.intent), *overdue(look, rows))
        recheck = recheck_pause(rows, changes, look, now)
        _log_obstacles(run.run_id, rows, page)
        saturated = saturation(rows, look, now)
        count_saturated(saturated, run.cluster)
        return task_changes.Differences(
            known=look.complete,
            changes=page,
            evidence=to_ranges(_tasks_to_explain(page)),
            more=len(changes) > len(page),
            unwanted=to_ranges({task for task, _ in unwanted}),
            removable=to_ranges(_tasks_with_removable_jobs(look, rows)),
            leaving=leaving(look),
            saturated=saturated,
            recheck_seconds=recheck.total_seconds() if recheck else None,
            suspended=is_held(open_rows, look) if run.admitted_at else True,
            problem=look.problem or doubt,
            seconds=time.monotonic() - began_at,
            flow=run.flow if run.flow and run.flow.tells_tasks and now_over else None,
        )

    @activity.defn(no_thread_cancel_exception=True)
    def get_bulk_task_history_data(self, step: task_changes.EvidenceRequest) -> task_changes.EvidencePage:
        """Return a page of evidence about ended and stopping tasks, and the tasks for further pages."""
        numbers = from_ranges(step.tasks)
        rows = self.tasks.rows(step.run.run_id, numbers[:EVIDENCE_IN_A_PAGE])
        collected = self.cluster.evidence(step.run.run_uid, [(row.task, row.attempt) for row in rows])
        uids = {row.task: row.job_uid for row in rows}
        usable = [item for item in collected if _may_be_about(item, uids.get(item.task))]
        items = list(_limited_to_payload(usable))
        rest = {item.task for item in usable[len(items) :]} | set(numbers[EVIDENCE_IN_A_PAGE:])
        return task_changes.EvidencePage(items=items, rest=to_ranges(rest))

    @activity.defn(no_thread_cancel_exception=True)
    def reconcile_tasks(self, step: task_changes.EvidenceWrite) -> task_changes.RowsWritten:
        """Store evidence with the tasks, in bulk."""
        written = self.tasks.reconcile(step.run, step.items)
        return task_changes.RowsWritten(written=written, stale=len(step.items) - written)

    @activity.defn(no_thread_cancel_exception=True)
    def sync_statuses(self, step: task_changes.StatusWrite) -> task_changes.RowsWritten:
        """Write the changed statuses in bulk, except where a row has changed since the look."""
        written = self.tasks.sync(step.run, step.changes)
        self.nudges.tell(step.flow)
        return task_changes.RowsWritten(written=written, stale=len(step.changes) - written)

    @activity.defn(no_thread_cancel_exception=True)
    def remove_jobs(self, step: RemoveJobs) -> Removal:
        """Remove a page of the jobs with stored end and evidence.

        A job without stored evidence stays: the audit collects the evidence, and then removes the job.
        """
        run = self.runs.state(step.run)
        numbers = from_ranges(step.tasks) if step.tasks else self._tasks_over(run.run_id)
        rows = self.tasks.rows(run.run_id, numbers[:JOBS_REMOVED_IN_A_PAGE])
        unexplained = set(self.tasks.unexplained(run.run_id))
        keys = [(row.task, _last_attempt_over(row)) for row in rows]
        staying_jobs = self._remove_page(step.run, [key for key in keys if key not in unexplained], uids_of(rows))
        return Removal(left=staying_jobs, rest=to_ranges(numbers[JOBS_REMOVED_IN_A_PAGE:]))

    def _tasks_over(self, run_id: int) -> list[int]:
        by_status = self.tasks.by_status(run_id)
        return sorted(number for status, numbers in by_status.items() if status.is_over for number in numbers)

    def _remove_page(self, run: RunRef, keys: Sequence[JobKey], uids: Uids) -> int:
        """Remove the jobs and return how many stay for now.

        After several tries the whole page stays (see TRIES_OF_A_PAGE), unless the cluster does not answer at all: then
        the check raises an error.
        """
        if activity.info().attempt <= TRIES_OF_A_PAGE:
            try:
                return self.cluster.remove(run.run_uid, keys, uids=uids)
            except TemporaryError as error:
                if activity.info().attempt == TRIES_OF_A_PAGE:
                    self.runs.note(run, NOT_REMOVED, NOT_REMOVED, f"ended jobs stay in the cluster: {error.message}")
                raise
        self.cluster.check()
        logger.warning("run %s: %s jobs could not be removed and stay in the cluster for now", run.run_uid, len(keys))
        return len(keys)

    @activity.defn(no_thread_cancel_exception=True)
    def count_alive_tasks(self, step: task_changes.CloseLook) -> task_changes.AliveTasks:
        """Close the look, acknowledge its nudge, and return how many tasks are queued, pending or active."""
        end = self.runs.mark_look(step.run, step.nudge, step.known, step.problem, step.next_look_at)
        if end.admitted_at and end.waiting_cause != step.saturated:
            message = NO_ROOM.format(in_words(step.saturated)) if step.saturated else None
            self.runs.mark_waiting(step.run, step.saturated, message)
        counts = end.tasks
        return task_changes.AliveTasks(
            queued=counts.get(TaskStatus.QUEUED, 0),
            pending=counts.get(TaskStatus.DEPLOYING, 0) + counts.get(TaskStatus.PENDING, 0),
            active=counts.get(TaskStatus.RUNNING, 0) + counts.get(TaskStatus.STOPPING, 0),
        )


def _log_obstacles(run_id: int, rows: Sequence[TaskRow], changes: Sequence[task_changes.TaskChange]) -> None:
    """Log a new obstacle to the start of tasks, such as a missing image, once for the look."""
    causes = {row.task: row.cause for row in rows}
    obstructed = [change for change in changes if change.cause in OBSTACLES and change.cause != causes[change.task]]
    if obstructed:
        first = obstructed[0]
        tasks = counted(len(obstructed), "task")
        logger.warning(
            "run %s: %s cannot start. Task %s: %s: %s", run_id, tasks, first.task, first.cause, first.message
        )


def _may_have_a_job(row: TaskRow) -> bool:
    return row.job_uid is not None or row.status is TaskStatus.DEPLOYING


def _tasks_to_explain(changes: Sequence[task_changes.TaskChange]) -> list[int]:
    """Return the tasks to collect evidence for: tasks now over, and some stopping tasks, whose logs soon disappear."""
    now_over = [change.task for change in changes if change.status.is_over]
    stopping = [change.task for change in changes if change.status is TaskStatus.STOPPING]
    return now_over + stopping[:STOPPING_WITH_EVIDENCE]


def _tasks_with_removable_jobs(look: Look, rows: Iterable[TaskRow]) -> Iterator[int]:
    """Yield the tasks with a removable job of an attempt with a stored end.

    `rows` are the open tasks and the LOST tasks, whose end a look may still change. A job without such a row belongs to
    an attempt with a stored end.
    """
    open_attempts = {(row.task, row.attempt) for row in rows}
    return (task for task, attempt in removable(look) if (task, attempt) not in open_attempts)


def _may_be_about(evidence: task_changes.TaskEvidence, job_uid: str | None) -> bool:
    """Return whether the evidence may come from the job with this uid, and not from another job with the same name."""
    return job_uid is None or evidence.job_uid is None or evidence.job_uid == job_uid


def _last_attempt_over(row: TaskRow) -> int:
    """Return the task's last attempt with a final status, or 0."""
    return row.attempt if row.status.is_over else row.attempt - 1


def _limited_to_payload(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items up to BYTES_IN_A_PAGE, at least one. Sizes vary: JSON takes six bytes for a control character."""
    size = 0
    for number, item in enumerate(items):
        size += len(item.model_dump_json().encode())
        if number and size > BYTES_IN_A_PAGE:
            return
        yield item
