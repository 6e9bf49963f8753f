"""Claim attempts under a host's token, and note the causes for steps without a claim.

A thread renews the host's right to its claims. The thread is not the event loop: whatever happens on the loop, the
lease lasts as long as the process lives.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.flows.ports.claims import AttemptKey, Claimed, StepClaims
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps

logger = logging.getLogger(__name__)
RENEWALS = 10  # in the time of a lease: each renewal also notices people's cancels
# receives the attempts held before a renewal, and the host's claims with people's stop requests
Notify = Callable[[Collection[AttemptKey], Mapping[AttemptKey, bool]], None]
T = TypeVar("T")
AWAY = Backoff(timedelta(milliseconds=100), timedelta(seconds=5))  # pauses while the database is away


class HostLease:
    """The lease with a token. `held` and `notify` are called by the thread."""

    def __init__(
        self,
        claims: StepClaims,
        token: str,
        lasts: timedelta,
        held: Callable[[], Collection[AttemptKey]],
        notify: Notify,
    ) -> None:
        self._claims = claims
        self._token = token
        self._lasts = lasts
        self._held = held
        self._notify = notify
        self._ended = threading.Event()

    def start(self) -> None:
        """Make the lease, and start the thread. Without a database, the thread makes the lease later."""
        self._renew()
        threading.Thread(target=self._run, name="step-lease", daemon=True).start()

    def close(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait((self._lasts / RENEWALS).total_seconds()):
            self._renew()

    def _renew(self) -> None:
        held = self._held()
        try:
            claimed = self._claims.renew(self._token, self._lasts)
        except LifecycleError as error:
            logger.warning("the lease for %d steps is not renewed: %s", len(held), error.message)
        except Exception:  # the thread must live: without renewals, further hosts would take the steps over
            logger.exception("the lease for %d steps is not renewed", len(held))
        else:
            self._notify(held, claimed)


@dataclass(frozen=True)
class Claiming:
    """The host's side of `StepClaims`."""

    claims: StepClaims
    token: str
    name: str
    code_version: str
    threads: Executor

    async def claim(self, step: RunSteps, starts: Sequence[AttemptRef], reads: Mapping[int, int]) -> Claimed:
        """Claim, again and again while the database is away: a claim may be on record although its answer is lost."""
        failures = 0
        while True:
            try:
                return await self._in_thread(
                    lambda: self.claims.claim(
                        step.flow, step.door, starts, self.token, self.name, self.code_version, reads
                    )
                )
            except TemporaryError as error:
                failures += 1
                logger.warning("steps of flow %s wait for their claims: %s", step.flow_id, error.message)
                await asyncio.sleep(AWAY.seconds(failures))

    async def release(self, attempts: Collection[AttemptKey] | None) -> None:
        """Release the claims, or all claims. Without an answer, the claims end with the host's lease."""
        if attempts is None or attempts:
            try:
                await self._in_thread(lambda: self.claims.release(self.token, attempts))
            except LifecycleError as error:
                logger.warning("claims are not released before the host's lease is over: %s", error.message)

    async def note_cause(self, step: RunSteps, cause: str) -> None:
        """Note why the steps wait, for people."""
        numbers = [start.number for start in step.starts]
        with suppress(LifecycleError):
            await self._in_thread(lambda: self.claims.note_cause(step.flow.uid, numbers, cause))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)
