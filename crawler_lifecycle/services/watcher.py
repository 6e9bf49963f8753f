"""Who wakes a run when its jobs change? This loop follows the cluster and nudges the workflow concerned.

It may miss anything and die at any time: the looks stay correct without it, they are only later. While Temporal or
the cluster's changes are away it goes on turning, and what it could not send stays here until it is sent.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from crawler_lifecycle.errors import LifecycleError, NotFound, NotReady, TemporaryError
from crawler_lifecycle.ports import Cluster, Nudge, Nudges
from crawler_lifecycle.services.health import Pulses

log = logging.getLogger(__name__)

SENT_AT_ONCE = 16
REPEAT_SECONDS = 15.0
PAUSE = 1.0  # between two tries to reach Temporal at all


@dataclass
class Watcher:
    nudges: Nudges
    cluster: Cluster
    send: Callable[[Nudge], Awaitable[None]]
    pulses: Pulses = field(default_factory=Pulses)
    _changed: set[str] = field(default_factory=set)  # runs whose last nudge is not acknowledged yet stay in here
    _unsent: dict[int, Nudge] = field(default_factory=dict)  # nobody else claims them again: they stay until sent
    _repeated: dict[int, int] = field(default_factory=dict)  # numbers of nudges, by their runs: each is repeated once
    _repeated_at: float | None = None

    async def run(self, connect: Callable[[], Awaitable[object]] | None = None) -> None:
        """For ever; nothing is claimed before `connect` has succeeded. NotReady if it says that it never will."""
        while connect and not await self._connected(connect):
            await asyncio.sleep(PAUSE)
        changes = self.cluster.changes()
        while True:
            try:
                trouble = await self._take(changes)
                await self._nudge()
                if trouble:
                    raise trouble
                self.pulses.passed()
            except LifecycleError as error:
                self._failed(error)

    async def _connected(self, connect: Callable[[], Awaitable[object]]) -> bool:
        try:
            await connect()
        except NotReady:
            raise
        except TemporaryError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: LifecycleError) -> None:
        if error.message != self.pulses.succeeded.problem:  # else it was told before
            log.warning("no nudges for now: %s", error.message)
        self.pulses.failed(error.message)

    async def _take(self, changes: Iterator[set[str]]) -> LifecycleError | None:
        """What changed; why none is told, if so: what was told before is sent all the same."""
        try:
            self._changed |= await asyncio.to_thread(next, changes)
        except LifecycleError as error:
            return error
        return None

    async def _nudge(self) -> None:
        """Whom nobody can send anything is no reason not to send it to others."""
        if self._repeats():
            await asyncio.to_thread(self._repeat)
        if self._changed:
            await asyncio.to_thread(self._claim)
        places = asyncio.Semaphore(SENT_AT_ONCE)
        pending = list(self._unsent.values())
        failed = await asyncio.gather(*(self._sent(nudge, places) for nudge in pending))
        if failed and all(failed):
            raise next(filter(None, failed))

    async def _sent(self, nudge: Nudge, places: asyncio.Semaphore) -> LifecycleError | None:
        """Each may take as long as Temporal is waited for, so each is a turn of the loop."""
        async with places:
            try:
                await self.send(nudge)
            except NotFound:
                log.warning("run %s is not over, but its workflow %s is not open", nudge.run_id, nudge.workflow_id)
            except LifecycleError as error:
                log.warning("run %s not nudged yet: %s", nudge.run_id, error.message)
                return error
            finally:
                self.pulses.turned.beat()
        del self._unsent[nudge.run_id]
        return None

    def _repeats(self) -> bool:
        """At first, and now and then while a run has changed again and its last nudge is not answered."""
        at = self._repeated_at
        return at is None or (bool(self._changed) and time.monotonic() - at >= REPEAT_SECONDS)

    def _repeat(self) -> None:
        """What was claimed and perhaps never sent: the one before us died, or the answer to a claim was lost."""
        unanswered = self.nudges.unanswered()
        is_first, self._repeated_at = self._repeated_at is None, time.monotonic()
        again = [nudge for nudge in unanswered if is_first or nudge.run_uid in self._changed]
        self._unsent |= {each.run_id: each for each in again if self._repeated.get(each.run_id) != each.number}
        self._repeated = {each.run_id: each.number for each in again}

    def _claim(self) -> None:
        changed = frozenset(self._changed)
        claimed = self.nudges.claim(changed)
        self._unsent |= {nudge.run_id: nudge for nudge in claimed}  # whatever becomes of what follows
        self._changed -= {nudge.run_uid for nudge in claimed}
        self._changed &= self.nudges.open_among(changed)
