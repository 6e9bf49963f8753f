"""Execution: a claimed attempt while its function runs, and the limits for its time."""

import asyncio
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from crawler_lifecycle.flows.authors.running import StepLink
from crawler_lifecycle.flows.model.work import CallForm
from crawler_lifecycle.flows.ports.claims import AttemptKey, ClaimedStep
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.hosts.calling import work_of
from crawler_lifecycle.hosts.managers.hosting import ManagerRunning
from crawler_lifecycle.hosts.outcomes import Ended, timed_out
from crawler_lifecycle.hosts.runners import Running
from crawler_lifecycle.hosts.slots import Slots

GRACE_SECONDS = 5.0  # time for a stopped function to end; then the host continues without the function


class Gone(Enum):
    """Cause for the loss of an attempt."""

    LOST = "lost"  # another host has taken over
    DRAINED = "drained"  # the host ends


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt; without an end, the attempt is not recorded as ended, and has to be claimed again."""

    end: AttemptEnd | None = None
    has_news: bool = False
    seconds: float = 0  # time in the function


NOT_ENDED = Outcome()


@dataclass
class Execution:
    """An attempt under way."""

    step: ClaimedStep
    slots: Slots
    link: StepLink = field(default_factory=StepLink)
    running: Running | None = None
    seconds: float = 0  # time in the function
    _has_slot: bool = True
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

    async def take_slot(self) -> None:
        """Take another slot, for a further call."""
        await self.slots.take()
        self._has_slot = True

    def give_slot_back(self) -> None:
        if self._has_slot:
            self._has_slot = False
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
        self._has_slot = False
        self.slots.lose(self.step.path)
        running.end.add_done_callback(lambda _: self.slots.recover(self.step.path))


def _end_after_drain(running: Running) -> Ended | None:
    """Return the end if the function has ended on its own in the meantime."""
    end = running.end.result() if running.end.done() else None
    return None if end is None or end.is_stopped else end
