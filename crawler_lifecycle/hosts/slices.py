"""Bring an activity's attempts to their ends: begin them together, run them as slots are free, and wait for the ends.

A function belongs to its begin and not to an activity: an activity may be cancelled or tried again while its functions
continue. Then the second try finds the begins, and waits for the ends.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.flows.activities.steps import TryAgain
from crawler_lifecycle.flows.ports.steps import StepsBegun
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.flows.rules.words import NO_HOST
from crawler_lifecycle.hosts.attempts import NOT_ENDED, Attempts, CallOutcome, Execution
from crawler_lifecycle.hosts.calling import Function, is_manager
from crawler_lifecycle.hosts.lease import Begins, UnderWay
from crawler_lifecycle.hosts.looks import HostLook, Outcome
from crawler_lifecycle.hosts.slots import Slots

logger = logging.getLogger(__name__)
T = TypeVar("T")
HELD = Backoff(timedelta(milliseconds=250), timedelta(seconds=2))  # pauses between looks at an attempt held elsewhere
DRAIN_PAUSE = timedelta(milliseconds=100)


class BackgroundTasks:
    """References to tasks: the event loop alone would let a task without a reference be collected."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the work in a task, and keep the task until its end."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a cancelled activity does not fetch its error


@dataclass
class Slices:
    attempts: Attempts
    under_way: UnderWay
    begins: Begins
    slots: Slots
    manager_slots: Slots
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    is_closed: bool = False  # whether no further function begins, since the host drains

    async def run(self, look: HostLook, functions: Mapping[int, Function]) -> None:
        """Bring the look to its answer."""
        looks = 0
        while True:
            look.take_outcomes()
            if look.to_begin and not look.is_left and not await self._begin_or_leave(look, functions):
                return
            if look.is_over:
                return
            if look.is_left and not look.under_way:
                raise TryAgain("the activity was cancelled", HELD.first, cause="Cancelled")
            looks += 1
            await look.wait(HELD.seconds(looks), [*self._held_here(look)])

    async def _begin_or_leave(self, look: HostLook, functions: Mapping[int, Function]) -> bool:
        """Begin. Return False if the host has no place for followers: the supervisor then plans the followers."""
        try:
            await self._begin(look, functions)
        except TryAgain:
            if not look.has_only_followers:
                raise
            return False
        return True

    async def _begin(self, look: HostLook, functions: Mapping[int, Function]) -> None:
        """Begin the attempts together once a slot is free, and run their functions. Later functions wait for slots."""
        slots = await self._with_slot(look, functions[next(iter(look.to_begin))])
        look.leave_followers(1 + self.slots.free)  # more would wait here beside idle hosts
        starts = [start for start in look.to_begin.values() if self.under_way.reserve(look.key(start))]
        begun = StepsBegun()
        try:
            if starts:
                begun = await self.begins.begin(look.step, starts, look.reads(starts))
        finally:
            running = {*(step.start.number for step in begun.mine), *begun.apart}
            for start in starts:
                if start.number not in running:
                    self.under_way.forget(look.key(start))
            if not running:
                slots.give_back()
        self._take(look, functions, starts, begun, slots)

    def _take(
        self,
        look: HostLook,
        functions: Mapping[int, Function],
        starts: Sequence[AttemptRef],
        begun: StepsBegun,
        slots: Slots,
    ) -> None:
        look.take_begun(begun)
        mine = {step.start.number: step for step in begun.mine}
        has_slot = True  # the first function
        for start in starts:
            work: Coroutine[Any, Any, Outcome]
            if start.number in mine:
                execution = self.under_way.execute(mine[start.number], slots, has_slot=has_slot)
                work = self._executed(execution, functions[start.number])
            elif start.number in begun.apart:
                work = self._apart(look, start, functions[start.number], slots, has_slot=has_slot)
            else:
                continue
            look.wait_for(start.number, self.tasks.spawn(work))
            has_slot = False

    async def _executed(self, execution: Execution, function: Function) -> CallOutcome:
        """Run a begun attempt to its end."""
        managers = self.attempts.managers
        if execution.is_manager and managers is not None:
            return await self._settled(execution, self.attempts.run_manager(execution, managers))
        return await self._settled(execution, self.attempts.run(execution, function))

    async def _apart(
        self, look: HostLook, start: AttemptRef, function: Function, slots: Slots, *, has_slot: bool
    ) -> Outcome:
        """Begin the attempt once its process is ready, and run it to its end."""
        begun, process, execution = StepsBegun(), None, None
        if not has_slot:
            await slots.take()
        try:
            if not self.is_closed:
                process = await self.attempts.functions.ready_process()
            if process is not None and not self.is_closed:
                begun = await self.begins.begin(look.step, [start], look.reads([start]), in_process=True)
                if begun.mine:
                    execution = self.under_way.execute(begun.mine[0], slots)
                elif not self.is_closed:
                    self.attempts.functions.keep(process)
                    process = None
        finally:
            if execution is None:
                slots.give_back()
                self.under_way.forget(look.key(start))
                if process is not None:
                    process.close()
        if execution is None or process is None:
            return begun
        return await self._settled(execution, self.attempts.run_apart(execution, function, process))

    async def _settled(self, execution: Execution, work: Coroutine[Any, Any, CallOutcome]) -> CallOutcome:
        outcome = NOT_ENDED
        try:
            await execution.take_slot()
            await self.under_way.hold()
            if self.is_closed:
                await self.begins.withdraw([execution.key])
            elif not execution.is_gone:
                outcome = await work
        except Exception:  # such as no memory for a thread; another host may have more
            logger.exception("%s of flow %s: the host failed", execution.step.path, execution.step.flow_id)
            was_called = execution.running is not None and not execution.is_manager  # managers count their own failures
            await self.begins.withdraw([execution.key], patiently=True, are_deaths=was_called)
            raise
        finally:
            work.close()
            execution.give_slot_back()
            self.under_way.forget(execution.key)
            execution.settle()
        return outcome

    def _held_here(self, look: HostLook) -> "list[asyncio.Future[None]]":
        """Return the ends for attempts under way by another activity in the process."""
        executions = (self.under_way.find(look.key(start)) for start in look.to_begin.values())
        return [execution.settled for execution in executions if execution is not None]

    async def _with_slot(self, look: HostLook, function: Function) -> Slots:
        """Take a slot for the first function. A manager waits with a cause, and never for a step's slot."""
        if not self.is_closed:
            slots = self.manager_slots if is_manager(function) else self.slots
            if slots is self.manager_slots and slots.is_full:
                await self.begins.note_cause(look.step, NO_HOST)
            await slots.take_soon()
            if not self.is_closed:
                return slots
            slots.give_back()
        raise TryAgain("the host ends", DRAIN_PAUSE, cause="Draining")
