"""A manager on the real ledger, with faked runs: a test decides how each run ends, and when the object dies."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from crawler_lifecycle.adapters.sql.database import Database
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
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.domain.reasons import STOPPED
from crawler_lifecycle.managers.driving import drive
from crawler_lifecycle.managers.workflow_manager import WorkFlowManager
from crawler_lifecycle.ports import ManagerStart, NewRun
from tests.contracts.flows import BOOKS
from tests.contracts.managers import Managed, managed

ENDS = {
    "finished": (RunStatus.COMPLETED, "all_succeeded"),
    "failed": (RunStatus.FAILED, "main_job_failed"),
    "cancelled": (RunStatus.FAILED, STOPPED),
}


class Crash(BaseException):
    """The process of the object dies."""


@dataclass
class Play:
    """A manager's flow. Each `act` runs at the manager's next sleep; without acts, the object is left."""

    flow: Managed
    make: Callable[[], WorkFlowManager]
    acts: list[Callable[["Play"], object]] = field(default_factory=list)
    started: list[tuple[int, int, str, dict[str, str], tuple[str, ...], dict[str, str]]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    dies_at: str | None = None  # name of the call after which the object dies
    later: timedelta = timedelta()
    manager: WorkFlowManager | None = None
    slept: list[float | None] = field(default_factory=list)

    def run(self, *acts: Callable[["Play"], object]) -> str | None:
        """Run a new object with these acts. Return the close reason; None: the object was left."""
        self.acts = list(acts)

        def make() -> WorkFlowManager:
            self.manager = self.make()
            return self.manager

        return drive(make, PlayLink(self))

    def crash(self, after: str, *acts: Callable[["Play"], object]) -> None:
        """Run a new object, which dies after the call of the link."""
        self.dies_at = after
        try:
            self.run(*acts)
        except Crash:
            self.dies_at = None
        assert self.dies_at is None, f"the manager never called {after}"

    def end(self, *numbers: int, outcome: str = "finished") -> Callable[["Play"], object]:
        return lambda _: self.end_now(*numbers, outcome=outcome)

    def end_now(self, *numbers: int, outcome: str = "finished") -> None:
        """End the running jobs with these numbers, or all."""
        for job in self.flow.managers.running(self.flow.mine):
            if not numbers or job.number in numbers:
                run = self.flow.store.runs.get(job.run_id)
                self.flow.close(run, *ENDS[outcome])

    @property
    def counts(self) -> Counts:
        counts: Counts = self.flow.managers.counts(self.flow.mine)
        return counts

    @property
    def numbers(self) -> list[int]:
        return [start[0] for start in self.started]

    @property
    def spiders(self) -> list[str]:
        return [start[2] for start in self.started]

    @property
    def arguments(self) -> list[dict[str, str]]:
        return [start[3] for start in self.started]

    @property
    def tags(self) -> list[tuple[str, ...]]:
        return [start[4] for start in self.started]

    @property
    def lines(self) -> list[str]:
        return self.flow.events


class PlayLink:
    """The link for an object. The calls go to the ledger at once."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._ledger = play.flow.managers
        self._child = str(uuid4())

    @property
    def _mine(self) -> Any:
        return self._play.flow.mine

    def _done(self, call: str) -> None:
        self._play.calls.append(call)
        if self._play.dies_at == call:
            raise Crash

    def begin(self) -> Begun:
        begun: Begun = self._ledger.begin(self._mine, self._child)
        self._make_runs(self._ledger.unstarted(self._mine))
        return begun

    def intent(self) -> Intent:
        intent: Intent = self._ledger.intent(self._mine)
        return intent

    def enter(self, phase: str, about: str | None = None) -> None:
        self._done(f"enter {phase}")

    def ended(self, limit: int) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ledger.ended(self._mine, limit)
        return jobs

    def react(self, reaction: Reaction) -> None:
        self._ledger.react(self._mine, reaction)
        self._done("react")

    def running(self) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ledger.running(self._mine)
        return jobs

    def jobs(
        self, state: JobState, *, after: int = 0, limit: int, tags: Collection[str] = (), every_flow: bool = False
    ) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ledger.jobs(
            self._mine, state, after=after, limit=limit, tags=tags, every_flow=every_flow
        )
        return jobs

    def offer(self, page: Page) -> Offered:
        offered: Offered = self._ledger.offer(self._mine, page)
        self._done("offer")
        return offered

    def waiting(self, limit: int, *, after: Waiting | None = None) -> Sequence[Waiting]:
        items: Sequence[Waiting] = self._ledger.waiting(self._mine, limit, after=after)
        return items

    def delay(self, numbers: Collection[int]) -> None:
        self._ledger.delay(self._mine, numbers)
        self._done("delay")

    def start(self, starts: Sequence[Start]) -> Sequence[Job | str | None]:
        answer = self._ledger.start(self._mine, starts)
        self._done("start on record")
        jobs = self._make_runs(answer.started)
        self._done("start")
        return [jobs.get(start.number) for start in starts]

    def _make_runs(self, starts: Sequence[ManagerStart]) -> dict[int, Job]:
        """Make runs for the attempts on record, as a host does."""
        jobs: dict[int, Job] = {}
        for start in starts:
            run = self._play.flow.store.runs.create(NewRun(start.request, BOOKS, 1, start.job.key, str(uuid4())))
            jobs[start.job.number] = start.job.model_copy(update={"run_id": run.run_id})
            request = start.request
            self._play.started.append(
                (
                    start.job.number,
                    start.job.attempt,
                    request.crawler,
                    dict(request.arguments),
                    tuple(request.tags),
                    dict(request.settings),
                )
            )
        return jobs

    def commit(self, effects: Effects) -> Sequence[int]:
        numbers: Sequence[int] = self._ledger.commit(self._mine, effects, str(uuid4()))
        self._done("commit")
        return numbers

    def find(self, keys: Collection[str]) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ledger.find(self._mine, keys)
        return jobs

    def counts(self) -> Counts:
        return self._play.counts

    def sleep(self, seconds: float | None, *, for_news: bool = True) -> Wake:
        play = self._play
        play.slept.append(seconds)
        if not play.acts:
            return Wake(must_leave=True)
        play.acts.pop(0)(play)
        return Wake()

    def wait_for(self, keys: Collection[str], seconds: float) -> Collection[str]:
        self._play.slept.append(seconds)
        if self._play.acts:
            self._play.acts.pop(0)(self._play)
        return {job.key for job in self.find(keys) if job.state is JobState.RUNNING}

    def close(self, reason: str, effects: Effects) -> None:
        self._ledger.close(self._mine, reason, effects)
        self._done("close")

    def now(self) -> datetime:
        return datetime.now(UTC) + self._play.later


def nothing(_: Play) -> None:
    """Let a cycle pass."""


def play_of(database: Database, make: Callable[[], WorkFlowManager], *arguments: str) -> Play:
    return Play(managed(database, begins=False, arguments=list(arguments)), make)


def acts(count: int, act: Callable[[Play], object]) -> Iterable[Callable[[Play], object]]:
    return [act] * count
