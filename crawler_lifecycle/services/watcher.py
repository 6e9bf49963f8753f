"""Who wakes a run when its jobs change? This loop follows the cluster and nudges the workflow concerned.

It may miss anything and die at any time: the looks stay correct without it, they are only later.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from crawler_lifecycle.errors import LifecycleError, NotFound, TemporaryError
from crawler_lifecycle.ports import Cluster, Nudge, Nudges
from crawler_lifecycle.services.health import Pulses

log = logging.getLogger(__name__)
REPEAT_SECONDS = 15.0


@dataclass
class Watcher:
    nudges: Nudges
    cluster: Cluster
    send: Callable[[Nudge], Awaitable[None]]
    pulses: Pulses = field(default_factory=Pulses)
    _changed: set[str] = field(default_factory=set)  # runs whose last nudge is not acknowledged yet stay in here
    _unsent: list[Nudge] = field(default_factory=list)
    _repeated_at: float | None = None

    async def run(self) -> None:
        changes = self.cluster.changes()
        while True:
            self._changed |= await asyncio.to_thread(next, changes)
            try:
                await self._nudge()
                self.pulses.passed()
            except LifecycleError as error:
                self.pulses.failed(error.message)
                log.warning("no nudges for now: %s", error.message)

    async def _nudge(self) -> None:
        if self._repeats():
            await asyncio.to_thread(self._repeat)
        if self._changed:
            self._unsent += await asyncio.to_thread(self._claim)
        pending, self._unsent = self._unsent, []
        for nudge in pending:
            try:
                await self.send(nudge)
            except NotFound:
                log.warning("run %s is not over, but its workflow %s is not open", nudge.run_id, nudge.workflow_id)
            except TemporaryError as error:
                log.warning("run %s not nudged yet: %s", nudge.run_id, error.message)
                self._unsent.append(nudge)

    def _repeats(self) -> bool:
        """At first, and now and then while a run has changed again and its last nudge is not answered."""
        at = self._repeated_at
        return at is None or (bool(self._changed) and time.monotonic() - at >= REPEAT_SECONDS)

    def _repeat(self) -> None:
        """What was claimed and perhaps never sent: the one before us died, or the answer to a claim was lost."""
        unanswered = self.nudges.unanswered()
        is_first, self._repeated_at = self._repeated_at is None, time.monotonic()
        self._unsent += [nudge for nudge in unanswered if is_first or nudge.run_uid in self._changed]

    def _claim(self) -> list[Nudge]:
        changed = frozenset(self._changed)
        claimed = self.nudges.claim(changed)
        waiting = self.nudges.open_among(changed) - {nudge.run_uid for nudge in claimed}
        self._changed = set(waiting)
        return claimed
