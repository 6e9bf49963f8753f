"""Ending a run's jobs: what was never deployed, what runs, and what does not listen."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.states import Intent, StopPhase, TaskStatus
from crawler_lifecycle.contract.steps.completion import CloseRun
from crawler_lifecycle.contract.steps.run import Counted, RunRef
from crawler_lifecycle.contract.steps.stopping import LogCancellation, NotePhase, StopReport, StopTasks
from crawler_lifecycle.domain.lingering import lingering, overdue
from crawler_lifecycle.domain.looks import TaskRow, uids_of
from crawler_lifecycle.domain.ranges import from_ranges, to_ranges
from crawler_lifecycle.errors import Fenced, LifecycleError, PermanentError, TemporaryError
from crawler_lifecycle.ports import Cluster, Runs, Tasks, Uids

Key = tuple[int, int]  # task and attempt
JOBS_IN_A_PAGE = 500
NODES = 10  # of those that do not answer, so many are named
NOT_SEEN_ENDING = (TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING)
TO_STOP = (*NOT_SEEN_ENDING, TaskStatus.STOPPING)
TRIES_OF_A_PAGE = 3


@dataclass(frozen=True)
class StoppingActivities:
    runs: Runs
    tasks: Tasks
    cluster: Cluster

    @activity.defn(no_thread_cancel_exception=True)
    def add_cancellation_log_to_db(self, step: LogCancellation) -> Counted:
        """In one transaction: the intent, the status STOPPING, and who stopped it, when, why, by which door."""
        self.runs.log_stop(step.run, step.stop, step.asked_at, step.ends_as)
        return Counted(count=1)

    @activity.defn(no_thread_cancel_exception=True)
    def note_stop_phase(self, step: NotePhase) -> Counted:
        """How far the stop has come, for the run's timeline."""
        self.runs.note_stop_phase(step.run, step.phase, step.message)
        return Counted(count=1)

    @activity.defn(no_thread_cancel_exception=True)
    def cancel_queued_tasks(self, step: CloseRun) -> Counted:
        """Child tasks not yet deployed never will be."""
        return Counted(count=self.tasks.cancel_queued(step.run, step.reason or "stopped"))

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_task(self, step: StopTasks) -> StopReport:
        """Asks the tasks' present jobs to end, a page at a time. A job that is gone has ended."""
        run, jobs, uids, rest = self._to_end(step)
        with self._trouble_told(step.run):
            self.cluster.stop(run.run_uid, jobs, uids=uids, hurried=run.intent is Intent.FORCE)
        return StopReport(asked=len(jobs), rest=rest)

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_pod(self, step: StopTasks) -> StopReport:
        """Ends them without asking, a page at a time."""
        _, jobs, uids, rest = self._to_end(step)
        with self._trouble_told(step.run):
            self._kill(step.run, jobs, uids)
        return StopReport(asked=len(jobs), rest=rest)

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_unwanted(self, step: StopTasks) -> StopReport:
        """Ends, of these tasks and a page at a time, whichever attempt's jobs nobody wants any more or never end.

        Those that never end are made to. In a stop so are the present attempts' jobs, which were asked; another
        attempt's was not asked by anybody yet: that comes first, until the stop is forced."""
        numbers = from_ranges(step.tasks)
        some, rest = numbers[:JOBS_IN_A_PAGE], to_ranges(numbers[JOBS_IN_A_PAGE:])
        self.runs.current(step.run)
        rows = self.tasks.rows(step.run.run_id, some)
        watched, uids = [(row.task, row.attempt) for row in rows if row.job_uid], uids_of(rows)
        look = self.cluster.look(step.run.run_uid, watched, some, uids=uids)
        run = self.runs.current(step.run)  # again: what was shown may have been made for a later supervisor
        living, present = lingering(look, rows, run.intent), {(row.task, row.attempt) for row in rows}
        insisted = {
            key for key in living if run.intent is Intent.FORCE or (run.intent is Intent.STOP and key in present)
        }
        forced = sorted({*overdue(look, rows), *insisted})
        asked = [key for key in living if key not in forced]
        try:
            self._kill(step.run, forced, uids)
        finally:  # what is in the way of one keeps no other alive
            self.cluster.stop(run.run_uid, asked, uids=uids)
        return StopReport(asked=len(forced) + len(asked), rest=rest)

    @contextmanager
    def _trouble_told(self, run: RunRef) -> Iterator[None]:
        """At once: the look that would tell it too comes minutes later, when asking has been given up.

        A page that fails again and again is left to the next round, as one job of it may be the reason: those behind it
        have their turn, unless it is the cluster that does not answer."""
        try:
            yield
        except TemporaryError as error:
            self.runs.mark_look(run, 0, known=False, problem=error.message, next_look_at=None)
            if activity.info().attempt <= TRIES_OF_A_PAGE:
                raise
            self.cluster.check()
            activity.logger.warning("run %s: not all of its jobs are told to end: %s", run.run_id, error.message)

    def _kill(self, run: RunRef, jobs: Sequence[Key], uids: Uids) -> None:
        if jobs:
            self._note_unreached(run, jobs)
        self.cluster.kill(run.run_uid, jobs, uids=uids)

    def _note_unreached(self, run: RunRef, jobs: Sequence[Key]) -> None:
        """Before they are ended: afterwards nothing tells it any more. That it cannot be told keeps nothing alive."""
        try:
            unreached = self.cluster.unreached(run.run_uid, jobs)
        except (TemporaryError, PermanentError) as error:
            activity.logger.warning("run %s: nobody knows whether its nodes answer: %s", run.run_id, error.message)
            return
        if unreached:
            tasks, nodes = (
                to_ranges({task for task, _ in unreached}),
                ", ".join(sorted(set(unreached.values()))[:NODES]),
            )
            message = f"tasks {tasks} are ended without asking on nodes that do not answer ({nodes}): they may run on"
            self.runs.note(run, f"unconfirmed:{sorted(unreached)}", StopPhase.UNCONFIRMED, message)

    def _to_end(self, step: StopTasks) -> tuple[RunRecord, list[Key], Uids, str]:
        """A page of them, of which is kept what is known; and the rest."""
        run = self.runs.current(step.run)  # a late step of an earlier supervisor ends no jobs of a later one
        numbers = from_ranges(step.tasks) if step.tasks else self._in_cluster(step.run.run_id)
        page, rest = numbers[:JOBS_IN_A_PAGE], numbers[JOBS_IN_A_PAGE:]
        rows = self.tasks.rows(step.run.run_id, page)
        self._keep_what_is_known(step.run, _keys(row for row in rows if row.status in NOT_SEEN_ENDING))
        return run, _keys(rows), uids_of(rows), to_ranges(rest)

    def _keep_what_is_known(self, run: RunRef, jobs: Sequence[Key]) -> None:
        """Before they are told to end, which takes it along. That it cannot be had keeps nothing alive."""
        try:
            if jobs and (known := self.cluster.evidence(run.run_uid, jobs, hurried=True)):
                self.tasks.reconcile(run, known)
        except Fenced:
            raise
        except LifecycleError as error:
            activity.logger.warning("run %s: nothing is known of what is stopped: %s", run.run_id, error.message)

    def _in_cluster(self, run_id: int) -> list[int]:
        by_status = self.tasks.by_status(run_id)
        return sorted(number for status in TO_STOP for number in by_status.get(status, []))


def _keys(rows: Iterable[TaskRow]) -> list[Key]:
    return [(row.task, row.attempt) for row in rows]
