"""Activity to push the flow for a schedule's occurrence, under the occurrence's own id."""

from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.ports.ledger import FlowDoors
from crawler_lifecycle.flows.ports.records import FlowRecords
from crawler_lifecycle.flows.rules.messages import PushOccurrence
from crawler_lifecycle.model.flow_supervision import FlowSupervised

DOOR = "schedule"


@dataclass(frozen=True)
class ScheduledFlows:
    doors: FlowDoors
    records: FlowRecords

    @activity.defn(no_thread_cancel_exception=True)
    def push_occurrence(self, step: PushOccurrence) -> FlowSupervised:
        """Return the flow's present state. Push the flow only if no flow has the id: a flow is never pushed twice."""
        flow_id = step.definition.id
        try:
            uid, row = self.records.row(flow_id)
        except NotFound:
            self.doors.push(PushFlow(definition=step.definition, actor=step.requested_by, door=DOOR))
            uid, row = self.records.row(flow_id)
        return FlowSupervised(flow_uid=uid, flow_id=flow_id, state=row.state)
