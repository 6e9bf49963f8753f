"""End all jobs of a run, until the cluster proves that nothing of it runs any more.

Every round does everything again: a job may have been deployed while the stop was asked for, a request may have been
lost, a force may have been asked for. A stop never gives up: an outage only makes it wait.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, RetryState

from crawler_lifecycle.activities.stopping import StoppingActivities
from crawler_lifecycle.contract.lifecycle import Asked, Carried, Stage
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import RunStatus, StopPhase
from crawler_lifecycle.contract.steps.completion import CloseRun
from crawler_lifecycle.contract.steps.run import RunPlan, RunRef
from crawler_lifecycle.contract.steps.stopping import LogCancellation, NotePhase, StopReport, StopTasks
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.workflows.drain import DrainWait
from crawler_lifecycle.workflows.looks import Looked, look
from crawler_lifecycle.workflows.options import STOP, WRITE
from crawler_lifecycle.workflows.stop_state import StopState
from crawler_lifecycle.workflows.visibility import list_under
from crawler_lifecycle.workflows.watch import Watch

PAUSES = Backoff(timedelta(seconds=1), timedelta(minutes=5))
DRAIN_PAUSES = Backoff(timedelta(seconds=1), timedelta(seconds=15))
OURSELVES = "crawler-lifecycle"
StopActivity = Callable[[StoppingActivities, StopTasks], StopReport]


async def cancel_queued(run: RunRef, reason: str) -> int:
    cancelled = await workflow.execute_activity_method(
        StoppingActivities.cancel_queued_tasks, CloseRun(run=run, reason=reason), **WRITE
    )
    return cancelled.count


async def stop(watch: Watch, plan: RunPlan, gave_up: str | None) -> None:
    """End all jobs and return when that is proved. `gave_up`: the reason of the end, where the run itself stops."""
    list_under(plan, RunStatus.STOPPING)
    await record_stops(watch.stop, plan)
    await _force_in_time(watch.stop, plan)
    cancelled = await cancel_queued(plan.run, gave_up or "stopped")
    await _note(plan.run, StopPhase.QUEUED_CANCELLED, f"{counted(cancelled, 'queued task')} cancelled")
    rounds = Rounds(watch, plan)
    while not rounds.are_over(looked := await rounds.next()):
        if not looked.is_proof:  # else the next execution might force, when there is nothing to force
            watch.continue_if_long(Carried(plan=plan, gave_up=gave_up))
        await rounds.pause()
    await _note(plan.run, StopPhase.PROVED, _proved(looked.differences.leaving))


def _proved(leaving: int) -> str:
    proved = "nothing of the run runs in the cluster any more"
    return f"{proved}; still listed there, ended and deleted: {counted(leaving, 'job')}" if leaving else proved


class Rounds:
    """Ask, force if it is time, look; then a pause that grows, and begins anew when the stop is forced."""

    def __init__(self, watch: Watch, plan: RunPlan) -> None:
        self._watch = watch
        self._plan = plan
        self._quiet = 0  # rounds since the stop was forced, or since all jobs had ended
        self._is_forced = watch.stop.is_forced
        self._has_asked = False
        self._drain = DrainWait()

    async def next(self) -> Looked:
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
        self._quiet += 1
        return looked

    def are_over(self, looked: Looked) -> bool:
        """Return whether nothing runs, and ended jobs have left the cluster or are held there."""
        if looked.is_proof:
            if not self._drain.has_begun:
                self._quiet = 1  # ended jobs leave within moments
            return not self._drain.is_draining(looked.differences.leaving)
        if looked.alive or looked.differences.unwanted:
            self._drain = DrainWait()
        else:
            self._drain.note_outage()
        return False

    async def pause(self) -> None:
        """Wait for the next round; not at all where the last look has shown that the stop is forced."""
        if not self._is_newly_forced():
            pauses = DRAIN_PAUSES if self._drain.is_seen else PAUSES
            due = workflow.now() + pauses.pause(self._quiet)
            await self._watch.wakeups.due_nudged_or_stopped(_earlier(due, self._force_at()))
        await record_stops(self._watch.stop, self._plan)
        if not self._drain.has_begun:
            await _force_in_time(self._watch.stop, self._plan)

    def _force_at(self) -> datetime | None:
        return None if self._drain.has_begun else force_at(self._watch.stop, self._plan)

    async def _ask(self) -> None:
        asked = await in_pages(StoppingActivities.k8_stop_task, StopTasks(run=self._plan.run))
        if asked is None or self._has_asked:
            return
        self._has_asked = True
        await _note(self._plan.run, StopPhase.JOBS_ASKED, f"{counted(asked, 'job')} asked to end")

    async def _force(self) -> None:
        """Make the jobs end at once when the stop is on record. That takes moments, so the pauses begin anew."""
        if self._is_newly_forced():
            self._is_forced, self._quiet = True, 0
        await record_stops(self._watch.stop, self._plan)
        forced = await in_pages(StoppingActivities.k8_stop_pod, StopTasks(run=self._plan.run))
        if forced:
            await _note(self._plan.run, StopPhase.FORCED, f"{counted(forced, 'job')} made to end at once")

    def _is_newly_forced(self) -> bool:
        return self._watch.stop.is_forced and not self._is_forced


async def record_stops(stop: StopState, plan: RunPlan) -> None:
    """Write every accepted stop that is not on record yet: its actor, time, reason and door.

    Stops that are accepted after the last look and before the end is written change nothing else."""
    for asked in stop.take_unrecorded():
        await _log(plan.run, asked)


async def _force_in_time(stop: StopState, plan: RunPlan) -> None:
    """Force the stop in our own name once its grace period is over."""
    due = force_at(stop, plan)
    if due is not None and workflow.now() >= due:
        reason = f"the grace period of {plan.grace_seconds} s is over"
        stop.force()
        await _log(plan.run, Asked(stop=ourselves(reason, "grace_period", force=True), at=workflow.now()))


def ourselves(reason: str, door: str, *, force: bool = False) -> StopRequest:
    return StopRequest(actor=OURSELVES, reason=reason, door=door, force=force)


def force_at(stop: StopState, plan: RunPlan) -> datetime | None:
    """Return when the grace period is over. None: the stop is forced already, or there is none.

    Jobs that an earlier supervisor has asked to end have had a part of their grace."""
    if stop.is_forced or stop.first is None:
        return None
    return (stop.first.told_at or stop.first.at) + timedelta(seconds=plan.grace_seconds)


def _earlier(due: datetime, force_at: datetime | None) -> datetime:
    return due if force_at is None else min(due, force_at)


async def _log(run: RunRef, asked: Asked) -> None:
    step = LogCancellation(run=run, stop=asked.stop, asked_at=asked.at, ends_as=asked.ends_as)
    await workflow.execute_activity_method(StoppingActivities.add_cancellation_log_to_db, step, **WRITE)


async def _note(run: RunRef, phase: StopPhase, message: str) -> None:
    step = NotePhase(run=run, phase=phase, message=message)
    await workflow.execute_activity_method(StoppingActivities.note_stop_phase, step, **WRITE)


async def end_unwanted(run: RunRef, tasks: str) -> None:
    """End the jobs of these tasks that a look showed to be unwanted, whichever attempt they belong to."""
    if tasks:
        await in_pages(StoppingActivities.k8_stop_unwanted, StopTasks(run=run, tasks=tasks))


async def in_pages(activity: StopActivity, step: StopTasks) -> int | None:
    """Call the activity page by page. Return how many jobs were asked to end.

    None: the cluster does not answer. The next look says so, and the next round asks again."""
    asked = 0
    try:
        while True:
            report = await workflow.execute_activity_method(activity, step, **STOP)
            asked += report.asked
            if not report.rest:
                return asked
            step = step.model_copy(update={"tasks": report.rest})
    except ActivityError as error:
        if error.retry_state is not RetryState.TIMEOUT:
            raise
        workflow.logger.warning("run %s: not all jobs could be asked to end: %s", step.run.run_id, error.cause)
        return None
