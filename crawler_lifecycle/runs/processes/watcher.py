"""Watcher: a loop that follows the cluster's changes and nudges the changed runs' workflows.

The watcher may miss a change, and may die at any time: without nudges, looks are as correct and only come later. During
an outage of Temporal or of the cluster the loop continues, and keeps unsent nudges in memory.

A nudge is claimed in the database, then sent. A run is not nudged again before a look has answered its last nudge. If a
watcher dies between claim and send, or the answer to the claim is lost, the claimed nudge would block its run. So the
watcher sends an unanswered nudge once more: at its start, and later if the run has changed and still does not answer. A
watcher repeats a nudge only once, so that signals do not pile up while no worker runs. The dispatcher claims a nudge,
too, if the cluster will report no change, and so does the write of a stop, whose own signal may get lost; the watcher
finds the nudge unanswered, and sends it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.errors import LifecycleError, NotFound, NotReady, TemporaryError
from crawler_lifecycle.http.health import Pulses
from crawler_lifecycle.model.supervision import Nudge
from crawler_lifecycle.runs.ports import Claims

log = logging.getLogger(__name__)

LARGEST_BATCH = 16  # number of nudges sent at the same time
REPEAT_SECONDS = 15.0  # shortest time between two searches for nudges to repeat
CONNECT_PAUSE = 1.0  # seconds between two tries to reach Temporal


@dataclass
class Watcher:
    claims: Claims
    cluster: Cluster
    send: Callable[[Nudge], Awaitable[None]]
    pulses: Pulses = field(default_factory=Pulses)
    _changed: set[str] = field(default_factory=set)  # run_uids; a run whose last nudge is unanswered waits here
    # claimed nudges by RunID, until they are sent: a dropped nudge cannot be claimed again
    _unsent: dict[int, Nudge] = field(default_factory=dict)
    _claimed: dict[int, int] = field(default_factory=dict)  # numbers of the watcher's last nudges by RunID
    _repeated: dict[int, int] = field(default_factory=dict)  # numbers of repeated nudges by RunID
    _last_search: float | None = None  # when nudges to repeat were searched last; None: never

    async def run(self, connect: Callable[[], Awaitable[object]] | None = None) -> None:
        """Watch indefinitely. No nudge is claimed before `connect`, if given, has succeeded.

        NotReady: `connect` can never succeed.
        """
        while connect and not await self._try_to_connect(connect):
            await asyncio.sleep(CONNECT_PAUSE)
        changes = self.cluster.changes()
        while True:
            try:
                problem = await self._take_changes(changes)
                await self._nudge()  # earlier nudges are sent also while the cluster has a problem
                if problem:
                    raise problem
                self.pulses.passed()
            except LifecycleError as error:
                self._report_failure(error)

    async def _try_to_connect(self, connect: Callable[[], Awaitable[object]]) -> bool:
        try:
            await connect()
        except NotReady:  # also a TemporaryError, but a new try cannot help
            raise
        except TemporaryError as error:
            self._report_failure(error)
            return False
        return True

    def _report_failure(self, error: LifecycleError) -> None:
        if error.message != self.pulses.succeeded.problem:  # an unchanged problem is in the log already
            log.warning("no nudges for now: %s", error.message)
        self.pulses.failed(error)

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
        """Send the nudges of changed runs, unsent nudges and nudges to repeat. Raise an error if every send failed."""
        if self._is_search_due():
            await asyncio.to_thread(self._take_nudges_to_repeat)
        if self._changed:
            await asyncio.to_thread(self._claim_nudges)
        slots = asyncio.Semaphore(LARGEST_BATCH)
        pending = list(self._unsent.values())
        answers = await asyncio.gather(*(self._try_to_send(nudge, slots) for nudge in pending))
        errors = [error for error in answers if error is not None]
        if errors and len(errors) == len(pending):  # a single unreachable workflow is no failure of the pass
            raise errors[0]

    def _is_search_due(self) -> bool:
        """Return whether to search for nudges to repeat: at the start, then at intervals."""
        return self._last_search is None or time.monotonic() - self._last_search >= REPEAT_SECONDS

    def _take_nudges_to_repeat(self) -> None:
        """Take the unanswered nudges, except repeated nudges: later than at the start, only those for changed runs.

        A nudge that another process has claimed is always taken, because nobody may have sent that nudge.
        """
        unanswered = self.claims.unanswered_nudges()
        is_start = self._last_search is None
        self._last_search = time.monotonic()
        others = [nudge for nudge in unanswered if self._claimed.get(nudge.run_id) != nudge.number]
        nudges = (
            unanswered if is_start else [*others, *(nudge for nudge in unanswered if nudge.run_uid in self._changed)]
        )
        due = [nudge for nudge in nudges if self._repeated.get(nudge.run_id) != nudge.number]
        self._unsent |= {nudge.run_id: nudge for nudge in due}
        self._repeated |= {nudge.run_id: nudge.number for nudge in due}
        open_ids = {nudge.run_id for nudge in unanswered}
        self._repeated = {run_id: number for run_id, number in self._repeated.items() if run_id in open_ids}
        self._claimed = {run_id: number for run_id, number in self._claimed.items() if run_id in open_ids}

    def _claim_nudges(self) -> None:
        """Claim a nudge for every changed run that has answered its last nudge, and forget runs that are over."""
        changed = frozenset(self._changed)
        claimed = self.claims.claim_nudges(changed)
        self._unsent |= {nudge.run_id: nudge for nudge in claimed}  # first, so that a failure below loses no nudge
        self._claimed |= {nudge.run_id: nudge.number for nudge in claimed}
        self._changed -= {nudge.run_uid for nudge in claimed}
        self._changed &= self.claims.open_among(changed)

    async def _try_to_send(self, nudge: Nudge, slots: asyncio.Semaphore) -> LifecycleError | None:
        """Send a nudge. Return None if the nudge is done, and the error if the nudge has to be sent again.

        A nudge for a closed workflow is done, too. A send may take Temporal's whole time-out. So every send counts as a
        turn of the loop, or `/healthz` would call a watcher with many unsent nudges stuck.
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
