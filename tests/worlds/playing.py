"""What the soak of verdicts plays: lives, ends and waits of jobs, each from its seed."""

from random import Random

from crawler_lifecycle.model.looks import TaskRow
from tests.worlds import ends
from tests.worlds.living import live
from tests.worlds.waits import wait

PLAYS = (live, live, live, live, live, ends.play, ends.play, wait)


def play(seed: int) -> tuple[int, TaskRow]:
    """Return how many looks were made, and the row at the end."""
    return PLAYS[seed % len(PLAYS)](Random(seed))
