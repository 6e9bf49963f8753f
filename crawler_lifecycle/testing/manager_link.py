"""A played manager's link: calls go to the ledger at once, and waits give the turn back to the test."""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from uuid import uuid4

from crawler_lifecycle.flows.model.turns import (
    Begun,
    Effects,
    Offered,
    Page,
    Reaction,
    Start,
    Wake,
)
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.managers.authors.link import running_of
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.managers.ports import LedgerCalls, ManagerLedger, ManagerRef, ManagerStart
from crawler_lifecycle.model.manager_items import Job
from crawler_lifecycle.testing.managed import ManagedFlow

T = TypeVar("T")


class Death(BaseException):
    """Death for the manager's object with its process."""


@dataclass(frozen=True)
class StartedJob:
    """A job at its start, in copies: no later change reaches the values."""

    key: str
    number: int
    attempt: int
    spider: str
    arguments: Mapping[str, str]
    settings: Mapping[str, str]
    tags: Sequence[str]
    labels: Sequence[str]
    priority: int | None
    memory_factor: float


@dataclass
class PlayStage:
    """The surroundings for a played manager's objects. They survive the objects."""

    flow: ManagedFlow
    refusals: Mapping[str, str]  # starts' problems by spider
    started: list[StartedJob] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)  # keys of jobs that the manager has asked to stop
    starts: dict[str, ManagerStart] = field(default_factory=dict)  # by key
    calls: list[str] = field(default_factory=list)
    manager: BaseLoopScript | None = None  # the present object
    is_fatal: Callable[[str], bool] = lambda _: False  # whether the object dies at the point

    def point(self, name: str) -> None:
        """Reach a point in the object's life. Raise Death if the object dies there."""
        self.calls.append(name)
        if self.is_fatal(name):
            raise Death(name)

    def make_runs(self, starts: Sequence[ManagerStart]) -> dict[int, Job | str]:
        """Start faked runs for recorded attempts, as a host does. Return jobs, or problems, by number."""
        answers: dict[int, Job | str] = {}
        for start in starts:
            number, problem = start.job.number, self.refusals.get(start.request.crawler)
            if problem is not None:
                self.flow.store.managers.refuse(self.flow.ref, number, start.job.attempt, Refusal(problem))
                answers[number] = problem
                continue
            self.starts[start.job.key] = start
            self.started.append(_started(start))
            answers[number] = self.flow.link_run(start)
        return answers


class PlayedLink(LedgerCalls):
    """The link for an object. A dead object's calls all fail, also in its `finally` blocks."""

    def __init__(self, stage: PlayStage, sleep: Callable[[float | None], Wake]) -> None:
        self._stage = stage
        self._ledger = stage.flow.store.managers
        self._ref = stage.flow.ref
        self._sleep = sleep
        self._child = str(uuid4())
        self._is_dead = False
        self._items_door = 0  # the last door in the object's knowledge

    def ask(self, call: Callable[[ManagerLedger, ManagerRef], T]) -> T:
        self._refuse_the_dead()
        return call(self._ledger, self._ref)

    def begin(self) -> Begun:
        begun = self._ledger.begin(self._ref, self._child)
        self._items_door = begun.items_door
        self._stage.make_runs(self._ledger.unstarted(self._ref))
        return begun

    def enter(self, phase: str, about: str | None = None) -> None:
        del about
        self._point(phase)

    def ended(self, limit: int) -> Sequence[Job]:
        return self.ask(lambda ledger, ref: ledger.ended(ref, limit))

    def react(self, reactions: Sequence[Reaction]) -> None:
        self._point("before react")
        self._ledger.react(self._ref, reactions)
        self._point("after react")

    def offer(self, page: Page) -> Offered:
        self._point("before offer")
        offered = self._ledger.offer(self._ref, page)
        self._point("after offer")
        return offered

    def delay(self, numbers: Collection[int]) -> None:
        self._point("before delay")
        self._ledger.delay(self._ref, numbers)
        self._point("after delay")

    def start(self, starts: Sequence[Start]) -> Sequence[Job | str | None]:
        self._point("before start")
        answer = self._ledger.start(self._ref, starts)
        self._point("start on record")
        jobs = self._stage.make_runs(answer.started)
        self._point("after start")
        return [jobs.get(start.number) for start in starts]

    def refuse(self, number: int, attempt: int, problem: str) -> None:
        self._point("before refuse")
        self._ledger.refuse(self._ref, number, attempt, Refusal(problem))
        self._point("after refuse")

    def stop(self, reasons: Mapping[str, str] | None = None) -> None:
        """Note the jobs under way: a test itself decides how their runs end."""
        self._point("stop")
        running = [job.key for job in self._ledger.running(self._ref)]
        self._stage.stops += [key for key in running if reasons is None or key in reasons]

    def commit(self, effects: Effects) -> Sequence[int]:
        self._point("before commit")
        numbers = self._ledger.commit(self._ref, effects, str(uuid4()))
        self._point("after commit")
        return numbers

    def sleep(self, seconds: float | None, *, for_news: bool = True) -> Wake:
        del for_news
        self._refuse_the_dead()
        wake = self._sleep(seconds)
        self._items_door = self._stage.flow.items_door
        return wake

    def wait_for(self, keys: Collection[str], seconds: float) -> Collection[str]:
        if running_of(self, keys):
            self._sleep(seconds)
        return set(running_of(self, keys))

    def close(self, reason: str, effects: Effects) -> bool:
        self._point("before close")
        newer_door = self._ledger.close(self._ref, reason, effects, self._items_door)
        if newer_door is not None:
            self._items_door = newer_door
        self._point("after close")
        return newer_door is None

    def now(self) -> datetime:
        return self._stage.flow.clock.now

    def _point(self, name: str) -> None:
        self._refuse_the_dead()
        try:
            self._stage.point(name)
        except Death:
            self._is_dead = True
            raise

    def _refuse_the_dead(self) -> None:
        if self._is_dead:
            raise Death("the object is dead")


def _started(start: ManagerStart) -> StartedJob:
    request = deepcopy(start.request)
    return StartedJob(
        key=start.job.key,
        number=start.job.number,
        attempt=start.job.attempt,
        spider=request.crawler,
        arguments=request.arguments,
        settings=request.settings,
        tags=tuple(request.tags),
        labels=tuple(request.labels),
        priority=request.priority,
        memory_factor=request.memory_factor,
    )
