"""What do warning events say about a page of jobs and their pods?

Whatever it is asked for, the API server reads all events of the namespace, of which a run of 10,000 tasks leaves 20,000
and more: those of many objects are asked for by one list.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from crawler_lifecycle.adapters.kubernetes.api import Api
from crawler_lifecycle.adapters.kubernetes.decoding import EVENTS
from crawler_lifecycle.adapters.kubernetes.objects import Event
from crawler_lifecycle.errors import TemporaryError

FEW = 8  # objects: each is asked for by itself, which is less to send
MOST_EVENTS = 10  # of an object
LONGEST_EVENT = 300
WARNING = "type=Warning"


@dataclass(frozen=True, slots=True)
class Warnings:
    """By the uids of those whom they are about. `problems`: why there may be more."""

    found: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    problems: dict[str, str] = field(default_factory=dict)

    def about(self, uids: Collection[str]) -> list[str]:
        latest = [event for uid in uids for event in sorted(self.found.get(uid, []), key=_time)[-MOST_EVENTS:]]
        problems = sorted({problem for uid in uids if (problem := self.problems.get(uid))})
        return [*map(_line, sorted(latest, key=_time)), *problems]


def asked(api: Api, pool: ThreadPoolExecutor, uids: Collection[str], until: float) -> Callable[[], Warnings]:
    """At once; what is given waits until they are there."""
    warnings = Warnings()
    begun = [pool.submit(_read, api, some, warnings, until) for some in _parts(uids)]

    def answered() -> Warnings:
        for each in begun:
            each.result()
        return warnings

    return answered


def _read(api: Api, uids: Collection[str], into: Warnings, until: float) -> None:
    chosen = WARNING if len(uids) > 1 else f"involvedObject.uid={next(iter(uids))},{WARNING}"
    try:
        for page in api.pages(api.core("events"), {"fieldSelector": chosen}, until=until):
            for event in EVENTS.page(page).whole:
                about = event.involved_object.uid if event.involved_object else None
                if about and about in uids:
                    into.found[about].append(event)
    except TemporaryError as error:
        into.problems.update(dict.fromkeys(uids, f"events not read: {error.message}"[:LONGEST_EVENT]))


def _parts(uids: Collection[str]) -> Iterator[Collection[str]]:
    if len(uids) > FEW:
        yield set(uids)
    else:
        yield from ({uid} for uid in uids)


def _time(event: Event) -> float:
    return event.seen_at.timestamp() if event.seen_at else 0.0


def _line(event: Event) -> str:
    at = f"{event.seen_at.isoformat(timespec='seconds')} " if event.seen_at else ""
    times = f" ({event.count} times)" if event.count and event.count > 1 else ""
    return f"{at}{event.reason or 'Warning'}: {(event.message or '').strip()}"[:LONGEST_EVENT] + times
