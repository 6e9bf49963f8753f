"""Watcher: a loop that follows the cluster's changes and nudges the workflows concerned.

The watcher may miss any change and die at any time: looks stay correct without nudges and only come later. During an
outage of Temporal or of the cluster's changes the loop goes on, and unsent nudges wait here.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from crawler_lifecycle.errors import LifecycleError, NotFound, NotReady, TemporaryError
from crawler_lifecycle.ports import Claims, Cluster, Nudge
from crawler_lifecycle.services.health import Pulses

log = logging.getLogger(__name__)

SENT_AT_ONCE = 16
REPEAT_SECONDS = 15.0
PAUSE = 1.0  # between two tries to reach Temporal


@dataclass
class Watcher:
    claims: Claims
    cluster: Cluster
    send: Callable[[Nudge], Awaitable[None]]
    pulses: Pulses = field(default_factory=Pulses)
    _changed: set[str] = field(default_factory=set)  # runs with an unacknowledged nudge stay here
    _unsent: dict[int, Nudge] = field(
        default_factory=dict
    )  # claimed nudges stay until sent, since no other watcher claims them again
    _repeated: dict[int, int] = field(default_factory=dict)  # numbers of nudges by run: a nudge is repeated once
    _repeated_at: float | None = None

    async def run(self, connect: Callable[[], Awaitable[object]] | None = None) -> None:
        """Watch for ever. No nudge is claimed before `connect` has succeeded. Raise NotReady where `connect` can
        never succeed."""
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
        if error.message != self.pulses.succeeded.problem:  # an unchanged problem was logged before
            log.warning("no nudges for now: %s", error.message)
        self.pulses.failed(error.message)

    async def _take(self, changes: Iterator[set[str]]) -> LifecycleError | None:
        """Take up changed runs; without news from the cluster, return the problem and send earlier nudges all the
        same."""
        try:
            self._changed |= await asyncio.to_thread(next, changes)
        except LifecycleError as error:
            return error
        return None

    async def _nudge(self) -> None:
        """Send all nudges. An unreachable workflow must not delay the remaining nudges."""
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
        """Send one nudge. A send may take Temporal's whole time-out, so every send counts as a turn."""
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
        """Repeat unanswered nudges at the start, and regularly while a run has changed again."""
        at = self._repeated_at
        return at is None or (bool(self._changed) and time.monotonic() - at >= REPEAT_SECONDS)

    def _repeat(self) -> None:
        """Repeat nudges that were claimed but perhaps never sent, by a dead watcher or after a lost answer."""
        unanswered = self.claims.unanswered_nudges()
        is_first, self._repeated_at = self._repeated_at is None, time.monotonic()
        again = [nudge for nudge in unanswered if is_first or nudge.run_uid in self._changed]
        self._unsent |= {nudge.run_id: nudge for nudge in again if self._repeated.get(nudge.run_id) != nudge.number}
        self._repeated = {nudge.run_id: nudge.number for nudge in again}

    def _claim(self) -> None:
        changed = frozenset(self._changed)
        claimed = self.claims.claim_nudges(changed)
        self._unsent |= {nudge.run_id: nudge for nudge in claimed}  # whatever happens to the following nudges
        self._changed -= {nudge.run_uid for nudge in claimed}
        self._changed &= self.claims.open_among(changed)
