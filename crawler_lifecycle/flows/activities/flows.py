"""Activities of a flow on the ledger: begin, read, write, grow, cancel, announce the end, and push on schedule."""

from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.delivery.ports import Announcer, Pusher
from crawler_lifecycle.errors import LifecycleError, NotFound, PermanentError, TemporaryError
from crawler_lifecycle.flows.model.requests import CancelMembers, PushFlow
from crawler_lifecycle.flows.ports.ledger import Delivery, FlowDoors, FlowEnds, FlowLedger, OwedEnd
from crawler_lifecycle.flows.ports.records import FlowRecords
from crawler_lifecycle.flows.rules.messages import (
    BeginFlow,
    CancelFlow,
    FlowBegun,
    GrowGroup,
    LedgerPage,
    PushOccurrence,
    ReadFlow,
    WriteFlow,
    Written,
)
from crawler_lifecycle.model.flow_states import FlowEvent, FlowNotice, FlowSupervised, SuperviseFlow
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.run_plan import Counted
from crawler_lifecycle.runs.ports import SupervisorExecution

DOOR = "schedule"
BY_TEMPORAL = CancelMembers(actor="temporal", door="temporal", reason="the flow's workflow was cancelled in Temporal")


@dataclass(frozen=True)
class FlowAnnouncements:
    ends: FlowEnds
    pusher: Pusher
    announcer: Announcer
    receivers_are_files: bool = False  # whether all notices and events go to files

    @activity.defn(no_thread_cancel_exception=True)
    def announce_flow(self, step: SuperviseFlow) -> Counted:
        """Make the pending deliveries for all ends. Return the number of ends.

        An end keeps the ids and texts of its first try. An absent receiver of notices does not delay the event. A
        permanent refusal is settled, and its reason recorded. After a temporary error Temporal tries again.
        """
        if activity.info().is_local and not self.receivers_are_files:
            # the execution has begun on a worker with other settings: a slow receiver would hold up its signals
            raise TemporaryError("receivers may be slow: the announcement is made outside of the workflow task")
        owed = self.ends.owed(step.flow_uid)
        passing = [problem for end in owed for problem in self._deliver(end)]
        if passing:
            raise TemporaryError("; ".join(passing))
        return Counted(count=len(owed))

    def _deliver(self, owed: OwedEnd) -> list[str]:
        """Try the end's pending deliveries. Return the temporary problems."""
        problems: dict[Delivery, LifecycleError] = {}
        for delivery in sorted(owed.owed):
            try:
                self._try(delivery, owed)
            except LifecycleError as error:
                problems[delivery] = error
        passing = {delivery for delivery, error in problems.items() if not isinstance(error, PermanentError)}
        settled = sorted(owed.owed - passing)
        messages = {delivery: error.message for delivery, error in problems.items()}
        self.ends.settle(owed.end.flow_uid, owed.end.end, settled, messages)
        return [messages[delivery] for delivery in sorted(passing)]

    def _try(self, delivery: Delivery, owed: OwedEnd) -> None:
        end = owed.end
        key, content = event_id(end.flow_uid, delivery, end.end), end.model_dump()
        if delivery is Delivery.NOTICE:
            self.pusher.send(FlowNotice(notice_id=key, **content))
        else:
            self.announcer.announce(FlowEvent(event_id=key, **content))


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
        return Counted(count=self.doors.change(step.flow_id, BY_TEMPORAL).count)
