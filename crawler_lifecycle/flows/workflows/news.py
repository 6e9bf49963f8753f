"""News of a flow: the supervisor reads the rows that doors have changed, and looks at the runs of crawls under way.

After a refused start or write the reading comes first: until then every further start would be refused as well.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from temporalio import workflow

from crawler_lifecycle.base.ranges import to_ranges
from crawler_lifecycle.flows.activities.flows import FlowActivities
from crawler_lifecycle.flows.rules.ends import in_order
from crawler_lifecycle.flows.rules.messages import ALL_ROWS, LedgerPage, ReadFlow
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow
from crawler_lifecycle.flows.workflows.course import Bell, Course, FlowAct, planner_of
from crawler_lifecycle.model.flow_states import MemberKind
from crawler_lifecycle.temporal.options import READ


@dataclass
class Reading:
    """All pages of a reading."""

    step: ReadFlow
    pages: list[LedgerPage]
    members: list[MemberRow]
    groups: list[GroupRow]

    @property
    def door(self) -> int:
        return self.pages[0].door

    def is_older(self, door: int) -> bool:
        """Return whether the database has lost the door, or acts from before the reading."""
        page, known = self.pages[0], self.step.flow
        return self.door < door or page.version < known.version

    @property
    def is_whole(self) -> bool:
        return self.step.since == ALL_ROWS


async def read(step: ReadFlow, first: LedgerPage | None = None) -> Reading:
    """Read all pages. `first`: the first page, if read already. A door between two pages begins the reading anew."""
    reading, page = Reading(step, [], [], []), first
    while True:
        if page is None:
            page = await workflow.execute_activity_method(FlowActivities.read_flow, step, **READ)
        if reading.pages and page.door != reading.door:
            reading, page, step = Reading(reading.step, [], [], []), None, reading.step
            continue
        members, groups = page.rows.unpacked()
        reading.pages.append(page)
        reading.members += members
        reading.groups += groups
        if not page.has_more:
            return reading
        step, page = step.model_copy(update={"after_member": members[-1].number}), None


class News:
    """The supervisor's readings, one at a time."""

    def __init__(self, bell: Bell) -> None:
        self._act: FlowAct[Reading] = FlowAct(bell)
        self._refused: set[int] = set()  # members with a refused write
        self._since_ever = False  # whether the next reading is for a new planner
        self._looks_at_all = True  # whether the next reading is the first for the planner
        self.is_wanted = False
        self.comes_first = False  # whether no plan is made before the next reading

    @property
    def is_under_way(self) -> bool:
        return self._act.is_under_way

    def want(self, *, first: bool = False, refused: Collection[int] = (), all_rows: bool = False) -> None:
        """Read soon. `first`: before the next plan. `refused`: members whose rows are restored as stored.

        `all_rows`: for a new planner, since the stored rows may be older than the planner's rows.
        """
        self.is_wanted = True
        self.comes_first = self.comes_first or first
        self._refused |= set(refused)
        self._since_ever = self._since_ever or all_rows

    def want_first_look(self, course: Course) -> None:
        """Look at the runs before the first plan with a new planner, if crawls have begun."""
        self._looks_at_all = True
        rows = course.planner.rows.values()
        if any(row.kind is MemberKind.CRAWL and row.attempt for row in rows):
            self.want(first=True)

    def begin(self, course: Course, *, is_writing: bool) -> None:
        """Begin a reading if one is wanted and none is under way.

        A whole reading waits until no write is under way: the new planner would not know the write.
        """
        if not self.is_wanted or self._act.is_under_way or (self._since_ever and is_writing):
            return
        self.is_wanted = False
        if self._since_ever:
            step = ReadFlow(flow=course.flow)
        else:
            step = self._step(course)
            self._refused.clear()
            self._looks_at_all = False
        self._since_ever = False
        self._act.begin(read(step))

    def _step(self, course: Course) -> ReadFlow:
        planner = course.planner
        crawls = planner.crawls_in_flight | {n for n in course.writes.numbers if planner.is_crawl(n)}
        with_tasks = planner.wiring.crawls_with_tasks
        return ReadFlow(
            flow=course.flow,
            since=course.door,
            members=to_ranges({*self._refused, *course.unconfirmed.numbers}),
            tasks_of=to_ranges(with_tasks if self._looks_at_all else with_tasks & crawls | planner.crawls_to_ask),
        )

    def take(self, course: Course) -> bool:
        """Take the rows and sights after a reading has ended; return whether a reading has ended."""
        reading = self._act.take()
        if reading is None:
            return False
        if not self.is_wanted:
            self.comes_first = False
        if reading.is_whole:
            self._renew(course, reading)
        else:
            self._update(course, reading)
        return True

    def _renew(self, course: Course, reading: Reading) -> None:
        """Build a new planner. The planner plans all waiting writes and starts anew."""
        page = reading.pages[0]
        planner = planner_of(page, reading.members, reading.groups)
        course.renew(planner, reading.door, page.version)
        observe(course, reading.pages)
        self._refused.clear()
        self.want_first_look(course)

    def _update(self, course: Course, reading: Reading) -> None:
        planner, page = course.planner, reading.pages[0]
        if (
            reading.is_older(course.door)
            or page.removal > course.door
            or not planner.fits(reading.members, reading.groups)
        ):
            self.want(first=True, all_rows=True)
            return
        course.door = page.door
        course.note(page.version)  # the answer to an act may be lost
        planner.take_flow(page.row)
        rows = course.unconfirmed.without_undecided(reading.members, page.door)
        course.writes.forget(planner.restore(rows, reading.groups))
        observe(course, reading.pages)
        if course.unconfirmed.has_outdated(page.door):
            self.want(first=True)  # to learn about the starts


def observe(course: Course, pages: Iterable[LedgerPage]) -> None:
    for page in pages:
        course.observe(in_order(page.begins, page.ends))
        for seen in page.runs:
            course.confirm(seen.number, seen.attempt)
            course.planner.observe(seen)
        for tasks in page.tasks:
            course.planner.observe(tasks)
