"""Announcement for a flow's end, beside the supervision: a retry of the flow does not wait for an absent receiver."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.flow_announcements import FlowAnnouncements
from crawler_lifecycle.domain.flows.messages import SuperviseFlow
from crawler_lifecycle.workflows.flow_acts import Bell, FlowAct
from crawler_lifecycle.workflows.flow_course import Course
from crawler_lifecycle.workflows.in_the_task import at_once
from crawler_lifecycle.workflows.options import ANNOUNCE


class Announcement:
    """The announcement of the present end. An earlier end with a pending announcement goes with the present end."""

    def __init__(self, bell: Bell, *, is_short: bool) -> None:
        """`is_short`: no receiver can be slow."""
        self._is_short = is_short
        self._act: FlowAct[bool] = FlowAct(bell)
        self._is_owed = True  # also after the end: an earlier supervisor may have died between end and announcement

    @property
    def is_made(self) -> bool:
        return not (self._is_owed or self._act.is_under_way)

    def begin(self, course: Course, *, is_settled: bool) -> None:
        """Begin the announcement once for an end. `is_settled`: whether the end is stored."""
        if not course.planner.flow.state.is_final:
            self._is_owed = True
        elif is_settled and self._is_owed and not self._act.is_under_way:
            self._is_owed = False
            step = SuperviseFlow(flow_uid=course.flow.uid, flow_id=course.flow_id)
            self._act.begin(_announce(step, is_short=self._is_short))

    def take(self) -> None:
        self._act.take()


async def _announce(step: SuperviseFlow, *, is_short: bool) -> bool:
    """Announce, and return whether all receivers were reached. After an hour the audit continues the tries."""
    try:
        if is_short:
            await at_once(FlowAnnouncements.announce_flow, step, ANNOUNCE)
        else:
            await workflow.execute_activity_method(FlowAnnouncements.announce_flow, step, **ANNOUNCE)
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("the end of flow %s is not announced: %s", step.flow_id, error.cause)
        return False
    return True
