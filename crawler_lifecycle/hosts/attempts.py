"""Run begun attempts, within the limits for their time, until their ends are stored."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import PermanentError, TemporaryError
from crawler_lifecycle.flows.authors.running import StepLink
from crawler_lifecycle.flows.model.definition import CallForm
from crawler_lifecycle.flows.model.requests import GraftMembers
from crawler_lifecycle.flows.ports.ledger import FlowDoors
from crawler_lifecycle.flows.ports.steps import AttemptKey, BegunStep
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.words import MOST_DEATHS, PROCESS_DIED
from crawler_lifecycle.hosts.calling import Function, work_of
from crawler_lifecycle.hosts.ends import EndWriter
from crawler_lifecycle.hosts.functions import Functions, StepProcess
from crawler_lifecycle.hosts.managers.hosting import ManagerRunning, Managers
from crawler_lifecycle.hosts.outcomes import STOPPED, Ended, failure, timed_out
from crawler_lifecycle.hosts.runners import Running
from crawler_lifecycle.hosts.slots import Slots
from crawler_lifecycle.model.flow_states import EndKind

logger = logging.getLogger(__name__)
GRACE_SECONDS = 5.0  # time for a stopped function to end; then the host continues without the function
T = TypeVar("T")
PAUSES = Backoff(timedelta(milliseconds=100), timedelta(seconds=5))


class Gone(Enum):
    """Cause for the loss of an attempt."""

    LOST = "lost"  # another host has taken over
    DRAINED = "drained"  # the host ends


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The end of an attempt; without an end, none is stored, and the attempt has to begin again."""

    end: AttemptEnd | None = None
    has_news: bool = False
    seconds: float = 0  # time in the function


NOT_ENDED = CallOutcome()


@dataclass
class Execution:
    """An attempt under way."""

    step: BegunStep
    slots: Slots
    link: StepLink = field(default_factory=StepLink)
    has_slot: bool = True
    running: Running | None = None
    seconds: float = 0  # time in the function
    settled: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _gone: asyncio.Future[Gone] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def key(self) -> AttemptKey:
        return self.step.flow_uid, self.step.start.number, self.step.start.attempt

    @property
    def is_manager(self) -> bool:
        return work_of(self.step).form is CallForm.MANAGER

    @property
    def is_gone(self) -> bool:
        return self._gone.done()

    def stop(self) -> None:
        """Ask the function to end, because people cancelled the step."""
        if not self.link.is_cancelled:
            self.link.cancel()
            if self.running is not None:
                self.running.stop()

    def leave(self, cause: Gone) -> None:
        """Give the attempt up. A drained function may still end in order."""
        if not self._gone.done():
            self._gone.set_result(cause)

    def settle(self) -> None:
        """Wake the waiting tasks: the attempt is under way no longer."""
        if not self.settled.done():
            self.settled.set_result(None)

    async def take_slot(self) -> None:
        """Take a slot for the next call, unless the attempt has a slot or is gone before a slot is free."""
        if self.has_slot or self.is_gone:
            return
        taking = asyncio.ensure_future(self.slots.take())
        waits: set[asyncio.Future[Any]] = {taking, self._gone}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        self.has_slot = taking.done()
        taking.cancel()

    def give_slot_back(self) -> None:
        if self.has_slot:
            self.has_slot = False
            self.slots.give_back()

    async def managed(self, running: ManagerRunning) -> Ended | None:
        """Wait for the manager's end, without a limit of time; None: the host gives the manager up."""
        self.running = running
        waits: set[asyncio.Future[Any]] = {running.end, self._gone}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not running.end.done():
            running.leave()
            await asyncio.wait({running.end}, timeout=GRACE_SECONDS)
        end = running.end.result() if running.end.done() else None
        return None if end is None or end.is_stopped else end

    async def ended(self, running: Running, seconds: float) -> Ended | None:
        """Wait for the function's end, and give its slot back; None: the attempt is gone.

        A function has failed if it does not end within its time limit. Its slot is lost until the function ends.
        """
        self.running, began_at = running, time.monotonic()
        if self.link.is_cancelled:
            running.stop()
        waits: set[asyncio.Future[Any]] = {running.end, self._gone}
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self.seconds += time.monotonic() - began_at
        if running.end.done() and not self._gone.done():
            self.give_slot_back()
            return running.end.result()
        running.stop()
        await asyncio.wait({running.end}, timeout=GRACE_SECONDS)
        self._end_slot(running)
        if not self._gone.done():
            return timed_out(seconds)
        return _end_after_drain(running) if self._gone.result() is Gone.DRAINED else None

    def _end_slot(self, running: Running) -> None:
        if running.end.done():
            self.give_slot_back()
            return
        self.has_slot = False
        self.slots.lose(self.step.path)
        running.end.add_done_callback(lambda _: self.slots.recover(self.step.path))


@dataclass(frozen=True)
class Attempts:
    """Functions, grafts and ends for begun attempts. Every execution has a slot already."""

    doors: FlowDoors
    functions: Functions
    ends: EndWriter
    threads: Executor
    step_seconds: float  # time limit for a step without a timeout
    managers: Managers | None = None  # None: the host runs no crawl managers

    async def run(self, execution: Execution, function: Function) -> CallOutcome:
        """Run the function, and store its end. A function that waited for its slot may be cancelled."""
        if execution.link.is_cancelled:
            return await self._recorded(execution, STOPPED)
        running = self.functions.start(execution.step, function, execution.link)
        return await self._recorded(execution, await execution.ended(running, self._limit(execution.step)))

    async def run_manager(self, execution: Execution, managers: Managers) -> CallOutcome:
        """Run the manager, and store its end."""
        return await self._recorded(execution, await execution.managed(managers.start(execution.step)))

    async def run_apart(self, execution: Execution, function: Function, process: StepProcess) -> CallOutcome:
        """Run the function in the process, and store its end.

        A function whose process died before is called again after a further death, up to the limit.
        """
        step, deaths = execution.step, execution.step.deaths
        ended: Ended | None = _died(deaths)
        try:
            while deaths < MOST_DEATHS:
                if execution.is_gone or execution.link.is_cancelled:
                    ended = None if execution.is_gone else STOPPED
                    break
                running = self.functions.start_in(process, step, function, execution.link)
                ended = await execution.ended(running, self._limit(step))
                if ended is None or ended.outcome != PROCESS_DIED or not process.is_ready or work_of(step).isolate:
                    break
                deaths += 1
                ended = _died(deaths)
                if deaths < MOST_DEATHS and not execution.is_gone:
                    process = await self.functions.ready_process()
                    await execution.take_slot()
        finally:
            process.close()
        return await self._recorded(execution, ended)

    def _limit(self, step: BegunStep) -> float:
        return work_of(step).timeout_seconds or self.step_seconds

    async def _recorded(self, execution: Execution, ended: Ended | None) -> CallOutcome:
        if ended is not None and ended.graft is not None:
            ended = await self._after_graft(execution, ended, ended.graft)
        if ended is None:
            return NOT_ENDED
        end = await self.ends.write(ended.of_step(execution.step))
        return CallOutcome(end, has_news=ended.graft is not None, seconds=execution.seconds)

    async def _after_graft(self, execution: Execution, ended: Ended, graft: GraftMembers) -> Ended | None:
        """Attach the sub-workflow. A refused sub-workflow fails the attempt."""
        try:
            is_attached = await self._kept_on(execution, lambda: self.doors.graft(execution.step.flow_uid, graft))
        except PermanentError as error:
            return failure(error)
        return ended if is_attached else None

    async def _kept_on(self, execution: Execution, write: Callable[[], object]) -> bool:
        """Write, again and again while the database is away. Return whether the attempt is still the host's."""
        loop, failures = asyncio.get_running_loop(), 0
        while not execution.is_gone:
            try:
                await loop.run_in_executor(self.threads, write)
            except TemporaryError as error:
                failures += 1
                logger.warning("%s waits for the database: %s", execution.step.path, error.message)
                await asyncio.sleep(PAUSES.seconds(failures))
            else:
                break
        return not execution.is_gone


def _end_after_drain(running: Running) -> Ended | None:
    """Return the end if the function has ended on its own in the meantime."""
    end = running.end.result() if running.end.done() else None
    return None if end is None or end.is_stopped else end


def _died(deaths: int) -> Ended:
    error = f"the process with the function died {deaths} times"
    return Ended(EndKind.FAILED, reason=PROCESS_DIED, outcome=PROCESS_DIED, error=error)
