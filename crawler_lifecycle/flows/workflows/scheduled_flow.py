"""The workflow for a schedule's occurrence with a flow: push the flow, and stay open until the flow is over.

The flow's own workflow supervises as a child, so the occurrence ends with the flow. A later retry does not
concern the schedule. A cancel, such as by the overlap rule `replace`, cancels the flow, and ends with its proof.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import CancelledError, ChildWorkflowError, FailureError, WorkflowAlreadyStartedError

from crawler_lifecycle.flows.activities.flows import ScheduledFlows
from crawler_lifecycle.flows.rules.messages import FlowOccurrence, PushOccurrence
from crawler_lifecycle.model.flow_states import FlowState, FlowSupervised, SuperviseFlow
from crawler_lifecycle.model.naming import FLOW_WORKFLOW, SCHEDULED_FLOW_WORKFLOW, flow_workflow_id, scheduled_flow_id
from crawler_lifecycle.temporal.converter import NO_INPUT, decoded, failing_with_activity_message
from crawler_lifecycle.temporal.options import WRITE

PAUSE = timedelta(seconds=15)  # before another look at a flow with a foreign or failed supervisor


@workflow.defn(name=SCHEDULED_FLOW_WORKFLOW)
class ScheduledFlowWorkflow:
    @workflow.init
    def __init__(self, raw: RawValue = NO_INPUT) -> None:  # noqa: ARG002 (the SDK wants run's parameters)
        self._supervisor: str | None = None  # workflow id, once a supervisor is there
        self._is_cancelled = False

    @workflow.run
    async def run(self, raw: RawValue = NO_INPUT) -> FlowSupervised:
        """Follow the flow to its end. The shield keeps a cancel from leaving a pushed flow to itself."""
        following = asyncio.create_task(self._follow(_push(decoded(FlowOccurrence, raw))))
        with failing_with_activity_message():
            while not following.done():
                try:
                    await asyncio.shield(following)
                except asyncio.CancelledError:
                    self._is_cancelled = True
                    await self._pass_cancel_on()
            end = following.result()
        if self._is_cancelled and end.state is not FlowState.COMPLETED:
            raise asyncio.CancelledError(f"flow {end.flow_id} was cancelled with its occurrence")
        return end

    async def _follow(self, push: PushOccurrence) -> FlowSupervised:
        """Push the flow, and have the flow supervised until its end."""
        while True:
            flow = await workflow.execute_activity_method(ScheduledFlows.push_occurrence, push, **WRITE)
            if flow.state.is_final:
                return flow
            if await self._supervise(flow):
                continue  # the push is a look now, and reports the end
            await workflow.sleep(PAUSE)

    async def _supervise(self, flow: FlowSupervised) -> bool:
        """Let a child supervise the flow. Return whether the child has ended in order.

        A door or the audit may have started the supervisor before, which then is no child.
        """
        workflow_id = flow_workflow_id(flow.flow_uid)
        try:
            child = await workflow.start_child_workflow(
                FLOW_WORKFLOW,
                SuperviseFlow(flow_uid=flow.flow_uid, flow_id=flow.flow_id),
                id=workflow_id,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                static_summary=f"flow {flow.flow_id}",
            )
        except WorkflowAlreadyStartedError:
            child = None
        self._supervisor = workflow_id
        workflow.set_current_details(f"flow {flow.flow_id}, supervised by workflow {workflow_id}")
        if self._is_cancelled:
            await self._pass_cancel_on()
        if child is None:
            return False
        try:
            await child
        except ChildWorkflowError as error:
            return isinstance(error.cause, CancelledError)
        return True

    async def _pass_cancel_on(self) -> None:
        """Cancel the flow's supervisor. Without an open supervisor, the next supervisor gets the cancel."""
        if self._supervisor is not None:
            with suppress(FailureError):
                await workflow.get_external_workflow_handle(self._supervisor).cancel()


def _push(occurrence: FlowOccurrence) -> PushOccurrence:
    """Return the occurrence's push, with a flow id made from schedule and due time."""
    definition = occurrence.definition
    own = {
        "id": scheduled_flow_id(workflow.info().workflow_id),
        "name": definition.name or definition.id,
        "family": definition.family or occurrence.schedule_id,
    }
    return PushOccurrence(definition=definition.model_copy(update=own), requested_by=occurrence.requested_by)
