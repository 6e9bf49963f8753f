"""Let an activity join the attempts under way in its process, or claim them, and wait for their ends.

A function belongs to its claim and not to an activity: an activity may be cancelled or tried again while its functions
continue, and then the second try waits for the same functions.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.flows.activities.steps import TryAgain
from crawler_lifecycle.flows.ports.claims import Claimed
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps
from crawler_lifecycle.flows.rules.words import NO_HOST
from crawler_lifecycle.hosts.attempts import NOT_ENDED, Attempts, CallOutcome, Execution, Suspects
from crawler_lifecycle.hosts.calling import Function, is_manager
from crawler_lifecycle.hosts.claiming import Claiming
from crawler_lifecycle.hosts.looks import HostLook
from crawler_lifecycle.hosts.slots import Slots
from crawler_lifecycle.hosts.under_way import UnderWay

logger = logging.getLogger(__name__)
T = TypeVar("T")
HELD = Backoff(timedelta(milliseconds=250), timedelta(seconds=2))  # pauses between looks at another host's claim
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
class Batches:
    attempts: Attempts
    under_way: UnderWay
    claiming: Claiming
    tasks: BackgroundTasks
    is_closed: bool = False  # whether no further function begins, since the host drains

    async def run(self, executions: Sequence[Execution], functions: Mapping[int, Function]) -> None:
        """Run claimed attempts in parallel, as slots are free. The first slot is taken already.

        Attempts with deaths run in sequence, after the attempts without deaths and in a process apart: so a deadly
        function takes no further attempt with it.
        """
        runs: list[asyncio.Task[None]] = []
        suspects = Suspects(self.attempts.functions)
        for place, execution in enumerate(sorted(executions, key=lambda execution: bool(execution.step.deaths))):
            if execution.step.deaths and runs:
                await asyncio.wait(runs)
            if place > 0:
                await execution.slots.take()
            function = functions[execution.step.start.number]
            if execution.is_manager and self.attempts.managers is not None:
                work = self.attempts.run_manager(execution, self.attempts.managers)
                runs.append(self.tasks.spawn(self._execute(execution, work)))
            elif execution.step.deaths:
                await self._execute(execution, self.attempts.run_suspect(execution, function, suspects))
            else:
                runs.append(self.tasks.spawn(self._execute(execution, self.attempts.run(execution, function))))
        suspects.close()

    async def _execute(self, execution: Execution, work: Coroutine[Any, Any, CallOutcome]) -> None:
        """Run the attempt to its end, and report its outcome."""
        outcome: CallOutcome | Exception = NOT_ENDED
        try:
            if not self.is_closed and not execution.is_gone:
                outcome = await work
        except Exception as error:  # such as no memory for a thread; another host may have more
            logger.exception("%s of flow %s: the host failed", execution.step.path, execution.step.flow_id)
            outcome = error
            await self.claiming.release([execution.key])
        finally:
            work.close()
            execution.give_slot_back()
        self.under_way.settle(execution.key, outcome)


@dataclass(frozen=True)
class Joining:
    under_way: UnderWay
    claiming: Claiming
    batches: Batches
    tasks: BackgroundTasks
    slots: Slots
    manager_slots: Slots

    async def run(self, look: HostLook, functions: Mapping[int, Function]) -> None:
        """Bring the look to its answer."""
        looks = 0
        while True:
            look.take_outcomes()
            self._join(look)
            if look.to_claim and not await self._claim_or_leave(look, functions):
                return
            if look.is_over:
                return
            if look.is_left and not look.under_way:
                raise TryAgain("the activity was cancelled", HELD.first, cause="Cancelled")
            looks += 1
            await look.wait(HELD.seconds(looks))

    def _join(self, look: HostLook) -> None:
        """Let the look wait for attempts that the process has under way already."""
        for number, start in list(look.to_claim.items()):
            key = look.key(start)
            if (future := self.under_way.outcome(key)) is not None:
                look.wait_for(number, future, is_on_record=self.under_way.is_claimed(key))

    async def _claim_or_leave(self, look: HostLook, functions: Mapping[int, Function]) -> bool:
        """Claim. Return False if the host has no place for followers: the supervisor then plans the followers."""
        try:
            await self._claim(look, functions)
        except TryAgain:
            if not look.has_only_followers:
                raise
            return False
        return True

    async def _claim(self, look: HostLook, functions: Mapping[int, Function]) -> None:
        """Claim the attempts, and let the claimed attempts run. Attempts in other hosts stay to be claimed."""
        if self.batches.is_closed:
            raise TryAgain("the host ends", DRAIN_PAUSE, cause="Draining")
        slots = await self._with_slot(look.step, functions[next(iter(look.to_claim))])
        self._join(look)  # another activity may have claimed the attempts meanwhile
        look.leave_followers(1 + self.slots.free)  # more would wait here beside idle hosts
        starts = list(look.to_claim.values())
        futures = {start.number: self.under_way.reserve(look.key(start)) for start in starts}
        try:
            claimed = await self._claimed(look, starts)
        except BaseException:
            slots.give_back()
            self.under_way.settle_all(map(look.key, starts))
            raise
        mine = {step.start.number for step in claimed.mine}
        self.under_way.settle_all(look.key(start) for start in starts if start.number not in mine)
        look.take_claimed(claimed, {number: futures[number] for number in mine})
        if mine:
            executions = [self.under_way.execute(step, slots) for step in claimed.mine]
            self.tasks.spawn(self.batches.run(executions, functions))
        else:
            slots.give_back()

    async def _claimed(self, look: HostLook, starts: list[AttemptRef]) -> Claimed:
        if not starts:
            return Claimed()
        return await self.claiming.claim(look.step, starts, look.reads(starts))

    async def _with_slot(self, step: RunSteps, function: Function) -> Slots:
        """Take a slot for the first step. A manager without a slot waits with a cause, and never for a step's slot."""
        if not is_manager(function):
            await self.slots.take_soon()
            return self.slots
        if self.manager_slots.is_full:
            await self.claiming.note_cause(step, NO_HOST)
        await self.manager_slots.take_soon()
        return self.manager_slots
