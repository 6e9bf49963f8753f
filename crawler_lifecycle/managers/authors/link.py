"""The link from a manager's object to its ledger. The manager's host, and the test kit, implement the link.

The host learns of each call to author's code before the call, and a failure carries its hook and job.
"""

import asyncio
import inspect
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, TypeVar

from crawler_lifecycle.errors import Fenced, PermanentError, TemporaryError
from crawler_lifecycle.flows.authors.modules import authors_traceback
from crawler_lifecycle.flows.model.turns import (
    GENERATOR_CHANGED,
    Begun,
    Counts,
    Effects,
    ManagerIntent,
    Offered,
    Page,
    Reaction,
    Start,
    Wake,
)
from crawler_lifecycle.model.manager_items import Job, JobFilter, JobState, Waiting

T = TypeVar("T")
_begun_work: ContextVar["list[BegunWork] | None"] = ContextVar("work that the method under way has begun", default=None)


class AuthorsFailure(PermanentError):
    """Author's code raised. No effect of its hook is stored."""

    def __init__(self, phase: str, job: str | None, error: BaseException) -> None:
        super().__init__(f"{phase}: {type(error).__name__}: {error}")
        self.phase = phase
        self.job = job
        self.error = authors_traceback(error)


class GeneratorChanged(AuthorsFailure):
    """The generator yields other parameter sets than before. People decide: a resume continues with the new sets."""

    def __init__(self, position: int) -> None:
        error = ValueError(
            f"the first {position} parameter sets are not those of the previous reading, and dedup is off: after a "
            "resume, that many sets are left out, and the sets after them become jobs"
        )
        super().__init__(GENERATOR_CHANGED, None, error)


class JobReadings(Protocol):
    """The readings by key."""

    def find(self, keys: list[str]) -> Sequence[Job]: ...

    def runs(self, chosen: JobFilter) -> Sequence[Job]: ...


def running_of(link: JobReadings, keys: Collection[str]) -> list[str]:
    """Return the keys of jobs under way, among the manager's jobs and the installation's further runs."""
    own = {job.key: job for job in link.find(list(keys))}
    others = tuple(key for key in keys if key not in own)
    jobs = [*own.values(), *(link.runs(JobFilter(keys=others, limit=len(others))) if others else ())]
    return [job.key for job in jobs if job.state is JobState.RUNNING]


class ManagerLink(Protocol):
    def begin(self) -> Begun: ...

    def intent(self) -> ManagerIntent: ...

    def enter(self, phase: str, about: str | None = None) -> None:
        """Report that author's code begins: a hook, or a page of the generator. The host watches its time.

        `about`: key of the job in question. The phase lasts until the next phase or sleep. Calls of the link do not
        count as its time.
        """

    def ended(self, limit: int) -> Sequence[Job]:
        """Return attempts with a recorded end and no reaction yet, oldest end first."""

    def react(self, reactions: Sequence[Reaction]) -> None:
        """Record the judgements about ends, all or none."""

    def running(self) -> Sequence[Job]:
        """Return attempts without a recorded end, by number."""

    def jobs(self, state: JobState, *, after: int = 0, limit: int, every_flow: bool = False) -> Sequence[Job]:
        """Return a page with the manager's attempts, by number. A page has all attempts of its last item.

        `after`: number on the previous page. `every_flow`: also the jobs of managers with the same name in other flows.
        """

    def runs(self, chosen: JobFilter) -> Sequence[Job]:
        """Return a page with the installation's runs as jobs, newest first. In a play, the play's own runs."""

    def offer(self, page: Page) -> Offered: ...

    def waiting(self, limit: int, *, after: Waiting | None = None) -> Sequence[Waiting]:
        """Return items that may start now, in the order of their choice: delayed, added, from the generator.

        Items of one kind come by number. `after`: the last item on the previous page. An item that is tried again
        counts as added.
        """

    def delay(self, numbers: Collection[int]) -> None:
        """Mark items as delayed by the manager's object. A delayed item stays on top of the others."""

    def start(self, starts: Sequence[Start]) -> Sequence[Job | str | None]:
        """Record attempts, then start their runs. Return jobs, or the problems of permanently refused requests.

        A refused item is stored as refused. None: people have cancelled the item, or hold starts back. The stat
        `crawlmanager/scheduled_jobs` counts the attempts in their transaction. While Temporal is away, the call returns
        after some seconds, and the host makes the starts later.
        """

    def refuse(self, number: int, attempt: int, problem: str) -> None:
        """Record an item as refused: the parameters for its next attempt can never become a run."""

    def stop(self, reasons: Mapping[str, str] | None = None) -> None:
        """Ask the runs of all jobs under way to stop. The call does not wait for their ends.

        `reasons`: the reasons by key, for these jobs alone.
        """

    def commit(self, effects: Effects) -> Sequence[int]:
        """Store effects. Return the numbers of the added items, in their order.

        An item whose key is already stored is not added: its number is the number of the item with the key.
        """

    def find(self, keys: Collection[str]) -> Sequence[Job]:
        """Return the manager's attempts with these keys. Unknown keys are left out."""

    def counts(self) -> Counts: ...

    def sleep(self, seconds: float | None, *, for_news: bool = True) -> Wake:
        """Wait for an end, a further item, a changed intent or the time. `None`: no limit of time.

        `for_news`: False waits for a changed intent or the time alone.
        """

    def wait_for(self, keys: Collection[str], seconds: float) -> Collection[str]:
        """Wait until the jobs have ended, at most for `seconds`. Return the keys of jobs that still run."""

    def close(self, reason: str, effects: Effects) -> bool:
        """Record the manager's end. Items that have not started are cancelled.

        False: people have added items, retried items or ended a drain during the cycle. Nothing has changed, and the
        manager continues.
        """

    def now(self) -> datetime: ...


class AuthorsCode:
    """Base class for managers: calls the methods that authors override. Such a method may be a coroutine function."""

    awaits = False  # whether the manager runs on an event loop
    _link: ManagerLink | None = None
    _runner: asyncio.Runner | None = None
    _phase: str | None = None  # the hook under way
    _about: str | None = None  # key of the hook's job

    @property
    def link(self) -> ManagerLink:
        """The link to the ledger."""
        if self._link is None:
            raise RuntimeError(
                "the manager has not begun: it reads and starts jobs only in its flow, and neither in its constructor "
                "nor in `flow check`"
            )
        return self._link

    async def call(
        self, method: Callable[..., Any], *arguments: Any, job: str | None = None, notifies_host: bool = True
    ) -> Any:
        """Call the method, and wait for its coroutine. Raise AuthorsFailure if the method raises.

        `notifies_host`: the host watches how long the call takes. Methods that are ours need no watch.
        """
        phase, outer = method.__name__, (self._phase, self._about)
        if notifies_host:
            self.link.enter(phase, job)
        self._phase, self._about = phase, job
        begun: list[BegunWork] = []
        outer_work = _begun_work.set(begun)
        try:
            answer = await self._awaited(method(*arguments))
            for work in begun:
                await work.rest()
        except (AuthorsFailure, Fenced, TemporaryError):
            raise
        except Exception as error:
            raise AuthorsFailure(phase, job, error) from error
        finally:
            _begun_work.reset(outer_work)
            self._phase, self._about = outer
        if notifies_host:
            self.begin_time_anew()
        return answer

    def begin_time_anew(self) -> None:
        """Report to the host that the present hook has made progress: its time begins anew."""
        if self._phase is not None:
            self.link.enter(self._phase, self._about)

    def has_only_ours(self, *names: str) -> bool:
        """Return whether no author's method has one of these names."""
        owners = [base.__module__ for base in type(self).__mro__ for name in names if name in vars(base)]
        return all(map(_is_ours, owners)) and not any(name in vars(self) for name in names)

    def act(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do the work of a method that authors call by `super()`, and return its result.

        On an event loop, the work is done up to its first wait for the loop, and the answer may be awaited. What is
        left is done at the latest after the author's method, so an author need not await it.
        """
        return BegunWork(work) if self.awaits else completed(work)

    async def _awaited(self, value: Any) -> Any:
        """Return the value, or the result of the coroutine. Without an event loop, the coroutine gets its own."""
        if not inspect.isawaitable(value):
            return value
        if self.awaits:
            return await value
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(_as_coroutine(value))


def completed(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits for an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a manager without AsyncSchedulerCrawlManagerMixin has no event loop to wait on")


class BegunWork(dict[Any, Any]):
    """Work on an event loop that begins before anybody awaits it. A mapping as result shows as the work's items."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        super().__init__()
        self._work = work
        self._is_over = self._is_awaited = False
        self._waits_for: Any = None
        self._result: Any = None
        if (begun := _begun_work.get()) is not None:
            begun.append(self)
        self._step(work.send, None)

    async def rest(self) -> None:
        """Do the rest of the work, unless the author has awaited the work: then its failure is the author's to see."""
        if not self._is_awaited:
            await self

    def __await__(self) -> Generator[Any, Any, Any]:
        self._is_awaited = True
        while not self._is_over:
            try:
                answer = yield self._waits_for
            except BaseException as error:  # noqa: BLE001 - such as a cancellation: the work's to handle
                self._step(self._work.throw, error)
            else:
                self._step(self._work.send, answer)
        return self._result

    def _step(self, step: Callable[[Any], Any], value: Any) -> None:
        """Bring the work to its next wait, or to its end."""
        try:
            self._waits_for = step(value)
        except StopIteration as end:
            self._is_over, self._result = True, end.value
            if isinstance(self._result, Mapping):
                self.update(self._result)
        except BaseException:
            self._is_over = self._is_awaited = True
            raise


def _is_ours(module: str) -> bool:
    return module.startswith(f"{__package__}.")


async def _as_coroutine(value: Any) -> Any:
    return await value
