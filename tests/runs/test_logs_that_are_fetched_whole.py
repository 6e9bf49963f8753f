from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.base.pacing import LONGEST_LOG_PAUSE, log_pause
from crawler_lifecycle.http.state import ApiState
from crawler_lifecycle.http.tokens import Tokens
from crawler_lifecycle.model.records import LogPart
from crawler_lifecycle.runs.http import streams
from crawler_lifecycle.runs.http.runs import RunsApi
from crawler_lifecycle.settings.processes import ApiSettings

pytestmark = pytest.mark.regression(
    "The Kubernetes API cannot begin a log at a byte: who followed a long one fetched all of it twice a second"
)

MIB = 1 << 20


@pytest.mark.parametrize(
    ("fetched", "pause"), [(0, 0.5), (MIB, 0.5), (4 * MIB, 1.0), (10 * MIB, 2.5), (1 << 30, LONGEST_LOG_PAUSE)]
)
def test_the_pause_grows_with_what_was_fetched(fetched: int, pause: float) -> None:
    assert log_pause(fetched, 0.5) == pause


async def pauses_of(reads: Sequence[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a follower waits who reads these texts, with so many bytes fetched for each, and then the end."""
    parts = [(LogPart(attempt=1, text=text, offset=0, ended=False), fetched) for text, fetched in reads]
    coming = iter([*parts, (LogPart(attempt=1, text="", offset=0, ended=True), 0)])
    waited: list[float] = []

    async def wait(_: RunsApi, seconds: float = 0.5) -> bool:
        waited.append(seconds)
        return False

    monkeypatch.setattr(streams, "_read", lambda *_: next(coming))
    monkeypatch.setattr(streams, "wait_for_closing", wait)
    control: Any = None  # nothing asks it
    api = ApiState(control, ApiSettings(), Tokens(Path("none")))
    told = [each async for each in streams.Follower(api, "uid", 0, 1, 0).events()]
    assert told[-1].startswith(b"event: end")
    return waited


async def test_a_follower_waits_longer_for_a_longer_log(monkeypatch: pytest.MonkeyPatch) -> None:
    line, much = "a line\n", "x" * 60_000
    reads = [("", 0), ("", 8 * MIB), (line, 8 * MIB), (line, 0), (much, 8 * MIB)]
    # what is there already is read on without a pause; a line from a copy of the log was as well, and the next one soon
    assert await pauses_of(reads, monkeypatch) == [0.5, 2.0, 2.0, 0.5]
