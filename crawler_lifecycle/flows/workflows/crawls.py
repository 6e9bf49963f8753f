"""Start and stop runs for a flow's crawls, and check for crawls without a run."""

from collections.abc import Iterable, Sequence

from temporalio import workflow

from crawler_lifecycle.base.ranges import from_ranges, to_ranges
from crawler_lifecycle.flows.activities.crawls import FlowCrawlActivities
from crawler_lifecycle.flows.rules.messages import (
    AttemptRef,
    CheckStarts,
    CrawlsStarted,
    StartCrawls,
    StartsChecked,
    StopAttempts,
)
from crawler_lifecycle.flows.rules.plan import AttemptStart
from crawler_lifecycle.flows.rules.slicing import reads
from crawler_lifecycle.flows.workflows.course import Bell, Course, FlowAct
from crawler_lifecycle.flows.workflows.news import News
from crawler_lifecycle.model.run_plan import Counted
from crawler_lifecycle.temporal.options import LOOK, WRITE

MOST_AT_ONCE = 100  # crawls in an activity


class CrawlStarter:
    """Starts for crawls, in a single activity at a time."""

    def __init__(self, bell: Bell) -> None:
        self._act: FlowAct[CrawlsStarted] = FlowAct(bell)
        self._waiting: dict[int, AttemptRef] = {}
        self._sent: StartCrawls | None = None

    @property
    def is_under_way(self) -> bool:
        return self._act.is_under_way

    @property
    def numbers(self) -> frozenset[int]:
        """Crawls whose workflow may not have started yet."""
        sent = () if self._sent is None else (ref.number for ref in self._sent.starts)
        return frozenset(self._waiting) | frozenset(sent)

    def start(self, starts: Iterable[AttemptStart]) -> None:
        for start in starts:
            ref = AttemptRef(number=start.number, generation=start.generation, attempt=start.attempt)
            self._waiting[start.number] = ref

    def adopt(self, course: Course, numbers: Iterable[int]) -> None:
        """Start workflows for recorded attempts without a workflow, because an earlier supervisor died."""
        for number in numbers:
            row = course.planner.rows[number]
            if row.in_flight and number not in self.numbers:
                ref = AttemptRef(number=number, generation=row.attempt_generation, attempt=row.attempt)
                self._waiting[number] = ref

    def begin(self, course: Course) -> None:
        if self._act.is_under_way:
            return
        refs = [ref for ref in self._waiting.values() if course.is_under_way(ref.number, ref.attempt)]
        self._waiting = {ref.number: ref for ref in refs[MOST_AT_ONCE:]}
        if refs:
            refs = refs[:MOST_AT_ONCE]
            self._sent = step = StartCrawls(
                flow=course.flow,
                door=course.door,
                starts=tuple(refs),
                reads=reads(course.planner, (ref.number for ref in refs)),
            )
            self._act.begin(workflow.execute_activity_method(FlowCrawlActivities.start_crawls, step, **LOOK))

    def take(self, course: Course, news: News) -> None:
        started, sent = self._act.take(), self._sent
        if started is None or sent is None:
            return
        self._sent = None
        course.note(started.version)
        if started.has_lost:
            news.want(first=True, all_rows=True)
        course.observe(started.ends)
        stale = set(from_ranges(started.stale))
        for ref in sent.starts:
            if ref.number not in stale:
                course.confirm(ref.number, ref.attempt)
            elif course.unconfirmed.refuse(ref.number, ref.attempt, sent.door):
                news.want(first=True, refused=[ref.number])


class CrawlStopper:
    """Requests to attempts to end. A crawl is asked after its start, so that no start follows the stop."""

    def __init__(self, bell: Bell) -> None:
        self._act: FlowAct[Counted] = FlowAct(bell)
        self._waiting: set[int] = set()

    @property
    def is_under_way(self) -> bool:
        return self._act.is_under_way

    def add(self, numbers: Sequence[int]) -> None:
        self._waiting.update(numbers)

    def clear(self) -> None:
        self._waiting.clear()

    def begin(self, course: Course, starting: frozenset[int]) -> None:
        """Begin to ask. `starting`: crawls whose start is not over."""
        numbers = self._waiting - starting
        if self._act.is_under_way or not numbers:
            return
        self._waiting -= numbers
        step = StopAttempts(flow=course.flow, flow_id=course.flow_id, members=to_ranges(numbers))
        self._act.begin(workflow.execute_activity_method(FlowCrawlActivities.stop_attempts, step, **WRITE))

    def take(self) -> None:
        self._act.take()


class StartChecks:
    """Checks for crawls without a run: a workflow with a failure before its run refuses the attempt."""

    def __init__(self, bell: Bell) -> None:
        self._act: FlowAct[StartsChecked] = FlowAct(bell)
        self.is_wanted = False

    @property
    def is_under_way(self) -> bool:
        return self._act.is_under_way

    def begin(self, course: Course) -> None:
        if self.is_wanted and not self._act.is_under_way:
            self.is_wanted = False
            step = CheckStarts(flow=course.flow, before=workflow.now())
            self._act.begin(workflow.execute_activity_method(FlowCrawlActivities.check_starts, step, **WRITE))

    def take(self, course: Course, starts: CrawlStarter) -> None:
        checked = self._act.take()
        if checked is not None:
            course.observe(checked.ends)
            starts.adopt(course, from_ranges(checked.missing))
