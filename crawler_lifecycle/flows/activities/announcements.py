"""Activity to announce a flow's end: a notice to people, and an event to programs."""

from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.delivery.ports.outside import Announcer, Pusher
from crawler_lifecycle.errors import LifecycleError, PermanentError, TemporaryError
from crawler_lifecycle.flows.ports.ledger import Delivery, FlowEnds, OwedEnd
from crawler_lifecycle.model.flow_announcements import FlowEvent, FlowNotice
from crawler_lifecycle.model.flow_supervision import SuperviseFlow
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.run_plan import Counted


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
