import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.http.events import Stream
from crawler_lifecycle.http.state import ApiState
from crawler_lifecycle.http.tokens import Scope, Tokens
from crawler_lifecycle.settings.processes import ApiSettings

pytestmark = pytest.mark.regression(
    "Streams were counted when they sent something first: so more began at once than there may be"
)


async def test_no_more_begin_than_there_may_be(tmp_path: Path) -> None:
    control: Any = None  # nothing asks it
    api, sent = ApiState(control, ApiSettings(streams=1), Tokens(tmp_path / "tokens.json")), list[Any]()

    async def events() -> AsyncIterator[bytes]:
        await api.closing.wait()
        yield b"over"

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "asgi": {"spec_version": "2.3"}, "state": {"abort": sent.clear}}
    api.tokens.add("dashboard", [Scope.READ], "crawl_secret")
    first, second = (Stream(api, api.tokens.all()[0], events()) for _ in range(2))
    going = asyncio.create_task(first(scope, receive, send))
    await asyncio.sleep(0)
    with pytest.raises(TemporaryError, match="1 streams are open"):
        await second(scope, receive, send)
    api.closing.set()
    await going
    assert sent[0]["type"] == "http.response.start"
    assert api.streams.open_count == 0
