"""Follows a flow: its present state whenever the flow has changed. The module needs the database alone."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from crawler_lifecycle.contract.flows.answers import FlowChange, MemberRecord
from crawler_lifecycle.contract.flows.records import FlowStatus
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.flows.members import member_records
from crawler_lifecycle.control.flows.reading import FlowReader
from crawler_lifecycle.domain.flows.summary import status

SHORTEST_PAUSE = 0.3  # seconds between two reads
LARGEST_SHARE = 5.0  # a pause is so many times as long as the read before, so that a large flow is read less often


class FlowView:
    """A follower's view of a flow."""

    def __init__(self, reader: FlowReader, flow: str) -> None:
        self.pause = SHORTEST_PAUSE  # seconds until the next read
        self._reader = reader
        self._flow = flow
        self._jobs: dict[str, MemberRecord] = {}
        self._status: FlowStatus | None = None
        self._is_over: bool | None = None

    def next_change(self) -> FlowChange | None:
        """Read the flow. Return its state with the changed members; None if nothing has changed."""
        began = time.monotonic()
        kept = self._reader.kept(self._flow)
        present, is_over = status(kept.ledger, datetime.now(UTC)), kept.ledger.flow.state.is_final
        jobs = {job.path: job for job in member_records(kept)}
        changed = tuple(job for path, job in jobs.items() if self._jobs.get(path) != job)
        removed = tuple(path for path in self._jobs if path not in jobs)
        is_same = self._status is not None and _timeless(self._status) == _timeless(present)
        is_same = is_same and self._is_over is is_over and not changed and not removed
        self._jobs, self._status, self._is_over = jobs, present, is_over
        self.pause = max(SHORTEST_PAUSE, LARGEST_SHARE * (time.monotonic() - began))
        return None if is_same else FlowChange(status=present, is_over=is_over, jobs=changed, removed=removed)


async def follow(context: Context, flow: str) -> AsyncIterator[FlowChange]:
    """Yield the flow's state at every change, until the flow has ended. NotFound without such a flow."""
    view = FlowView(FlowReader(context), flow)
    while True:
        change = await context.database(lambda _: view.next_change())
        if change is not None:
            yield change
            if change.is_over:
                return
        await asyncio.sleep(view.pause)


def _timeless(present: FlowStatus) -> FlowStatus:
    """Return the status without the elapsed time, which changes all the time."""
    subs = {name: _timeless(sub) for name, sub in present.subs.items()}
    return present.model_copy(update={"elapsed": None, "subs": subs})
