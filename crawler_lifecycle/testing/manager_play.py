"""`ManagerPlay` runs an author's crawl manager on the real ledger, with faked runs, in virtual time."""

import threading
import weakref
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from queue import SimpleQueue
from typing import Any

from pydantic import JsonValue

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.manager_records import ItemRecord
from crawler_lifecycle.flows.model.requests import CancelMembers, HoldFlow
from crawler_lifecycle.flows.model.turns import Counts, Wake
from crawler_lifecycle.managers.authors.arguments import command_line
from crawler_lifecycle.managers.authors.driving import drive
from crawler_lifecycle.managers.authors.owned_jobs import UNKNOWN
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.model.manager_items import Job
from crawler_lifecycle.model.outcome_words import FINISHED, OF_FAILED_RUNS, RESERVED
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.testing.managed import MANAGER, ManagedFlow, PlayedEnd
from crawler_lifecycle.testing.manager_link import Death, PlayedLink, PlayStage, StartedJob
from crawler_lifecycle.testing.memory import NOW
from crawler_lifecycle.testing.outcomes import CrawlOutcome

FAMILY = "play"
MOST_ITEMS = 100_000  # in a list
A_MOMENT = timedelta(milliseconds=1)  # a wait may end later by a moment: every reading of the clock takes a microsecond
MOST_IDLE_CYCLES = 500  # without a job, until a manager counts as stalled
Outcome = str | CrawlOutcome
Choice = Outcome | Callable[[StartedJob], Outcome]


@dataclass(frozen=True)
class Asleep:
    """The author's manager object waits for news, at most for `seconds`."""

    seconds: float | None


@dataclass(frozen=True)
class Closed:
    """The manager's end is stored."""

    reason: str | None


@dataclass(frozen=True)
class Failed:
    """The object's thread has ended with an error."""

    error: BaseException


Turn = Asleep | Closed | Failed


class PlayedObject:
    """The author's manager object in its own thread. The thread and the test take turns.

    A wake from the test begins the object's turn. The turn ends when the object waits, closes or fails.
    """

    def __init__(self, make: Callable[[], BaseLoopScript], stage: PlayStage) -> None:
        self._make, self._stage = make, stage
        self._link = PlayedLink(stage, self._wait)
        self._wakes: SimpleQueue[Wake] = SimpleQueue()
        self._turns: SimpleQueue[Turn] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def go_on(self, wake: Wake) -> Turn:
        """Let the object run until its next wait or its end, and return how its turn has ended."""
        if self._thread is None:
            target = copy_context().run
            self._thread = threading.Thread(target=target, args=(self._run,), name="manager", daemon=True)
            self._thread.start()
        else:
            self._wakes.put(wake)
        return self._turns.get()

    def give_up(self) -> None:
        """End a waiting object, as a host does when it gives the manager up."""
        if self._thread is not None and self._thread.is_alive():
            self._wakes.put(Wake(must_leave=True))
            self._thread.join(timeout=10)

    # in the object's thread

    def _run(self) -> None:
        try:
            self._turns.put(Closed(drive(self._make_known, self._link)))
        except (Exception, Death, SystemExit) as error:  # noqa: BLE001 - the test sees every error
            self._turns.put(Failed(error))

    def _make_known(self) -> BaseLoopScript:
        self._stage.manager = self._make()
        return self._stage.manager

    def _wait(self, seconds: float | None) -> Wake:
        """End the object's turn, and wait for the next turn."""
        self._turns.put(Asleep(seconds))
        return self._wakes.get()


class ManagerPlay:
    """A manager under way. Acts by the test come between the manager's cycles."""

    def __init__(
        self,
        manager: Callable[[], BaseLoopScript],
        *arguments: str,
        family: str = FAMILY,
        refuses: Mapping[str, str] | None = None,
        now: datetime = NOW,
    ) -> None:
        """Prepare the play. `arguments`: command line. `refuses`: starts' problems by spider."""
        self.make = manager
        with command_line(arguments):
            name = manager().name
        self.managed = ManagedFlow(name, arguments, family, now)
        self.stage = PlayStage(self.managed, refuses or {})
        self.close_reason: str | None = None
        self.slept: list[float | None] = []  # the waits' seconds
        self.deaths = 0
        self._object: PlayedObject | None = None
        self._sleeps_until: datetime | None = now  # None: until news

    # the manager continues

    def cycle(self, times: int = 1) -> str | None:
        """Let the manager continue to its next wait. Return its close reason; None while the manager is open.

        An error in author's code is raised. The next cycle begins another object, as a host does.
        """
        for _ in range(times):
            if self.close_reason is None:
                self._go_on()
        return self.close_reason

    def skip(self, **time: float) -> str | None:
        """Let time pass, with a timedelta's arguments. The manager continues whenever a wait ends.

        An end of a job ends a wait at once, as in the service.
        """
        until = self.now + timedelta(**time)
        while self.close_reason is None and (due := self._next_wake()) is not None and due <= until + A_MOMENT:
            self.managed.clock.now = max(due, self.now)
            self._go_on()
        self.managed.clock.now = max(until, self.now)
        return self.close_reason

    def until_closed(self, outcome: Choice = FINISHED, *, most_jobs: int = 1000) -> str:
        """Let all jobs end and all pauses pass until the manager closes. Return its close reason.

        `outcome`: the word for all ends, or a function from a started job to its word. AssertionError after `most_jobs`
        jobs, or if the manager stalls.
        """
        idle = 0
        self.cycle()
        while self.close_reason is None:
            assert len(self.started) <= most_jobs, f"the manager has started more than {most_jobs} jobs"
            running, due = self.running, self._next_start()
            for job in running:
                self.end(job.number, outcome(job) if callable(outcome) else outcome)
            idle = 0 if running else idle + 1
            assert idle <= MOST_IDLE_CYCLES and (running or due), f"the manager stands still: {self.counts}"  # noqa: PT018
            if not running and due is not None:
                self.managed.clock.now = max(due, self.now)
            self.cycle()
        return self.close_reason

    def crash(self, at: str) -> None:
        """Let the manager continue to the point, and let its process die there. The next cycle begins another object.

        `at`: a hook's or method's name, for its beginning; or `before` or `after` with `react`, `offer`, `delay`,
        `start`, `refuse`, `commit` or `close`; or `start on record`, before the runs. AssertionError if the manager
        waits before.
        """
        deaths = self.deaths
        self.stage.is_fatal = lambda point: point == at
        try:
            self._go_on(replaces_dead=False)
        finally:
            self.stage.is_fatal = lambda _: False
        assert self.deaths > deaths, f"the manager did not reach {at!r}, but {self.stage.calls[-20:]}"

    def replace(self, manager: Callable[[], BaseLoopScript] | None = None) -> None:
        """Hand the manager over to another object, also with a changed class. The object begins with the next cycle."""
        self.make = manager or self.make
        if self._object is not None:
            self._object.give_up()
            self._object = None

    def close(self) -> None:
        """End the play: the object leaves, and the database is removed. An unused play closes on its own."""
        self.replace()
        self.managed.close()

    # acts by people and by the cluster

    def end(
        self,
        number: int | None = None,
        outcome: Outcome = FINISHED,
        *,
        stats: Mapping[str, float] | None = None,
        result: JsonValue = None,
    ) -> int:
        """End a running job, or all. Return the jobs' number. The manager reacts in its next cycle.

        `outcome`: an outcome word of the service or the manager, or an end such as `failed("banned")`. A failed run's
        word, such as `killed by oom`, ends the run as failed.
        """
        if isinstance(outcome, str):
            self._refuse_unknown(outcome)
        end = _end_of(outcome, stats or {}, result)
        jobs = [job for job in self.running if number in (None, job.number)]
        assert jobs or number is None, f"job {number} is not running, but {[job.number for job in self.running]} are"
        for job in jobs:
            self.managed.end_run(self.stage.starts[job.key], end)
        return len(jobs)

    def pause(self) -> None:
        self._hold("pause")

    def resume(self) -> None:
        self._hold("run")

    def drain(self) -> None:
        self._hold("drain")

    def stop(self) -> None:
        """Ask the manager and its jobs to stop. The test decides when the jobs end."""
        self.managed.store.flow_doors.change(self.managed.id, CancelMembers(paths=(MANAGER,)))

    def leave(self) -> None:
        """Ask the manager to close at once. Its jobs continue."""
        self.managed.store.flow_doors.change(self.managed.id, CancelMembers(paths=(MANAGER,), terminate=False))

    # the state

    @property
    def manager(self) -> BaseLoopScript:
        """The present object, or the last."""
        assert self.stage.manager is not None, "the manager has not begun"
        return self.stage.manager

    @property
    def now(self) -> datetime:
        return self.managed.clock.now

    @property
    def started(self) -> list[StartedJob]:
        """All starts so far."""
        return list(self.stage.started)

    @property
    def stops(self) -> list[str]:
        """Keys for jobs with a request to stop by the manager."""
        return list(self.stage.stops)

    @property
    def running(self) -> list[StartedJob]:
        """Jobs without an end, by number."""
        by_key = {job.key: job for job in self.stage.started}
        return [by_key[job.key] for job in self.jobs_under_way() if job.key in by_key]

    @property
    def counts(self) -> Counts:
        return self.managed.store.managers.counts(self.managed.ref)

    @property
    def items(self) -> list[ItemRecord]:
        """The ledger's items, by number."""
        return self.managed.store.manager_doors.items(self.managed.id, limit=MOST_ITEMS)

    @property
    def stats(self) -> Mapping[str, Any]:
        """The manager's stored stats."""
        return self.managed.on_record()[0]

    @property
    def state(self) -> Mapping[str, JsonValue]:
        """The manager's stored state."""
        return self.managed.on_record()[1]

    @property
    def lines(self) -> list[str]:
        """The messages in the flow's timeline."""
        return self.managed.lines()

    def jobs_under_way(self) -> list[Job]:
        return list(self.managed.store.managers.running(self.managed.ref))

    # inside

    def _refuse_unknown(self, word: str) -> None:
        """Raise BadInput for a word without a meaning for the service or the manager."""
        known = {*RESERVED, UNKNOWN, *getattr(self.manager, "failed_outcomes", ())}
        if word not in known and not word.startswith("closespider_"):
            near = get_close_matches(word, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            advice = f"completed({word!r}) and failed({word!r}) end crawls with words of their own"
            raise BadInput("outcome", f"{word!r} is no known outcome{meant}: {advice}")

    def _go_on(self, *, replaces_dead: bool = True) -> None:
        """Give the object the turn. `replaces_dead`: another object continues at once for an object that dies."""
        while True:
            if self._object is None:
                self._object = PlayedObject(self.make, self.stage)
                weakref.finalize(self, self._object.give_up)
            turn = self._object.go_on(Wake())
            if isinstance(turn, Asleep):
                self.slept.append(turn.seconds)
                self._sleeps_until = None if turn.seconds is None else self.now + timedelta(seconds=turn.seconds)
                return
            self._object = None
            if isinstance(turn, Closed):
                self.close_reason = turn.reason
                return
            if not isinstance(turn.error, Death):
                raise turn.error
            self.deaths += 1
            if not replaces_dead:
                return

    def _next_wake(self) -> datetime | None:
        """Return when the object's wait ends, or an item's pause. A job's end without a reaction ends the wait now."""
        ended = self.managed.store.managers.ended
        if self._object is not None and self.manager.wake_on_end and ended(self.managed.ref, 1):
            return self.now
        return min(filter(None, (self._sleeps_until, self._next_due_item())), default=None)

    def _next_start(self) -> datetime | None:
        """Return when a job may start. The object's waits are passed over while all items are in pauses."""
        counts, due = self.counts, self._next_due_item()
        return self._next_wake() if due is None or counts.waiting or counts.delayed else due

    def _next_due_item(self) -> datetime | None:
        return min((item.due for item in self.items if item.due is not None and item.due > self.now), default=None)

    def _hold(self, hold: str) -> None:
        self.managed.store.flow_doors.change(self.managed.id, HoldFlow.model_validate({"hold": hold}))


def _end_of(outcome: Outcome, stats: Mapping[str, float], result: JsonValue) -> PlayedEnd:
    if isinstance(outcome, CrawlOutcome):
        own = outcome.result if result is None else result
        return PlayedEnd(outcome.outcome, outcome.status is RunStatus.FAILED, {**outcome.stats, **stats}, own)
    return PlayedEnd(outcome, outcome in OF_FAILED_RUNS, stats, result)
