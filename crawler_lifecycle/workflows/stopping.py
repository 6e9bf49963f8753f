"""Ending what a run has in the cluster, until the cluster proves that nothing of it runs any more.

Every round does everything again: a job may have been deployed while the stop was asked for, a message may have
been lost, somebody may have escalated. Nothing here gives up: an outage only makes it wait.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, RetryState

from crawler_lifecycle.activities.stopping import StoppingActivities
from crawler_lifecycle.contract.lifecycle import Asked, Carried, Stage
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import RunStatus, StopPhase
from crawler_lifecycle.contract.steps import (
    EndRun,
    LogCancellation,
    NotePhase,
    RunPlan,
    RunRef,
    StopReport,
    StopTasks,
)
from crawler_lifecycle.domain.pacing import growing_pause
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.workflows.departure import Departure
from crawler_lifecycle.workflows.looks import Looked, look
from crawler_lifecycle.workflows.options import STOP, WRITE
from crawler_lifecycle.workflows.visibility import list_under
from crawler_lifecycle.workflows.watch import Watch

FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=5)
OURSELVES = "crawler-lifecycle"
Ending = Callable[[StoppingActivities, StopTasks], StopReport]


async def cancel_queued(run: RunRef, reason: str) -> int:
    cancelled = await workflow.execute_activity_method(
        StoppingActivities.cancel_queued_tasks, EndRun(run=run, reason=reason), **WRITE
    )
    return cancelled.count


async def stop(watch: Watch, plan: RunPlan, gave_up: str | None) -> bool:
    """Until it is proved; whether it ended any task, or all had ended before it reached them.

    `gave_up`: why the run itself ends, where nobody asked for it."""
    list_under(plan, RunStatus.STOPPING)
    await record_stops(watch, plan)
    await _force_in_time(watch, plan)
    cancelled = await cancel_queued(plan.run, gave_up or "stopped")
    await _note(plan.run, StopPhase.QUEUED_CANCELLED, f"{counted(cancelled, 'queued task')} will never run")
    rounds = Rounds(watch, plan)
    while not rounds.are_over(looked := await rounds.next()):
        if not looked.is_proof:  # else the next execution might force, when there is nothing to force
            watch.continue_if_long(Carried(plan=plan, gave_up=gave_up))
        await rounds.pause()
    await _note(plan.run, StopPhase.PROVED, _proved(looked.leaving))
    return looked.stopped > 0


def _proved(listed: int) -> str:
    proved = "nothing of the run runs in the cluster any more"
    return f"{proved}; still listed there, ended and deleted: {counted(listed, 'job')}" if listed else proved


class Rounds:
    """Ask, insist if it is time, look; then a pause that grows, and begins anew when the stop is forced."""

    def __init__(self, watch: Watch, plan: RunPlan) -> None:
        self._watch = watch
        self._plan = plan
        self._quiet = 0  # of them, since the stop was forced, or all had ended
        self._forced = watch.forced
        self._has_asked = False
        self._departure = Departure()

    async def next(self) -> Looked:
        watch, plan, run = self._watch, self._plan, self._plan.run
        waits_for = "what has ended to leave the cluster" if self._departure.until else "the jobs to end"
        watch.tell(Stage.STOPPING, waits_for, plan, self._force_at())
        await self._ask()
        if watch.forced:
            await self._force()
        since = watch.stopping.first_at if watch.stopping else None
        looked = await look(run, stopped_at=since)
        watch.looked(looked.took, looked.alive, more=looked.more)
        watch.know_intent(looked.intent)  # a force of which only the database knows
        await end_unwanted(run, looked.unwanted)
        self._quiet += 1
        return looked

    def are_over(self, looked: Looked) -> bool:
        """Nothing of it runs, and what has ended is gone, or held."""
        if looked.is_proof:
            if not self._departure.until:
                self._quiet = 1  # it leaves within moments
            return not self._departure.goes_on(looked)
        if looked.alive or looked.unwanted:
            self._departure = Departure()
        else:
            self._departure.out_of_sight()
        return False

    async def pause(self) -> None:
        """None where a force has become known in the look."""
        if not self._is_newly_forced():
            longest = self._departure.longest_pause or LONGEST_PAUSE
            due = workflow.now() + growing_pause(self._quiet, FIRST_PAUSE, longest)
            await self._watch.asked_or(_soonest(due, self._force_at()))
        await record_stops(self._watch, self._plan)
        if not self._departure.until:
            await _force_in_time(self._watch, self._plan)

    def _force_at(self) -> datetime | None:
        return None if self._departure.until else force_at(self._watch, self._plan)

    async def _ask(self) -> None:
        asked = await in_pages(StoppingActivities.k8_stop_task, StopTasks(run=self._plan.run))
        if asked is None or self._has_asked:
            return
        self._has_asked = True
        await _note(self._plan.run, StopPhase.JOBS_ASKED, f"{counted(asked, 'job')} asked to end")

    async def _force(self) -> None:
        """What is killed ends within moments: the pauses begin anew. Whoever wants it is on record before."""
        if self._is_newly_forced():
            self._forced, self._quiet = True, 0
        await record_stops(self._watch, self._plan)
        forced = await in_pages(StoppingActivities.k8_stop_pod, StopTasks(run=self._plan.run))
        if forced:
            await _note(self._plan.run, StopPhase.FORCED, f"{counted(forced, 'job')} ended without asking")

    def _is_newly_forced(self) -> bool:
        return self._watch.forced and not self._forced


async def record_stops(watch: Watch, plan: RunPlan) -> None:
    """Write every accepted stop that is not on record yet: its actor, time, reason and door.

    Stops that are accepted after the last look and before the end is written change nothing else."""
    for asked in watch.take_asked():
        await _log(plan.run, asked)


async def _force_in_time(watch: Watch, plan: RunPlan) -> None:
    """A grace period that is over asks in our own name."""
    due = force_at(watch, plan)
    if due is not None and workflow.now() >= due:
        reason = f"the grace period of {plan.grace_seconds} s is over"
        watch.forced = True
        await _log(plan.run, Asked(stop=ourselves(reason, "grace_period", force=True), at=workflow.now()))


def ourselves(reason: str, door: str, *, force: bool = False) -> StopRequest:
    return StopRequest(actor=OURSELVES, reason=reason, door=door, force=force)


def force_at(watch: Watch, plan: RunPlan) -> datetime | None:
    """None: it is forced already. Jobs that an earlier supervisor asked have had a part of their grace."""
    if watch.forced or watch.stopping is None:
        return None
    return (watch.stopping.told_at or watch.stopping.at) + timedelta(seconds=plan.grace_seconds)


def _soonest(due: datetime, force_at: datetime | None) -> datetime:
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


async def in_pages(activity: Ending, step: StopTasks) -> int | None:
    """How many were asked. None: the cluster does not answer; a look says so, and the next round asks again."""
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
        workflow.logger.warning("run %s: not all jobs could be told to end: %s", step.run.run_id, error.cause)
        return None
