"""Streams read in the threads that commands wait for: a hundred followers of slow logs held up a stop.

Then all streams had threads of their own together: followers of slow logs held up every live view."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.http.state import CHANGE_READERS, LOG_READERS, SEARCHERS, ApiState
from crawler_lifecycle.http.tokens import Tokens
from crawler_lifecycle.runs.http import streams
from crawler_lifecycle.runs.http.runs import RunsApi
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.settings.processes import LEAST_CONNECTIONS, ApiSettings

pytestmark = pytest.mark.regression(
    "Streams read in the threads that commands wait for: a hundred followers of slow logs held up a stop"
)

FOLLOWERS = 100  # more than the threads asyncio has by itself


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Every read waits until the test ends; the semaphore counts those that do."""
    reading, over = threading.Semaphore(0), threading.Event()

    def read(*_: object) -> Any:
        reading.release()
        over.wait(100)
        raise ValueError("over")

    monkeypatch.setattr(streams, "_read", read)
    monkeypatch.setattr(streams.View, "next_events", read)
    yield reading
    over.set()


def followers_of(api: RunsApi, kind: str) -> list[AsyncIterator[bytes]]:
    if kind == "logs":
        return [streams.Follower(api, "uid", number, 1, 0).events() for number in range(FOLLOWERS)]
    return [streams.follow(api, None, None) for _ in range(FOLLOWERS)]


@pytest.mark.parametrize("kind", ["logs", "changes"])
async def test_slow_streams_hold_up_no_command(slow: threading.Semaphore, kind: str, tmp_path: Path) -> None:
    api = ApiState(Control(Installation.with_variables(tmp_path, {})), ApiSettings(), Tokens(Path("none")))
    readers, most = (api.log_readers, LOG_READERS) if kind == "logs" else (api.change_readers, CHANGE_READERS)
    followers = [asyncio.ensure_future(anext(each)) for each in followers_of(api, kind)]
    async with asyncio.timeout(60):
        while readers._threads._work_queue.qsize() < FOLLOWERS - most:
            await asyncio.sleep(0.01)
        assert await api.control.context.calls.run(lambda: "stopped") == "stopped"
    assert slow.acquire(timeout=60)
    assert not any(each.done() for each in followers)
    for each in followers:
        each.cancel()
    await asyncio.gather(*followers, return_exceptions=True)
    readers._threads.shutdown(wait=False, cancel_futures=True)


async def test_slow_logs_hold_up_no_changes(
    slow: threading.Semaphore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = ApiState(Control(Installation.with_variables(tmp_path, {})), ApiSettings(), Tokens(Path("none")))
    monkeypatch.setattr(streams.View, "next_events", lambda *_: [b"changed"])
    followers = [asyncio.ensure_future(anext(each)) for each in followers_of(api, "logs")]
    async with asyncio.timeout(60):
        while not api.log_readers._threads._work_queue.qsize():
            await asyncio.sleep(0.01)
        assert await anext(streams.follow(api, None, None)) == b"changed"
    for each in followers:
        each.cancel()
    await asyncio.gather(*followers, return_exceptions=True)
    api.log_readers._threads.shutdown(wait=False, cancel_futures=True)


def test_slow_readers_leave_connections_to_commands() -> None:
    assert CHANGE_READERS + SEARCHERS + 2 <= LEAST_CONNECTIONS
