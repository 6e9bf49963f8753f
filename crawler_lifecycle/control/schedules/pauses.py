"""The pauses of a schedule, kept as lines of its note, which Temporal's own pages show as well.

Temporal keeps whether a schedule is paused, but neither since when nor earlier pauses.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from crawler_lifecycle.contract.schedules import Pause

MOST_LINES = 40
LONGEST_WORDS = 256
PAUSED, RESUMED = "paused", "resumed"
LINE = re.compile(r"(paused|resumed) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?: by ([^:]*))?(?:: (.*))?")


def with_line(note: str, word: str, at: datetime, actor: str | None, reason: str | None) -> str:
    """The note with one more line; the oldest ones of these go."""
    stamp = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = f"{word} {stamp}"
    if actor:
        line += f" by {_one_line(actor).replace(':', ' ')}"
    if reason:
        line += f": {_one_line(reason)}"
    lines = [*note.splitlines(), line]
    surplus = [number for number, each in enumerate(lines) if LINE.fullmatch(each)][:-MOST_LINES]
    return "\n".join(each for number, each in enumerate(lines) if number not in surplus)


def pauses(note: str) -> list[Pause]:
    """What was written by other means is passed over."""
    found: list[Pause] = []
    for match in filter(None, map(LINE.fullmatch, note.splitlines())):
        word, stamp, actor, reason = match.groups()
        at = datetime.fromisoformat(stamp)
        is_open = bool(found) and found[-1].until is None
        if word == PAUSED and not is_open:
            found.append(Pause(since=at, actor=actor, reason=reason))
        elif word == RESUMED and is_open:
            found[-1] = found[-1].model_copy(update={"until": at})
    return found


def in_force(found: Sequence[Pause], *, paused: bool) -> list[Pause]:
    """Without one that another tool has ended, nobody knows when."""
    return [each for each in found if paused or each.until is not None]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_WORDS]
