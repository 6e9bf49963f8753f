"""Stage 3, reconciliation: look at the cluster, at paced times and after nudges, until no task is alive."""

from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.activities.histories import HistoryActivities
from crawler_lifecycle.activities.notices import NoticeActivities
from crawler_lifecycle.contract.lifecycle import Carried, Stage
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.contract.steps.deployment import StartRun
from crawler_lifecycle.contract.steps.run import RunPlan
from crawler_lifecycle.domain.pacing import look_time, next_look
from crawler_lifecycle.workflows.looks import LookResult, look
from crawler_lifecycle.workflows.options import BRIEF, ONCE, WRITE
from crawler_lifecycle.workflows.stopping import end_unwanted
from crawler_lifecycle.workflows.visibility import set_search_attributes
from crawler_lifecycle.workflows.watch import Watch


async def reconcile(watch: Watch, carried: Carried, started_at: datetime | None = None) -> None:
    """Look until a look proves that nothing of the run is alive, or a stop is asked for.

    `started_at` is the main job's start, if known. The pacing begins at the anchor, and `number` is the number of its
    next look; nudges cause looks in between.
    """
    plan, number = carried.plan, carried.look_number
    anchor = carried.anchor or await _start_run(watch, plan, started_at)
    if carried.resumed and carried.anchor:
        await watch.notify_start(plan)  # the earlier supervisor may have died before sending
        number = next_look(anchor, number, workflow.now())  # skip the looks that fell due without a supervisor
    watch.wakeups.renew_owed_nudge()  # a nudge during stage 2 still needs a look at all jobs
    recheck_at = carried.recheck_at
    while True:
        paced = look_time(anchor, number)
        due = min(paced, recheck_at) if recheck_at else paced
        watch.show(Stage.RECONCILIATION, "the next look, or a change in the cluster", plan, due)
        await watch.wakeups.wait_until_due_or_nudged(due)
        if watch.stop.is_asked:
            return
        if workflow.now() >= paced:
            number = next_look(anchor, number + 1, workflow.now())
        watch.show(Stage.RECONCILIATION, "the cluster's answer", plan, look_time(anchor, number))
        result = await look(plan.run, look_time(anchor, number))
        await _follow_up(watch, plan, result)
        recheck_at = _in_seconds(result.differences.recheck_seconds)
        nothing_is_alive = result.is_proof
        if nothing_is_alive and not watch.owes_start:
            return  # the run ends by its tasks: a stop on record would have no job to end
        watch.stop.apply_intent(result.intent)  # before the owed notice: a stop must not wait for the notice
        if watch.stop.is_asked:
            return
        if watch.owes_start:  # the last look is the last chance for the start notice, so BRIEF allows several tries
            await watch.notify_start(plan, BRIEF if nothing_is_alive else ONCE)
        if nothing_is_alive:
            return
        watch.continue_if_long(Carried(plan=plan, anchor=anchor, look_number=number, recheck_at=recheck_at))


def _in_seconds(seconds: float | None) -> datetime | None:
    return None if seconds is None else workflow.now() + timedelta(seconds=seconds)


async def _start_run(watch: Watch, plan: RunPlan, started_at: datetime | None) -> datetime:
    """Record and announce the run's start. Return the anchor of the pacing."""
    step = StartRun(run=plan.run, started_at=started_at)
    await workflow.execute_activity_method(HistoryActivities.update_run_started, step, **WRITE)
    set_search_attributes(plan, RunStatus.PROCESSING)
    anchor = workflow.now()
    await watch.notify_start(plan)
    return anchor


async def _follow_up(watch: Watch, plan: RunPlan, result: LookResult) -> None:
    """Act on the look: pace the next look, set the limit clock, send the progress notice, end unwanted jobs."""
    differences = result.differences
    looks = watch.close_look(result.duration, result.alive, has_more=result.has_more)
    watch.apply_saturation(plan, differences.saturated)
    if differences.known and differences.suspended is not None:
        await watch.limits.apply_suspension(plan.run, differences.suspended)
    if differences.changes:
        await watch.notify(NoticeActivities.signal_pusher_progress, plan, looks)
    await end_unwanted(plan.run, differences.unwanted)
