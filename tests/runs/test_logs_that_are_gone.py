from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.errors import LifecycleError, NotFound, TemporaryError
from crawler_lifecycle.http.state import ApiState
from crawler_lifecycle.http.tokens import Tokens
from crawler_lifecycle.model.records import LogPart
from crawler_lifecycle.runs.http import streams
from crawler_lifecycle.runs.http.runs import RunsApi
from crawler_lifecycle.runs.http.streams import Follower, Read
from crawler_lifecycle.settings.processes import ApiSettings

pytestmark = pytest.mark.regression(
    "A stream of a log that was gone asked the cluster twice a second for ever, and told of it each time"
)

GONE, AWAY = NotFound("there is no such job"), TemporaryError("no answer")
NOTHING_NEW, OVER = (
    LogPart(attempt=1, text="", offset=7, ended=False),
    LogPart(attempt=1, text="", offset=7, ended=True),
)


def reading(*reads: LogPart | LifecycleError) -> Callable[..., Read]:
    coming: Iterator[LogPart | LifecycleError] = iter(reads)

    def read(*_: object) -> Read:
        found = next(coming)
        if isinstance(found, LifecycleError):
            raise found
        return found, 0

    return read


async def told(monkeypatch: pytest.MonkeyPatch, *reads: LogPart | LifecycleError) -> tuple[list[str], list[float]]:
    """The kinds of events, and the pauses."""
    waited = list[float]()

    async def wait(_: RunsApi, seconds: float) -> bool:
        waited.append(seconds)
        return False

    monkeypatch.setattr(streams, "_read", reading(*reads))
    monkeypatch.setattr(streams, "wait_for_closing", wait)
    control: Any = None  # nothing asks it
    api = ApiState(control, ApiSettings(), Tokens(Path("none")))
    follower = Follower(api, "uid", 0, 1, 0)
    return [each.split(b"\n")[0].decode() async for each in follower.events()], waited


async def test_one_that_is_gone_is_told_once_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    events, _ = await told(monkeypatch, NOTHING_NEW, GONE, GONE)
    assert events == ["event: problem", "event: end"]


async def test_one_that_is_between_two_places_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job is removed just after its log was kept, and just before it was looked for there."""
    events, _ = await told(monkeypatch, GONE, OVER)
    assert events == ["event: end"]


@pytest.mark.parametrize("reads", [(AWAY, GONE, OVER), (GONE, AWAY, GONE, OVER), (AWAY, AWAY, GONE, AWAY, GONE, OVER)])
async def test_one_that_is_between_two_places_around_an_outage_goes_on(
    monkeypatch: pytest.MonkeyPatch, reads: tuple[LogPart | LifecycleError, ...]
) -> None:
    """They were counted together, and the first that was missing ended it."""
    events, _ = await told(monkeypatch, *reads)
    assert [each for each in events if each != ": still here"] == ["event: problem", "event: end"]


async def test_one_that_is_gone_after_an_outage_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    events, _ = await told(monkeypatch, AWAY, GONE, GONE)
    assert events == ["event: problem", "event: problem", "event: end"]


@pytest.mark.parametrize(("reads", "there"), [((GONE, NOTHING_NEW), True), ((GONE, GONE), False)])
async def test_a_stream_that_begins_between_two_places_goes_on(
    monkeypatch: pytest.MonkeyPatch, reads: tuple[LogPart | LifecycleError, ...], there: bool
) -> None:
    """The page does not ask again for a log that is not there."""
    control: Any = None
    api = ApiState(control, ApiSettings(), Tokens(Path("none")))
    follower = Follower(api, "uid", 0, 1, 0)
    monkeypatch.setattr(streams, "_read", reading(*reads))
    monkeypatch.setattr(streams, "_new_follower", lambda *_: follower)
    if there:
        assert (await streams.begin(api, "7", 0, (1, 0))).first_read == (NOTHING_NEW, 0)
        return
    with pytest.raises(NotFound):
        await streams.begin(api, "7", 0, (1, 0))


async def test_an_outage_is_told_once_and_asked_about_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    events, waited = await told(monkeypatch, *[AWAY] * 6, NOTHING_NEW, OVER)
    assert [each for each in events if each != ": still here"] == ["event: problem", "event: log", "event: end"]
    assert waited[:6] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
