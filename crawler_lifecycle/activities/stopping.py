"""Ending a run's jobs: what was never deployed, what runs, and what does not listen."""

from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.contract.steps import Counted, EndRun, LogCancellation, NotePhase, StopReport, StopTasks
from crawler_lifecycle.domain.lingering import lingering, overdue
from crawler_lifecycle.domain.ranges import from_ranges, to_ranges
from crawler_lifecycle.ports import Cluster, Histories, Stops, Tasks

JOBS_IN_A_PAGE = 500
TO_STOP = (TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.STOPPING)


@dataclass(frozen=True)
class _Page:
    """Jobs to end, by task and attempt: of the tasks' present attempts and of others; and the tasks left."""

    present: list[tuple[int, int]]
    others: list[tuple[int, int]]
    rest: str
    forced: bool

    @property
    def report(self) -> StopReport:
        return StopReport(asked=len(self.present) + len(self.others), rest=self.rest)


@dataclass(frozen=True)
class StoppingActivities:
    histories: Histories
    stops: Stops
    tasks: Tasks
    cluster: Cluster

    @activity.defn(no_thread_cancel_exception=True)
    def add_cancellation_log_to_db(self, step: LogCancellation) -> Counted:
        """In one transaction: the intent, the status STOPPING, and who stopped it, when, why, by which door."""
        self.stops.log(step.run, step.stop, step.asked_at, step.ends_as)
        return Counted(count=1)

    @activity.defn(no_thread_cancel_exception=True)
    def note_stop_phase(self, step: NotePhase) -> Counted:
        """How far the stop has come, for the run's timeline."""
        self.stops.note(step.run, step.phase, step.message)
        return Counted(count=1)

    @activity.defn(no_thread_cancel_exception=True)
    def cancel_queued_tasks(self, step: EndRun) -> Counted:
        """Child tasks not yet deployed never will be."""
        return Counted(count=self.tasks.cancel_queued(step.run, step.reason or "stopped"))

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_task(self, step: StopTasks) -> StopReport:
        """Asks jobs to end, a page at a time. A job that is gone has ended."""
        page = self._page(step)
        self.cluster.stop(step.run.run_uid, [*page.present, *page.others])
        return page.report

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_pod(self, step: StopTasks) -> StopReport:
        """Ends what is still there without asking, a page at a time.

        Another attempt's job was not asked by anybody yet: that comes first, until the stop is forced."""
        page = self._page(step)
        try:
            self.cluster.kill(step.run.run_uid, [*page.present, *page.others] if page.forced else page.present)
        finally:
            if page.others and not page.forced:
                self.cluster.stop(step.run.run_uid, page.others)
        return page.report

    def _page(self, step: StopTasks) -> "_Page":
        # a late step of an earlier supervisor must not end the jobs of a later one
        run = self.histories.current(step.run)
        numbers = from_ranges(step.tasks) if step.tasks else self._in_cluster(step.run.run_id)
        some, rest = numbers[:JOBS_IN_A_PAGE], to_ranges(numbers[JOBS_IN_A_PAGE:])
        rows = self.tasks.rows(step.run.run_id, some)
        present, forced = [(row.task, row.attempt) for row in rows], run.intent is Intent.FORCE
        # a run that goes on has nothing else to end: neither do workflows of an earlier version, which do not say it
        if not (step.lingering or step.overdue) and (run.intent is not Intent.RUN or not step.tasks):
            return _Page(present, [], rest, forced)
        watched = [(row.task, row.attempt) for row in rows if row.job_uid]
        look = self.cluster.look(run.run_uid, watched, some)
        self.histories.current(step.run)  # again: what was shown may have been made for a later supervisor
        if step.overdue:
            return _Page(overdue(look), [], rest, forced)
        living = lingering(look, rows, run.intent)
        present_ones = [key for key in living if key in set(present)]
        return _Page(present_ones, [key for key in living if key not in set(present)], rest, forced)

    def _in_cluster(self, run_id: int) -> list[int]:
        by_status = self.tasks.by_status(run_id)
        return sorted(number for status in TO_STOP for number in by_status.get(status, []))
