"""Time limits for the parts of a request, computed from the whole request's deadline."""

import time
from dataclasses import dataclass

from crawler_lifecycle.settings.cluster import BUSY_SECONDS


@dataclass(frozen=True, slots=True)
class Limits:
    """`connect` and `silence` are in seconds, the two others are times of the monotonic clock."""

    connect: float
    silence: float
    last_try: float  # no try begins later
    last_piece: float  # no piece is awaited later


def limits_of(connect: float, silence: float, until: float) -> Limits:
    """Divide the remaining time into quarters, or less where a limit is shorter.

    The last try needs three quarters: to connect, to get the answer's beginning, and to wait for the last piece. The
    earlier tries have the rest.
    """
    now = time.monotonic()
    quarter = (until - now) / 4
    connect, silence = min(connect, quarter), min(silence, quarter)
    return Limits(connect, silence, min(now + BUSY_SECONDS, until - connect - 2 * silence), until - silence)
