"""THE flow: one durable workflow watches over one run, from the request to its end.

Initiation, deployment, reconciliation, completion, top to bottom; every detail is one level down.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from crawler_lifecycle.activities.deployment import DeploymentActivities
from crawler_lifecycle.activities.histories import HistoryActivities
from crawler_lifecycle.activities.notices import NoticeActivities
from crawler_lifecycle.contract.lifecycle import Carried, LifecycleInput, LifecycleState, Stage
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import RunStatus, Trigger
from crawler_lifecycle.contract.steps import (
    Counted,
    CreateHistory,
    DeploymentOutcome,
    EndRun,
    Notify,
    RegisterWorkflow,
    RunOutcome,
    RunPlan,
    ToRun,
)
from crawler_lifecycle.domain.pacing import earliest_nudged_look, growing_pause, look_time, next_look
from crawler_lifecycle.workflows.exporting import export_if_possible
from crawler_lifecycle.workflows.inputs import NOTHING, decoded
from crawler_lifecycle.workflows.looks import look
from crawler_lifecycle.workflows.options import DEPLOY, OPTIONAL, READ, WRITE
from crawler_lifecycle.workflows.stopping import cancel_queued, end_jobs
from crawler_lifecycle.workflows.visibility import list_under, show_details

BEFORE_FIRST_STATUS = timedelta(seconds=6)
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)
LOOKS_THAT_MISS_THE_MAIN_JOB = 2
NEVER_STARTED = "never_started"


@workflow.defn(name="CrawlerLifecycleWorkflow")
class CrawlerLifecycleWorkflow:
    @workflow.init
    def __init__(self, raw: RawValue = NOTHING) -> None:  # noqa: ARG002 (the SDK wants run's parameters)
        self._state = LifecycleState(stage=Stage.INITIATION, waiting_for="the history to be written")
        self._nudged = False
        self._nudged_look_from = workflow.now()

    @workflow.run
    async def run(self, raw: RawValue = NOTHING) -> RunOutcome:
        request = decoded(LifecycleInput, raw)
        carried = request.carried or Carried(plan=await self._initiate(request))
        self._nudged = self._nudged or carried.nudged
        gave_up = None
        if carried.anchor is None:
            gave_up = await self._deploy(carried.plan)
        if gave_up is None:
            await self._reconcile(carried)
        return await self._complete(carried.plan, gave_up)

    # Doors

    @workflow.signal
    def nudge(self, number: int = 0) -> None:  # noqa: ARG002 (acknowledged by the look, from the database)
        """Something in the cluster has changed: have a look soon."""
        self._nudged = True

    @workflow.query
    def state(self) -> LifecycleState:
        return self._state

    # Stage 1

    async def _initiate(self, request: LifecycleInput) -> RunPlan:
        info = workflow.info()
        plan = await workflow.execute_activity_method(
            HistoryActivities.create_history_id,
            CreateHistory(
                request=RunRequest(**request.model_dump(exclude={"carried"})),
                workflow_id=info.workflow_id,
                first_execution_run_id=info.first_execution_run_id,
            ),
            **WRITE,
        )
        list_under(plan, RunStatus.INITIALIZING)
        self._tell(Stage.INITIATION, "the workflow to be registered", plan)
        await workflow.execute_activity_method(
            HistoryActivities.add_workflow_id,
            RegisterWorkflow(run=plan.run, workflow_id=info.workflow_id),
            **WRITE,
        )
        return plan

    # Stage 2

    async def _deploy(self, plan: RunPlan) -> str | None:
        """None once the main job runs or has run; else why the run ends without it."""
        limit = plan.created_at + timedelta(seconds=plan.start_limit_seconds) if plan.start_limit_seconds else None
        deployed = await self._main_job_deployed(plan, limit)
        if deployed.refused:
            await cancel_queued(plan.run, "deployment_refused")
            return "deployment_refused"
        if deployed.job_id and await self._main_job_started(plan, limit):
            return None
        self._tell(Stage.DEPLOYMENT, "the jobs to end: the run did not start in time", plan)
        await end_jobs(plan, NEVER_STARTED)
        return NEVER_STARTED

    async def _main_job_deployed(self, plan: RunPlan, limit: datetime | None) -> DeploymentOutcome:
        scheduled = plan.trigger is Trigger.SCHEDULED
        deploy = DeploymentActivities.run_scheduled_crawler if scheduled else DeploymentActivities.run_onetime_crawler
        for attempt in count(1):
            self._tell(Stage.DEPLOYMENT, "the scheduler service to deploy the main job", plan)
            outcome = await workflow.execute_activity_method(deploy, ToRun(run=plan.run), **DEPLOY)
            if outcome.job_id or outcome.refused:
                break
            self._tell(Stage.DEPLOYMENT, f"another try to deploy the main job ({outcome.cause})", plan)
            if not await self._pause(plan, attempt, limit):
                break
        return outcome

    async def _main_job_started(self, plan: RunPlan, limit: datetime | None) -> bool:
        self._tell(Stage.DEPLOYMENT, "the main job to start", plan)
        await workflow.sleep(BEFORE_FIRST_STATUS)
        missed = 0
        for attempt in count(1):
            status = await workflow.execute_activity_method(
                DeploymentActivities.get_main_job_status, ToRun(run=plan.run), **READ
            )
            missed = missed + 1 if status.vanished else 0
            if status.started or missed >= LOOKS_THAT_MISS_THE_MAIN_JOB:
                return True  # what became of a job that vanished is for the looks to judge
            self._tell(Stage.DEPLOYMENT, f"the main job to start ({status.cause or status.message})", plan)
            if not await self._pause(plan, attempt, limit):
                break
        return False

    async def _pause(self, plan: RunPlan, attempt: int, limit: datetime | None) -> bool:
        """A growing pause, ended by a nudge or by the start limit. False once that is reached."""
        if workflow.info().is_continue_as_new_suggested():
            workflow.continue_as_new(self._again(Carried(plan=plan)))
        until = workflow.now() + growing_pause(attempt, FIRST_PAUSE, LONGEST_PAUSE)
        await self._nudged_or(min(until, limit) if limit else until)
        return limit is None or workflow.now() < limit

    # Stage 3

    async def _reconcile(self, carried: Carried) -> None:
        plan, number, looks = carried.plan, carried.look_number, carried.looks
        anchor = carried.anchor or await self._start(plan)
        while True:
            due = look_time(anchor, number)
            self._tell(Stage.RECONCILIATION, "the next look, or a change in the cluster", plan, due)
            await self._nudged_or(due)
            started = workflow.now()
            if started >= due:
                number = next_look(anchor, number + 1, started)
            self._tell(Stage.RECONCILIATION, "the cluster's answer", plan, look_time(anchor, number))
            looked = await look(plan.run, look_time(anchor, number))
            looks += 1
            self._state = self._state.model_copy(update={"looks": looks, "alive": looked.alive})
            self._nudged_look_from = earliest_nudged_look(started, workflow.now() - started)
            self._nudged = self._nudged or looked.more
            if looked.changed:
                await self._notify(NoticeActivities.signal_pusher_progress, plan, looks)
            if looked.alive == 0:
                return
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(
                    self._again(Carried(plan=plan, anchor=anchor, look_number=number, looks=looks, nudged=self._nudged))
                )

    async def _start(self, plan: RunPlan) -> datetime:
        await workflow.execute_activity_method(HistoryActivities.update_run_started, ToRun(run=plan.run), **WRITE)
        list_under(plan, RunStatus.PROCESSING)
        anchor = workflow.now()
        await self._notify(NoticeActivities.signal_pusher_started, plan)
        return anchor

    # Stage 4

    async def _complete(self, plan: RunPlan, gave_up: str | None) -> RunOutcome:
        self._tell(Stage.COMPLETION, "the end to be written down", plan)
        outcome = await workflow.execute_activity_method(
            HistoryActivities.update_run_status, EndRun(run=plan.run, reason=gave_up), **WRITE
        )
        list_under(plan, outcome.status)
        await self._notify(NoticeActivities.signal_pusher_finished, plan)
        self._tell(Stage.COMPLETION, "the export", plan)
        await export_if_possible(plan.run)
        self._tell(Stage.COMPLETION, "nothing: the run is over", plan)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return outcome

    # Details

    async def _nudged_or(self, due: datetime) -> None:
        """Until it is due, or until a nudge that is not too soon after the last look."""
        if not self._nudged and workflow.now() < due:
            try:
                await workflow.wait_condition(lambda: self._nudged, timeout=due - workflow.now())
            except TimeoutError:
                return
        early = min(self._nudged_look_from, due) - workflow.now()
        if early > timedelta():
            await workflow.sleep(early)
        self._nudged = False

    async def _notify(
        self, activity: Callable[[NoticeActivities, Notify], Counted], plan: RunPlan, number: int = 1
    ) -> None:
        """A notice that cannot be delivered holds up nothing."""
        try:
            await workflow.execute_activity_method(activity, Notify(run=plan.run, number=number), **OPTIONAL)
        except ActivityError as error:
            workflow.logger.warning("run %s: notice not delivered: %s", plan.run.run_id, error.cause)

    def _again(self, carried: Carried) -> LifecycleInput:
        return LifecycleInput(crawler=carried.plan.crawler, carried=carried)

    def _tell(self, stage: Stage, waiting_for: str, plan: RunPlan, next_look_at: datetime | None = None) -> None:
        self._state = self._state.model_copy(
            update={
                "stage": stage,
                "waiting_for": waiting_for,
                "run_id": plan.run.run_id,
                "run_uid": plan.run.run_uid,
                "next_look_at": next_look_at,
            }
        )
        show_details(self._state)
