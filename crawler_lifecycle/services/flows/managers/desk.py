"""Desk: the host's answers to the calls of a manager's object."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

from crawler_lifecycle.contract.managers.items import Job, JobState, Waiting
from crawler_lifecycle.contract.managers.turns import (
    Begun,
    Counts,
    Effects,
    Intent,
    Offered,
    Page,
    Reaction,
    Start,
    Wake,
)
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import ManagerLedger, ManagerRef
from crawler_lifecycle.services.flows.managers.inbox import Box
from crawler_lifecycle.services.flows.managers.starts import Starts

T = TypeVar("T")
logger = logging.getLogger(__name__)
PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds while the database is away
PAGE_PHASE = "set_parameters_gen"


@dataclass
class Desk:
    """Answers for an object. All methods belong to the manager's thread."""

    ledger: ManagerLedger
    ref: ManagerRef
    begun: Begun
    box: Box
    starts: Starts
    hook_seconds: float
    page_seconds: float
    phase: tuple[str, str | None] = ("start", None)  # of author's code
    has_progress: bool = False
    is_closed: bool = False
    items_door: int = field(default=-1)

    def begin(self) -> Begun:
        return self.begun

    def intent(self) -> Intent:
        return self._patiently(lambda: self.ledger.intent(self.ref))

    def enter(self, phase: str, about: str | None) -> None:
        self.phase = phase, about
        self.box.deadline = monotonic() + (self.page_seconds if phase == PAGE_PHASE else self.hook_seconds)

    def ended(self, limit: int) -> list[Job]:
        return self._patiently(lambda: self.ledger.ended(self.ref, limit))

    def react(self, reaction: Reaction) -> None:
        self._patiently(lambda: self.ledger.react(self.ref, reaction))
        self.has_progress = True

    def running(self) -> list[Job]:
        return self._patiently(lambda: self.ledger.running(self.ref))

    def jobs(self, state: JobState, after: int, limit: int, tags: list[str], every_flow: bool) -> list[Job]:
        return self._patiently(
            lambda: self.ledger.jobs(self.ref, state, after=after, limit=limit, tags=tags, every_flow=every_flow)
        )

    def offer(self, page: Page) -> Offered:
        offered = self._patiently(lambda: self.ledger.offer(self.ref, page))
        self.has_progress = self.has_progress or bool(page.items)
        return offered

    def waiting(self, limit: int, after: Waiting | None) -> list[Waiting]:
        return self._patiently(lambda: self.ledger.waiting(self.ref, limit, after=after))

    def delay(self, numbers: list[int]) -> None:
        self._patiently(lambda: self.ledger.delay(self.ref, numbers))

    def start(self, starts: list[Start]) -> list[Job | str | None]:
        answers = self._patiently(lambda: self.starts.start(self.ref, starts))
        self.has_progress = True
        return answers

    def commit(self, effects: Effects) -> list[int]:
        call = str(uuid4())
        return self._patiently(lambda: self.ledger.commit(self.ref, effects, call))

    def find(self, keys: list[str]) -> list[Job]:
        return self._patiently(lambda: self.ledger.find(self.ref, keys))

    def counts(self) -> Counts:
        return self._patiently(lambda: self.ledger.counts(self.ref))

    def close(self, reason: str, effects: Effects) -> None:
        self._patiently(lambda: self.ledger.close(self.ref, reason, effects))
        self.is_closed = True

    def sleep(self, seconds: float | None, for_news: bool) -> Wake:
        """Wait for news of the manager, or for the time."""
        box, end = self.box, None if seconds is None else monotonic() + seconds
        first = self.intent()
        with box.changed:
            while True:
                wake = self._wake(first, for_news)
                if wake is not None:
                    return wake
                remaining = None if end is None else end - monotonic()
                if remaining is not None and remaining <= 0:
                    return Wake(intent=first, is_due=True)
                box.changed.wait(remaining)

    def wait_for(self, keys: list[str], seconds: float) -> list[str]:
        """Wait until the jobs have ended. Return the keys of jobs that still run."""
        end = monotonic() + seconds
        while True:
            running = [job.key for job in self.find(keys) if job.state is JobState.RUNNING]
            remaining = end - monotonic()
            if not running or remaining <= 0 or self.box.must_leave:
                return running
            with self.box.changed:
                self.box.changed.wait(min(remaining, 1.0))

    def _wake(self, first: Intent, for_news: bool) -> Wake | None:
        """Return why the object goes on; None: the object waits."""
        box = self.box
        if box.must_leave:
            return Wake(must_leave=True)
        if box.news is None:
            return None
        news, has_items = box.news, box.has_due or box.news.items_door > self.items_door >= 0
        if news.intent is not first or (for_news and (news.has_ends or has_items)):
            self.items_door, box.has_due, box.news = news.items_door, False, None
            return Wake(intent=news.intent, has_ends=news.has_ends, has_items=has_items)
        self.items_door = news.items_door
        return None

    def _patiently(self, call: Callable[[], T]) -> T:
        return patiently(call, self.box)


def patiently(call: Callable[[], T], box: Box) -> T:
    """Call, again and again while the database is away: the object is not to blame."""
    failures = 0
    while True:
        try:
            return call()
        except TemporaryError as error:
            if box.must_leave:
                raise
            logger.warning("a crawl manager waits: %s", error.message)
            with box.changed:  # no event tells that the database is back, but the host may leave the manager
                box.changed.wait_for(lambda: box.must_leave, PAUSES[min(failures, len(PAUSES) - 1)])
            failures += 1


def answer(desk: Desk, name: str, arguments: tuple[Any, ...]) -> Any:
    """Call the desk's method, and end the phase of author's code: its time does not count during calls."""
    desk.box.deadline = None
    return getattr(desk, name)(*arguments)
