"""The workflow that supervises a run from the request to the end, and survives every crash on the way.

The stages are initiation, deployment, reconciliation and completion; a stop may come at any time. The modules of this
package with the names of the stages have the details.

`gave_up` is the reason of the end if the run itself gives up: a time limit or a refused deployment. It is None as long
as the run does not give up: then the tasks or a stop decide the end.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from crawler_lifecycle.delivery.workflows import export_if_possible
from crawler_lifecycle.model.lifecycle import Carried, LifecycleState, Stage
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.reasons import BY_A_STOP, LIMITS, MAX_DURATION
from crawler_lifecycle.model.requests import RunRequest, any_stop
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, ExportsOwed, RunOutcome, RunPlan
from crawler_lifecycle.runs.activities.supervision import HistoryActivities, SupervisionActivities
from crawler_lifecycle.runs.model import HandedOver, OwnExecution, StopAnswer
from crawler_lifecycle.runs.workflows.deployment import DeploymentEnd, InitiatedRun, begin, decoded_input, deploy
from crawler_lifecycle.runs.workflows.looks import remove_after_export, remove_before_export
from crawler_lifecycle.runs.workflows.reconciliation import reconcile
from crawler_lifecycle.runs.workflows.stopping import record_stops, stop, stop_by_service
from crawler_lifecycle.runs.workflows.watch import Watch
from crawler_lifecycle.temporal.converter import NO_INPUT, decoded_stop, failing_with_activity_message
from crawler_lifecycle.temporal.options import OPTIONAL, WRITE, at_once
from crawler_lifecycle.temporal.visibility import set_search_attributes


@workflow.defn(name=RUN_WORKFLOW)
class CrawlerLifecycleWorkflow:
    @workflow.init
    def __init__(self, raw: RawValue = NO_INPUT) -> None:  # noqa: ARG002 (the SDK wants run's parameters)
        self._watch = Watch()
        self._outcome: RunOutcome | None = None  # set when the end is stored

    @workflow.run
    async def run(self, raw: RawValue = NO_INPUT) -> RunOutcome | HandedOver:
        """Supervise the run. A cancel by Temporal's tools counts as a stop; the shield keeps `_supervise` uncancelled.

        Close the execution as completed, or as cancelled if a cancel ended the run.
        """
        supervision = asyncio.create_task(self._supervise(decoded_input(raw)))
        with failing_with_activity_message():
            while not supervision.done():
                try:
                    await asyncio.shield(supervision)
                except asyncio.CancelledError:
                    self._watch.stop.accept_cancel()
            outcome = supervision.result()
        if isinstance(outcome, HandedOver):
            return outcome
        if self._watch.stop.is_cancelled and _ended_by_a_stop(outcome) and await _may_close_as_cancelled():
            raise asyncio.CancelledError(outcome.reason)
        return outcome

    async def _supervise(self, request: RunRequest | Carried) -> RunOutcome | HandedOver:
        """Supervise the run to its end. If the run belongs to another workflow, resume the other workflow."""
        beginning = await begin(self._watch, request)
        if isinstance(beginning, HandedOver):
            self._fail_if_asked_to_stop(beginning)
            return beginning
        if beginning.is_over:
            return await self._deliver_again(beginning)
        carried = beginning.carried
        self._watch.resume(carried)
        if self._watch.stop.is_asked:
            gave_up = carried.gave_up  # the stop of an earlier execution continues, for the same reason
        else:
            gave_up = await self._deploy_and_reconcile(beginning)
        if beginning.registration:
            await beginning.registration  # a stop ends the stages, but not the registration
        await self._stop_if_asked(carried.plan, gave_up)
        return await self._complete(carried.plan, gave_up)

    def _fail_if_asked_to_stop(self, handed_over: HandedOver) -> None:
        """Fail if a stop came to this workflow without the run: a stop must not be lost unnoticed."""
        if self._watch.stop.has_unrecorded:
            message = f"the run belongs to workflow {handed_over.workflow_id}, which continues it: stop that one"
            raise ApplicationError(message, type="Conflict", non_retryable=True)

    async def _deploy_and_reconcile(self, beginning: InitiatedRun) -> str | None:
        """Run the stages deployment and reconciliation, and return `gave_up`.

        A stop or the time limit ends the stages early.
        """
        stages = asyncio.create_task(self._stages(beginning))
        try:
            while not self._is_time_to_leave(stages):
                await self._wait_for_stages(stages, beginning.carried.plan)
        except TimeoutError:
            return await _leave_stages(stages, MAX_DURATION)
        return await _leave_stages(stages, None)

    async def _stages(self, beginning: InitiatedRun) -> str | None:
        """Deploy the main job, unless the run has started already, and reconcile. Return `gave_up`."""
        deployment, carried = DeploymentEnd(), beginning.carried
        if carried.anchor is None:
            deployment = await deploy(self._watch, carried.plan, beginning.registration)
        if deployment.gave_up is None and not self._watch.stop.is_asked:
            await reconcile(self._watch, carried, deployment.started_at)
        return deployment.gave_up

    def _is_time_to_leave(self, stages: "asyncio.Task[str | None]") -> bool:
        """Return whether the stages are over, or a stop is asked for."""
        return stages.done() or self._watch.stop.is_asked

    async def _wait_for_stages(self, stages: "asyncio.Task[str | None]", plan: RunPlan) -> None:
        """Wait until it is time to leave the stages, or the limit clock changes and with it the time limit.

        Raise TimeoutError at the time limit.
        """
        limits = self._watch.limits
        changes, limit = limits.changes, limits.duration_limit(plan)
        timeout = None if limit is None else max(timedelta(), limit - workflow.now())
        await workflow.wait_condition(
            lambda: self._is_time_to_leave(stages) or limits.changes != changes, timeout=timeout
        )

    async def _stop_if_asked(self, plan: RunPlan, gave_up: str | None) -> None:
        """Stop the run after a request or at a limit, and return when the stop is proved. Otherwise do nothing."""
        if gave_up in LIMITS and not self._watch.stop.is_asked:
            self._watch.stop.accept(stop_by_service(gave_up, "limit"), ends_as=gave_up)
        if self._watch.stop.is_asked:
            await stop(self._watch, plan, gave_up)

    async def _complete(self, plan: RunPlan, gave_up: str | None) -> RunOutcome:
        """Write the end down, and deliver the end to people and other programs."""
        self._watch.show(Stage.COMPLETION, "the end to be written down", plan)
        outcome = await self._close(plan, gave_up)
        await record_stops(self._watch.stop, plan)  # after the end, no further stop is accepted
        await self._deliver(plan, outcome)
        return outcome

    async def _deliver_again(self, beginning: InitiatedRun) -> RunOutcome:
        """Deliver the end of a run already over, since the supervisor may have died before the delivery."""
        plan = beginning.carried.plan
        outcome = await self._close(plan, None)
        await record_stops(self._watch.stop, plan)
        await self._deliver(plan, outcome, is_exported=beginning.is_exported, owed=beginning.owed)
        return outcome

    async def _deliver(
        self, plan: RunPlan, outcome: RunOutcome, *, is_exported: bool = False, owed: ExportsOwed | None = None
    ) -> None:
        """Send the closing notice; beside the notice, remove the run's jobs and export the end.

        `owed`: the missing exports of all ends; None: only the present end is to be exported.
        """
        closing = self._watch.notify_end(plan, is_stopped=outcome.reason in BY_A_STOP)
        export = (
            None if is_exported else export_if_possible(ExportedEnd(run=plan.run, end=plan.end, flow=plan.flow), owed)
        )
        self._watch.show(Stage.COMPLETION, "the closing notice and the export", plan)
        await asyncio.gather(closing, self._remove_and_export(plan, export))
        self._watch.show(Stage.COMPLETION, "nothing: the run is over", plan)

    async def _remove_and_export(self, plan: RunPlan, export: Awaitable[None] | None) -> None:
        """Remove the run's jobs, export the end, and remove the jobs that had to stay before."""
        staying_jobs = await remove_before_export(plan)
        if export:
            await export
        await remove_after_export(plan, staying_jobs)

    async def _close(self, plan: RunPlan, gave_up: str | None) -> RunOutcome:
        """Write the end into the run's row and show it. From now on stops are ignored or refused.

        Return the stored end, which is an earlier end if the run is over already.
        """
        step = CloseRun(run=plan.run, reason=gave_up)
        outcome = await at_once(HistoryActivities.update_run_status, step, WRITE)
        self._outcome = outcome
        set_search_attributes(plan, outcome.status)
        self._watch.apply_saturation(plan, None)
        return outcome

    # signals, updates and queries from outside

    @workflow.signal
    def nudge(self, raw: RawValue = NO_INPUT) -> None:  # noqa: ARG002 (the look takes the number from the database)
        """Look soon, because the cluster has changed."""
        self._watch.wakeups.nudge()

    @workflow.signal(name="stop")
    def stop_signalled(self, raw: RawValue = NO_INPUT) -> None:
        """Accept a stop, even if its input does not decode. After the end, ignore the stop."""
        if self._outcome is None:
            self._watch.accept_stop(any_stop(raw.payload.data))

    @workflow.update(name="stop")
    def stop_asked(self, raw: RawValue = NO_INPUT) -> StopAnswer:
        """Accept a stop and answer at once; the stop is proved later."""
        return self._watch.accept_stop(decoded_stop(raw))

    @stop_asked.validator
    def _refuse_bad_stop(self, raw: RawValue = NO_INPUT) -> None:
        """Raise an error if the run is over, or if the input does not decode."""
        if self._outcome is not None:
            over = f"run {self._outcome.run_id} is over ({self._outcome.status})"
            raise ApplicationError(f"{over}: there is nothing to stop")
        decoded_stop(raw)

    @workflow.query
    def state(self, raw: RawValue = NO_INPUT) -> LifecycleState:  # noqa: ARG002 (a query with an input is answered too)
        return self._watch.state


async def _leave_stages(stages: "asyncio.Task[str | None]", reason: str | None) -> str | None:
    """Return the stages' `gave_up` if they are over. Otherwise cancel the stages and return `reason`.

    A cancelled activity may still write. Its write changes no row that has changed since the activity read the row.
    """
    if stages.done():
        return stages.result()
    stages.cancel()
    await workflow.wait([stages])
    error = None if stages.cancelled() else stages.exception()
    if error and not is_cancelled_exception(error):
        raise error
    return reason


def _ended_by_a_stop(outcome: RunOutcome) -> bool:
    """Return whether a stop ended the run, including a stop that began at a limit."""
    return outcome.reason in BY_A_STOP or outcome.reason in LIMITS


async def _may_close_as_cancelled() -> bool:
    """Return whether Temporal has cancelled this very execution, and lets the execution close as cancelled.

    If the cancel reached an earlier execution, before a continue-as-new, this execution first cancels itself.
    """
    if workflow.cancellation_reason() is None:
        info = workflow.info()
        step = OwnExecution(workflow_id=info.workflow_id, temporal_run_id=info.run_id)
        request = asyncio.create_task(
            workflow.execute_activity_method(SupervisionActivities.cancel_execution, step, **OPTIONAL)
        )
        with suppress(asyncio.CancelledError, ActivityError):
            await asyncio.shield(request)
    return workflow.cancellation_reason() is not None
