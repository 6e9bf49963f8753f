"""Wait until something holds, always with a limit. A wait in vain says what was waited for and what was seen last."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

A = TypeVar("A")
PATIENCE = 60.0
Seen = Callable[[], object]


class InVain(AssertionError):
    """The limit of a wait was reached."""


def until(
    look: Callable[[], A | None],
    what: str = "",
    patience: float = PATIENCE,
    pause: float = 0.02,
    seen: Seen | None = None,
) -> A:
    """Return the first answer of `look` that is true. `seen` says how things stand after a wait in vain."""
    deadline = time.monotonic() + patience
    while not (answer := look()):
        _check(deadline, what, patience, seen or partial(_itself, answer))
        time.sleep(pause)
    return answer


async def eventually(
    look: Callable[[], A | None],
    what: str = "",
    patience: float = PATIENCE,
    pause: float = 0.05,
    seen: Seen | None = None,
) -> A:
    """Return what `until` returns, without blocking the event loop between two looks."""

    async def looked() -> A | None:
        return look()

    return await eventually_async(looked, what, patience, pause, seen)


async def eventually_async(
    look: Callable[[], Awaitable[A | None]],
    what: str = "",
    patience: float = PATIENCE,
    pause: float = 0.05,
    seen: Seen | None = None,
) -> A:
    """Return what `until` returns, for a coroutine function."""
    deadline = time.monotonic() + patience
    while not (answer := await look()):
        _check(deadline, what, patience, seen or partial(_itself, answer))
        await asyncio.sleep(pause)
    return answer


def _itself(answer: object) -> object:
    return answer


def _check(deadline: float, what: str, patience: float, seen: Seen) -> None:
    if time.monotonic() > deadline:
        raise InVain(f"waited {patience:g} s in vain for {what or 'an answer that is true'}; seen last: {seen()!r}")
