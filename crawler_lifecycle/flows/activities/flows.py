"""Activities of a flow's supervisor on the ledger: begin, read, write, grow and cancel the flow."""

from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.flows.model.requests import CancelMembers
from crawler_lifecycle.flows.ports.ledger import FlowDoors, FlowLedger
from crawler_lifecycle.flows.rules.messages import (
    BeginFlow,
    CancelFlow,
    FlowBegun,
    GrowGroup,
    LedgerPage,
    ReadFlow,
    WriteFlow,
    Written,
)
from crawler_lifecycle.model.run_plan import Counted
from crawler_lifecycle.runs.ports.runs import SupervisorExecution

BY_TEMPORAL = CancelMembers(actor="temporal", door="temporal", reason="the flow's workflow was cancelled in Temporal")


@dataclass(frozen=True)
class FlowActivities:
    ledger: FlowLedger
    doors: FlowDoors
    search_attributes: bool = False  # whether the server has our search attributes
    receivers_are_files: bool = False  # whether all notices and events go to files

    @activity.defn(no_thread_cancel_exception=True)
    def begin_flow(self, step: BeginFlow) -> FlowBegun:
        """Make the execution the flow's supervisor. Return the flow's first page, which saves a further activity."""
        flow = self.ledger.begin(
            step.flow_uid, SupervisorExecution(step.workflow_id, step.temporal_run_id, step.began_at)
        )
        page = self.ledger.read(ReadFlow(flow=flow))
        return FlowBegun(
            flow=flow,
            page=page,
            search_attributes=self.search_attributes,
            receivers_are_files=self.receivers_are_files,
        )

    @activity.defn(no_thread_cancel_exception=True)
    def read_flow(self, step: ReadFlow) -> LedgerPage:
        return self.ledger.read(step)

    @activity.defn(no_thread_cancel_exception=True)
    def write_flow(self, step: WriteFlow) -> Written:
        return self.ledger.write(step)

    @activity.defn(no_thread_cancel_exception=True)
    def grow_flow(self, step: GrowGroup) -> Counted:
        """Add the members for a crawl's tasks."""
        self.ledger.grow(step)
        return Counted(count=step.expected)

    @activity.defn(no_thread_cancel_exception=True)
    def cancel_flow(self, step: CancelFlow) -> Counted:
        """Cancel all members, as the door does."""
        return Counted(count=self.doors.cancel(step.flow_id, BY_TEMPORAL).count)
