"""THE flow: one durable workflow watches over one run, from the request to its end.

Initiation, deployment, reconciliation, completion, top to bottom; a stop may come at any time. Every detail is
one level down.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from crawler_lifecycle.activities.histories import HistoryActivities
from crawler_lifecycle.activities.notices import NoticeActivities
from crawler_lifecycle.activities.supervision import SupervisionActivities
from crawler_lifecycle.contract.lifecycle import Carried, LifecycleState, Stage
from crawler_lifecycle.contract.requests import RunRequest, StopRequest, any_stop
from crawler_lifecycle.contract.steps import EndRun, ExportsOwed, OwnExecution, RunOutcome, RunPlan, StopAnswer, ToEnd
from crawler_lifecycle.domain.limits import limit_at
from crawler_lifecycle.domain.reasons import BY_A_STOP, LIMITS, MAX_DURATION
from crawler_lifecycle.workflows.deployment import Deployment, deploy
from crawler_lifecycle.workflows.exporting import export_if_possible
from crawler_lifecycle.workflows.generation import generation
from crawler_lifecycle.workflows.initiation import Beginning, begin, given_to
from crawler_lifecycle.workflows.inputs import NOTHING, decoded_stop
from crawler_lifecycle.workflows.options import ANNOUNCE, OPTIONAL, WRITE
from crawler_lifecycle.workflows.reconciliation import reconcile
from crawler_lifecycle.workflows.removal import remove_after_export, remove_before_export
from crawler_lifecycle.workflows.stopping import ourselves, record_stops, stop
from crawler_lifecycle.workflows.visibility import list_under
from crawler_lifecycle.workflows.watch import Watch


@workflow.defn(name="CrawlerLifecycleWorkflow")
class CrawlerLifecycleWorkflow:
    @workflow.init
    def __init__(self, raw: RawValue = NOTHING) -> None:  # noqa: ARG002 (the SDK wants run's parameters)
        self._watch = Watch()
        self._over: RunOutcome | None = None

    @workflow.run
    async def run(self, raw: RawValue = NOTHING) -> RunOutcome | None:
        """A cancel from Temporal's own tools means stop: it reaches this coroutine, and never the supervision."""
        supervision = asyncio.create_task(self._supervise(given_to(raw)))
        while not supervision.done():
            try:
                await asyncio.shield(supervision)
            except asyncio.CancelledError:
                self._watch.cancelled = True
                self._watch.ask(StopRequest(actor="Temporal", reason="the workflow was cancelled", door="cancel"))
        outcome = supervision.result()
        if self._watch.cancelled and outcome and _ended_by_a_stop(outcome) and await _may_close_as_cancelled():
            raise asyncio.CancelledError(outcome.reason)
        return outcome

    async def _supervise(self, request: RunRequest | Carried) -> RunOutcome | None:
        """Supervise the run to its end. Return None if the run belongs to another workflow, which goes on with it."""
        self._watch.generation = generation()
        beginning = await begin(self._watch, request)
        if beginning.carried is None:
            self._refuse_stops_of(beginning.elsewhere)
            return None
        if beginning.over:
            return await self._over_already(beginning.carried.plan, beginning)
        self._watch.go_on_from(beginning.carried)
        gave_up = beginning.carried.gave_up
        if self._watch.stopping is None:
            gave_up = await self._course(beginning.carried)
        stopped = await self._stopped(beginning.carried.plan, gave_up)
        return await self._complete(beginning.carried.plan, gave_up, stopped=stopped)

    def _refuse_stops_of(self, workflow_id: str | None) -> None:
        """What was asked of this one is not passed on: whoever did so has to know."""
        if self._watch.asked:
            message = f"the run belongs to workflow {workflow_id}, which goes on with it: stop that one"
            raise ApplicationError(message, type="Conflict", non_retryable=True)

    async def _course(self, carried: Carried) -> str | None:
        """Deployment and reconciliation, until they are over, somebody stops the run, or its time is up."""
        stages = asyncio.create_task(self._stages(carried))
        try:
            while not self._is_to_end(stages):
                await self._until_its_time_is_up(stages, carried.plan)
        except TimeoutError:
            return await _cut_short(stages, MAX_DURATION)
        return await _cut_short(stages, None)

    def _is_to_end(self, stages: "asyncio.Task[str | None]") -> bool:
        return stages.done() or self._watch.stopping is not None

    async def _until_its_time_is_up(self, stages: "asyncio.Task[str | None]", plan: RunPlan) -> None:
        """Or its clock is another. TimeoutError: it is up."""
        clock = self._watch.clock
        limit = limit_at(plan.begun_at, plan.max_duration_seconds, clock)
        left = None if limit is None else max(timedelta(), limit - workflow.now())
        await workflow.wait_condition(lambda: self._is_to_end(stages) or self._watch.clock != clock, timeout=left)

    async def _stages(self, carried: Carried) -> str | None:
        deployed = Deployment()
        if carried.anchor is None:
            deployed = await deploy(self._watch, carried.plan)
        if deployed.gave_up is None and self._watch.stopping is None:
            await reconcile(self._watch, carried, deployed.started_at)
        return deployed.gave_up

    async def _stopped(self, plan: RunPlan, gave_up: str | None) -> bool:
        """Whether a stop ended any of the tasks, once it is proved that none is left."""
        if gave_up in LIMITS and self._watch.stopping is None:
            self._watch.ask(ourselves(gave_up, "limit"), ends_as=gave_up)
        if self._watch.stopping is None:
            return False
        return await stop(self._watch, plan, gave_up) and gave_up is None

    async def _complete(self, plan: RunPlan, gave_up: str | None, *, stopped: bool) -> RunOutcome:
        self._watch.tell(Stage.COMPLETION, "the end to be written down", plan)
        told = stopped and await self._watch.notify(NoticeActivities.signal_pusher_stopped, plan)
        outcome = await self._close(plan, gave_up)
        await record_stops(self._watch, plan)
        await self._hand_over(plan, outcome, told=told)
        return outcome

    async def _over_already(self, plan: RunPlan, found: Beginning) -> RunOutcome:
        """Its supervisor may have died before everybody was told."""
        outcome = await self._close(plan, None)
        await record_stops(self._watch, plan)
        await self._hand_over(plan, outcome, exported=found.exported, owed=found.owed)
        return outcome

    async def _hand_over(
        self,
        plan: RunPlan,
        outcome: RunOutcome,
        *,
        told: bool = False,
        exported: bool = False,
        owed: ExportsOwed | None = None,
    ) -> None:
        """An outage of whoever shows the notices delays the export by minutes and costs no notice."""
        activities, watch = NoticeActivities, self._watch
        closing = activities.signal_pusher_stopped if outcome.reason in BY_A_STOP else activities.signal_pusher_finished
        told = told or await watch.notify(closing, plan, patience=OPTIONAL)
        left = await remove_before_export(plan.run)
        if not exported:
            watch.tell(Stage.COMPLETION, "the export", plan)
            await export_if_possible(ToEnd(run=plan.run, end=plan.end), owed)
        if not told:
            await watch.notify(closing, plan, patience=ANNOUNCE)
        await remove_after_export(plan.run, left)
        watch.tell(Stage.COMPLETION, "nothing: the run is over", plan)

    async def _close(self, plan: RunPlan, gave_up: str | None) -> RunOutcome:
        outcome = await workflow.execute_activity_method(
            HistoryActivities.update_run_status, EndRun(run=plan.run, reason=gave_up), **WRITE
        )
        self._over = outcome
        list_under(plan, outcome.status)
        self._watch.know_saturation(plan, None)
        return outcome

    # Doors

    @workflow.signal
    def nudge(self, raw: RawValue = NOTHING) -> None:  # noqa: ARG002 (the look acknowledges its number, from the database)
        """Something in the cluster has changed: have a look soon."""
        self._watch.nudged = True

    @workflow.signal(name="stop")
    def stop_signalled(self, raw: RawValue = NOTHING) -> None:
        """A stop that does not decode is still a stop."""
        if self._over is None:
            self._watch.ask(any_stop(raw.payload.data))

    @workflow.update(name="stop")
    def stop_asked(self, raw: RawValue = NOTHING) -> StopAnswer:
        """Answers as soon as the stop is accepted; it is proved later."""
        return self._watch.ask(decoded_stop(raw))

    @stop_asked.validator
    def _may_stop(self, raw: RawValue = NOTHING) -> None:
        if self._over is not None:
            raise ApplicationError(f"run {self._over.run_id} is over ({self._over.status}): there is nothing to stop")
        decoded_stop(raw)

    @workflow.query
    def state(self, raw: RawValue = NOTHING) -> LifecycleState:  # noqa: ARG002 (a query with an input is answered, too)
        return self._watch.state


async def _cut_short(stages: "asyncio.Task[str | None]", reason: str | None) -> str | None:
    """The stages' own end if they have come to one. What they had under way is harmless: every write compares."""
    if stages.done():
        return stages.result()
    stages.cancel()
    await workflow.wait([stages])
    if not stages.cancelled() and (error := stages.exception()) and not is_cancelled_exception(error):
        raise error
    return reason


def _ended_by_a_stop(outcome: RunOutcome) -> bool:
    """A stop that a limit began is one, whoever cancels it."""
    return outcome.reason in BY_A_STOP or outcome.reason in LIMITS


async def _may_close_as_cancelled() -> bool:
    """The execution that was cancelled may. One that goes on for it has itself cancelled first."""
    if workflow.cancellation_reason() is None:
        info = workflow.info()
        step = OwnExecution(workflow_id=info.workflow_id, temporal_run_id=info.run_id)
        asking = asyncio.create_task(
            workflow.execute_activity_method(SupervisionActivities.cancel_execution, step, **OPTIONAL)
        )
        with suppress(asyncio.CancelledError, ActivityError):
            await asyncio.shield(asking)
    return workflow.cancellation_reason() is not None
