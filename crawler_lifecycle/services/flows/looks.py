"""Looks: an activity's view of its attempts, from their claims to their ends."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from crawler_lifecycle.domain.flows.ends import AttemptEnd
from crawler_lifecycle.domain.flows.messages import AttemptRef, RunSteps, StepsEnded
from crawler_lifecycle.domain.ranges import to_ranges
from crawler_lifecycle.ports import AttemptKey
from crawler_lifecycle.services.flows.execution import Outcome

SLOW_SECONDS = 1.0  # after a first end, an activity waits for so long for further ends


@dataclass
class Look:
    """An activity's attempts: to be claimed, under way in the process, ended or stale."""

    step: RunSteps
    to_claim: dict[int, AttemptRef] = field(init=False)
    under_way: dict[int, "asyncio.Future[Outcome]"] = field(default_factory=dict)
    is_left: bool = False  # whether the activity was cancelled
    _ends: list[AttemptEnd] = field(default_factory=list)
    _first_end: float | None = None  # time when the activity got to know its first end
    _stale: list[int] = field(default_factory=list)
    _has_news: bool = False
    _seconds: float = 0

    def __post_init__(self) -> None:
        self.to_claim = {start.number: start for start in self.step.starts}

    @property
    def result(self) -> StepsEnded:
        return StepsEnded(
            ends=tuple(self._ends), stale=to_ranges(self._stale), has_news=self._has_news, seconds=self._seconds
        )

    @property
    def is_over(self) -> bool:
        """Whether the activity may answer. Slow steps must not hold up quick steps' dependents for long."""
        if not self.to_claim and not self.under_way:
            return True
        return self._first_end is not None and time.monotonic() - self._first_end > SLOW_SECONDS

    def key(self, start: AttemptRef) -> AttemptKey:
        return self.step.flow.uid, start.number, start.attempt

    def wait_for(self, number: int, future: "asyncio.Future[Outcome]") -> None:
        self.under_way[number] = future
        del self.to_claim[number]

    def take_ended(self, ends: Iterable[AttemptEnd]) -> None:
        for end in ends:
            self._add(end)
            self.to_claim.pop(end.number, None)

    def take_stale(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._stale.append(number)
            self.to_claim.pop(number, None)

    def take_outcomes(self) -> None:
        """Take the ends of attempts under way. An attempt without an end has to be claimed again."""
        starts = {start.number: start for start in self.step.starts}
        for number in [number for number, future in self.under_way.items() if future.done()]:
            outcome = self.under_way.pop(number).result()
            if outcome.end is None:
                self.to_claim[number] = starts[number]
            else:
                self._add(outcome.end)
                self._has_news |= outcome.has_news
                self._seconds += outcome.seconds

    async def wait(self, seconds: float) -> None:
        """Wait for an end of an attempt under way; with attempts in other hosts, not longer than the time."""
        if not self.under_way:
            await asyncio.sleep(seconds)
            return
        times = [seconds] if self.to_claim else []
        if self._first_end is not None:
            times.append(SLOW_SECONDS)
        timeout = min(times, default=None)
        await asyncio.wait(self.under_way.values(), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    def _add(self, end: AttemptEnd) -> None:
        self._ends.append(end)
        if self._first_end is None:
            self._first_end = time.monotonic()
