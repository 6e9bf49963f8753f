"""Activities for a stop: record the stop, cancel queued tasks, ask jobs to end, kill jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from temporalio import activity

from crawler_lifecycle.base.ranges import from_ranges, to_ranges
from crawler_lifecycle.clusters.ports import Cluster, Uids
from crawler_lifecycle.errors import Fenced, LifecycleError, TemporaryError
from crawler_lifecycle.model.looks import JobKey, OutcomeFacts, TaskRow, uids_of
from crawler_lifecycle.model.run_plan import CloseRun, Counted, RunRef
from crawler_lifecycle.model.states import Intent, StopPhase, TaskStatus
from crawler_lifecycle.runs.model import LogCancellation, NotePhase, StopReport, StopTasks
from crawler_lifecycle.runs.ports import Runs, RunState, Tasks
from crawler_lifecycle.runs.rules.verdict import is_hopeless, lingering, overdue, verdict, with_facts

JOBS_IN_A_PAGE = 500  # jobs per activity; the next activity has the further jobs
TRIES_OF_A_PAGE = 4  # then the page waits for the stop's next round: a single job must not hold up the next pages
NODES_NAMED = 10  # nodes named in a line of the timeline, at most
NOT_SEEN_ENDING = (TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING)  # evidence of these jobs is needed
IN_CLUSTER = (*NOT_SEEN_ENDING, TaskStatus.STOPPING)  # tasks with a known or possible job


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
        """Cancel every task not yet deployed."""
        return Counted(count=self.tasks.cancel_queued(step.run, step.reason or "stopped"))

    @activity.defn(no_thread_cancel_exception=True)
    def k8_stop_task(self, step: StopTasks) -> StopReport:
        """Ask the jobs of the tasks' present attempts to end, a page at a time. A job already gone is no error."""
        run, jobs, uids, rest = self._page_of_jobs(step)
        with self._problem_on_record(step.run):
            keep = partial(self._keep_facts, step.run)
            elsewhere = self.cluster.stop(run.run_uid, jobs, uids=uids, hurried=run.intent is Intent.FORCE, keep=keep)
            self._note_elsewhere(step.run, elsewhere)
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
        """End hopeless, lingering and overdue jobs of every attempt of the tasks, a page at a time.

        Hopeless jobs are given up by a new look, and then the ends of their tasks are written: a job that has started
        in the meantime continues. Overdue jobs are killed, and a force kills all these jobs. A stop without force kills
        the lingering jobs of present attempts, since the stop has asked these already, and asks the lingering jobs of
        other attempts. Without a stop, lingering jobs are asked to end.
        """
        numbers = from_ranges(step.tasks)
        page, rest = numbers[:JOBS_IN_A_PAGE], to_ranges(numbers[JOBS_IN_A_PAGE:])
        self.runs.state(step.run)  # raises Fenced before the look if a later supervisor has taken over
        rows = self.tasks.rows(step.run.run_id, page)
        uids = uids_of(rows)
        waiting = [row for row in rows if row.status in NOT_SEEN_ENDING and row.cause]  # possibly hopeless
        self._keep_evidence(step.run, _keys(waiting), hurried=False)
        now = datetime.now(UTC)
        look = self.cluster.look(step.run.run_uid, _keys(row for row in rows if row.job_uid), page, uids=uids)
        run = self.runs.state(step.run)  # again after the look: jobs in the look may belong to a later supervisor
        changes = [change for row in rows if (change := verdict(row, look, run.intent, now))]
        hopeless = {(change.task, change.attempt): change for change in changes if is_hopeless(look, change)}
        if hopeless:
            given_up = self.cluster.give_up(run.run_uid, [look.jobs[key] for key in hopeless])
            self.tasks.sync(step.run, [change for key, change in hopeless.items() if key in given_up])
            rows = self.tasks.rows(step.run.run_id, page)  # what waits for a task that is over is lingering
        lingering_jobs = lingering(look, rows, run.intent)
        to_kill = set(overdue(look, rows))
        if run.intent is Intent.FORCE:
            to_kill.update(lingering_jobs)
        elif run.intent is Intent.STOP:
            to_kill.update(set(lingering_jobs).intersection(_keys(rows)))
        to_ask = [key for key in lingering_jobs if key not in to_kill]
        try:
            self._kill(step.run, sorted(to_kill), uids)
        except Fenced:
            raise
        except LifecycleError:  # the problem of a single job must not keep other jobs alive
            with suppress(LifecycleError):  # the error of the kill is raised
                self.cluster.stop(run.run_uid, to_ask, uids=uids)
            raise
        self.cluster.stop(run.run_uid, to_ask, uids=uids)
        return StopReport(asked=len(to_kill) + len(to_ask), rest=rest)

    @contextmanager
    def _problem_on_record(self, run: RunRef) -> Iterator[None]:
        """Write a temporary problem of the block into the run's row at once, because the next look may be minutes away.

        Raise the problem, so that Temporal tries the page again. The last of TRIES_OF_A_PAGE tries only logs the
        problem, unless the cluster does not answer at all: then the check raises an error.
        """
        try:
            yield
        except TemporaryError as error:
            # nudge 0 acknowledges no nudge; a stop records no time for its next look
            self.runs.mark_look(run, nudge=0, known=False, problem=error.message, next_look_at=None)
            if activity.info().attempt < TRIES_OF_A_PAGE:
                raise
            self.cluster.check()
            activity.logger.warning("run %s: not all of its jobs were asked to end: %s", run.run_id, error.message)

    def _kill(self, run: RunRef, jobs: Sequence[JobKey], uids: Uids) -> None:
        if jobs:
            self._note_unreached(run, jobs)
        self.cluster.kill(run.run_uid, jobs, uids=uids, keep=partial(self._keep_facts, run))

    def _note_unreached(self, run: RunRef, jobs: Sequence[JobKey]) -> None:
        """Note jobs on silent nodes in the timeline, before the kill removes every trace of the jobs."""
        with _best_effort(run, "jobs on nodes that do not answer are not noted"):
            unreached = self.cluster.unreached(run.run_uid, jobs)
            if unreached:
                tasks = to_ranges({task for task, _ in unreached})
                nodes = ", ".join(sorted(set(unreached.values()))[:NODES_NAMED])
                message = f"tasks {tasks} are killed on nodes that do not answer ({nodes}): they may still run"
                self.runs.note(run, f"unconfirmed:{sorted(unreached)}", StopPhase.UNCONFIRMED, message, hurried=True)

    def _note_elsewhere(self, run: RunRef, elsewhere: Mapping[JobKey, str]) -> None:
        """Note jobs under another controller in the timeline: they may run in a cluster beyond the proof."""
        if elsewhere:
            tasks, managers = to_ranges({task for task, _ in elsewhere}), ", ".join(sorted(set(elsewhere.values())))
            message = (
                f"tasks {tasks} are run by {managers}, possibly in another cluster: the stop is confirmed for this "
                "cluster only, and a program there may still be ending"
            )
            with _best_effort(run, "jobs that another controller runs are not noted"):
                self.runs.note(run, f"elsewhere:{tasks}", StopPhase.UNCONFIRMED, message, hurried=True)

    def _page_of_jobs(self, step: StopTasks) -> tuple[RunState, list[JobKey], Uids, str]:
        """Return the run, a page of jobs, the uids of these jobs, and the remaining tasks as ranges.

        First record the evidence of jobs not yet seen ending, since the stop destroys the evidence.
        """
        run = self.runs.state(step.run)  # Fenced: an earlier supervisor's step must not end a later supervisor's jobs
        numbers = from_ranges(step.tasks) if step.tasks else self._tasks_in_cluster(step.run.run_id)
        page, rest = numbers[:JOBS_IN_A_PAGE], numbers[JOBS_IN_A_PAGE:]
        rows = self.tasks.rows(step.run.run_id, page)
        self._keep_evidence(step.run, _keys(row for row in rows if row.status in NOT_SEEN_ENDING))
        return run, _keys(rows), uids_of(rows), to_ranges(rest)

    def _tasks_in_cluster(self, run_id: int) -> list[int]:
        by_status = self.tasks.by_status(run_id)
        return sorted(number for status in IN_CLUSTER for number in by_status.get(status, []))

    def _keep_evidence(self, run: RunRef, jobs: Sequence[JobKey], *, hurried: bool = True) -> None:
        with _best_effort(run, "no evidence of stopped jobs"):
            evidence = self.cluster.evidence(run.run_uid, jobs, hurried=hurried) if jobs else []
            if evidence:
                self.tasks.reconcile(run, evidence, hurried=True)

    def _keep_facts(self, run: RunRef, facts: Mapping[JobKey, OutcomeFacts]) -> None:
        """Record how programs ended before the stop: later their ends could look as if the stop had caused them."""
        with _best_effort(run, "the ends of its programs are not recorded"):
            rows = self.tasks.rows(run.run_id, [task for task, _ in facts])
            present = [row for row in rows if (row.task, row.attempt) in facts]
            changes = [with_facts(row, facts[row.task, row.attempt]) for row in present]
            if new_facts := [change for change in changes if change]:
                self.tasks.sync(run, new_facts, hurried=True)


@contextmanager
def _best_effort(run: RunRef, loss: str) -> Iterator[None]:
    """Log a problem of the block together with the loss, and continue: the problem must not keep a job alive.

    Only Fenced is raised, because the jobs may belong to a later supervisor. An unexpected error is logged with its
    traceback: evidence comes from crawls, and no crawl may keep its run from being stopped.
    """
    try:
        yield
    except Fenced:
        raise
    except LifecycleError as error:
        activity.logger.warning("run %s: %s: %s", run.run_id, loss, error.message)
    except Exception:  # noqa: BLE001 (logged; a stop continues whatever a crawl wrote)
        activity.logger.exception("run %s: %s", run.run_id, loss)


def _keys(rows: Iterable[TaskRow]) -> list[JobKey]:
    return [(row.task, row.attempt) for row in rows]
