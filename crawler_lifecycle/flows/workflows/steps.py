"""Send attempts to the hosts of steps, in slices or one by one.

A host stores begins and ends before its answer. An attempt has one activity at a time.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from temporalio import workflow
from temporalio.workflow import ActivityConfig, ActivityHandle

from crawler_lifecycle.base.ranges import from_ranges
from crawler_lifecycle.flows.rules.ends import AttemptBegun
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps, StepsEnded
from crawler_lifecycle.flows.rules.plan import AttemptStart, MemberChange
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.slicing import Slices, followers, reads
from crawler_lifecycle.flows.workflows.course import Bell, Course
from crawler_lifecycle.flows.workflows.news import News
from crawler_lifecycle.model.flow_states import MemberKind
from crawler_lifecycle.model.naming import steps_queue
from crawler_lifecycle.temporal.options import STEPS

RUN_STEPS = "run_steps"  # the hosts' activity: the hosts have the author's code
MOST_PENDING = 500  # attempts with an activity
UNSEEN = timedelta(seconds=2)  # then a member that no host has begun is shown as available
LONGEST_PAUSE = timedelta(minutes=1)  # between looks for begins
Handle = ActivityHandle[StepsEnded]


class StepStarter:
    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._slices = Slices()
        self._asked: set[tuple[int, int]] = set()  # attempts with an activity
        self._answers: deque[tuple[RunSteps, Handle, Planner]] = deque()  # with the planner of the starts
        self._look_at: datetime | None = None  # time of the next look for begins
        self._pause = UNSEEN

    @property
    def pending(self) -> int:
        """Number of attempts with an activity."""
        return len(self._asked)

    @property
    def room(self) -> int:
        """Number of further attempts that may start."""
        return max(0, MOST_PENDING - self.pending)

    def start(self, course: Course, starts: Sequence[AttemptStart]) -> None:
        """Start attempts. An attempt that still has an activity waits for the activity's answer."""
        new = [start for start in starts if (start.number, start.attempt) not in self._asked]
        if new:
            self._pause = UNSEEN
            self._look_at = min(self._look_at or datetime.max.replace(tzinfo=UTC), workflow.now() + UNSEEN)
        self._ask_in_slices(course, course.door, [start.number for start in new])

    def adopt(self, course: Course) -> None:
        """Ask for attempts under way without an activity, such as an earlier supervisor's attempts."""
        for number in sorted(course.planner.in_flight):
            row = course.planner.rows[number]
            if row.kind is MemberKind.STEP and (number, row.attempt) not in self._asked:
                self._ask(course, course.door, [_ref(course, number)])

    def take(self, course: Course, news: News) -> None:
        """Take the answers of hosts."""
        while self._answers:
            step, handle, planner = self._answers.popleft()
            answer = handle.result()
            followed = set(from_ranges(answer.followed))
            course.observe(_begun(follower.start) for follower in step.followers if follower.start.number in followed)
            course.observe(answer.ends)
            heads = {ref.number for ref in step.starts}
            self._slices.note(step.route, sum(end.number in heads for end in answer.ends), answer.seconds)
            if answer.has_news or answer.has_lost:
                # a new planner was made after the loss
                news.want(first=True, all_rows=answer.has_lost and planner is course.planner)
            stale = set(from_ranges(answer.stale))
            rest: dict[int, list[int]] = {}  # members without an end, by the door of their starts
            for ref in step.starts:
                self._asked.discard((ref.number, ref.attempt))
                if ref.number in stale and course.refuse(ref, step.door):
                    news.want(first=True, refused=[ref.number])
                elif course.is_under_way(ref.number, ref.attempt):
                    rest.setdefault(course.unconfirmed.door_of(ref.number, course.door), []).append(ref.number)
            for door, numbers in rest.items():
                self._ask_in_slices(course, door, numbers)
            for ref in (follower.start for follower in step.followers):
                if course.is_under_way(ref.number, ref.attempt) and (ref.number, ref.attempt) not in self._asked:
                    self._ask(course, course.door, [ref])

    def unbegun(self, course: Course, now: datetime) -> Iterator[MemberChange]:
        """Look for begins once the time has come, and yield changes to show members without a host as available."""
        if self._look_at is None or self._look_at > now:
            return
        pending = [start for start in course.unconfirmed.starts if not course.planner.is_crawl(start.start.number)]
        self._look_at, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        if not pending:
            self._look_at = None
            return
        course.writes.is_wanted = True
        for start in pending:
            if start.start.before.state is not start.was.state:
                yield MemberChange(start.was, start.start.before)

    @property
    def wake_at(self) -> datetime | None:
        return self._look_at

    def _ask_in_slices(self, course: Course, door: int, numbers: Sequence[int]) -> None:
        for together in self._slices.cut(numbers, course.planner):
            self._ask(course, door, [_ref(course, number) for number in together])

    def _ask(self, course: Course, door: int, refs: Sequence[AttemptRef]) -> None:
        route = course.planner.rows[refs[0].number].route
        is_alone = len(refs) == 1 and not self._slices.is_slow(route)
        following = followers(course.planner, refs[0].number) if is_alone else ()
        all_refs = (*refs, *(follower.start for follower in following))
        step = RunSteps(
            flow=course.flow,
            door=door,
            flow_id=course.flow_id,
            route=route,
            starts=tuple(refs),
            followers=following,
            reads=reads(course.planner, (ref.number for ref in all_refs)),
        )
        self._asked.update((ref.number, ref.attempt) for ref in refs)
        options: ActivityConfig = {**STEPS, "task_queue": steps_queue(workflow.info().task_queue, route)}
        handle = workflow.start_activity(RUN_STEPS, step, result_type=StepsEnded, **options)
        planner = course.planner
        handle.add_done_callback(lambda _: self._answered(step, handle, planner))

    def _answered(self, step: RunSteps, handle: Handle, planner: Planner) -> None:
        self._answers.append((step, handle, planner))
        self._bell.ring()


def _begun(start: AttemptRef) -> AttemptBegun:
    return AttemptBegun(start.number, start.attempt, start.generation, workflow.now())


def _ref(course: Course, number: int) -> AttemptRef:
    row = course.planner.rows[number]
    return AttemptRef(number=number, generation=row.attempt_generation, attempt=row.attempt)
