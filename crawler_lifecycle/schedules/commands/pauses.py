"""Records the pauses of a schedule as lines in its note, which Temporal's own pages show as well.

Temporal itself keeps whether a schedule is paused, but neither the beginning of the pause nor earlier pauses.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from crawler_lifecycle.base.words import utc_text
from crawler_lifecycle.schedules.model.schedules import Pause

MOST_LINES = 40  # lines about pauses in a note; a further line replaces the oldest
LONGEST_TEXT = 256  # characters of an actor or a reason in a line; further characters are cut off
PAUSED, RESUMED = "paused", "resumed"
# for example `paused 2026-11-20T03:00:00.000Z by ann: the site is being rebuilt`, without actor or reason if unknown
LINE = re.compile(r"(paused|resumed) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?: by ([^:]*))?(?:: (.*))?")


def with_line(note: str, word: str, at: datetime, actor: str | None, reason: str | None) -> str:
    """Return the note with a further line: `word` is PAUSED or RESUMED. The latest MOST_LINES such lines stay."""
    line = f"{word} {utc_text(at, 'milliseconds')}"
    if actor:
        line += f" by {_one_line(actor).replace(':', ' ')}"
    if reason:
        line += f": {_one_line(reason)}"
    lines = [*note.splitlines(), line]
    pause_lines = [number for number, text in enumerate(lines) if LINE.fullmatch(text)]
    surplus = pause_lines[:-MOST_LINES]
    return "\n".join(text for number, text in enumerate(lines) if number not in surplus)


def pauses_in(note: str) -> list[Pause]:
    """Return the pauses in the note, oldest first. Lines in another form are ignored."""
    pauses: list[Pause] = []
    for line in note.splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            continue
        word, stamp, actor, reason = match.groups()
        at = datetime.fromisoformat(stamp)
        is_open = bool(pauses) and pauses[-1].until is None
        if word == PAUSED and not is_open:
            pauses.append(Pause(since=at, actor=actor, reason=reason))
        elif word == RESUMED and is_open:
            pauses[-1] = pauses[-1].model_copy(update={"until": at})
    return pauses


def with_known_end(pauses: Sequence[Pause], *, paused: bool) -> list[Pause]:
    """Return the pauses; if the schedule is not paused, leave out a pause without an end in the note.

    Another tool resumed the schedule after such a pause, at an unknown time.
    """
    return [pause for pause in pauses if paused or pause.until is not None]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_TEXT]
