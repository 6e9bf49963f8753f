"""Requests that the supervisor itself makes at its flow's door: growth by a crawl's tasks, and a cancel by Temporal."""

from collections.abc import Iterable

from temporalio import workflow

from crawler_lifecycle.activities.flows import FlowActivities
from crawler_lifecycle.contract.steps.run import Counted
from crawler_lifecycle.domain.flows.messages import CancelFlow, GrowGroup
from crawler_lifecycle.domain.flows.rows import GroupRow
from crawler_lifecycle.workflows.flow_acts import Bell, FlowAct
from crawler_lifecycle.workflows.flow_course import Course
from crawler_lifecycle.workflows.options import WRITE


class OwnDoors:
    """Requests, one at a time. Each changes the flow by its door, so a reading follows."""

    def __init__(self, bell: Bell) -> None:
        self._act: FlowAct[Counted] = FlowAct(bell)
        self._growth: dict[int, int] = {}  # expected members by group
        self._is_cancelling = False
        self.is_cancel_owed = False

    @property
    def owes_cancel(self) -> bool:
        """Whether a cancel by Temporal's tools may be unrecorded."""
        return self.is_cancel_owed or self._is_cancelling

    @property
    def is_under_way(self) -> bool:
        return self._act.is_under_way

    def grow(self, groups: Iterable[GroupRow]) -> None:
        self._growth.update((group.number, group.expected) for group in groups)

    def clear(self) -> None:
        """Drop the growth that waits. A cancel by Temporal's tools is still pending."""
        self._growth.clear()

    def begin(self, course: Course) -> None:
        if self._act.is_under_way:
            return
        if self.is_cancel_owed:
            self.is_cancel_owed, self._is_cancelling = False, True
            cancel = CancelFlow(flow=course.flow, flow_id=course.flow_id)
            self._act.begin(workflow.execute_activity_method(FlowActivities.cancel_flow, cancel, **WRITE))
        elif self._growth:
            group, expected = self._growth.popitem()
            growth = GrowGroup(flow=course.flow, group=group, expected=expected)
            self._act.begin(workflow.execute_activity_method(FlowActivities.grow_flow, growth, **WRITE))

    def take(self) -> bool:
        """Return whether a request has been made since the last call."""
        has_ended = self._act.take() is not None
        if has_ended:
            self._is_cancelling = False
        return has_ended
