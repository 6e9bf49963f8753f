"""A host's begun attempts, and the lease for them.

A thread renews the lease. The thread is not the event loop: whatever happens on the loop, the lease lasts as long as
the process lives.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, PermanentError, TemporaryError
from crawler_lifecycle.flows.ports.steps import AttemptKey, BegunStep, StepLedger, StepsBegun
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps
from crawler_lifecycle.hosts.attempts import Execution, Gone
from crawler_lifecycle.hosts.functions import new_link
from crawler_lifecycle.hosts.slots import Slots

logger = logging.getLogger(__name__)
RENEWALS = 10  # in the time of a lease: each renewal also notices people's cancels
T = TypeVar("T")
AWAY = Backoff(timedelta(milliseconds=100), timedelta(seconds=5))  # pauses while the database is away


@dataclass(frozen=True)
class Begins:
    """The host's side for begins in the ledger."""

    ledger: StepLedger
    token: str
    name: str
    code_version: str
    threads: Executor

    async def begin(
        self, step: RunSteps, starts: Sequence[AttemptRef], reads: Mapping[int, int], *, in_process: bool = False
    ) -> StepsBegun:
        """Begin, again and again while the database is away: a begin may be stored although its answer is lost."""
        failures, host = 0, (self.token, self.name, self.code_version)
        while True:
            try:
                return await self._in_thread(
                    lambda: self.ledger.begin(step.flow, step.door, starts, *host, reads, in_process=in_process)
                )
            except TemporaryError as error:
                failures += 1
                logger.warning("steps of flow %s wait for the database: %s", step.flow_id, error.message)
                await asyncio.sleep(AWAY.seconds(failures))
            except PermanentError:  # an earlier try may have begun the attempts
                keys = [(step.flow.uid, start.number, start.attempt) for start in starts]
                await self.withdraw(keys, patiently=True)
                raise

    async def withdraw(
        self, attempts: Collection[AttemptKey], *, patiently: bool = False, are_deaths: bool = False
    ) -> None:
        """Withdraw begins. Without an answer, they are over with the host's lease, and count as deaths.

        `patiently`: again and again while the database is away, because the lease goes on.
        """
        failures = 0
        while attempts:
            try:
                await self._in_thread(lambda: self.ledger.withdraw(self.token, attempts, are_deaths=are_deaths))
            except LifecycleError as error:
                failures += 1
                logger.warning("begins are not withdrawn yet: %s", error.message)
                await asyncio.sleep(AWAY.seconds(failures) if patiently else 0)
            else:
                return
            if not patiently:
                return

    async def note_cause(self, step: RunSteps, cause: str) -> None:
        """Note why the steps wait, for people."""
        numbers = [start.number for start in step.starts]
        with suppress(LifecycleError):
            await self._in_thread(lambda: self.ledger.note_cause(step.flow.uid, numbers, cause))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)


class UnderWay:
    """The process's attempts, before and after their begin. All methods belong to the host's event loop."""

    def __init__(self, ledger: StepLedger, token: str, lasts: timedelta) -> None:
        self._ledger = ledger
        self._token = token
        self._lasts = lasts
        self._reserved: set[AttemptKey] = set()
        self._executions: dict[AttemptKey, Execution] = {}
        self._loop = asyncio.get_running_loop()
        self._ended = threading.Event()
        self._holds_until = 0.0  # by the clock of `time.monotonic`
        self._renewed = asyncio.Event()

    @property
    def executions(self) -> list[Execution]:
        return list(self._executions.values())

    def find(self, key: AttemptKey) -> Execution | None:
        return self._executions.get(key)

    def reserve(self, key: AttemptKey) -> bool:
        """Reserve the attempt for a begin. Return False if an activity in the process has the attempt already."""
        if key in self._reserved:
            return False
        self._reserved.add(key)
        return True

    def execute(self, step: BegunStep, slots: Slots, *, has_slot: bool = True) -> Execution:
        """Note the begun step. `slots`: the step's slot comes from here."""
        execution = Execution(step, slots, new_link(step), has_slot=has_slot)
        self._executions[execution.key] = execution
        return execution

    async def hold(self) -> None:
        """Wait for a renewal if the lease may be over, because another host may have begun the attempts."""
        while time.monotonic() >= self._holds_until:
            self._renewed.clear()
            await self._renewed.wait()

    def forget(self, key: AttemptKey) -> None:
        self._reserved.discard(key)
        self._executions.pop(key, None)

    def start(self) -> None:
        """Make the lease, and start the thread. Without a database, the thread makes the lease later."""
        self._renew()
        threading.Thread(target=self._run, name="step-lease", daemon=True).start()

    def close(self) -> None:
        """Renew the lease no longer."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait((self._lasts / RENEWALS).total_seconds()):
            self._renew()

    def _renew(self) -> None:
        held, began = dict(self._executions), time.monotonic()
        try:
            mine = self._ledger.renew(self._token, self._lasts, held)
        except LifecycleError as error:
            logger.warning("the lease for %d steps is not renewed: %s", len(held), error.message)
        except Exception:  # the thread must live: without renewals, further hosts would take the steps over
            logger.exception("the lease for %d steps is not renewed", len(held))
        else:
            with suppress(RuntimeError):  # the host has ended, and its loop is closed
                self._loop.call_soon_threadsafe(self._take_news, began, held, mine)

    def _take_news(self, began: float, held: Mapping[AttemptKey, Execution], mine: Mapping[AttemptKey, bool]) -> None:
        """Give lost attempts up, and stop attempts that people have cancelled. `began`: time before the renewal."""
        self._holds_until = began + self._lasts.total_seconds()
        self._renewed.set()
        for key, execution in held.items():  # the attempt may have begun again meanwhile
            if key not in mine:
                execution.leave(Gone.LOST)
            elif mine[key]:
                execution.stop()
