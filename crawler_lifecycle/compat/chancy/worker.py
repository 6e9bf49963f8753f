"""Chancy's worker. Functions run in separate processes, the hosts."""

import asyncio
from typing import Any, Self

from crawler_lifecycle.compat.chancy.plugin import say


class Worker:
    """A stand-in without jobs: `crawlctl up --flows FILE` or `crawlctl host MODULE` hosts functions."""

    def __init__(self, chancy: Any, **options: Any) -> None:
        self.chancy = chancy
        self.options = options

    async def start(self) -> None:
        say("Worker.start", "hosts run the functions: crawlctl up --flows FILE, or crawlctl host MODULE")

    async def stop(self, *, timeout: float | None = None) -> bool:
        del timeout
        return True

    async def wait_for_shutdown(self) -> None:
        """Wait for a cancel, as a worker does."""
        await asyncio.Event().wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
