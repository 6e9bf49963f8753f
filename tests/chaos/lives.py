"""What is to become of each run of a soak: chosen by its seed alone, before anything begins."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from crawler_lifecycle.model.requests import RunRequest

CRAWLERS = ("plain", "plain", "plain", "polite", "obliging", "stubborn", "stubborn", "parent")
CODES = (0, 0, 0, 0, 0, 1, 3, 137)
NARROW = "soak:narrow"  # a label with a limit
SECONDS_BETWEEN = (1.5, 5.5)
LONG_LIFE = (30.0, 120.0)
SHORT_LIFE = (1.0, 25.0)


class Deed(StrEnum):
    STOP = "stop"
    FORCE = "force"
    CANCEL = "cancel"
    TERMINATE = "terminate"
    RESUME = "resume"
    REOPEN = "reopen"
    EXPORT = "export"


# what people do to one run, one after the other
COURSES: tuple[tuple[Deed, ...], ...] = (
    *[()] * 10,
    *[(Deed.STOP,)] * 3,
    (Deed.FORCE,),
    (Deed.STOP, Deed.STOP, Deed.FORCE),
    (Deed.CANCEL,),
    (Deed.TERMINATE,),
    (Deed.TERMINATE, Deed.RESUME),
    (Deed.TERMINATE, Deed.STOP),
    (Deed.STOP, Deed.TERMINATE),
    (Deed.REOPEN, Deed.REOPEN, Deed.REOPEN),
    (Deed.FORCE, Deed.REOPEN, Deed.REOPEN, Deed.EXPORT),
    (Deed.EXPORT, Deed.EXPORT),
)


@dataclass(frozen=True)
class Life:
    """Times are seconds: `starts_at` since the soak began, all others since the run exists."""

    number: int
    starts_at: float
    request: RunRequest
    codes: tuple[int, ...]  # of its tasks, as soon as they may end
    released_at: float
    deeds: tuple[tuple[float, Deed], ...]


def lives(seed: int, seconds: float) -> Iterator[Life]:
    chance, at, number = Random(f"{seed}:lives"), 0.0, 0
    while (at := at + chance.uniform(*SECONDS_BETWEEN)) < seconds:
        number += 1
        yield _life(chance, number, at)


def _life(chance: Random, number: int, at: float) -> Life:
    tasks = chance.choice((1, 1, 1, 2, 2, 3, 4, 6))
    released_at = chance.uniform(*(LONG_LIFE if chance.random() < 0.2 else SHORT_LIFE))
    return Life(
        number=number,
        starts_at=at,
        request=RunRequest(
            crawler=chance.choice(CRAWLERS),
            tasks=tasks,
            max_parallel=chance.choice((None, None, 2)),
            labels=chance.choice(([], [NARROW])),
            priority=chance.choice((None, None, 3)),
            grace_seconds=chance.choice((2, 10, 30)),
        ),
        codes=tuple(chance.choice(CODES) for _ in range(tasks)),
        released_at=released_at,
        deeds=tuple(_deeds(chance, released_at)),
    )


def _deeds(chance: Random, released_at: float) -> Iterator[tuple[float, Deed]]:
    at = chance.uniform(0.0, min(released_at, 20.0))
    for deed in chance.choice(COURSES):
        if deed in (Deed.REOPEN, Deed.EXPORT):
            at = max(at, released_at)  # there is nothing to do before it is over
        at += chance.uniform(0.5, 12.0)
        yield at, deed
