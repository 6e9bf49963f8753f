"""Watcher: a loop that follows the cluster's changes and nudges the workflows of the changed runs.

The watcher may miss a change, and may die at any time: without nudges, looks are as correct and only come later. During
an outage of Temporal or of the cluster the loop goes on, and unsent nudges wait here.
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
    _changed: set[str] = field(default_factory=set)  # run_uids; a run whose last nudge is unanswered waits here
    # claimed nudges by RunID, until they are sent: a dropped nudge cannot be claimed again
    _unsent: dict[int, Nudge] = field(default_factory=dict)
    _repeated: dict[int, int] = field(default_factory=dict)  # nudges' numbers by RunID: a nudge is repeated once
    _repeated_at: float | None = None

    async def run(self, connect: Callable[[], Awaitable[object]] | None = None) -> None:
        """Watch for ever. No nudge is claimed before `connect` has succeeded. Raise NotReady where `connect` can
        never succeed."""
        while connect and not await self._try_to_connect(connect):
            await asyncio.sleep(PAUSE)
        changes = self.cluster.changes()
        while True:
            try:
                problem = await self._take_changes(changes)
                await self._nudge()  # earlier nudges are sent also while the cluster has a problem
                if problem:
                    raise problem
                self.pulses.passed()
            except LifecycleError as error:
                self._failed(error)

    async def _try_to_connect(self, connect: Callable[[], Awaitable[object]]) -> bool:
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

    async def _take_changes(self, changes: Iterator[set[str]]) -> LifecycleError | None:
        """Wait for changes and note the changed runs. Return the problem if the cluster does not answer.

        Without changes the cluster yields an empty set now and then, so that the loop turns.
        """
        try:
            self._changed |= await asyncio.to_thread(next, changes)
        except LifecycleError as error:
            return error
        return None

    async def _nudge(self) -> None:
        """Send all nudges. An unreachable workflow must not delay the remaining nudges."""
        if self._repeat_is_due():
            await asyncio.to_thread(self._repeat)
        if self._changed:
            await asyncio.to_thread(self._claim)
        slots = asyncio.Semaphore(SENT_AT_ONCE)
        pending = list(self._unsent.values())
        errors = await asyncio.gather(*(self._try_to_send(nudge, slots) for nudge in pending))
        if errors and all(errors):
            raise next(filter(None, errors))

    async def _try_to_send(self, nudge: Nudge, slots: asyncio.Semaphore) -> LifecycleError | None:
        """Send a nudge; return the error if the nudge has to be sent again.

        A send may take Temporal's whole time-out. So every send counts as a turn of the loop, or `/healthz` would call
        a watcher with many unsent nudges stuck.
        """
        async with slots:
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

    def _repeat_is_due(self) -> bool:
        """Unanswered nudges are repeated at the start, and regularly while runs with an unanswered nudge change."""
        last = self._repeated_at
        return last is None or (bool(self._changed) and time.monotonic() - last >= REPEAT_SECONDS)

    def _repeat(self) -> None:
        """Repeat nudges that were claimed but perhaps never sent, by a dead watcher or after a lost answer."""
        unanswered = self.claims.unanswered_nudges()
        is_first = self._repeated_at is None
        self._repeated_at = time.monotonic()
        again = [nudge for nudge in unanswered if is_first or nudge.run_uid in self._changed]
        self._unsent |= {nudge.run_id: nudge for nudge in again if self._repeated.get(nudge.run_id) != nudge.number}
        self._repeated = {nudge.run_id: nudge.number for nudge in again}

    def _claim(self) -> None:
        changed = frozenset(self._changed)
        claimed = self.claims.claim_nudges(changed)
        self._unsent |= {nudge.run_id: nudge for nudge in claimed}  # first, so that a failure below loses no nudge
        self._changed -= {nudge.run_uid for nudge in claimed}
        self._changed &= self.claims.open_among(changed)
