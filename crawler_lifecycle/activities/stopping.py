"""Activities for a stop: cancel queued tasks, ask jobs to end, kill jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from temporalio import activity

from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.states import Intent, StopPhase, TaskStatus
from crawler_lifecycle.contract.steps.run import CloseRun, Counted, RunRef
from crawler_lifecycle.contract.steps.stopping import LogCancellation, NotePhase, StopReport, StopTasks
from crawler_lifecycle.domain.lingering import lingering, overdue
from crawler_lifecycle.domain.looks import JobKey, TaskRow, uids_of
from crawler_lifecycle.domain.ranges import from_ranges, to_ranges
from crawler_lifecycle.domain.verdict import with_facts
from crawler_lifecycle.errors import Fenced, LifecycleError, TemporaryError
from crawler_lifecycle.ports import Cluster, Runs, Tasks, Uids

JOBS_IN_A_PAGE = 500
NODES_NAMED = 10  # silent nodes in a note of the timeline, at most
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
        """Record the stop in one transaction: intent, status STOPPING, person, time, reason and door."""
        self.runs.log_stop(step.run, step.stop, step.asked_at, step.ends_as)
        return Counted(count=1)

    @activity.defn(no_thread_cancel_exception=True)
    def note_stop_phase(self, step: NotePhase) -> Counted:
        """Write the phase reached by the stop into the run's timeline."""
        self.runs.note_stop_phase(step.run, step.phase, step.message)
        return Counted(count=1)

    @activity.defn(no_thread_cancel_exception=True)
    def cancel_queued_tasks(self, step: CloseRun) -> Counted:
        """Cancel every child task not yet deployed."""
        return Counted(count=self.tasks.cancel_queued(step.run, step.reason or "stopped"))

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_task(self, step: StopTasks) -> StopReport:
        """Ask the jobs of the tasks' present attempts to end, a page at a time. A gone job has ended."""
        run, jobs, uids, rest = self._page_of_jobs(step)
        with self._problem_on_record(step.run):
            keep = partial(self._keep_facts, step.run)
            self.cluster.stop(run.run_uid, jobs, uids=uids, hurried=run.intent is Intent.FORCE, keep=keep)
        return StopReport(asked=len(jobs), rest=rest)

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_pod(self, step: StopTasks) -> StopReport:
        """Kill the jobs of the tasks' present attempts, a page at a time."""
        _, jobs, uids, rest = self._page_of_jobs(step)
        with self._problem_on_record(step.run):
            self._kill(step.run, jobs, uids)
        return StopReport(asked=len(jobs), rest=rest)

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_unwanted(self, step: StopTasks) -> StopReport:
        """End lingering and overdue jobs of every attempt of the tasks, a page at a time.

        Overdue jobs are killed. A stop also kills lingering jobs of the present attempts, because the stop has asked
        these jobs already. Jobs of earlier attempts have not been asked yet: a stop asks them first, a force kills.
        """
        numbers = from_ranges(step.tasks)
        page, rest = numbers[:JOBS_IN_A_PAGE], to_ranges(numbers[JOBS_IN_A_PAGE:])
        self.runs.current(step.run)  # spares a look if a later supervisor has taken over
        rows = self.tasks.rows(step.run.run_id, page)
        uids = uids_of(rows)
        look = self.cluster.look(step.run.run_uid, _keys(row for row in rows if row.job_uid), page, uids=uids)
        run = self.runs.current(step.run)  # again: the look may show jobs created for a later supervisor
        unwanted = lingering(look, rows, run.intent)
        killed = set(overdue(look, rows))
        if run.intent is Intent.FORCE:
            killed.update(unwanted)
        elif run.intent is Intent.STOP:
            killed.update(set(unwanted).intersection(_keys(rows)))
        stopped = [key for key in unwanted if key not in killed]
        try:
            self._kill(step.run, sorted(killed), uids)
        except Fenced:
            raise
        except LifecycleError:  # a job that cannot be killed must not keep the other jobs alive
            with suppress(LifecycleError):  # the first problem is raised
                self.cluster.stop(run.run_uid, stopped, uids=uids)
            raise
        self.cluster.stop(run.run_uid, stopped, uids=uids)
        return StopReport(asked=len(killed) + len(stopped), rest=rest)

    @contextmanager
    def _problem_on_record(self, run: RunRef) -> Iterator[None]:
        """Write a problem into the run's row at once: the next look comes minutes later.

        After several failures the page is left to the next round: a single job may be the cause, and must not hold up
        the pages behind. A silent cluster fails the activity all the same.
        """
        try:
            yield
        except TemporaryError as error:
            self.runs.mark_look(run, nudge=0, known=False, problem=error.message, next_look_at=None)
            if activity.info().attempt <= TRIES_OF_A_PAGE:
                raise
            self.cluster.check()
            activity.logger.warning("run %s: not all of its jobs were asked to end: %s", run.run_id, error.message)

    def _kill(self, run: RunRef, jobs: Sequence[JobKey], uids: Uids) -> None:
        if jobs:
            self._note_unreached(run, jobs)
        self.cluster.kill(run.run_uid, jobs, uids=uids, keep=partial(self._keep_facts, run))

    def _note_unreached(self, run: RunRef, jobs: Sequence[JobKey]) -> None:
        """Note jobs on silent nodes before the kill removes every trace."""
        with _best_effort(run, "jobs on nodes that do not answer are not noted"):
            unreached = self.cluster.unreached(run.run_uid, jobs)
            if unreached:
                tasks = to_ranges({task for task, _ in unreached})
                nodes = ", ".join(sorted(set(unreached.values()))[:NODES_NAMED])
                how = f"tasks {tasks} are made to end at once on nodes that do not answer ({nodes}): they may run on"
                self.runs.note(run, f"unconfirmed:{sorted(unreached)}", StopPhase.UNCONFIRMED, how, hurried=True)

    def _page_of_jobs(self, step: StopTasks) -> tuple[RunRecord, list[JobKey], Uids, str]:
        """Return the run, a page of jobs with their uids, and the remaining tasks. Evidence is kept on the way."""
        run = self.runs.current(step.run)  # a late step for an earlier supervisor must not end a later one's jobs
        numbers = from_ranges(step.tasks) if step.tasks else self._tasks_in_cluster(step.run.run_id)
        page, rest = numbers[:JOBS_IN_A_PAGE], numbers[JOBS_IN_A_PAGE:]
        rows = self.tasks.rows(step.run.run_id, page)
        self._keep_evidence(step.run, _keys(row for row in rows if row.status in NOT_SEEN_ENDING))
        return run, _keys(rows), uids_of(rows), to_ranges(rest)

    def _keep_evidence(self, run: RunRef, jobs: Sequence[JobKey]) -> None:
        """Record evidence before the stop destroys the evidence."""
        with _best_effort(run, "no evidence of stopped jobs"):
            evidence = self.cluster.evidence(run.run_uid, jobs, hurried=True) if jobs else []
            if evidence:
                self.tasks.reconcile(run, evidence, hurried=True)

    def _keep_facts(self, run: RunRef, facts: Mapping[JobKey, OutcomeFacts]) -> None:
        """Record the programs that ended before the stop: later they could look as if the stop had ended them."""
        with _best_effort(run, "the ends of its programs are not on record"):
            rows = self.tasks.rows(run.run_id, [task for task, _ in facts])
            known = [(row, facts[row.task, row.attempt]) for row in rows if (row.task, row.attempt) in facts]
            changes = [change for row, new in known if (change := with_facts(row, new))]
            if changes:
                self.tasks.sync(run, changes, hurried=True)

    def _tasks_in_cluster(self, run_id: int) -> list[int]:
        by_status = self.tasks.by_status(run_id)
        return sorted(number for status in TO_STOP for number in by_status.get(status, []))


@contextmanager
def _best_effort(run: RunRef, loss: str) -> Iterator[None]:
    """Log a problem of the block together with the loss, and go on: no problem here keeps a job from its end.

    Only Fenced is raised: the jobs may belong to a later supervisor.
    """
    try:
        yield
    except Fenced:
        raise
    except LifecycleError as error:
        activity.logger.warning("run %s: %s: %s", run.run_id, loss, error.message)


def _keys(rows: Iterable[TaskRow]) -> list[JobKey]:
    return [(row.task, row.attempt) for row in rows]
