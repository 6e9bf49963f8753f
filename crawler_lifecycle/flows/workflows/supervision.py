"""Supervision for a flow: a supervisor's round, its own requests and its announcement. Other parts have own modules."""

from collections.abc import Iterable
from datetime import datetime

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.base.pacing import FIRST_STEADY_LOOK, look_time, next_look
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.flows.activities.flows import FlowActivities, FlowAnnouncements
from crawler_lifecycle.flows.rules.messages import BeginFlow, CancelFlow, FlowBegun, GrowGroup, ReadFlow
from crawler_lifecycle.flows.rules.plan import AttemptStart, MemberChange, Plan, Unconfirmed
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import GroupRow
from crawler_lifecycle.flows.workflows.course import Bell, Course, FlowAct, Writes, planner_of
from crawler_lifecycle.flows.workflows.crawls import CrawlStarter, CrawlStopper, StartChecks
from crawler_lifecycle.flows.workflows.news import News, observe, read
from crawler_lifecycle.flows.workflows.steps import StepStarter
from crawler_lifecycle.model.flow_states import FlowState, SuperviseFlow
from crawler_lifecycle.model.run_plan import Counted
from crawler_lifecycle.temporal.options import ANNOUNCE, WRITE, at_once
from crawler_lifecycle.temporal.visibility import FLOW_ID, FLOW_STATE


class FlowDisplay:
    """A flow as Temporal's lists and pages show the flow."""

    def __init__(self, flow_id: str, has_attributes: bool) -> None:
        self._flow_id = flow_id
        self._has_attributes = has_attributes
        self._state: FlowState | None = None  # as shown

    def show(self, planner: Planner) -> None:
        state = planner.flow.state
        counts = "\n".join(f"- {number} {word}" for word, number in planner.counts.items())
        workflow.set_current_details(f"**{state}**: {counted(len(planner.rows), 'member')}\n\n{counts}")
        if self._has_attributes and state is not self._state:
            attributes = [FLOW_ID.value_set(self._flow_id), FLOW_STATE.value_set(state)]
            workflow.upsert_search_attributes(attributes if self._state is None else attributes[1:])
        self._state = state


class OwnDoors:
    """The supervisor's own requests, one at a time. Each changes the flow by its door, so a reading follows."""

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


async def begin(step: SuperviseFlow, bell: Bell) -> "FlowSupervisor":
    """Make this execution the flow's supervisor, and read the flow."""
    info = workflow.info()
    request = BeginFlow(
        flow_uid=step.flow_uid,
        workflow_id=info.workflow_id,
        temporal_run_id=info.run_id,  # every execution has its own id: a late start by an earlier execution is refused
        began_at=info.workflow_start_time,
    )
    begun = await at_once(FlowActivities.begin_flow, request, WRITE)
    reading = await read(ReadFlow(flow=begun.flow), begun.page)
    planner = planner_of(reading.pages[0], reading.members, reading.groups)
    course = Course(begun.flow, step.flow_id, planner, reading.door, Writes(bell), Unconfirmed())
    observe(course, reading.pages)
    return FlowSupervisor(course, bell, begun)


class FlowSupervisor:
    def __init__(self, course: Course, bell: Bell, begun: FlowBegun) -> None:
        self._course = course
        self._bell = bell
        self.news = News(bell)
        self._steps = StepStarter(bell)
        self._crawls = CrawlStarter(bell)
        self._checks = StartChecks(bell)
        self._stops = CrawlStopper(bell)
        self._doors = OwnDoors(bell)
        self._announcement = Announcement(bell, is_short=begun.receivers_are_files)
        self._view = FlowDisplay(course.flow_id, begun.search_attributes)
        self._anchor = workflow.now()  # the looks' times count from here
        self._look = 1  # number of the next look
        self._wake_at: datetime | None = None  # the planner's next time
        self._has_cancelled = False
        self.news.want_first_look(course)
        self._adopt()
        self.adopted = self._steps.pending  # attempts of an earlier supervisor

    @property
    def state(self) -> FlowState:
        return self._course.planner.flow.state

    @property
    def is_acting(self) -> bool:
        """Whether the supervisor has an activity under way."""
        parts = (self._course.writes, self.news, self._crawls, self._checks, self._stops, self._doors)
        return any(part.is_under_way for part in parts)

    @property
    def is_over(self) -> bool:
        return self._is_settled and self._announcement.is_made

    @property
    def _is_settled(self) -> bool:
        """Whether the flow has ended, the end is stored, and no news is left."""
        is_read = not (self.news.is_wanted or self.news.is_under_way)
        return self.state.is_final and is_read and self._course.writes.is_idle and not self._doors.is_under_way

    @property
    def owes_cancel(self) -> bool:
        """Whether a cancel by Temporal's tools may be unrecorded."""
        return self._doors.owes_cancel

    def cancel(self) -> None:
        """Cancel all members, as people do at the door, once."""
        if not self._has_cancelled:
            self._has_cancelled = self._doors.is_cancel_owed = True

    def take_in(self) -> None:
        """Take in what has happened since the last round."""
        course = self._course
        planner = course.planner
        if self.news.take(course):
            self._adopt()
        if course.planner is not planner:  # the new planner plans these requests again, if they still have a cause
            self._stops.clear()
            self._doors.clear()
        self._steps.take(course, self.news)
        self._crawls.take(course, self.news)
        if self._doors.take():
            self.news.want(first=True)
        self._take_write()
        self._stops.take()
        self._announcement.take()
        self._checks.take(course, self._crawls)
        if self._next_look <= workflow.now():
            self._look = next_look(self._anchor, self._look, workflow.now())
            self.news.want()
            self._checks.is_wanted = bool(course.planner.crawls_in_flight)

    def plan(self) -> None:
        """Plan, unless a door has outdated what the planner knows."""
        if self.news.comes_first:
            return
        now, course = workflow.now(), self._course
        course.writes.add(self._steps.unbegun(course, now))
        plan = course.planner.advance(now, self._steps.room)
        if course.planner.crawls_to_ask and not self.news.is_under_way:
            self.news.want()  # the tasks' last ends
        self._wake_at = plan.wake_at
        if plan.is_empty:
            return
        starts = {start.number: start for start in plan.starts}
        others = [change for change in plan.changes if not self._begins(change, starts)]
        course.writes.add(others, plan.flow_state)
        self._stops.add(plan.stops)
        self._doors.grow(plan.groups)
        self._start(plan)

    def act(self) -> None:
        """Begin all due acts, except for kinds with an act under way."""
        course = self._course
        self._view.show(course.planner)
        self.news.begin(course, is_writing=course.writes.is_under_way or self._crawls.is_under_way)
        self._doors.begin(course)
        self._checks.begin(course)
        self._announcement.begin(course, is_settled=self._is_settled)
        if not self.news.comes_first:
            if not self._crawls.is_under_way:
                course.writes.begin(course.flow, course.door)
                self._bell.ring_at(course.writes.due)
            if not course.writes.is_under_way:
                self._crawls.begin(course)
            self._stops.begin(course, self._crawls.numbers)
        self._bell.ring_at(self._wake_at, self._steps.wake_at, self._next_look)

    def _take_write(self) -> None:
        answer = self._course.writes.take()
        if answer is None:
            return
        if answer.is_refused:
            self.news.want(first=True, refused=answer.members, all_rows=answer.has_lost)
        else:
            self._course.note(answer.version)
            self._course.take_written(answer.begins)

    def _begins(self, change: MemberChange, starts: dict[int, AttemptStart]) -> bool:
        """Return whether the change is a start, and if so, remember the start until the attempt is recorded."""
        start = starts.get(change.row.number)
        if start is None:
            return False
        self._course.unconfirmed.add(start, self._course.door, self._course.writes.overtake(change))
        return True

    def _start(self, plan: Plan) -> None:
        planner = self._course.planner
        self._crawls.start(start for start in plan.starts if planner.is_crawl(start.number))
        self._steps.start(self._course, [start for start in plan.starts if not planner.is_crawl(start.number)])

    def _adopt(self) -> None:
        """Continue with attempts under way without an activity by the present execution."""
        self._steps.adopt(self._course)

    @property
    def _next_look(self) -> datetime:
        """Time of the next look. Without crawls under way, only a request at a door can have been missed."""
        is_busy = bool(self._course.planner.crawls_in_flight)
        return look_time(self._anchor, self._look if is_busy else max(self._look, FIRST_STEADY_LOOK))


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
