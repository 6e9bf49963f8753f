"""Threads: daemon threads for authors' functions. A thread cannot be ended, and must not keep its process alive."""

import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = tuple[Callable[[], None], str]  # with its name


class AuthorsThreads:
    """Threads that serve one function after another: a new thread for each costs more than a short function.

    No state from a function stays for the next function in its thread, except values authors keep by thread
    themselves, such as a connection in `threading.local`.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Work]] = []  # of threads without a function

    def start(self, work: Callable[[], None], name: str) -> None:
        """Run the work, which raises no exception, at once: in an idle thread, or in a further thread."""
        try:
            queue = self._idle.pop()
        except IndexError:
            queue = SimpleQueue()
            threading.Thread(target=self._serve, args=(queue,), daemon=True).start()
        queue.put((work, name))

    def _serve(self, queue: "SimpleQueue[Work]") -> None:
        while True:
            work, threading.current_thread().name = queue.get()
            contextvars.Context().run(work)
            del work  # with the function's arguments and its result
            self._idle.append(queue)
