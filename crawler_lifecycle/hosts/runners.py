"""Runners: let a function run on an event loop or in a thread, and report its end."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from crawler_lifecycle.flows.authors.running import Context, StepLink
from crawler_lifecycle.flows.ports.claims import ClaimedStep
from crawler_lifecycle.hosts.calling import Function, check_of, prepared
from crawler_lifecycle.hosts.loops import AuthorsLoops
from crawler_lifecycle.hosts.outcomes import STOPPED, Ended, end_of, failure, result_end
from crawler_lifecycle.hosts.threads import AuthorsThreads


@dataclass(frozen=True)
class StepCall:
    """A call to an author's function."""

    step: ClaimedStep
    function: Function
    context: Context
    link: StepLink
    around: Callable[[], AbstractContextManager[None]]  # entered around the function
    most_bytes: int
    begin: Callable[[], bool]  # records the beginning of a call in a process apart; False: the call must not begin

    def prepared(self) -> Callable[[], Any]:
        return prepared(self.function, self.step, self.context)

    def end(self, call: Callable[[], Any]) -> Ended:
        return end_of(call, self.context.job, self.most_bytes, check_of(self.function, self.step))

    def result_end(self, value: Any) -> Ended:
        return result_end(value, self.context.job, self.most_bytes, check_of(self.function, self.step))


class Running(Protocol):
    """A function under way."""

    @property
    def end(self) -> "asyncio.Future[Ended]": ...

    def stop(self) -> None:
        """Ask the function to end."""


class InThread:
    """A function in a thread."""

    def __init__(self, call: StepCall, threads: AuthorsThreads) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self.end: asyncio.Future[Ended] = self._loop.create_future()
        threads.start(self._run, call.step.path)

    def stop(self) -> None:
        self._call.link.cancel()

    def _run(self) -> None:
        end = self._call.end(self._called)
        with suppress(RuntimeError):  # the host has ended before the function, and its loop is closed
            self._loop.call_soon_threadsafe(self.end.set_result, end)

    def _called(self) -> Any:
        with self._call.around():
            value = self._call.prepared()()
            return asyncio.run(_awaited_value(value)) if inspect.isawaitable(value) else value


class OnLoop:
    """An async function on the authors' event loop. Arguments and result are handled by the host's threads."""

    def __init__(self, call: StepCall, loops: AuthorsLoops, threads: Executor) -> None:
        self._call = call
        self._loops = loops
        self._threads = threads
        self._cancel: Callable[[], None] | None = None
        self.end = asyncio.create_task(self._run())

    def stop(self) -> None:
        self._call.link.cancel()
        if self._cancel is not None:
            self._cancel()

    async def _run(self) -> Ended:
        call, host = self._call, asyncio.get_running_loop()
        try:
            function = await host.run_in_executor(self._threads, call.prepared)
        except Exception as error:  # noqa: BLE001 - arguments that do not fit the function
            return failure(error)
        if call.link.is_cancelled:
            return STOPPED
        returned: Future[Ended | _Value] = Future()

        def at_end() -> None:
            if not returned.done():  # a cancel came before the first statement
                returned.set_result(STOPPED)

        work = _into(returned, function, call)
        self._cancel = self._loops.present.submit(work, call.step.path, at_end)
        end = await asyncio.wrap_future(returned)
        if isinstance(end, _Value):
            return await host.run_in_executor(self._threads, call.result_end, end.value)
        return end


@dataclass(frozen=True)
class _Value:
    """A function's result."""

    value: Any


async def _into(returned: "Future[Ended | _Value]", function: Callable[[], Any], call: StepCall) -> None:
    """Await the function's coroutine. No exception leaves, since a SystemExit would end the event loop."""
    try:
        with call.around():
            returned.set_result(_Value(await function()))
    except asyncio.CancelledError as error:
        returned.set_result(STOPPED if call.link.is_cancelled else failure(error))
    except BaseException as error:  # noqa: BLE001 - see above
        returned.set_result(failure(error))


async def _awaited_value(value: Any) -> Any:
    return await value
