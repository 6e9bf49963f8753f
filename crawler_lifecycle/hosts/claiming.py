"""Claiming: a host's claims on record, under the host's token, and the causes for steps without a claim."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.flows.ports.claims import AttemptKey, Claimed, StepClaims
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps

T = TypeVar("T")
logger = logging.getLogger(__name__)
AWAY = Backoff(timedelta(milliseconds=100), timedelta(seconds=5))  # pauses while the database is away


@dataclass(frozen=True)
class Claiming:
    """The host's side of `StepClaims`."""

    claims: StepClaims
    token: str
    name: str
    code_version: str
    threads: Executor

    async def claim(self, step: RunSteps, starts: Sequence[AttemptRef], after: Iterable[int]) -> Claimed:
        """Claim, again and again while the database is away: a claim may be on record although its answer is lost.

        `after`: members that have completed on record before the claim.
        """
        before, failures = set(after), 0
        while True:
            try:
                return await self._in_thread(
                    lambda: self.claims.claim(
                        step.flow, step.door, starts, self.token, self.name, self.code_version, before
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
