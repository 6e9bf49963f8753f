"""Stage 3: looks, paced by Fibonacci and woken by nudges, until no task is alive."""

from datetime import datetime

from temporalio import workflow

from crawler_lifecycle.activities.histories import HistoryActivities
from crawler_lifecycle.activities.notices import NoticeActivities
from crawler_lifecycle.contract.lifecycle import Carried, Stage
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.contract.steps import RunPlan, StartRun
from crawler_lifecycle.domain.pacing import look_time, next_look
from crawler_lifecycle.workflows.looks import look
from crawler_lifecycle.workflows.options import BRIEF, ONCE, WRITE
from crawler_lifecycle.workflows.stopping import end_unwanted
from crawler_lifecycle.workflows.visibility import list_under
from crawler_lifecycle.workflows.watch import Watch


async def reconcile(watch: Watch, carried: Carried, started_at: datetime | None = None) -> None:
    """Look until no task is alive, or the run is to end. `started_at`: when the main job started, if that is known."""
    plan, number = carried.plan, carried.look_number
    anchor = carried.anchor or await _start(watch, plan, started_at)
    if carried.resumed and carried.anchor:
        await watch.tell_start(plan)  # its sender may have died before it
        number = next_look(anchor, number, workflow.now())
    watch.nudged = watch.nudged or watch.owes_a_look
    while True:
        due = look_time(anchor, number)
        watch.tell(Stage.RECONCILIATION, "the next look, or a change in the cluster", plan, due)
        if not await watch.nudged_or(due):
            return
        started = workflow.now()
        if started >= due:
            number = next_look(anchor, number + 1, started)
        watch.tell(Stage.RECONCILIATION, "the cluster's answer", plan, look_time(anchor, number))
        looked = await look(plan.run, look_time(anchor, number))
        looks = watch.looked(looked.took, looked.alive, more=looked.more)
        watch.know_saturation(plan, looked.saturated)
        if looked.known and looked.suspended is not None:
            await watch.know_suspension(plan, looked.suspended)
        if looked.changed:
            await watch.notify(NoticeActivities.signal_pusher_progress, plan, looks)
        await end_unwanted(plan.run, looked.unwanted)
        if looked.is_proof and not watch.owes_start:
            return
        if watch.know_intent(looked.intent):
            return
        await watch.tell_start_if_owed(plan, BRIEF if looked.is_proof else ONCE)
        if looked.is_proof:
            return
        watch.continue_if_long(Carried(plan=plan, anchor=anchor, look_number=number))


async def _start(watch: Watch, plan: RunPlan, started_at: datetime | None) -> datetime:
    step = StartRun(run=plan.run, started_at=started_at)
    await workflow.execute_activity_method(HistoryActivities.update_run_started, step, **WRITE)
    list_under(plan, RunStatus.PROCESSING)
    anchor = workflow.now()
    await watch.tell_start(plan)
    return anchor
