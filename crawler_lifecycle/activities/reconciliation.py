"""A look: what the database believes, what the cluster shows, and making them agree."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from temporalio import activity

from crawler_lifecycle.activities.measuring import note_clocks, noted
from crawler_lifecycle.contract.states import ALIVE, TaskStatus
from crawler_lifecycle.contract.steps.completion import Removal, RemoveJobs
from crawler_lifecycle.contract.steps.evidence import EvidencePage, EvidenceRequest, EvidenceWrite, TaskEvidence
from crawler_lifecycle.contract.steps.looks import (
    ActiveTasks,
    AliveTasks,
    CloseLook,
    Differences,
    LookAt,
    StatusWrite,
    TaskChange,
    Written,
)
from crawler_lifecycle.contract.steps.run import RunInput
from crawler_lifecycle.domain.limits import is_held
from crawler_lifecycle.domain.lingering import leaving, lingering, overdue
from crawler_lifecycle.domain.looks import Look, TaskRow, uids_of
from crawler_lifecycle.domain.ranges import from_ranges, to_ranges
from crawler_lifecycle.domain.saturation import saturation
from crawler_lifecycle.domain.verdict import verdicts
from crawler_lifecycle.ports import Cluster, Runs, Tasks, Uids

# what fits a payload with room to spare (2 MB are its end): a change is mostly 350 bytes, evidence about 5 kB
CHANGES_IN_A_LOOK = 3_000
EVIDENCE_IN_A_PAGE = 150
BYTES_IN_A_PAGE = 1_000_000
Key = tuple[int, int]  # task and attempt
T = TypeVar("T", TaskChange, TaskEvidence)
FULL_FOR_THE_RUN = "the cluster is full: tasks wait for room, and for minutes none of the run has started"
STOPPING_WITH_EVIDENCE = 100  # a stop of thousands must not wait for what each of them printed
JOBS_REMOVED_IN_A_PAGE = 100  # the log of each may have to be kept first
TRIES_OF_A_PAGE = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReconciliationActivities:
    runs: Runs
    tasks: Tasks
    cluster: Cluster

    @activity.defn(no_thread_cancel_exception=True)
    def get_active_running_tasks(self, step: RunInput) -> ActiveTasks:
        """The tasks that the database believes alive, and those it lost sight of."""
        run = self.runs.current(step.run)
        by_status = self.tasks.by_status(run.run_id)
        watched = {
            status: to_ranges(by_status[status]) for status in (*ALIVE, TaskStatus.LOST) if by_status.get(status)
        }
        return ActiveTasks(by_status=watched, nudge=run.nudge_sent, intent=run.intent)

    @activity.defn(no_thread_cancel_exception=True)
    def get_history_statuses_to_sync(self, step: LookAt) -> Differences:
        """Asks the cluster for all of them at once; returns only those that differ."""
        clock, run = time.monotonic(), self.runs.current(step.run)
        numbers = [number for ranges in step.active.by_status.values() for number in from_ranges(ranges)]
        # the rows and the time first: a job that is made and recorded meanwhile, or under a claim that runs out
        # meanwhile, must not count as absent because this look is too old to show it
        began, rows = datetime.now(UTC), self.tasks.rows(run.run_id, numbers)
        watched = [(row.task, row.attempt) for row in rows if _may_have_a_job(row)]
        look = self.cluster.look(step.run.run_uid, watched, uids=uids_of(rows))
        note_clocks(look.clock_ahead, run.cluster)
        changes, doubt = verdicts(rows, look, run.intent, began, step.stopped_at)
        page = list(_that_fit(changes[:CHANGES_IN_A_LOOK]))
        open_rows = list(_not_ended(rows, changes))
        living = lingering(look, open_rows, run.intent)
        return Differences(
            known=look.complete,
            changes=page,
            evidence=to_ranges(_with_evidence(page)),
            more=len(changes) > len(page),
            unwanted=to_ranges({task for task, _ in (*living, *overdue(look, rows))}),
            removable=to_ranges(_removable(look, rows)),
            leaving=leaving(look),
            saturated=noted(saturation(rows, look, began), run.cluster),
            suspended=is_held(open_rows, look),
            problem=look.problem or doubt,
            seconds=time.monotonic() - clock,
        )

    @activity.defn(no_thread_cancel_exception=True)
    def get_bulk_task_history_data(self, step: EvidenceRequest) -> EvidencePage:
        """What is needed to see why tasks ended as they did; the rest is for further pages."""
        numbers = from_ranges(step.tasks)
        rows = self.tasks.rows(step.run.run_id, numbers[:EVIDENCE_IN_A_PAGE])
        collected = self.cluster.evidence(step.run.run_uid, [(row.task, row.attempt) for row in rows])
        uids = {row.task: row.job_uid for row in rows}
        found = [item for item in collected if _is_of(item, uids.get(item.task))]
        items = list(_that_fit(found))
        left = {each.task for each in found[len(items) :]} | set(numbers[EVIDENCE_IN_A_PAGE:])
        return EvidencePage(items=items, rest=to_ranges(left))

    @activity.defn(no_thread_cancel_exception=True)
    def reconcile_tasks(self, step: EvidenceWrite) -> Written:
        """Keeps that information with the tasks, in bulk."""
        return _written(step.items, self.tasks.reconcile(step.run, step.items))

    @activity.defn(no_thread_cancel_exception=True)
    def sync_statuses(self, step: StatusWrite) -> Written:
        """Writes the changed statuses in bulk, each only if its row is still what was read."""
        return _written(step.changes, self.tasks.sync(step.run, step.changes))

    @activity.defn(no_thread_cancel_exception=True)
    def remove_jobs(self, step: RemoveJobs) -> Removal:
        """Remove the jobs whose end and evidence are on record, a page at a time.

        A task that ended by itself and of which nobody knows where it ran has no evidence on record: its job is for the
        audit, which collects the evidence before it removes the job."""
        run = self.runs.current(step.run)
        numbers = from_ranges(step.tasks) if step.tasks else self._over(run.run_id)
        rows = self.tasks.rows(run.run_id, numbers[:JOBS_REMOVED_IN_A_PAGE])
        unexplained = set(self.tasks.unexplained(run.run_id))
        keys = [(row.task, _last_over(row)) for row in rows]
        left = self._removed(run.run_uid, [key for key in keys if key not in unexplained], uids_of(rows))
        return Removal(left=left, rest=to_ranges(numbers[JOBS_REMOVED_IN_A_PAGE:]))

    @activity.defn(no_thread_cancel_exception=True)
    def count_alive_tasks(self, step: CloseLook) -> AliveTasks:
        """How many tasks are queued, pending or active. This closes a look: its nudge is acknowledged."""
        self.runs.mark_look(step.run, step.nudge, step.known, step.problem, step.next_look_at)
        run = self.runs.current(step.run)
        if run.waiting_cause != step.saturated:
            self.runs.mark_waiting(step.run, step.saturated, step.saturated and FULL_FOR_THE_RUN)
        counts = run.tasks
        return AliveTasks(
            queued=counts.get(TaskStatus.QUEUED, 0),
            pending=counts.get(TaskStatus.DEPLOYING, 0) + counts.get(TaskStatus.PENDING, 0),
            active=counts.get(TaskStatus.RUNNING, 0) + counts.get(TaskStatus.STOPPING, 0),
            stopped=counts.get(TaskStatus.STOPPED, 0),
        )

    def _removed(self, run_uid: str, keys: Sequence[Key], uids: Uids) -> int:
        """How many stay for now: all of a page that has failed again and again, in whatever way. Those behind it have
        their turn, unless it is the cluster that does not answer."""
        if activity.info().attempt <= TRIES_OF_A_PAGE:
            return self.cluster.remove(run_uid, keys, uids=uids)
        self.cluster.check()
        logger.warning("run %s: %s jobs stay in the cluster for now, they could not be removed", run_uid, len(keys))
        return len(keys)

    def _over(self, run_id: int) -> list[int]:
        by_status = self.tasks.by_status(run_id)
        return sorted(number for status, numbers in by_status.items() if status.is_over for number in numbers)


def _last_over(row: TaskRow) -> int:
    """The task's last attempt that is over; 0 if there is none."""
    return row.attempt if row.status.is_over else row.attempt - 1


def _may_have_a_job(row: TaskRow) -> bool:
    return row.job_uid is not None or row.status is TaskStatus.DEPLOYING


def _removable(look: Look, rows: Iterable[TaskRow]) -> Iterator[int]:
    """Those that the database does not ask about any more: their end is on record."""
    open_ones = {(row.task, row.attempt) for row in rows}
    return (job.task for key, job in look.jobs.items() if job.removable and key not in open_ones)


def _not_ended(rows: Iterable[TaskRow], changes: Iterable[TaskChange]) -> Iterator[TaskRow]:
    """Those that this look does not end."""
    ended = {change.task for change in changes if change.status.is_over}
    return (row for row in rows if row.task not in ended)


def _with_evidence(changes: Iterable[TaskChange]) -> Iterator[int]:
    """Tasks that end; and some of those that are ending, since a job that is deleted takes with it what it printed."""
    ending = STOPPING_WITH_EVIDENCE
    for change in changes:
        ending -= change.status is TaskStatus.STOPPING
        if change.status.is_over or (change.status is TaskStatus.STOPPING and ending >= 0):
            yield change.task


def _is_of(evidence: TaskEvidence, job_uid: str | None) -> bool:
    """Evidence of another job of the same name says nothing about the task."""
    return None in (job_uid, evidence.job_uid) or evidence.job_uid == job_uid


def _that_fit(items: Iterable[T]) -> Iterator[T]:
    """Yield as many as a payload holds, and one at least: control characters grow sixfold there."""
    size = 0
    for number, each in enumerate(items):
        size += len(each.model_dump_json())
        if number and size > BYTES_IN_A_PAGE:
            return
        yield each


def _written(asked: Sequence[TaskChange] | Sequence[TaskEvidence], written: int) -> Written:
    return Written(written=written, stale=len(asked) - written)
