"""Stage 1, initiation: write a new run to the database, or take over an existing run where its supervisor has ended."""

import asyncio
from dataclasses import dataclass

from temporalio import workflow
from temporalio.common import RawValue

from crawler_lifecycle.model.lifecycle import Carried, Continuation, Stage
from crawler_lifecycle.model.requests import AcceptedRequest, RunRequest
from crawler_lifecycle.model.run_plan import ExportsOwed, RunPlan, RunRef
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.activities.histories import HistoryActivities
from crawler_lifecycle.runs.activities.supervision import SupervisionActivities
from crawler_lifecycle.runs.model.supervision import CreateHistory, HandedOver, RegisterWorkflow, TakenOver, TakeOver
from crawler_lifecycle.runs.workflows.watch import Watch
from crawler_lifecycle.temporal.in_the_task import at_once
from crawler_lifecycle.temporal.inputs import decoded
from crawler_lifecycle.temporal.options import WRITE
from crawler_lifecycle.temporal.visibility import set_search_attributes

Registration = asyncio.Task[None] | None  # of a new run's workflow, beside the first try to deploy; None: done before


@dataclass(frozen=True)
class InitiatedRun:
    """The result of stage 1."""

    carried: Carried  # state for the further stages
    registration: Registration = None
    is_over: bool = False  # the run has ended, and only deliveries of its end may be missing
    is_exported: bool = False  # the last end is announced and archived
    owed: ExportsOwed | None = None  # missing exports, if the run is over


def decoded_input(raw: RawValue) -> RunRequest | Carried:
    """Decode the input: the carried state after a continue-as-new, otherwise a request for a run."""
    if workflow.info().continued_run_id:
        return decoded(Continuation, raw).carried
    return decoded(RunRequest, raw)


async def begin(watch: Watch, request: RunRequest | Carried) -> InitiatedRun | HandedOver:
    """Create the run, take the run over, or continue with the carried state. Return where the further stages begin.

    If the run belongs to another workflow, resume that workflow and return HandedOver.
    """
    if isinstance(request, Carried):
        return InitiatedRun(request)
    if request.run_id is None:
        plan = await _create_run(watch, request)
        return InitiatedRun(Carried(plan=plan), asyncio.create_task(_register(plan.run)))
    return await _take_over(watch, request, request.run_id)


async def _create_run(watch: Watch, request: RunRequest) -> RunPlan:
    info = workflow.info()
    step = CreateHistory(
        request=AcceptedRequest(**request.model_dump(exclude_unset=True)),
        workflow_id=info.workflow_id,
        first_execution_run_id=info.first_execution_run_id,
    )
    plan = await at_once(HistoryActivities.create_history_id, step, WRITE)
    set_search_attributes(plan, RunStatus.INITIALIZING)
    watch.show(Stage.INITIATION, "the deployment", plan)
    return plan


async def _register(run: RunRef) -> None:
    """Write the workflow's id down with the run."""
    step = RegisterWorkflow(run=run, workflow_id=workflow.info().workflow_id)
    await at_once(HistoryActivities.add_workflow_id, step, WRITE)


async def _take_over(watch: Watch, request: RunRequest, run_id: int) -> InitiatedRun | HandedOver:
    """Take the run over; or resume the run's other workflow, and return HandedOver."""
    info = workflow.info()
    step = TakeOver(
        run_id=run_id,
        crawler=request.crawler,
        reopen=request.reopen,
        workflow_id=info.workflow_id,
        temporal_run_id=info.first_execution_run_id,  # the supervisor stays the same after a continue-as-new
        began_at=info.workflow_start_time,
    )
    state = await workflow.execute_activity_method(SupervisionActivities.take_over_run, step, **WRITE)
    if state.plan is None:  # the run belongs to another workflow id
        await workflow.execute_activity_method(SupervisionActivities.hand_over_run, step, **WRITE)
        return HandedOver(run_id=run_id, workflow_id=state.supervised_by)
    set_search_attributes(state.plan, state.status)
    watch.stop.apply_intent(state.intent, state.stopped_at, state.jobs_asked_at)
    if state.status is RunStatus.PROCESSING:
        watch.wakeups.nudge()  # look at once, because the time without a supervisor may have been long
    carried = _carried_state(state, state.plan)
    return InitiatedRun(carried, is_over=state.status.is_over, is_exported=state.exported, owed=state.owed)


def _carried_state(state: TakenOver, plan: RunPlan) -> Carried:
    """Return the state for the further stages.

    The anchor is the beginning of the pacing. With an anchor the run continues in stage 3 (looks), without an anchor in
    stage 2 (deployment). `gave_up` is the limit at which the present stop began; None without a stop, and for a stop
    that people or programs asked for.
    """
    anchor = state.started_at if state.status is RunStatus.PROCESSING else None
    return Carried(plan=plan, anchor=anchor, gave_up=state.gave_up, resumed=True)
