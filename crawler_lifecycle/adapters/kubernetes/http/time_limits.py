"""Time limits for the parts of a request, computed from the whole request's deadline."""

import time
from dataclasses import dataclass

from crawler_lifecycle.settings.cluster import BUSY_SECONDS


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request: `connect` and `silence` in seconds, `last_try` and `last_piece` by the monotonic clock."""

    connect: float  # a connection that takes longer fails
    silence: float  # an answer fails after this time without data
    last_try: float  # no try begins after this time
    last_piece: float  # no piece is awaited after this time


def limits_of(connect: float, silence: float, until: float) -> Limits:
    """Return the limits of a request that has to be over at `until`.

    `connect` and `silence` are cut down to a quarter of the remaining time. The last try needs up to three quarters: to
    connect, to get the answer's beginning, and to wait for the last piece. The earlier tries have the rest, but at most
    BUSY_SECONDS.
    """
    now = time.monotonic()
    quarter = (until - now) / 4
    connect, silence = min(connect, quarter), min(silence, quarter)
    return Limits(connect, silence, min(now + BUSY_SECONDS, until - connect - 2 * silence), until - silence)
