"""Calls to author's code: the host learns of each call before, and a failure carries its hook and job."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from crawler_lifecycle.errors import Fenced, TemporaryError
from crawler_lifecycle.managers.authors.failures import AuthorsFailure
from crawler_lifecycle.managers.authors.link import ManagerLink

T = TypeVar("T")
_begun_work: ContextVar["list[BegunWork] | None"] = ContextVar("work that the method under way has begun", default=None)


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
        self, method: Callable[..., Any], *arguments: Any, job: str | None = None, tells: bool = True
    ) -> Any:
        """Call the method, and wait for its coroutine. Raise AuthorsFailure if the method raises.

        `tells`: whether the host is notified of the call. The host need not watch methods that are ours.
        """
        phase, outer = method.__name__, (self._phase, self._about)
        if tells:
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
        if tells:
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


def _is_ours(module: str) -> bool:
    return module.startswith(f"{__package__}.")


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


async def _as_coroutine(value: Any) -> Any:
    return await value
