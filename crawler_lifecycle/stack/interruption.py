"""Ends the stack's work at Ctrl-C, SIGTERM or a closed terminal, so that the work can clean up."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal ended the work, and the work has cleaned up."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


async def until_interrupted(work: Coroutine[Any, Any, T], hurry: Callable[[], None]) -> T:
    """Run the work and return its result. Interrupted: a signal has ended the work.

    The first signal cancels the work, which then cleans up. Every further signal calls `hurry`, to shorten the cleanup.
    """
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        if received:
            hurry()
        else:
            task.cancel()
        received.append(number)

    loop = asyncio.get_running_loop()
    for number in END_SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Interrupted(received[0]) from None
        raise
    finally:
        for number in END_SIGNALS:
            loop.remove_signal_handler(number)
