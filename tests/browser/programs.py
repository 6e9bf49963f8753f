"""Browsers as programs: started with an empty profile, spoken to over a websocket, and ended."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect

from tests.browser.driven import PATIENCE


@asynccontextmanager
async def running(
    command: Sequence[str], log: Path, address: Callable[[], str | None], environment: Mapping[str, str] | None = None
) -> AsyncIterator[ClientConnection]:
    """Start a browser, and connect to it. Nothing of the browser is left running afterwards.

    `address`: returns the websocket's address, as soon as the browser has written where it listens.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    try:
        async with connect(await _until(address, process, command[0]), max_size=None, proxy=None) as connection:
            yield connection
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _until(address: Callable[[], str | None], process: subprocess.Popen[bytes], name: str) -> str:
    deadline = time.monotonic() + PATIENCE
    while (url := address()) is None:
        assert process.poll() is None, f"{name} has ended"
        assert time.monotonic() < deadline, f"{name} does not say where it listens"
        await asyncio.sleep(0.05)
    return url
