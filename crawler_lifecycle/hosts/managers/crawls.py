"""A manager's crawls in Temporal: tasks on the host's event loop send starts and stops, and look after starts.

While Temporal is away, starts wait here: the manager's thread continues with the reactions to ends. Requests against
the crawler catalogue are refused before their starts are recorded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, TypeVar

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.clusters.ports import Deployer
from crawler_lifecycle.delivery.ports import FlowSupervisors
from crawler_lifecycle.errors import Fenced, LifecycleError, PermanentError, TemporaryError
from crawler_lifecycle.flows.model.turns import Start
from crawler_lifecycle.flows.rules.ends import Refusal, is_missing, refusal
from crawler_lifecycle.managers.ports import ManagerLedger, ManagerRef, ManagerStart
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.manager_items import Job
from crawler_lifecycle.model.requests import PROJECT, RunRequest, StopRequest
from crawler_lifecycle.runs.rules.plan import RunLimits, planned

logger = logging.getLogger(__name__)
T = TypeVar("T")
ENTRY_SECONDS = 5.0  # after which an entry is read again, since it may have changed
REQUESTS_AT_ONCE = 16  # to Temporal: starts, and as many stops
LOOK_UPS_AT_ONCE = 2  # of projects' entries: each takes a thread, for long while the scheduler service is away
START_SECONDS = 2.0  # the object's longest wait for starts
CHECK_SECONDS = 60.0  # between looks for attempts without a run
PAUSES = Backoff(timedelta(milliseconds=200), timedelta(seconds=5))  # between tries while Temporal is away
STOP_PAUSES = Backoff(timedelta(seconds=1), timedelta(seconds=30))  # between requests to crawls to stop


@dataclass
class ManagerCatalogue:
    """The catalogue for a host's managers. `deployer`: None if the host knows no scheduler service."""

    deployer: Deployer | None
    limits: RunLimits
    _entries: dict[str, tuple[float, Crawler | PermanentError]] = field(default_factory=dict)

    def refusals(self, starts: Sequence[Start]) -> dict[int, str]:
        """Return messages for impossible requests, by number. An absent catalogue refuses no request."""
        refused: dict[int, str] = {}
        if self.deployer is None:
            return refused
        for start in starts:
            try:
                request = self.for_project(RunRequest.model_validate(start.request.model_dump(exclude_none=True)))
                planned(request, self._entry(self.deployer, request.crawler), self.limits)
            except TemporaryError as error:
                logger.info("requests are not checked before their starts: %s", error.message)
                break  # the runs' own workflows wait for the catalogue
            except PermanentError as error:
                refused[start.number] = error.message
        return refused

    def reads_for_project(self, request: RunRequest) -> bool:
        """Return whether `for_project` reads the catalogue for the request, which takes a thread."""
        return self.deployer is not None and any(label.startswith(PROJECT) for label in request.labels)

    def for_project(self, request: RunRequest) -> RunRequest:
        """Return the request for its project's entry, `crawler@project`; without such an entry, the request itself."""
        for project in (label.removeprefix(PROJECT) for label in request.labels if label.startswith(PROJECT)):
            name = f"{request.crawler}@{project}"
            if self.deployer is not None and self._is_of_project(self.deployer, name, project):
                return request.model_copy(update={"crawler": name})
        return request

    def _is_of_project(self, deployer: Deployer, name: str, project: str) -> bool:
        try:
            return str(self._entry(deployer, name).project) == project
        except PermanentError:
            return False

    def _entry(self, deployer: Deployer, name: str) -> Crawler:
        known = self._entries.get(name)
        if known is None or monotonic() > known[0]:
            known = self._entries[name] = monotonic() + ENTRY_SECONDS, _read(deployer, name)
        if isinstance(known[1], PermanentError):
            raise known[1]
        return known[1]


class Crawls:
    """A manager's crawls. A start is repeated with the same workflow id, so an ambiguous answer does no harm."""

    def __init__(
        self,
        ledger: ManagerLedger,
        supervisors: FlowSupervisors,
        ref: ManagerRef,
        flow_id: str,
        on_change: Callable[[], None],
        catalogue: ManagerCatalogue,
    ) -> None:
        """Make the crawls, on the host's event loop. `on_change`: called after an attempt's refusal."""
        self._catalogue = catalogue
        self._ledger = ledger
        self._supervisors = supervisors
        self._ref = ref
        self._flow_id = flow_id
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._look_up_limit = asyncio.Semaphore(LOOK_UPS_AT_ONCE)
        self._start_limit = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._stop_limit = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._asked: set[str] = set()  # keys whose workflows have taken the stop
        self._starting: dict[str, asyncio.Task[str | None]] = {}  # by workflow id
        self._stopping: asyncio.Task[None] | None = None  # the rounds
        self._stops_all = False
        self._reasons: dict[str, str] = {}  # for the stops of single jobs, by key
        self._requests: dict[str, StopRequest] = {}  # by key: a repetition has the first request's time and reason
        self._finishing: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None

    # for the manager's thread

    def begin(self) -> None:
        """Make a previous host's starts, and look after all starts from now on."""
        self._soon(self._check_from_now_on)

    def start(self, starts: Sequence[ManagerStart]) -> "Future[dict[int, str]]":
        """Start workflows for recorded attempts. The answer has the refused attempts' problems by number.

        The answer comes after some seconds at the latest. The remaining starts continue.
        """
        return asyncio.run_coroutine_threadsafe(self._start_all(starts), self._loop)

    def stop(self) -> None:
        """Ask all crawls under way to stop, again and again until their ends are stored."""
        self._soon(self._stop_all)

    def finish(self, reasons: Mapping[str, str]) -> "Future[None]":
        """Ask the crawls with a reason to stop. Return after some seconds at the latest; other requests continue."""
        return asyncio.run_coroutine_threadsafe(self._finish(reasons), self._loop)

    def close(self) -> None:
        """Leave the crawls. Another host makes the starts that Temporal has not taken."""
        self._soon(self._cancel)

    def _soon(self, act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(act)

    # on the event loop

    def _cancel(self) -> None:
        for task in (self._checking, self._stopping, self._finishing, *self._starting.values()):
            if task is not None:
                task.cancel()

    async def _start_all(self, starts: Sequence[ManagerStart]) -> dict[int, str]:
        tasks = {start.job.number: self._start_in_task(start) for start in starts}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=START_SECONDS)
        done = {number: task.result() for number, task in tasks.items() if task.done() and not task.cancelled()}
        return {number: problem for number, problem in done.items() if problem is not None}

    def _start_in_task(self, start: ManagerStart) -> asyncio.Task[str | None]:
        """Make the start in a task of its own. Return the task; a start under way keeps its task."""
        key = start.job.key
        if key not in self._starting:
            self._starting[key] = task = asyncio.create_task(self._start(start))
            task.add_done_callback(lambda _: self._starting.pop(key, None))
        return self._starting[key]

    async def _start(self, start: ManagerStart) -> str | None:
        """Start the workflow. Return why the request is refused for good."""
        key, request = start.job.key, start.request
        try:
            if self._catalogue.reads_for_project(request):
                look_up = self._catalogue.for_project
                async with self._look_up_limit:
                    request = await self._patiently(key, lambda: asyncio.to_thread(look_up, request))
            async with self._start_limit:
                await self._patiently(key, lambda: self._supervisors.start_crawl(key, request))
        except PermanentError as error:
            await self._refuse(start.job, Refusal(error.message))
            return error.message
        return None

    async def _patiently(self, key: str, act: Callable[[], Awaitable[T]]) -> T:
        """Act, again and again until the act succeeds or its request is refused for good."""
        failures = 0
        while True:
            try:
                return await act()
            except PermanentError:
                raise
            except LifecycleError as error:
                logger.warning("%s waits for its start: %s", key, error.message)
            except Exception:  # our own fault loses no start: the start is tried again
                logger.exception("%s waits for its start", key)
            failures += 1
            await asyncio.sleep(PAUSES.seconds(failures))

    async def _refuse(self, job: Job, refusal: Refusal) -> None:
        await self._written(lambda: self._ledger.refuse(self._ref, job.number, job.attempt, refusal))
        self._on_change()

    async def _written(self, write: Callable[[], T]) -> T | None:
        """Write, again and again while the database is away. None: another host has the manager."""
        failures = 0
        while True:
            try:
                return await asyncio.to_thread(write)
            except Fenced:
                return None
            except TemporaryError as error:
                failures += 1
                logger.warning("a crawl manager waits: %s", error.message)
                await asyncio.sleep(PAUSES.seconds(failures))

    # attempts without a run

    def _check_from_now_on(self) -> None:
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_forever())

    async def _check_forever(self) -> None:
        await self._try(self._resume_starts())
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self._try(self._check())

    async def _try(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work, and log its failure: the caller's loop tries again."""
        try:
            await work
        except LifecycleError as error:
            logger.warning("crawls of a manager of flow %s are not looked after: %s", self._flow_id, error.message)
        except Exception:  # our own fault must not end the checks
            logger.exception("crawls of a manager of flow %s are not looked after", self._flow_id)

    async def _resume_starts(self) -> None:
        """Make the starts that a previous host recorded, and Temporal may not have taken."""
        for start in await self._written(lambda: self._ledger.unstarted(self._ref)) or ():
            self._start_in_task(start)

    async def _check(self) -> None:
        """Start attempts without a workflow. Refuse attempts whose workflow has closed without a run."""
        before = datetime.now(UTC) - timedelta(seconds=CHECK_SECONDS)
        closed: dict[str, Refusal] = {}
        for start in await asyncio.to_thread(self._ledger.unstarted, self._ref, before):
            workflow = await self._supervisors.describe(start.job.key)
            if workflow.is_open:
                continue
            if is_missing(workflow):
                self._start_in_task(start)
            elif (why := refusal(workflow, await self._supervisors.failure(start.job.key))) is not None:
                closed[start.job.key] = why
        if not closed:
            return
        # the workflow may have made its run after the first reading
        for start in await asyncio.to_thread(self._ledger.unstarted, self._ref, before):
            if start.job.key in closed:
                await self._refuse(start.job, closed[start.job.key])

    # stops

    def _stop_all(self) -> None:
        if not self._stops_all:
            self._stops_all = True
            self._begin_rounds()

    async def _finish(self, reasons: Mapping[str, str]) -> None:
        self._reasons.update(reasons)
        self._finishing = asyncio.create_task(self._try(self._ask_all()))
        await asyncio.wait([self._finishing], timeout=START_SECONDS)
        if self._reasons:
            self._begin_rounds()

    def _begin_rounds(self) -> None:
        """Ask at once for the new requests, in place of a pause between earlier rounds."""
        if self._stopping is not None:
            self._stopping.cancel()
        self._stopping = asyncio.create_task(self._rounds())

    async def _rounds(self) -> None:
        """Ask again and again: indefinitely for a stop of all, otherwise until every workflow has taken its request."""
        rounds = 0
        while self._stops_all or self._reasons:
            rounds += 1
            await self._try(self._ask_all())
            await asyncio.sleep(STOP_PAUSES.seconds(rounds))

    async def _ask_all(self) -> None:
        """Ask the workflows to stop. A workflow without a start gets the request in a later round.

        A reason is dropped when its workflow has taken the request, or its job has ended.
        """
        chosen = set(self._reasons)  # while this call waits, further reasons may come
        running = {job.key for job in await self._written(lambda: self._ledger.running(self._ref)) or []}
        keys = running if self._stops_all else running & chosen
        await asyncio.gather(*(self._ask(key) for key in keys - self._asked))
        unasked = keys - self._asked
        for key in chosen - unasked:
            self._reasons.pop(key, None)

    async def _ask(self, key: str) -> None:
        if key not in self._requests:
            actor, reason = f"flow {self._flow_id}"[:256], self._reasons.get(key)
            self._requests[key] = StopRequest(actor=actor, door="flow", reason=reason, asked_at=datetime.now(UTC))
        async with self._stop_limit:
            try:
                await self._supervisors.stop(key, self._requests[key])
            except LifecycleError as error:
                logger.info("%s cannot be asked to stop yet: %s", key, error.message)
            else:
                self._asked.add(key)


def _read(deployer: Deployer, name: str) -> Crawler | PermanentError:
    try:
        return deployer.crawler(name)
    except PermanentError as error:
        return error
