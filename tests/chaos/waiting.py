"""Waiting for what other processes do, always with a limit and a cause."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

A = TypeVar("A")
PATIENCE = 60.0


def until_it_answers(url: str, patience: float = PATIENCE) -> None:
    address, deadline = urlsplit(url), time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            socket.create_connection((address.hostname, address.port or 80), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nobody answers at {url} after {patience:.0f} s")


async def until(
    holds: Callable[[], Awaitable[A | None]], what: str, patience: float = PATIENCE, pause: float = 0.2
) -> A:
    """What it answers once it answers anything."""
    deadline = time.monotonic() + patience
    while not (found := await holds()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:.0f} s in vain: {what}")
        await asyncio.sleep(pause)
    return found
