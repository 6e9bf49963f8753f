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
    await _record(watch, plan)
    cancelled = await cancel_queued(plan.run, gave_up or "stopped")
    await _note(plan.run, StopPhase.QUEUED_CANCELLED, f"{counted(cancelled, 'queued task')} will never run")
    rounds = 0
    while not (looked := await _round(watch, plan, rounds)).is_proof:
        rounds += 1
        watch.continue_if_long(Carried(plan=plan, gave_up=gave_up))
        pause = growing_pause(rounds, FIRST_PAUSE, LONGEST_PAUSE)
        await watch.asked_or(_soonest(workflow.now() + pause, _force_at(watch, plan)))
        await _record(watch, plan)
    await _note(plan.run, StopPhase.PROVED, "nothing of the run is left in the cluster")
    return looked.stopped > 0


async def _round(watch: Watch, plan: RunPlan, rounds: int) -> Looked:
    """Ask, insist if it is time, look."""
    run = plan.run
    watch.tell(Stage.STOPPING, "the jobs to end", plan, _force_at(watch, plan))
    asked = await in_pages(StoppingActivities.k8_stop_task, StopTasks(run=run))
    if rounds == 0 and asked is not None:
        await _note(run, StopPhase.JOBS_ASKED, f"{counted(asked, 'job')} asked to end")
    if watch.forced:
        await _force(run)
    looked = await look(run, watch.state.looks, stopped_at=watch.stopping.first_at if watch.stopping else None)
    watch.looked(looked.took, looked.alive, more=looked.more)
    watch.know_intent(looked.intent)  # a force of which only the database knows
    await end_lingering(run, looked, StoppingActivities.k8_stop_pod)
    return looked


async def _force(run: RunRef) -> None:
    forced = await in_pages(StoppingActivities.k8_stop_pod, StopTasks(run=run))
    if forced:
        await _note(run, StopPhase.FORCED, f"{counted(forced, 'job')} ended without asking")


async def _record(watch: Watch, plan: RunPlan) -> None:
    """Who asked, when, why and how; and the grace period that is over, which asks in our own name."""
    for asked in watch.take_asked():
        await _log(plan.run, asked)
    force_at = _force_at(watch, plan)
    if force_at is not None and workflow.now() >= force_at:
        reason = f"the grace period of {plan.grace_seconds} s is over"
        watch.forced = True
        await _log(plan.run, Asked(stop=ourselves(reason, "grace_period", force=True), at=workflow.now()))


def ourselves(reason: str, door: str, *, force: bool = False) -> StopRequest:
    return StopRequest(actor=OURSELVES, reason=reason, door=door, force=force)


def _force_at(watch: Watch, plan: RunPlan) -> datetime | None:
    """None: it is forced already."""
    if watch.forced or watch.stopping is None:
        return None
    return watch.stopping.at + timedelta(seconds=plan.grace_seconds)


def _soonest(due: datetime, force_at: datetime | None) -> datetime:
    return due if force_at is None else min(due, force_at)


async def _log(run: RunRef, asked: Asked) -> None:
    step = LogCancellation(run=run, stop=asked.stop, asked_at=asked.at, ends_as=asked.ends_as)
    await workflow.execute_activity_method(StoppingActivities.add_cancellation_log_to_db, step, **WRITE)


async def _note(run: RunRef, phase: StopPhase, message: str) -> None:
    step = NotePhase(run=run, phase=phase, message=message)
    await workflow.execute_activity_method(StoppingActivities.note_stop_phase, step, **WRITE)


async def end_lingering(run: RunRef, looked: Looked, by_task: Ending) -> None:
    """`by_task`: as earlier versions do it, and looks that do not know better."""
    if looked.lingering:
        ending = StoppingActivities.k8_stop_unwanted if looked.by_attempt else by_task
        await in_pages(ending, StopTasks(run=run, tasks=looked.lingering))


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
