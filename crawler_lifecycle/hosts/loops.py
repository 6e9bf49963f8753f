"""Loops: event loops in threads apart for authors' async functions.

The host's own event loop stays free in any case. All async functions share a loop, so that they can share
clients and locks. While a function blocks the loop, the functions on it are blocked; further functions get a new loop.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

logger = logging.getLogger(__name__)
BLOCKED_SECONDS = 2.0  # shortest time without a turn for a loop to count as blocked
CHECK_SECONDS = 0.5


class AuthorsLoop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self.turned_at = time.monotonic()
        self._asked = False
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="steps-loop", daemon=True).start()

    def submit(self, work: Coroutine[Any, Any, None], name: str, at_end: Callable[[], None]) -> Callable[[], None]:
        """Run the work, and then `at_end`, also after a cancel before the beginning. Return the work's cancel."""
        started: Future[asyncio.Task[Any]] = Future()

        def start() -> None:
            task = self._loop.create_task(work, name=name)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            task.add_done_callback(lambda _: at_end())
            started.set_result(task)

        def cancel() -> None:
            self._loop.call_soon_threadsafe(lambda: started.result().cancel())

        self._loop.call_soon_threadsafe(start)
        return cancel

    def ask(self) -> None:
        """Ask the loop to turn; `turned_at` has the time for its last answer."""
        if not self._asked:
            self._asked = True
            self._loop.call_soon_threadsafe(self._turn)

    @property
    def is_blocked(self) -> bool:
        return self._asked and time.monotonic() - self.turned_at > BLOCKED_SECONDS

    @property
    def blocking(self) -> str:
        """Name of the function on the loop at present."""
        task = asyncio.current_task(self._loop)
        return "an unknown callback" if task is None else task.get_name()

    def stop(self) -> None:
        """End the thread as soon as the loop turns."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _turn(self) -> None:
        self._asked, self.turned_at = False, time.monotonic()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
            except BaseException:  # a SystemExit in an author's task must end no other function
                logger.exception("a task of an author's function has raised an error through its event loop")
            else:
                return


class AuthorsLoops:
    """The present loop for new functions, and blocked loops until they are free and empty."""

    def __init__(self) -> None:
        self._present: AuthorsLoop | None = None
        self._blocked: list[AuthorsLoop] = []

    @property
    def present(self) -> AuthorsLoop:
        if self._present is None:
            self._present = AuthorsLoop()
        return self._present

    async def watch(self) -> None:
        """Replace the present loop whenever a function blocks the loop."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._present is not None and self._present.tasks:
                self._check(self._present)
            self._forget_free_loops()

    def _check(self, loop: AuthorsLoop) -> None:
        if loop.is_blocked:
            logger.error(
                "%s blocks its event loop: an async function must not wait or compute for long without an await "
                "(a function without async runs in a thread)",
                loop.blocking,
            )
            self._blocked.append(loop)
            self._present = None
        else:
            loop.ask()

    def _forget_free_loops(self) -> None:
        for loop in list(self._blocked):
            loop.ask()
            if not loop.is_blocked and not loop.tasks:
                loop.stop()
                self._blocked.remove(loop)
