"""Host: claims attempts for activities, and lets the attempts run.

A function belongs to its claim and not to an activity: an activity may be cancelled or tried again while its functions
go on, and then the second try waits for the same functions.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

from crawler_lifecycle.activities.steps import TryAgain
from crawler_lifecycle.domain.flows.messages import AttemptRef, RunSteps, StepsEnded
from crawler_lifecycle.domain.flows.words import UNKNOWN_STEP
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.flows.running import running
from crawler_lifecycle.ports import AttemptKey, Claimed, FlowDoors, StepClaims
from crawler_lifecycle.services.flows.attempts import Attempts, Suspects
from crawler_lifecycle.services.flows.calling import Function
from crawler_lifecycle.services.flows.ends import EndWriter
from crawler_lifecycle.services.flows.execution import GRACE_SECONDS, NOT_ENDED, Execution, Gone, Outcome
from crawler_lifecycle.services.flows.functions import Functions, Surroundings
from crawler_lifecycle.services.flows.looks import Look
from crawler_lifecycle.services.flows.managers.hosting import Managers
from crawler_lifecycle.services.flows.modules import Modules
from crawler_lifecycle.services.flows.slots import Slots
from crawler_lifecycle.services.flows.under_way import UnderWay
from crawler_lifecycle.services.flows.versions import code_version
from crawler_lifecycle.settings.processes import FlowSettings

T = TypeVar("T")
Managing = Callable[[Modules, str, FlowSettings], Managers]  # makes the managers for a host with the token
logger = logging.getLogger(__name__)
HELD = Backoff(timedelta(milliseconds=250), timedelta(seconds=2))  # pauses between looks at another host's claim
AWAY = Backoff(timedelta(milliseconds=100), timedelta(seconds=5))  # pauses while the database is away
UNKNOWN_PAUSE = timedelta(seconds=10)
DRAIN_PAUSE = timedelta(milliseconds=100)
LAST_SECONDS = 5.0  # for a host's last ends
THREADS = 8  # for the host's own work


class StepHost:
    """The host in a process. All methods belong to the process's event loop."""

    def __init__(
        self,
        claims: StepClaims,
        doors: FlowDoors,
        modules: Modules,
        settings: FlowSettings,
        name: str,
        surroundings: Surroundings = running,
        managing: Managing | None = None,
    ) -> None:
        self.slots = Slots(settings.slots)
        self._claims = claims
        self._modules = modules
        self._drain_seconds = settings.drain_seconds
        self._name = name
        self._code_version = settings.code_version or code_version(modules)
        self._token = token = str(uuid4())
        self._lasts = timedelta(seconds=settings.claim_seconds)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="host")
        self._functions = Functions(modules, claims, self._threads, settings.largest_result, surroundings)
        self._ends = EndWriter(claims, token)
        managers = None if managing is None else managing(modules, token, settings)
        self._attempts = Attempts(
            claims, doors, token, self._functions, self._ends, self._threads, settings.step_seconds, managers
        )
        self._under_way = UnderWay(claims, token, self._lasts, self.slots, self._release_unused)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_draining = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run steps during the block, then drain."""
        self._under_way.held.start()
        self._ends.start()
        watching = asyncio.create_task(self._functions.loops.watch())
        try:
            yield
        finally:
            await self.drain()
            watching.cancel()

    async def run(self, step: RunSteps) -> StepsEnded:
        """Run the attempts, and return their ends. A cancelled call ends no function."""
        look = Look(step)
        task = self._spawn(self._run(look))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            look.is_left = True
            raise

    async def drain(self) -> None:
        """Begin no further function, and let the functions end for some time. Then stop the remaining functions.

        Claims without an end are released, so that another host takes the attempts at once.
        """
        if self._is_draining:
            return
        self._is_draining = True
        await self._hand_managers_over()
        waiting = [execution.key for execution in self._under_way.executions if execution.running is None]
        await self._release(waiting)
        self._under_way.settle_all(waiting)
        await self._under_way.wait(self._under_way.executions, self._drain_seconds)
        for execution in self._under_way.executions:
            execution.leave(Gone.DRAINED)
        await self._under_way.wait(self._under_way.executions, GRACE_SECONDS + LAST_SECONDS)
        self._under_way.held.close()
        await asyncio.to_thread(self._ends.close, LAST_SECONDS)
        await self._release(None)
        self._under_way.settle_all()

    async def _hand_managers_over(self) -> None:
        """Leave the managers at once: another host goes on, while functions here still end."""
        managers = [execution for execution in self._under_way.executions if execution.is_manager]
        for execution in managers:
            execution.leave(Gone.DRAINED)
        await self._under_way.wait(managers, GRACE_SECONDS)
        await self._release([execution.key for execution in managers])

    async def _run(self, look: Look) -> StepsEnded:
        function, looks = await self._function(look.step), 0
        while True:
            look.take_outcomes()
            self._join(look)
            if look.to_claim:
                await self._claim(look, function)
            if look.is_over:
                return look.result
            if look.is_left and not look.under_way:
                raise TryAgain("the activity was cancelled", HELD.first, cause="Cancelled")
            looks += 1
            await look.wait(HELD.seconds(looks))

    async def _function(self, step: RunSteps) -> Function:
        """Return the route's function. TryAgain, with the cause on record, if the modules do not have the function."""
        _, module, name = step.route.split("|")
        function = self._modules.function(f"{module}:{name}")
        if function is None:
            numbers = [start.number for start in step.starts]
            with suppress(LifecycleError):
                await self._in_thread(lambda: self._claims.note_cause(step.flow.uid, numbers, UNKNOWN_STEP))
            problem = f"{module} has no function {name} at its top level"
            logger.error("a step of flow %s waits: %s", step.flow_id, problem)
            raise TryAgain(problem, UNKNOWN_PAUSE, cause="UnknownStep")
        return function

    def _join(self, look: Look) -> None:
        """Let the look wait for attempts that the process has under way already."""
        for number, start in list(look.to_claim.items()):
            if (future := self._under_way.outcome(look.key(start))) is not None:
                look.wait_for(number, future)

    async def _claim(self, look: Look, function: Function) -> None:
        """Claim the attempts, and let the claimed attempts run. Attempts in other hosts stay to be claimed."""
        if self._is_draining:
            raise TryAgain("the host ends", DRAIN_PAUSE, cause="Draining")
        await self.slots.take_soon()
        self._join(look)  # another activity may have claimed the attempts meanwhile
        starts = list(look.to_claim.values())
        futures = {start.number: self._under_way.reserve(look.key(start)) for start in starts}
        try:
            claimed = await self._claimed(look.step, starts) if starts else Claimed()
        except BaseException:
            self.slots.give_back()
            self._under_way.settle_all(map(look.key, starts))
            raise
        look.take_ended(claimed.ended)
        look.take_stale(claimed.stale)
        mine = {step.start.number for step in claimed.mine}
        self._under_way.settle_all(look.key(start) for start in starts if start.number not in mine)
        for number in mine:
            look.wait_for(number, futures[number])
        if mine:
            self._spawn(self._run_all([self._under_way.execute(step) for step in claimed.mine], function))
        else:
            self.slots.give_back()

    async def _claimed(self, step: RunSteps, starts: Sequence[AttemptRef]) -> Claimed:
        """Claim, again and again while the database is away: a claim may be on record although its answer is lost."""
        failures = 0
        while True:
            try:
                return await self._in_thread(
                    lambda: self._claims.claim(
                        step.flow, step.door, starts, self._token, self._name, self._lasts, self._code_version
                    )
                )
            except TemporaryError as error:
                failures += 1
                logger.warning("steps of flow %s wait for their claims: %s", step.flow_id, error.message)
                await asyncio.sleep(AWAY.seconds(failures))

    async def _run_all(self, executions: Sequence[Execution], function: Function) -> None:
        """Run claimed attempts in parallel, as slots are free. The first slot is taken already.

        Attempts with deaths run in sequence, after the attempts without deaths and in a process apart: so a deadly
        function takes no further attempt with it.
        """
        runs: list[asyncio.Task[None]] = []
        suspects = Suspects(self._functions)
        for place, execution in enumerate(sorted(executions, key=lambda execution: bool(execution.step.deaths))):
            if execution.step.deaths and runs:
                await asyncio.wait(runs)
            if place > 0:
                await self.slots.take()
            if execution.is_manager and self._attempts.managers is not None:
                work = self._attempts.run_manager(execution, self._attempts.managers)
                runs.append(self._spawn(self._execute(execution, work)))
            elif execution.step.deaths:
                await self._execute(execution, self._attempts.run_suspect(execution, function, suspects))
            else:
                runs.append(self._spawn(self._execute(execution, self._attempts.run(execution, function))))
        suspects.close()

    async def _execute(self, execution: Execution, work: Coroutine[Any, Any, Outcome]) -> None:
        """Bring the attempt to its end, and tell its outcome."""
        outcome: Outcome | Exception = NOT_ENDED
        try:
            if not self._is_draining and not execution.is_gone:
                outcome = await work
        except Exception as error:  # such as no memory for a thread; another host may have more
            logger.exception("%s of flow %s: the host failed", execution.step.path, execution.step.flow_id)
            outcome = error
            await self._release([execution.key])
        finally:
            work.close()
            execution.give_slot_back()
        self._under_way.settle(execution.key, outcome)

    def _release_unused(self, keys: Collection[AttemptKey]) -> None:
        """Release claims without an execution, such as after a release without an answer."""
        logger.warning("%d claims are released, since no function runs under them", len(keys))
        self._spawn(self._release(keys))

    async def _release(self, attempts: Collection[AttemptKey] | None) -> None:
        """Release the claims, or all claims. Without an answer, the claims expire by themselves."""
        if attempts is None or attempts:
            try:
                await self._in_thread(lambda: self._claims.release(self._token, attempts))
            except LifecycleError as error:
                logger.warning("claims are not released, and expire in %s: %s", self._lasts, error.message)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the work in a task, and keep the task until its end."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a cancelled activity does not fetch its error

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
