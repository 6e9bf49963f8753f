"""Where is asked what may answer slowly, so that nobody else waits behind those who ask?"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import TemporaryError

T = TypeVar("T")
WAITING = 4  # for each thread


class Room:
    """Threads of its own. Those who wait for one are not many: whoever comes beside them is told so at once."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads * WAITING
        self._inside = 0

    async def ask(self, question: Callable[[], T]) -> T:
        if self._inside >= self._most:
            asking = counted(self._inside, "request")
            raise TemporaryError(f"{asking} wait for {self._name} already, which is slow: try again later")
        self._inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question)
        finally:
            self._inside -= 1
