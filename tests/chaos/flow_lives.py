"""What is to become of each flow of a soak: chosen by its seed alone, before anything begins."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

CRAWLERS = ("soon", "soon", "soon-failing", "polite", "stubborn")  # the last two run until they are stopped
ENDLESS = ("polite", "stubborn")
SECONDS_BETWEEN = (6.0, 14.0)
LIFE = 40.0


class FlowDeed(StrEnum):
    APPROVE = "approve"
    CANCEL_ALL = "cancel all"
    CANCEL_CRAWL = "cancel the crawl"
    RETRY = "retry"
    PAUSE = "pause"
    GO_ON = "go on"
    STOP = "stop"
    FORCE = "force"
    DRAIN = "drain"
    TERMINATE = "terminate"  # the supervisor, by Temporal's tools
    CANCEL = "cancel"  # by Temporal's tools


COURSES: tuple[tuple[FlowDeed, ...], ...] = (
    *[(FlowDeed.APPROVE,)] * 3,
    (FlowDeed.RETRY, FlowDeed.APPROVE),
    (FlowDeed.PAUSE, FlowDeed.GO_ON, FlowDeed.APPROVE, FlowDeed.RETRY),
    (FlowDeed.PAUSE, FlowDeed.APPROVE, FlowDeed.CANCEL_ALL),
    (FlowDeed.CANCEL_ALL, FlowDeed.RETRY, FlowDeed.APPROVE),
    (FlowDeed.CANCEL_CRAWL, FlowDeed.RETRY, FlowDeed.CANCEL_CRAWL),
    (FlowDeed.STOP,),
    (FlowDeed.STOP, FlowDeed.FORCE),
    (FlowDeed.DRAIN, FlowDeed.RETRY),
    (FlowDeed.TERMINATE, FlowDeed.APPROVE, FlowDeed.RETRY),
    (FlowDeed.CANCEL,),
    (FlowDeed.CANCEL, FlowDeed.RETRY),
)


@dataclass(frozen=True)
class FlowLife:
    """Times are seconds: `starts_at` since the soak began, those of deeds since the flow was pushed."""

    number: int
    starts_at: float
    crawler: str
    items: int
    deeds: tuple[tuple[float, FlowDeed], ...]


def flow_lives(seed: int, seconds: float) -> Iterator[FlowLife]:
    chance, at, number = Random(f"{seed}:flows"), 0.0, 0
    while (at := at + chance.uniform(*SECONDS_BETWEEN)) < seconds:
        number += 1
        moments = sorted(chance.uniform(0.5, LIFE) for _ in range(len(COURSES)))
        deeds = tuple(zip(moments, chance.choice(COURSES), strict=False))
        yield FlowLife(number, at, chance.choice(CRAWLERS), chance.choice((2, 3, 5)), deeds)
