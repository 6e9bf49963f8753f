"""An activity's view of its attempts, from their begins to their ends, and the steps that may follow there."""

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawler_lifecycle.base.ranges import from_ranges_by_value, to_ranges
from crawler_lifecycle.flows.ports.steps import AttemptKey, StepsBegun
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, FollowingStep, RunSteps, StepsEnded
from crawler_lifecycle.hosts.attempts import CallOutcome
from crawler_lifecycle.model.flow_states import EndKind

Outcome = CallOutcome | StepsBegun  # StepsBegun: an attempt that needed a process has not begun after all
SLOW_SECONDS = 1.0  # after a first end: time for further ends, or for followers to start


class Followers:
    """An activity's followers. A follower is due as soon as all steps before it have completed."""

    def __init__(self, followers: Iterable[FollowingStep]) -> None:
        self._all = {follower.start.number: follower for follower in followers}
        self._waiting = dict(self._all)
        self._foreign: set[int] = set()  # followers for other hosts
        self._completed: set[int] = set()
        self.started: set[int] = set()  # followers with a begin
        self.is_awaited = False  # whether the supervisor waits for the answer

    def note_end(self, end: AttemptEnd) -> None:
        if end.kind is EndKind.COMPLETED:
            self._completed.add(end.number)
        self.note_start(end.number)
        follower = self._all.get(end.number)
        self.is_awaited |= end.kind is not EndKind.COMPLETED or (follower is not None and follower.is_awaited)

    def note_start(self, number: int) -> None:
        """Note that the member's attempt has begun."""
        if number in self._all:
            self.started.add(number)

    def take_due(self, *, is_late: bool) -> list[AttemptRef]:
        """Return the due followers, once; none as soon as the supervisor waits for the answer.

        The supervisor waits if a due follower is for another host, or becomes due late: then it plans the start.
        """
        if self.is_awaited:
            return []
        due = [number for number, follower in self._waiting.items() if self._completed.issuperset(follower.after)]
        starts = [self._waiting.pop(number).start for number in due]
        self.is_awaited = not self._foreign.isdisjoint(due) or (bool(due) and is_late)
        return [] if self.is_awaited else starts

    def beyond(self, numbers: Iterable[int], most: int) -> list[int]:
        """Return the members beyond the limit for new followers. The supervisor starts them elsewhere."""
        new = [number for number in numbers if number in self._all and number not in self.started]
        self.is_awaited |= len(new) > most
        return new[most:]

    def refuse(self, number: int) -> bool:
        """Start no further followers after a refusal; return False for a member without a follower's part."""
        if number not in self._all:
            return False
        self._waiting.clear()
        self.started.discard(number)
        self.is_awaited = True
        return True

    def keep(self, numbers: Collection[int]) -> None:
        """Leave followers with other numbers to other hosts."""
        self._foreign = set(self._all).difference(numbers)

    def before(self, numbers: Iterable[int]) -> set[int]:
        """Return the members with a necessary end before the numbers' starts."""
        return {before for number in numbers if number in self._all for before in self._all[number].after}


@dataclass
class HostLook:
    """An activity's attempts: to begin, under way in the process, ended or stale."""

    step: RunSteps
    to_begin: dict[int, AttemptRef] = field(init=False)
    followers: Followers = field(init=False)
    under_way: dict[int, "asyncio.Future[Outcome]"] = field(default_factory=dict)
    is_left: bool = False  # whether the activity was cancelled
    _ends: list[AttemptEnd] = field(default_factory=list)
    _first_end: float | None = None  # time when the activity got to know its first end
    _stale: list[int] = field(default_factory=list)
    _starts: dict[int, AttemptRef] = field(init=False)  # for all attempts
    _heads: set[int] = field(init=False)  # the supervisor's starts
    _has_due: bool = False  # whether followers have become due since the last wait
    _has_lost: bool = False
    _has_news: bool = False
    _seconds: float = 0

    def __post_init__(self) -> None:
        self.to_begin = {start.number: start for start in self.step.starts}
        self._starts = dict(self.to_begin)
        self._heads = set(self.to_begin)
        self.followers = Followers(self.step.followers)

    @property
    def result(self) -> StepsEnded:
        return StepsEnded(
            ends=tuple(self._ends),
            stale=to_ranges(self._stale),
            followed=to_ranges(self.followers.started),
            has_lost=self._has_lost,
            has_news=self._has_news,
            seconds=self._seconds,
        )

    @property
    def is_over(self) -> bool:
        """Whether the activity may answer. Slow steps must not hold up quick steps' dependents for long."""
        if not self.to_begin and not self.under_way:
            return True
        if self.step.followers:
            return self.followers.is_awaited
        return self._is_slow

    @property
    def has_only_followers(self) -> bool:
        """Whether all steps of the supervisor have ended."""
        return self._heads.isdisjoint(self.to_begin.keys() | self.under_way.keys())

    @property
    def _is_slow(self) -> bool:
        return self._first_end is not None and time.monotonic() - self._first_end > SLOW_SECONDS

    def key(self, start: AttemptRef) -> AttemptKey:
        return self.step.flow.uid, start.number, start.attempt

    def reads(self, starts: Iterable[AttemptRef]) -> dict[int, int]:
        """Return the attempts whose results the starts read, by member."""
        before = self.followers.before(start.number for start in starts)
        return from_ranges_by_value(self.step.reads) | {number: self._starts[number].attempt for number in before}

    def wait_for(self, number: int, outcome: "asyncio.Future[Outcome]") -> None:
        """Wait for the outcome of an attempt under way."""
        self.under_way[number] = outcome
        self.to_begin.pop(number, None)

    def leave_followers(self, most: int) -> None:
        """Begin new followers, up to the limit. The supervisor gives the others to any host."""
        for number in self.followers.beyond(self.to_begin, most):
            del self.to_begin[number]

    def take_begun(self, begun: StepsBegun) -> None:
        """Take the answer to begins. Attempts that a host holds stay to begin."""
        self._has_lost |= begun.has_lost
        self.take_ended(begun.ended)
        for number in (*begun.held, *(step.start.number for step in begun.mine)):
            self.followers.note_start(number)
        for number in begun.stale:
            self.to_begin.pop(number, None)
            if not self.followers.refuse(number):
                self._stale.append(number)

    def take_ended(self, ends: Iterable[AttemptEnd]) -> None:
        for end in ends:
            self._add(end)
            self.to_begin.pop(end.number, None)
        self._follow()

    def take_outcomes(self) -> None:
        """Take the ends of attempts under way. An attempt without an end has to begin again."""
        for number in [number for number, future in self.under_way.items() if future.done()]:
            outcome = self.under_way.pop(number).result()
            if isinstance(outcome, StepsBegun):
                self.to_begin[number] = self._starts[number]
                self.take_begun(outcome)
            elif outcome.end is None:
                self.to_begin[number] = self._starts[number]
            else:
                self._add(outcome.end)
                self._has_news |= outcome.has_news
                self.followers.is_awaited |= outcome.has_news
                self._seconds += outcome.seconds if number in self._heads else 0
        self._follow()

    async def wait(self, seconds: float, elsewhere: Sequence["asyncio.Future[None]"] = ()) -> None:
        """Wait for an end of an attempt under way; with attempts to begin, not longer than the time.

        `elsewhere`: the ends of attempts that another activity in the process waits for.
        """
        if self._has_due:
            self._has_due = False
            return
        waits: set[asyncio.Future[Any]] = {*self.under_way.values(), *elsewhere}
        if not waits:
            await asyncio.sleep(seconds)
            return
        times = [seconds] if self.to_begin else []
        if self._first_end is not None and not self.step.followers:
            times.append(SLOW_SECONDS)
        await asyncio.wait(waits, timeout=min(times, default=None), return_when=asyncio.FIRST_COMPLETED)

    def _add(self, end: AttemptEnd) -> None:
        self._ends.append(end)
        self.followers.note_end(end)
        if self._first_end is None:
            self._first_end = time.monotonic()

    def _follow(self) -> None:
        """Let due followers begin."""
        if self.is_left:
            return
        for start in self.followers.take_due(is_late=self._is_slow):
            self.to_begin[start.number] = self._starts[start.number] = start
            self._has_due = True
