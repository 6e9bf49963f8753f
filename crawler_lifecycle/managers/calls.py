"""Calls to author's code: the host learns of each call before, and a failure carries its hook and job."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.managers.failures import AuthorsFailure
from crawler_lifecycle.managers.link import ManagerLink

T = TypeVar("T")


class AuthorsCode:
    """Base class for managers: calls the methods that authors override. Such a method may be a coroutine function."""

    awaits = False  # whether the manager runs on an event loop
    _link: ManagerLink | None = None
    _runner: asyncio.Runner | None = None
    _phase: str | None = None  # the hook under way

    @property
    def link(self) -> ManagerLink:
        """The link to the ledger."""
        if self._link is None:
            raise RuntimeError("the manager has not begun: its host gives the manager its flow before on_start")
        return self._link

    async def call(self, method: Callable[..., Any], *arguments: Any, job: str | None = None) -> Any:
        """Call the method, and wait for its coroutine. Raise AuthorsFailure if the method raises."""
        phase, outer = method.__name__, self._phase
        self.link.enter(phase, job)
        self._phase = phase
        try:
            return await self._awaited(method(*arguments))
        except (AuthorsFailure, LifecycleError):
            raise
        except Exception as error:
            raise AuthorsFailure(phase, job, error) from error
        finally:
            self._phase = outer

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


async def _as_coroutine(value: Any) -> Any:
    return await value
