"""Which faults happen when: two at a time, chosen by the seed alone. How long each really took is written down."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random

from tests.chaos.faults import Fault, faults
from tests.chaos.ground import Ground

LANES = 2
PAUSE = (1.0, 7.0)
SHORT, LONG = (0.5, 6.0), (10.0, 25.0)
SHARE_OF_LONG = 0.15


@dataclass(frozen=True)
class Due:
    """Seconds since the soak began."""

    at: float
    lasts: float
    fault: str


@dataclass
class Passed:
    """When it happened, by the clock; not over yet if it has no end."""

    fault: str
    began: float
    ended: float | None = None


@dataclass
class FaultTimeline:
    ground: Ground
    passed: list[Passed] = field(default_factory=list)
    _touched: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def storm(self, seed: int, seconds: float) -> None:
        """Until this time is over, and everything that was broken has been given back."""
        known, began = faults(self.ground), time.monotonic()
        async with asyncio.TaskGroup() as lanes:
            for lane in range(LANES):
                lanes.create_task(self._lane(lane, list(forecast(seed, lane, seconds, sorted(known))), known, began))

    async def _lane(self, lane: int, dues: Sequence[Due], known: Mapping[str, Fault], began: float) -> None:
        chance = Random(lane)
        for due in dues:
            await asyncio.sleep(max(0.0, began + due.at - time.monotonic()))
            await self.happen(known[due.fault], due.lasts, chance)

    async def happen(self, fault: Fault, lasts: float, chance: Random) -> None:
        """As soon as no other fault touches the same."""
        async with AsyncExitStack() as touched:
            for each in sorted(fault.touches):
                await touched.enter_async_context(self._touched[each])
            passed = Passed(fault.name, time.time())
            self.passed.append(passed)
            async with fault.happens(self.ground, chance):
                await asyncio.sleep(lasts)
            passed.ended = time.time()

    @property
    def present(self) -> list[str]:
        return [each.fault for each in self.passed if each.ended is None]


def forecast(seed: int, lane: int, seconds: float, known: Sequence[str]) -> Iterator[Due]:
    chance, at = Random(f"{seed}:faults:{lane}"), 0.0
    while (at := at + chance.uniform(*PAUSE)) < seconds:
        lasts = chance.uniform(*(LONG if chance.random() < SHARE_OF_LONG else SHORT))
        yield Due(at, lasts, chance.choice(known))
        at += lasts
