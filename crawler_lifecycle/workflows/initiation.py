"""Stage 1: write a new run to the database, or take over an existing run where the last supervisor has stopped."""

from dataclasses import dataclass

from temporalio import workflow
from temporalio.common import RawValue

from crawler_lifecycle.activities.histories import HistoryActivities
from crawler_lifecycle.activities.supervision import SupervisionActivities
from crawler_lifecycle.contract.lifecycle import Carried, Continuation, Stage
from crawler_lifecycle.contract.requests import AcceptedRequest, RunRequest
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.contract.steps.run import ExportsOwed, RunPlan
from crawler_lifecycle.contract.steps.supervision import (
    CreateHistory,
    HandedOver,
    RegisterWorkflow,
    TakenOver,
    TakeOver,
)
from crawler_lifecycle.workflows.inputs import decoded
from crawler_lifecycle.workflows.options import WRITE
from crawler_lifecycle.workflows.visibility import set_search_attributes
from crawler_lifecycle.workflows.watch import Watch


@dataclass(frozen=True)
class Beginning:
    """The result of stage 1."""

    carried: Carried  # the state from which the stages go on
    over: bool = False  # only the delivery of the end may be missing
    exported: bool = False
    owed: ExportsOwed | None = None  # missing exports, if the run is over


def decoded_input(raw: RawValue) -> RunRequest | Carried:
    """Decode the input: the carried state if the execution continues an execution (continue-as-new), else a request."""
    if workflow.info().continued_run_id:
        return decoded(Continuation, raw).carried
    return decoded(RunRequest, raw)


async def begin(watch: Watch, request: RunRequest | Carried) -> Beginning | HandedOver:
    """Return where the stages begin, or `HandedOver` if another workflow supervises the run."""
    if isinstance(request, Carried):
        return Beginning(request)
    if request.run_id is None:
        return Beginning(Carried(plan=await _create_run(watch, request)))
    return await _take_over(watch, request, request.run_id)


async def _create_run(watch: Watch, request: RunRequest) -> RunPlan:
    info = workflow.info()
    plan = await workflow.execute_activity_method(
        HistoryActivities.create_history_id,
        CreateHistory(
            request=AcceptedRequest(**request.model_dump(exclude_unset=True)),
            workflow_id=info.workflow_id,
            first_execution_run_id=info.first_execution_run_id,
        ),
        **WRITE,
    )
    set_search_attributes(plan, RunStatus.INITIALIZING)
    watch.show(Stage.INITIATION, "the workflow to be registered", plan)
    await workflow.execute_activity_method(
        HistoryActivities.add_workflow_id, RegisterWorkflow(run=plan.run, workflow_id=info.workflow_id), **WRITE
    )
    return plan


async def _take_over(watch: Watch, request: RunRequest, run_id: int) -> Beginning | HandedOver:
    info = workflow.info()
    step = TakeOver(
        run_id=run_id,
        crawler=request.crawler,
        reopen=request.reopen,
        workflow_id=info.workflow_id,
        temporal_run_id=info.first_execution_run_id,
        began_at=info.workflow_start_time,
    )
    taken = await workflow.execute_activity_method(SupervisionActivities.take_over_run, step, **WRITE)
    if taken.plan is None:
        await workflow.execute_activity_method(SupervisionActivities.hand_over_run, step, **WRITE)
        return HandedOver(run_id=run_id, workflow_id=taken.supervised_by)
    set_search_attributes(taken.plan, taken.status)
    watch.stop.apply_intent(taken.intent, taken.stopped_at, taken.jobs_asked_at)
    if taken.status is RunStatus.PROCESSING:
        watch.wakeups.nudge()  # look at once: the pause without a supervisor may have been long
    return Beginning(_carried(taken, taken.plan), over=taken.status.is_over, exported=taken.exported, owed=taken.owed)


def _carried(taken: TakenOver, plan: RunPlan) -> Carried:
    """Return the state after a take-over. A started run goes on with looks, paced from the anchor; without an anchor
    the run goes on with its deployment.
    """
    anchor = taken.started_at if taken.status is RunStatus.PROCESSING else None
    return Carried(plan=plan, anchor=anchor, gave_up=taken.gave_up, resumed=True)
