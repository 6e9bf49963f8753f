"""The desk answers the calls of a manager's object for the host, and stores the object's output."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import TypeVar
from uuid import uuid4

from pydantic import JsonValue

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.model.manager_records import LONGEST_LINE, MOST_LINES, OutputLine
from crawler_lifecycle.flows.model.turns import (
    NO_EFFECTS,
    Begun,
    Effects,
    ManagerIntent,
    Offered,
    Page,
    Reaction,
    Start,
    Wake,
)
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.hosts.managers.crawls import Crawls, ManagerCatalogue
from crawler_lifecycle.hosts.managers.inbox import Box
from crawler_lifecycle.hosts.managers.setbacks import ALL_JOBS, PAGE_PHASE, Phases, Setbacks
from crawler_lifecycle.managers.authors.link import running_of
from crawler_lifecycle.managers.ports import LedgerCalls, ManagerLedger, ManagerRef
from crawler_lifecycle.model.manager_items import Job

logger = logging.getLogger(__name__)
PAUSE_SECONDS = 1.0  # between two writes: a manager that prints all the time must not write all the time
T = TypeVar("T")
PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds while the database is away
LOOK_SECONDS = 1.0  # between looks for the ends in a wait for jobs
IGNORED_PAUSES = (0.0, 1.0, 2.0, 5.0)  # seconds until ends wake again, after wakes without a reaction


@dataclass
class Output:
    """The lines since the last write. Another thread than the manager's adds them."""

    _lines: deque[OutputLine] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _due: float = 0.0

    def add(self, text: str) -> None:
        with self._lock:
            self._lines.append(OutputLine(at=datetime.now(UTC), text=text[:LONGEST_LINE]))

    @property
    def seconds_to_write(self) -> float | None:
        """Return the time until the lines should be written; None without lines."""
        return max(0.0, self._due - monotonic()) if self._lines else None

    def lines(self) -> Sequence[OutputLine]:
        with self._lock:
            return tuple(self._lines)

    def defer(self) -> None:
        """Let the next write wait."""
        self._due = monotonic() + PAUSE_SECONDS

    def note_written(self, lines: Sequence[OutputLine]) -> None:
        self.defer()
        written = {id(line) for line in lines}  # by identity, since the clock may be set back
        with self._lock:
            while self._lines and id(self._lines[0]) in written:
                self._lines.popleft()


@dataclass
class Desk(LedgerCalls):
    """Answers for an object. All methods belong to the manager's thread."""

    ledger: ManagerLedger
    ref: ManagerRef
    begun: Begun
    box: Box
    crawls: Crawls
    catalogue: ManagerCatalogue
    setbacks: Setbacks
    phases: Phases
    output: Output
    is_closed: bool = False
    is_outdated: bool = False  # whether the object's memory has an end that is off record: a new object has to follow
    items_door: int = field(init=False)  # the last door in the object's knowledge
    offered_ends: dict[tuple[int, int], str] = field(default_factory=dict)  # keys by number and attempt
    ignored_wakes: int = 0  # wakes by ends since the last reaction: `is_finished` may deny ends
    ends_wake_at: float = 0.0

    def __post_init__(self) -> None:
        self.items_door = self.begun.items_door

    def ask(self, call: Callable[[ManagerLedger, ManagerRef], T]) -> T:
        """Return the ledger's answer, also after an outage of the database."""
        return patiently(lambda: call(self.ledger, self.ref), self.box)

    def begin(self) -> Begun:
        return self.begun

    def enter(self, phase: str, about: str | None) -> None:
        self.phases.enter(phase, about)

    def ended(self, limit: int) -> list[Job]:
        """Return ends without a reaction. Failing jobs come last, and after their pauses."""
        failing = self.setbacks.failing_jobs
        jobs = self.ask(lambda ledger, ref: ledger.ended(ref, limit, without=failing))
        if failing and not jobs:
            held = self.setbacks.held_jobs
            jobs = self.ask(lambda ledger, ref: ledger.ended(ref, limit, without=held))
            gone = set(failing) - set(held) - {job.key for job in jobs}
            if gone:  # the runs were reopened, or people have cancelled the items
                self.setbacks.forget([ALL_JOBS, *gone])
        self.offered_ends = {(job.number, job.attempt): job.key for job in jobs}
        return jobs

    def react(self, reactions: list[Reaction]) -> None:
        ends = [(reaction.number, reaction.attempt) for reaction in reactions]
        jobs = [ALL_JOBS, *(self.offered_ends[end] for end in ends if end in self.offered_ends)]
        counts = self.setbacks.to_store(jobs)
        self.ignored_wakes = 0
        on_record = self.ask(lambda ledger, ref: ledger.react(ref, reactions, counts))
        self.is_outdated = on_record < len(reactions)
        if not self.is_outdated:  # otherwise neither the reactions nor the counts after them are stored
            self.setbacks.note_stored(jobs)

    def offer(self, page: Page) -> Offered:
        has_progress = (page.items and not page.is_reread) or page.is_exhausted
        phases = [PAGE_PHASE] if has_progress else []
        counts = self.setbacks.to_store(phases)
        offered = self.ask(lambda ledger, ref: ledger.offer(ref, page, counts))
        self.setbacks.note_stored(phases)
        return offered

    def start(self, starts: list[Start]) -> list[Job | str | None]:
        """Refuse requests against the catalogue, record attempts, then start their workflows."""
        problems = self.catalogue.refusals(starts)
        for start in starts:
            if (problem := problems.get(start.number)) is not None:
                self.refuse(start.number, start.attempt, problem)
        accepted = [start for start in starts if start.number not in problems]
        answer = self.ask(lambda ledger, ref: ledger.start(ref, accepted))
        refused: dict[int, str] = self.box.result(self.crawls.start(answer.started), {})
        problems |= refused
        jobs = {start.job.number: start.job for start in answer.started}
        return [problems.get(start.number, jobs.get(start.number)) for start in starts]

    def refuse(self, number: int, attempt: int, problem: str) -> None:
        self.ask(lambda ledger, ref: ledger.refuse(ref, number, attempt, Refusal(problem)))

    def stop(self, reasons: dict[str, str] | None = None) -> None:
        if reasons is None:
            self.crawls.stop()
        else:
            self.box.result(self.crawls.finish(reasons), None)

    def commit(self, effects: Effects) -> list[int]:
        return self._commit(effects, None)

    def note_setbacks(self, effects: Effects) -> None:
        """Store the counts of failures, with the effects."""
        self._commit(effects, self.setbacks.to_store(()))
        self.setbacks.note_stored()

    def close(self, reason: str, effects: Effects) -> bool:
        newer_door = self.ask(lambda ledger, ref: ledger.close(ref, reason, effects, self.items_door))
        if newer_door is not None:
            self.items_door = newer_door
        self.is_closed = newer_door is None
        return self.is_closed

    def sleep(self, seconds: float | None, for_news: bool) -> Wake:
        """Wait for the manager's news, for a failing job's next try, or for the time."""
        self._end_cycle()
        self.keep_output()
        end = None if seconds is None else monotonic() + seconds
        self.ends_wake_at = monotonic() + IGNORED_PAUSES[min(self.ignored_wakes, len(IGNORED_PAUSES) - 1)]
        first = self.intent()
        while (wake := self._wake(first, for_news)) is None:
            remaining = None if end is None else end - monotonic()
            if remaining is not None and remaining <= 0:
                return Wake(intent=first, is_due=True)
            next_try = self.setbacks.seconds_to_next() if for_news else None
            if next_try is not None and next_try <= 0:
                return Wake(intent=first, has_ends=True)
            waits = [wait for wait in (remaining, next_try, self.output.seconds_to_write) if wait is not None]
            self.box.wait(self._has_news, min(waits, default=None))
            self.keep_output()
        return wake

    def _has_news(self) -> bool:
        return self.box.is_interrupted or self.box.has_something or self.output.seconds_to_write == 0

    def keep_output(self, *, at_once: bool = False) -> None:
        """Store new lines, at most once in a second. While the database is away, the last lines are kept."""
        wait = self.output.seconds_to_write
        if wait is None or (wait > 0 and not at_once):
            return
        lines = self.output.lines()
        try:
            self.ledger.keep_output(self.ref, lines)
        except TemporaryError as error:
            logger.warning("a crawl manager's lines are not recorded yet: %s", error.message)
            self.output.defer()
            return
        self.output.note_written(lines)

    def wait_for(self, keys: list[str], seconds: float) -> list[str]:
        """Wait until the jobs have ended. Return the keys of jobs that still run."""
        end = monotonic() + seconds
        while True:
            running = running_of(self, keys)
            remaining = end - monotonic()
            if not running or remaining <= 0 or self.box.is_interrupted:
                return running
            self.box.wait(lambda: self.box.is_interrupted, min(remaining, LOOK_SECONDS))
            self.keep_output()

    def _end_cycle(self) -> None:
        """Note the progress by the phases in the cycle."""
        passed = self.phases.take_passed()
        if (counts := self.setbacks.to_store(passed)) is not None:
            self._commit(NO_EFFECTS, counts)
        self.setbacks.note_stored(passed)

    def _commit(self, effects: Effects, setbacks: Mapping[str, JsonValue] | None) -> list[int]:
        call = str(uuid4())
        return self.ask(lambda ledger, ref: ledger.commit(ref, effects, call, setbacks))

    def _wake(self, first: ManagerIntent, for_news: bool) -> Wake | None:
        """Return why the object continues; None: the object waits."""
        if self.box.must_leave:
            return Wake(must_leave=True)
        if self.box.object_ended:
            return Wake(intent=first)
        news, has_due = self.box.take()
        intent, has_ends = first, False
        has_items = has_due
        if news is not None:
            intent, has_items = news.intent, has_due or news.items_door > self.items_door
            has_ends = for_news and news.has_ends and monotonic() >= self.ends_wake_at and self._has_further_ends()
            self.ignored_wakes += has_ends
            self.items_door = news.items_door
        if intent is first and not (for_news and (has_ends or has_items)):
            return None
        return Wake(intent=intent, has_ends=has_ends, has_items=has_items)

    def _has_further_ends(self) -> bool:
        """Return whether a job without a failure has ended."""
        failing = self.setbacks.failing_jobs
        return not failing or bool(self.ask(lambda ledger, ref: ledger.ended(ref, 1, without=failing)))


def patiently(call: Callable[[], T], box: Box) -> T:
    """Call, again and again while the database is away: the object is not to blame."""
    failures = 0
    while True:
        try:
            return call()
        except TemporaryError as error:
            if box.is_interrupted:
                raise
            logger.warning("a crawl manager waits: %s", error.message)
            # no event reports the database's return, but the host may leave the manager
            box.wait(lambda: box.is_interrupted, PAUSES[min(failures, len(PAUSES) - 1)])
            failures += 1
