"""Stop a run: end all its jobs, until a look proves that no job runs any more.

Every round repeats every step: a job may have been deployed during the request for the stop, a request may have been
lost, a force may have followed. A stop never gives up: an outage only delays the stop.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, RetryState

from crawler_lifecycle.activities.stopping import StoppingActivities
from crawler_lifecycle.contract.lifecycle import AcceptedStop, Carried, Stage
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import RunStatus, StopPhase
from crawler_lifecycle.contract.steps.run import CloseRun, RunPlan, RunRef
from crawler_lifecycle.contract.steps.stopping import LogCancellation, NotePhase, StopReport, StopTasks
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.workflows.drain import DrainWait
from crawler_lifecycle.workflows.looks import LookResult, look
from crawler_lifecycle.workflows.options import STOP, WRITE
from crawler_lifecycle.workflows.stop_state import StopState
from crawler_lifecycle.workflows.visibility import set_search_attributes
from crawler_lifecycle.workflows.watch import Watch

PAUSES = Backoff(timedelta(seconds=1), timedelta(minutes=5))
DRAIN_PAUSES = Backoff(timedelta(seconds=1), timedelta(seconds=15))
SERVICE = "crawler-lifecycle"
StopActivity = Callable[[StoppingActivities, StopTasks], StopReport]


async def cancel_queued(run: RunRef, reason: str) -> int:
    cancelled = await workflow.execute_activity_method(
        StoppingActivities.cancel_queued_tasks, CloseRun(run=run, reason=reason), **WRITE
    )
    return cancelled.count


async def stop(watch: Watch, plan: RunPlan, gave_up: str | None) -> None:
    """End all jobs and return at the proof. `gave_up`: the reason of the end, where the run itself stops."""
    set_search_attributes(plan, RunStatus.STOPPING)
    await record_stops(watch.stop, plan)
    await _force_in_time(watch.stop, plan)
    cancelled = await cancel_queued(plan.run, gave_up or "stopped")
    await _note(plan.run, StopPhase.QUEUED_CANCELLED, f"{counted(cancelled, 'queued task')} cancelled")
    rounds = Rounds(watch, plan)
    looked = await rounds.next()
    while not rounds.are_over(looked):
        if not looked.is_proof:  # a proof is not carried over: the next execution might force for no reason
            watch.continue_if_long(Carried(plan=plan, gave_up=gave_up))
        await rounds.pause()
        looked = await rounds.next()
    await _note(plan.run, StopPhase.PROVED, _proof_message(looked.differences.leaving))


def _proof_message(leaving: int) -> str:
    proved = "nothing of the run runs in the cluster any more"
    return f"{proved}; still listed there, ended and deleted: {counted(leaving, 'job')}" if leaving else proved


class Rounds:
    """Rounds of a stop: ask, force if it is time, look, pause. The pause grows, and begins anew with the force."""

    def __init__(self, watch: Watch, plan: RunPlan) -> None:
        self._watch = watch
        self._plan = plan
        self._tries = 0  # rounds since the stop was forced, or since all jobs had ended; pauses grow with the number
        self._is_forced = watch.stop.is_forced
        self._has_asked = False
        self._drain = DrainWait()

    async def next(self) -> LookResult:
        watch, plan = self._watch, self._plan
        waits_for = "what has ended to leave the cluster" if self._drain.has_begun else "the jobs to end"
        watch.show(Stage.STOPPING, waits_for, plan, self._force_at())
        await self._ask()
        if watch.stop.is_forced:
            await self._force()
        first = watch.stop.first
        looked = await look(plan.run, stopped_at=first.first_at if first else None)
        watch.close_look(looked.took, looked.alive, more=looked.more)
        watch.stop.apply_intent(looked.intent)  # a force may be in the database only
        await end_unwanted(plan.run, looked.differences.unwanted)
        self._tries += 1
        return looked

    def are_over(self, looked: LookResult) -> bool:
        """Return whether nothing runs, and ended jobs have left the cluster or are held there."""
        if looked.is_proof:
            if not self._drain.has_begun:
                self._tries = 1  # ended jobs leave within moments, so the pauses begin anew
            return not self._drain.is_draining(looked.differences.leaving)
        if looked.alive or looked.differences.unwanted:
            self._drain = DrainWait()
        else:
            self._drain.note_outage()
        return False

    async def pause(self) -> None:
        """Wait for the next round, unless the last look has shown a new force."""
        if not self._is_newly_forced():
            pauses = DRAIN_PAUSES if self._drain.is_seen else PAUSES
            due = workflow.now() + pauses.pause(self._tries)
            await self._watch.wakeups.wait_until_due_nudged_or_stopped(_earlier(due, self._force_at()))
        await record_stops(self._watch.stop, self._plan)
        if not self._drain.has_begun:
            await _force_in_time(self._watch.stop, self._plan)

    def _force_at(self) -> datetime | None:
        return None if self._drain.has_begun else force_at(self._watch.stop, self._plan)

    async def _ask(self) -> None:
        jobs = await in_pages(StoppingActivities.k8_stop_task, StopTasks(run=self._plan.run))
        if jobs is None or self._has_asked:
            return
        self._has_asked = True
        await _note(self._plan.run, StopPhase.JOBS_ASKED, f"{counted(jobs, 'job')} asked to end")

    async def _force(self) -> None:
        """Put the stop on record, then make the jobs end at once. Jobs end within moments, so the pauses begin anew."""
        if self._is_newly_forced():
            self._is_forced, self._tries = True, 0
        await record_stops(self._watch.stop, self._plan)
        forced = await in_pages(StoppingActivities.k8_stop_pod, StopTasks(run=self._plan.run))
        if forced:
            await _note(self._plan.run, StopPhase.FORCED, f"{counted(forced, 'job')} made to end at once")

    def _is_newly_forced(self) -> bool:
        return self._watch.stop.is_forced and not self._is_forced


async def record_stops(stop: StopState, plan: RunPlan) -> None:
    """Write every accepted stop that is not on record yet: its actor, time, reason and door.

    Stops accepted between the last look and the end change nothing else.
    """
    for accepted in stop.take_unrecorded():
        await _log(plan.run, accepted)


async def _force_in_time(stop: StopState, plan: RunPlan) -> None:
    """Force the stop in our own name once its grace period is over."""
    due = force_at(stop, plan)
    if due is not None and workflow.now() >= due:
        reason = f"the grace period of {plan.grace_seconds} s is over"
        stop.is_forced = True
        await _log(plan.run, AcceptedStop(stop=stop_by_service(reason, "grace_period", force=True), at=workflow.now()))


def stop_by_service(reason: str, door: str, *, force: bool = False) -> StopRequest:
    return StopRequest(actor=SERVICE, reason=reason, door=door, force=force)


def force_at(stop: StopState, plan: RunPlan) -> datetime | None:
    """Return when the grace period is over. None: the stop is forced already, or no stop was asked for.

    Where an earlier supervisor has asked the jobs to end, a part of the grace period is over.
    """
    if stop.is_forced or stop.first is None:
        return None
    return (stop.first.told_at or stop.first.at) + timedelta(seconds=plan.grace_seconds)


def _earlier(due: datetime, force_at: datetime | None) -> datetime:
    return due if force_at is None else min(due, force_at)


async def _log(run: RunRef, accepted: AcceptedStop) -> None:
    step = LogCancellation(run=run, stop=accepted.stop, asked_at=accepted.at, ends_as=accepted.ends_as)
    await workflow.execute_activity_method(StoppingActivities.add_cancellation_log_to_db, step, **WRITE)


async def _note(run: RunRef, phase: StopPhase, message: str) -> None:
    step = NotePhase(run=run, phase=phase, message=message)
    await workflow.execute_activity_method(StoppingActivities.note_stop_phase, step, **WRITE)


async def end_unwanted(run: RunRef, tasks: str) -> None:
    """End the tasks' unwanted jobs, in every attempt: lingering jobs and overdue jobs, which a look has shown."""
    if tasks:
        await in_pages(StoppingActivities.k8_stop_unwanted, StopTasks(run=run, tasks=tasks))


async def in_pages(activity: StopActivity, step: StopTasks) -> int | None:
    """Call the activity page by page. Return how many jobs were asked to end.

    None: the cluster does not answer. The next look says so, and the next round asks again.
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
