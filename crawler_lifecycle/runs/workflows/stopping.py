"""Stop a run: end all its jobs in rounds, until a look proves that no job runs any more.

A round asks the jobs to end, forces the end if it is time, and looks. Every round repeats every step, because a job may
have been deployed during the last round, or a request may have been lost. A stop never gives up: an outage only delays
the stop.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, RetryState

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.model.lifecycle import AcceptedStop, Carried, Stage
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, RunPlan, RunRef
from crawler_lifecycle.model.states import RunStatus, StopPhase
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.model import LogCancellation, NotePhase, StopReport, StopTasks
from crawler_lifecycle.runs.workflows.looks import LookResult, look
from crawler_lifecycle.runs.workflows.watch import StopState, Watch
from crawler_lifecycle.temporal.options import STOP, WRITE
from crawler_lifecycle.temporal.visibility import set_search_attributes

PATIENCE = timedelta(minutes=1)  # longest wait without progress; time in which looks failed does not count
PAUSES = Backoff(timedelta(seconds=1), timedelta(minutes=5))  # between rounds
DRAIN_PAUSES = Backoff(timedelta(seconds=1), timedelta(seconds=15))  # between rounds that show leaving jobs
SERVICE = "crawler-lifecycle"  # the actor if no person asks: at a limit, or after the grace period
StopActivity = Callable[[StoppingActivities, StopTasks], StopReport]


class DrainWait:
    """State of the wait for leaving jobs. During the wait no job runs."""

    def __init__(self) -> None:
        self._until: datetime | None = None  # end of the wait, if there is no progress; None: the wait has not begun
        self._fewest = 0  # fewest leaving jobs in a look
        self._failing_since: datetime | None = None  # when a look failed, if no later look has succeeded

    @property
    def has_begun(self) -> bool:
        return self._until is not None

    @property
    def shows_leaving_jobs(self) -> bool:
        """Whether the last look has shown leaving jobs, so that frequent looks are useful."""
        return self.has_begun and self._failing_since is None

    def must_go_on(self, leaving: int) -> bool:
        """Note a look with `leaving` jobs that are leaving, and return whether to wait for another look."""
        if not leaving:
            return False
        now = workflow.now()
        if self._until is None or leaving < self._fewest:
            self._fewest, self._until = leaving, now + PATIENCE
        elif self._failing_since is not None:
            self._until += now - self._failing_since
        self._failing_since = None
        return now < self._until

    def note_failed_look(self) -> None:
        """Do not count the time until the next successful look as time without progress."""
        self._failing_since = self._failing_since or workflow.now()


async def stop(watch: Watch, plan: RunPlan, gave_up: str | None) -> None:
    """End all jobs and return at the proof. `gave_up`: the limit, if the run itself gives up."""
    set_search_attributes(plan, RunStatus.STOPPING)
    await record_stops(watch.stop, plan)
    await _force_after_grace_period(watch.stop, plan)
    cancelled = await cancel_queued(plan.run, gave_up or "stopped")
    await _note_phase(plan.run, StopPhase.QUEUED_CANCELLED, f"{counted(cancelled, 'queued task')} cancelled")
    rounds = Rounds(watch, plan)
    result = await rounds.run_next()
    while not rounds.are_over(result):
        # The next execution would not know of a proof, and might force the stop although no job runs any more.
        if not result.is_proof:
            watch.continue_if_long(Carried(plan=plan, gave_up=gave_up))
        await rounds.pause()
        result = await rounds.run_next()
    await _note_phase(plan.run, StopPhase.PROVED, _proof_message(result.differences.leaving))


async def cancel_queued(run: RunRef, reason: str) -> int:
    """Cancel the tasks that are not deployed yet. Return how many were cancelled."""
    cancelled = await workflow.execute_activity_method(
        StoppingActivities.cancel_queued_tasks, CloseRun(run=run, reason=reason), **WRITE
    )
    return cancelled.count


def _proof_message(leaving: int) -> str:
    proved = "no job of the run is left in the cluster"
    return f"{proved}; still listed, ended and deleted: {counted(leaving, 'job')}" if leaving else proved


class Rounds:
    """Rounds of a stop. The pauses between rounds grow; they begin anew with a force, and when all jobs have ended."""

    def __init__(self, watch: Watch, plan: RunPlan) -> None:
        self._watch = watch
        self._plan = plan
        self._rounds_since_reset = 0  # the pauses grow with this number
        self._is_force_begun = watch.stop.is_forced  # the force has made the pauses begin anew
        self._has_asked = False  # the jobs were asked to end once, and the timeline says so
        self._drain = DrainWait()

    async def run_next(self) -> LookResult:
        watch, plan = self._watch, self._plan
        waits_for = "what has ended to leave the cluster" if self._drain.has_begun else "the jobs to end"
        watch.show(Stage.STOPPING, waits_for, plan, self._time_to_force())
        await self._ask_jobs_to_end()
        if watch.stop.is_forced:
            await self._force_jobs_to_end()
        first_stop = watch.stop.first
        result = await look(plan.run, stopped_at=first_stop.first_requested_at if first_stop else None)
        watch.close_look(result.duration, result.alive, has_more=result.has_more)
        watch.stop.apply_intent(result.intent)  # a force may be in the database only
        await end_unwanted(plan.run, result.differences.unwanted)
        self._rounds_since_reset += 1
        return result

    def are_over(self, result: LookResult) -> bool:
        """Return whether the look is the proof, and no wait for leaving jobs is useful.

        Call this method once after every round: the call notes the round's look in the wait for leaving jobs.
        """
        if result.is_proof:
            if not self._drain.has_begun:
                # leaving jobs disappear within moments, so the pauses begin anew; this round counts already
                self._rounds_since_reset = 1
            return not self._drain.must_go_on(result.differences.leaving)
        if result.alive or result.differences.unwanted:
            self._drain = DrainWait()  # jobs run again, so a wait for leaving jobs begins anew later
        else:  # no job is left to end, and still no proof: the cluster could not be observed
            self._drain.note_failed_look()
        return False

    async def pause(self) -> None:
        """Wait for the next round, unless the last look has shown a new force. Then force the stop if it is time."""
        if not self._is_newly_forced():
            pauses = DRAIN_PAUSES if self._drain.shows_leaving_jobs else PAUSES
            due, time_to_force = workflow.now() + pauses.pause(self._rounds_since_reset), self._time_to_force()
            await self._watch.wakeups.wait_until_due_nudged_or_stopped(min(due, time_to_force or due))
        await record_stops(self._watch.stop, self._plan)
        if not self._drain.has_begun:
            await _force_after_grace_period(self._watch.stop, self._plan)

    def _time_to_force(self) -> datetime | None:
        """Return the end of the grace period; None if the stop is forced already, or if no job is left to force."""
        return None if self._drain.has_begun else _grace_period_end(self._watch.stop, self._plan)

    async def _ask_jobs_to_end(self) -> None:
        """Ask all jobs to end, and note the first success in the timeline."""
        jobs = await _call_in_pages(StoppingActivities.k8_stop_task, StopTasks(run=self._plan.run))
        if jobs is None or self._has_asked:
            return
        self._has_asked = True
        await _note_phase(self._plan.run, StopPhase.JOBS_ASKED, f"{counted(jobs, 'job')} asked to end")

    async def _force_jobs_to_end(self) -> None:
        """Record the force, then kill all jobs. Killed jobs end within moments, so the pauses begin anew."""
        if self._is_newly_forced():
            self._is_force_begun, self._rounds_since_reset = True, 0  # this round counts at its end
        await record_stops(self._watch.stop, self._plan)
        jobs = await _call_in_pages(StoppingActivities.k8_stop_pod, StopTasks(run=self._plan.run))
        if jobs:
            await _note_phase(self._plan.run, StopPhase.FORCED, f"{counted(jobs, 'job')} killed")

    def _is_newly_forced(self) -> bool:
        return self._watch.stop.is_forced and not self._is_force_begun


async def record_stops(stop: StopState, plan: RunPlan) -> None:
    """Record every accepted stop that is not yet recorded: its actor, time, reason and door.

    Stops between the last look and the end are only recorded, and have no other effect.
    """
    for accepted in stop.take_unrecorded():
        await _record_stop(plan.run, accepted)


async def _record_stop(run: RunRef, accepted: AcceptedStop) -> None:
    step = LogCancellation(run=run, stop=accepted.stop, asked_at=accepted.at, ends_as=accepted.ends_as)
    await workflow.execute_activity_method(StoppingActivities.add_cancellation_log_to_db, step, **WRITE)


async def _note_phase(run: RunRef, phase: StopPhase, message: str) -> None:
    step = NotePhase(run=run, phase=phase, message=message)
    await workflow.execute_activity_method(StoppingActivities.note_stop_phase, step, **WRITE)


async def _force_after_grace_period(stop: StopState, plan: RunPlan) -> None:
    """Turn the stop into a force, with the service as the actor, if the grace period is over."""
    due = _grace_period_end(stop, plan)
    if due is not None and workflow.now() >= due:
        stop.is_forced = True
        reason = f"the grace period of {plan.grace_seconds} s is over"
        force = stop_by_service(reason, "grace_period", force=True)
        await _record_stop(plan.run, AcceptedStop(stop=force, at=workflow.now()))


def _grace_period_end(stop: StopState, plan: RunPlan) -> datetime | None:
    """Return when the grace period is over. None: the stop is forced already, or no stop was asked for.

    The grace period counts from the stop, or, if an earlier supervisor has asked the jobs to end, from that time.
    """
    if stop.is_forced or stop.first is None:
        return None
    return (stop.first.told_at or stop.first.at) + timedelta(seconds=plan.grace_seconds)


def stop_by_service(reason: str, door: str, *, force: bool = False) -> StopRequest:
    return StopRequest(actor=SERVICE, reason=reason, door=door, force=force)


async def end_unwanted(run: RunRef, tasks: str) -> None:
    """End the tasks' unwanted jobs, in every attempt: lingering jobs and overdue jobs, which a look has shown."""
    if tasks:
        await _call_in_pages(StoppingActivities.k8_stop_unwanted, StopTasks(run=run, tasks=tasks))


async def _call_in_pages(activity: StopActivity, step: StopTasks) -> int | None:
    """Call the activity page by page. Return how many jobs were asked or killed; None if the cluster does not answer.

    The next look shows the problem, and the next round calls the activity again.
    """
    jobs = 0
    try:
        while True:
            report = await workflow.execute_activity_method(activity, step, **STOP)
            jobs += report.asked
            if not report.rest:
                return jobs
            step = step.model_copy(update={"tasks": report.rest})
    except ActivityError as error:
        if error.retry_state is not RetryState.TIMEOUT:
            raise
        workflow.logger.warning("run %s: not all jobs could be asked to end: %s", step.run.run_id, error.cause)
        return None
