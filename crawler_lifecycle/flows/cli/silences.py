"""Silences of a watched flow: lines about waiting jobs if nothing happens for some seconds."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.flows.cli.causes import cause_in_words
from crawler_lifecycle.flows.model.answers import FlowChange, MemberRecord
from crawler_lifecycle.model.flow_states import MemberState

SILENT_SECONDS = 5.0


async def with_silences(changes: AsyncIterator[FlowChange]) -> AsyncIterator[FlowChange | None]:
    """Yield the changes, and None after SILENT_SECONDS without a change."""
    next_change = asyncio.ensure_future(anext(changes, None))
    try:
        while True:
            await asyncio.wait([next_change], timeout=SILENT_SECONDS)
            if not next_change.done():
                yield None
                continue
            change = next_change.result()
            if change is None:
                return
            next_change = asyncio.ensure_future(anext(changes, None))
            yield change
    finally:
        next_change.cancel()


def waiting_lines(flow: str, jobs: Iterable[MemberRecord]) -> Iterator[str]:
    """Yield a line for every cause of available jobs, unless a job is under way."""
    shown = list(jobs)
    if any(job.state is MemberState.EXECUTING for job in shown):
        return
    causes = Counter(cause_in_words(job.cause) for job in shown if job.state is MemberState.AVAILABLE)
    for cause, count in causes.items():
        if cause is not None:
            yield f"{flow}  waits      {counted(count, 'job')}: {cause}"
