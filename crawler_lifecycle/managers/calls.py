"""Calls to author's code: the host learns of each call before, and a failure carries its hook and job."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from crawler_lifecycle.errors import Fenced, TemporaryError
from crawler_lifecycle.managers.failures import AuthorsFailure
from crawler_lifecycle.managers.link import ManagerLink

T = TypeVar("T")


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
            raise RuntimeError("the manager has not begun: its host gives the manager its flow before on_start")
        return self._link

    async def call(
        self, method: Callable[..., Any], *arguments: Any, job: str | None = None, tells: bool = True
    ) -> Any:
        """Call the method, and wait for its coroutine. Raise AuthorsFailure if the method raises.

        `tells`: whether the host learns of the call. The host need not watch methods that are ours.
        """
        phase, outer = method.__name__, (self._phase, self._about)
        if tells:
            self.link.enter(phase, job)
        self._phase, self._about = phase, job
        try:
            answer = await self._awaited(method(*arguments))
        except (AuthorsFailure, Fenced, TemporaryError):
            raise
        except Exception as error:
            raise AuthorsFailure(phase, job, error) from error
        finally:
            self._phase, self._about = outer
        if tells:
            self.begin_time_anew()
        return answer

    def begin_time_anew(self) -> None:
        """Tell the host that the hook under way has come further: its time begins anew."""
        if self._phase is not None:
            self.link.enter(self._phase, self._about)

    def has_only_ours(self, *names: str) -> bool:
        """Return whether no author's method has one of these names."""
        owners = [base.__module__ for base in type(self).__mro__ for name in names if name in vars(base)]
        return all(map(_is_ours, owners)) and not any(name in vars(self) for name in names)

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


async def _as_coroutine(value: Any) -> Any:
    return await value
