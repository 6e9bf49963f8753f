"""Where is asked what may answer slowly, so that nobody else waits behind those who ask?"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crawler_lifecycle.errors import TemporaryError

T = TypeVar("T")
PATIENCE = 10.0


class Room:
    """Threads of its own. Who has none of them in time is told so."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def ask(self, question: Callable[[], T]) -> T:
        asked = self._threads.submit(question)
        answer = asyncio.wrap_future(asked)
        try:
            done, _ = await asyncio.wait([answer], timeout=PATIENCE)
            if not done and asked.cancel():  # which one that has begun cannot be
                raise TemporaryError(f"{self._name} is too slow for all who ask just now: try again later")
            return await answer
        finally:
            asked.cancel()
