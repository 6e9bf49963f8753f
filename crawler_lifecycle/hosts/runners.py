"""Run a function on an event loop or in a thread, and report its end.

The host's own event loop stays free in any case. All async functions share a loop in a thread apart, so that they can
share clients and locks. While a function blocks the loop, the functions on it are blocked; further functions get a new
loop. Other functions run in daemon threads: a thread cannot be ended, and must not keep its process alive.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from crawler_lifecycle.flows.authors.running import Context, StepLink
from crawler_lifecycle.flows.ports.steps import BegunStep
from crawler_lifecycle.hosts.calling import Function, check_of, prepared
from crawler_lifecycle.hosts.outcomes import STOPPED, Ended, end_of, failure, result_end

logger = logging.getLogger(__name__)
Work = tuple[Callable[[], None], str]  # with its name
BLOCKED_SECONDS = 2.0  # shortest time without a turn for a loop to count as blocked
CHECK_SECONDS = 0.5


class AuthorsThreads:
    """Threads that serve one function after another: a new thread for each costs more than a short function.

    No state from a function stays for the next function in its thread, except values authors keep by thread
    themselves, such as a connection in `threading.local`.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Work]] = []  # of threads without a function

    def start(self, work: Callable[[], None], name: str) -> None:
        """Run the work, which raises no exception, at once: in an idle thread, or in a further thread."""
        try:
            queue = self._idle.pop()
        except IndexError:
            queue = SimpleQueue()
            threading.Thread(target=self._serve, args=(queue,), daemon=True).start()
        queue.put((work, name))

    def _serve(self, queue: "SimpleQueue[Work]") -> None:
        while True:
            work, threading.current_thread().name = queue.get()
            contextvars.Context().run(work)
            del work  # with the function's arguments and its result
            self._idle.append(queue)


class AuthorsLoop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self.turned_at = time.monotonic()
        self._asked = False
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="steps-loop", daemon=True).start()

    def submit(self, work: Coroutine[Any, Any, None], name: str, at_end: Callable[[], None]) -> Callable[[], None]:
        """Run the work, and then `at_end`, also after a cancel before the beginning. Return the work's cancel."""
        started: Future[asyncio.Task[Any]] = Future()

        def start() -> None:
            task = self._loop.create_task(work, name=name)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            task.add_done_callback(lambda _: at_end())
            started.set_result(task)

        def cancel() -> None:
            self._loop.call_soon_threadsafe(lambda: started.result().cancel())

        self._loop.call_soon_threadsafe(start)
        return cancel

    def ask(self) -> None:
        """Ask the loop to turn; `turned_at` has the time for its last answer."""
        if not self._asked:
            self._asked = True
            self._loop.call_soon_threadsafe(self._turn)

    @property
    def is_blocked(self) -> bool:
        return self._asked and time.monotonic() - self.turned_at > BLOCKED_SECONDS

    @property
    def blocking(self) -> str:
        """Name of the function on the loop at present."""
        task = asyncio.current_task(self._loop)
        return "an unknown callback" if task is None else task.get_name()

    def stop(self) -> None:
        """End the thread as soon as the loop turns."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _turn(self) -> None:
        self._asked, self.turned_at = False, time.monotonic()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
            except BaseException:  # a SystemExit in an author's task must end no other function
                logger.exception("a task of an author's function has raised an error through its event loop")
            else:
                return


class AuthorsLoops:
    """The present loop for new functions, and blocked loops until they are free and empty."""

    def __init__(self) -> None:
        self._present: AuthorsLoop | None = None
        self._blocked: list[AuthorsLoop] = []

    @property
    def present(self) -> AuthorsLoop:
        if self._present is None:
            self._present = AuthorsLoop()
        return self._present

    async def watch(self) -> None:
        """Replace the present loop whenever a function blocks the loop."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._present is not None and self._present.tasks:
                self._check(self._present)
            self._forget_free_loops()

    def _check(self, loop: AuthorsLoop) -> None:
        if loop.is_blocked:
            logger.error(
                "%s blocks its event loop: an async function must not wait or compute for long without an await "
                "(a function without async runs in a thread)",
                loop.blocking,
            )
            self._blocked.append(loop)
            self._present = None
        else:
            loop.ask()

    def _forget_free_loops(self) -> None:
        for loop in list(self._blocked):
            loop.ask()
            if not loop.is_blocked and not loop.tasks:
                loop.stop()
                self._blocked.remove(loop)


@dataclass(frozen=True)
class StepCall:
    """A call to an author's function."""

    step: BegunStep
    function: Function
    context: Context
    link: StepLink
    around: Callable[[], AbstractContextManager[None]]  # entered around the function
    most_bytes: int

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
