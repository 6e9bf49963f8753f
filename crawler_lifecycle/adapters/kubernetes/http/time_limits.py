"""How long is each part of a request waited for, if all of it has to be over in time?"""

import time
from dataclasses import dataclass

from crawler_lifecycle.settings.cluster import BUSY_SECONDS


@dataclass(frozen=True, slots=True)
class Limits:
    """The first two in seconds, the others by the monotonic clock."""

    connect: float
    silence: float
    last_try: float  # until then one may begin
    last_piece: float  # until then one of the answer may be waited for


def limits_of(connect: float, silence: float, until: float) -> Limits:
    """A try that begins late still has to connect, to be answered, and to wait for a last piece: a quarter each."""
    now = time.monotonic()
    quarter = (until - now) / 4
    connect, silence = min(connect, quarter), min(silence, quarter)
    return Limits(connect, silence, min(now + BUSY_SECONDS, until - connect - 2 * silence), until - silence)
