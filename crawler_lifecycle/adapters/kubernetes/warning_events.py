"""What do warning events say about a page of jobs and their pods?

Whatever it is asked for, the API server reads all events of the namespace, of which a run of 10,000 tasks leaves 20,000
and more: those of many objects are asked for by one list.
"""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from crawler_lifecycle.adapters.kubernetes.api import Api
from crawler_lifecycle.adapters.kubernetes.decoding import EVENTS
from crawler_lifecycle.adapters.kubernetes.objects import Event
from crawler_lifecycle.errors import TemporaryError

FEW = 4  # objects: each is asked for by itself, which is less to send
SECONDS = 8.0  # of a page; then it goes on without
MOST_EVENTS = 10  # of an object
LONGEST_EVENT = 300
WARNING = "type=Warning"


@dataclass(frozen=True, slots=True)
class Warnings:
    """By the uids of those whom they are about. `problem`: why there may be more."""

    found: dict[str, list[Event]] = field(default_factory=dict)
    problem: str | None = None

    def about(self, uids: Collection[str]) -> list[str]:
        if not uids:
            return []
        latest = [event for uid in uids for event in sorted(self.found.get(uid, []), key=_time)[-MOST_EVENTS:]]
        return [*map(_line, sorted(latest, key=_time)), *([self.problem] if self.problem else [])]


def read(api: Api, uids: Collection[str], until: float) -> Warnings:
    found: dict[str, list[Event]] = {uid: [] for uid in uids}
    until = min(until, time.monotonic() + SECONDS)
    try:
        for selector in _selectors(uids):
            for page in api.pages(api.core("events"), {"fieldSelector": selector}, until=until):
                for event in EVENTS.page(page).whole:
                    about = event.involved_object.uid if event.involved_object else None
                    if about in found:
                        found[about].append(event)
    except TemporaryError as error:
        return Warnings(found, f"events not read: {error.message}"[:LONGEST_EVENT])
    return Warnings(found)


def _selectors(uids: Collection[str]) -> Iterator[str]:
    if len(uids) > FEW:
        yield WARNING
    else:
        yield from (f"involvedObject.uid={uid},{WARNING}" for uid in sorted(uids))


def _time(event: Event) -> float:
    return event.seen_at.timestamp() if event.seen_at else 0.0


def _line(event: Event) -> str:
    at = f"{event.seen_at.isoformat(timespec='seconds')} " if event.seen_at else ""
    times = f" ({event.count} times)" if event.count and event.count > 1 else ""
    return f"{at}{event.reason or 'Warning'}: {(event.message or '').strip()}"[:LONGEST_EVENT] + times
