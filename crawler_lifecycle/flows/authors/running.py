"""Objects for a step while the step runs: its job, its context, its cancel, and results, page by page."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from crawler_lifecycle.base.limits import A_YEAR
from crawler_lifecycle.base.names import last_name
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.rules.contexts import Source

PAGE = 50  # results in a single reading, if they are small
# from members' numbers to results, for as many numbers as fit into a page; None without a result
Load = Callable[[Collection[int]], Mapping[int, Any]]
PROGRESS_SECONDS = 5.0  # shortest time between two log lines about a step's progress


class Results(Mapping[str, Any]):
    """Results by name, in the members' order. A member without a result has None; a sub-workflow is a mapping again.

    Only the last page is kept in memory: ten thousand large results would not fit.
    """

    def __init__(self, sources: Mapping[str, Source], load: Load) -> None:
        self._sources = sources
        self._load = load
        self._numbers = [number for number in sources.values() if isinstance(number, int)]
        self._place_of = {number: place for place, number in enumerate(self._numbers)}
        self._inner = {name: Results(inner, load) for name, inner in sources.items() if not isinstance(inner, int)}
        self._page: Mapping[int, Any] = {}
        self._are_large = False

    def __getitem__(self, name: str) -> Any:
        source = self._sources[name]
        if not isinstance(source, int):
            return self._inner[name]
        page = self._page
        if source not in page:
            page = self._page = {}  # free the old page first: two large pages at once would take twice the memory
            self._page = page = self._page_with(source)
        return page.get(source)

    def _page_with(self, number: int) -> Mapping[int, Any]:
        """Load the page with the number. A page of small results starts at a multiple of PAGE.

        If the last page had no room for all its results, since they are large, a page starts at the number itself.
        """
        place = self._place_of[number]
        start = place if self._are_large else place - place % PAGE
        wanted = self._numbers[start : start + PAGE]
        page = self._load(wanted)
        self._are_large = len(page) < len(wanted)
        if number not in page:
            page = {}  # free the page first, as in `__getitem__`
            page = self._load(self._numbers[place : place + PAGE])
        return page

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        return repr(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return all results in plain dicts."""
        return {name: value.to_dict() if isinstance(value, Results) else value for name, value in self.items()}


class Cancel(Exception):
    """A step returns or raises a cancel to cancel itself, with a reason. The step is not tried again."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, init=False)
class Snooze:
    """A step returns a snooze to be called again after a time of at least a second, in seconds or as a timedelta.

    The attempt does not count among the step's attempts.
    """

    seconds: float

    def __init__(self, seconds: float | timedelta) -> None:
        number = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if isinstance(number, bool) or not isinstance(number, int | float) or not 1 <= number <= A_YEAR:
            raise BadInput("Snooze", f"expected a number of seconds from 1 to a year, not {seconds!r}")
        object.__setattr__(self, "seconds", number)


@dataclass(frozen=True)
class Record:
    """A step may return its result in a record, as in Oban. A plain result is stored just as well."""

    value: Any


@dataclass(frozen=True)
class RunningJob:
    """A step's running attempt, for worker classes. `errors` has the earlier attempts' errors, oldest first.

    `scheduled_at`: the time from which the attempt may start; for a call after a host's death, the attempt's start.
    """

    flow_id: str
    path: str
    args: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1
    generation: int = 1
    flow_name: str | None = None
    flow_uid: str = ""
    is_grafter: bool = False
    worker: str = ""
    queue: str = "default"
    priority: int = 0
    max_attempts: int = 1
    tags: tuple[str, ...] = ()
    scheduled_at: datetime | None = None
    errors: tuple[Mapping[str, Any], ...] = ()
    link: "StepLink | None" = field(default=None, repr=False, compare=False)

    @property
    def id(self) -> str:
        """The key, under the name for users from Oban."""
        return self.key

    def cancelled(self) -> bool:
        """Return whether the step has to end, as `context.cancelled` does."""
        return self.link is not None and self.link.is_cancelled

    @property
    def name(self) -> str:
        return last_name(self.path)

    @property
    def key(self) -> str:
        """Key for outside systems, with the same value for all attempts in a generation."""
        return f"{self.flow_uid or self.flow_id}:{self.path}:{self.generation}"

    @property
    def meta(self) -> dict[str, Any]:
        """The job's place in its workflow, under the names for users from Oban."""
        return {"name": self.name, "workflow_id": self.flow_id, "workflow_name": self.flow_name, "path": self.path}


_running: ContextVar[RunningJob] = ContextVar("running_job")


def running_job() -> RunningJob | None:
    """Return the step that runs here; None outside a step's function."""
    return _running.get(None)


@contextmanager
def running(job: RunningJob) -> Iterator[None]:
    """Note the step as running here during the block."""
    token = _running.set(job)
    try:
        yield
    finally:
        _running.reset(token)


class StepLink:
    """A running step's link to its host: a log, its progress, and the request to stop it."""

    def __init__(self, log: logging.Logger | None = None) -> None:
        self.log = log or logging.getLogger("crawler_lifecycle.steps")
        self._stop = threading.Event()
        self._logged_at: float | None = None

    @property
    def is_cancelled(self) -> bool:
        return self._stop.is_set()

    def cancel(self) -> None:
        self._stop.set()

    def progress(self, done: float, total: float | None = None) -> None:
        """Report the progress in a log line, at most every few seconds, and always at the end."""
        now = time.monotonic()
        if self._logged_at is None or done == total or now - self._logged_at >= PROGRESS_SECONDS:
            self._logged_at = now
            self.log.info("progress: %s", done if total is None else f"{done} of {total}")


class Context(Mapping[str, Any]):
    """Context values and the dependencies' results, by name. The first read loads a result."""

    def __init__(
        self,
        names: Mapping[str, Callable[[], Any]],
        job: RunningJob,
        results: Callable[[str], Any] | None = None,
        link: StepLink | None = None,
    ) -> None:
        self._names = names
        self._values: dict[str, Any] = {}
        self._results = results
        self._link = link or StepLink()
        self.job = replace(job, link=self._link)

    @property
    def log(self) -> logging.Logger:
        """A logger. Its lines have the flow's id, the step's path and the attempt."""
        return self._link.log

    @property
    def cancelled(self) -> bool:
        """Whether the step has to end: people cancelled the step, its time is over, or another host has the step.

        A function in a thread cannot be stopped, so a long function looks here now and then.
        """
        return self._link.is_cancelled

    def progress(self, done: float, total: float | None = None) -> None:
        """Report how much is done."""
        self._link.progress(done, total)

    async def load(self, *names: str) -> None:
        """Load values in a thread; without names, all values. Loading on access blocks the event loop."""
        await asyncio.to_thread(lambda: [self[name] for name in names or self])

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def key(self) -> str:
        return self.job.key

    def results(self, path: str) -> Any:
        """Return an ended job's result by its path."""
        if self._results is None:
            raise KeyError(path)
        return self._results(path)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._names[name]()
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
