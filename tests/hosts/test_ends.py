"""The thread that puts ends on record."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from crawler_lifecycle.flows.ports.steps import AttemptKey, StepEnd, StepLedger
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.hosts import ends
from crawler_lifecycle.hosts.ends import EndWriter, key_of
from crawler_lifecycle.model.flow_states import EndKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Recorder:
    """Takes ends, and holds the first commit until the gate opens."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.has_begun = threading.Event()
        self.gate = threading.Event()

    def end(self, ends: Sequence[StepEnd], token: str) -> Mapping[AttemptKey, AttemptEnd]:
        self.groups.append(len(ends))
        self.has_begun.set()
        assert self.gate.wait(20)
        return {key_of(end): AttemptEnd(end.start.number, 1, end.kind, end.at) for end in ends if end.result != "lost"}


def an_end(number: int, result: str | None = None) -> StepEnd:
    start = AttemptRef(number=number, generation=1, attempt=1)
    return StepEnd(f"flow-{number % 3}", start, EndKind.COMPLETED, NOW, result=result)


def writer(recorder: Recorder) -> EndWriter:
    written = EndWriter(cast(StepLedger, cast(Any, recorder)), "token")
    written.start()
    return written


async def test_ends_of_a_commits_time_share_the_next_commit() -> None:
    recorder = Recorder()
    writing = writer(recorder)
    first = writing.write(an_end(0))
    assert await asyncio.to_thread(recorder.has_begun.wait, 20)
    further = [writing.write(an_end(number)) for number in range(1, 251)]
    recorder.gate.set()
    recorded = await asyncio.wait_for(asyncio.gather(first, *further), 20)
    assert [end.number for end in recorded if end] == [*range(251)]
    assert recorder.groups == [1, ends.MOST_ENDS, ends.MOST_ENDS, 50]


async def test_large_results_have_their_own_commits() -> None:
    recorder = Recorder()
    writing = writer(recorder)
    writing.write(an_end(0))
    assert await asyncio.to_thread(recorder.has_begun.wait, 20)
    half = "x" * (ends.MOST_BYTES // 2 + 1)
    answers = [writing.write(an_end(number, half)) for number in range(3)]
    recorder.gate.set()
    assert all(await asyncio.wait_for(asyncio.gather(*answers), 20))
    assert recorder.groups == [1, 1, 1, 1]


async def test_a_lost_attempt_has_no_end() -> None:
    recorder = Recorder()
    recorder.gate.set()
    writing = writer(recorder)
    assert await asyncio.wait_for(writing.write(an_end(1, "lost")), 20) is None


async def test_the_writer_writes_all_ends_before_its_own_end() -> None:
    recorder = Recorder()
    recorder.gate.set()
    writing = writer(recorder)
    answers = [writing.write(an_end(number)) for number in range(500)]
    await asyncio.to_thread(writing.close, 20)
    assert all(await asyncio.wait_for(asyncio.gather(*answers), 20))
