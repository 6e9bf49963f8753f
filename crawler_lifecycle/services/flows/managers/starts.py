"""Starts: attempts on record, and then their runs' workflows."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from crawler_lifecycle.contract.managers.items import Job
from crawler_lifecycle.contract.managers.turns import Start
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.errors import LifecycleError, PermanentError
from crawler_lifecycle.ports import FlowSupervisors, ManagerLedger, ManagerRef, ManagerStart

logger = logging.getLogger(__name__)
AT_ONCE = 16
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between tries while Temporal is away


@dataclass(frozen=True)
class Starts:
    """The starts of a host. A start is repeated with the same workflow id, so an ambiguous answer does no harm."""

    ledger: ManagerLedger
    supervisors: FlowSupervisors
    loop: asyncio.AbstractEventLoop

    def start(self, ref: ManagerRef, starts: Sequence[Start]) -> list[Job | str | None]:
        """Put attempts on record, then start their workflows."""
        answer = self.ledger.start(ref, starts)
        problems = self.make(ref, answer.started)
        jobs = {start.job.number: problems.get(start.job.number, start.job) for start in answer.started}
        return [jobs.get(start.number) for start in starts]

    def make(self, ref: ManagerRef, starts: Sequence[ManagerStart]) -> dict[int, str]:
        """Start the workflows of attempts on record. Return the problems of refused attempts by number."""
        refused = asyncio.run_coroutine_threadsafe(self._all(starts), self.loop).result()
        for start in starts:
            if start.job.number in refused:
                self.ledger.refuse(ref, start.job.number, start.job.attempt, refused[start.job.number])
        return refused

    def stop(self, jobs: Sequence[Job], flow_id: str) -> None:
        """Ask the jobs' workflows to stop, as the flow's supervisor does."""
        request = StopRequest(actor=f"flow {flow_id}"[:256], door="flow", asked_at=datetime.now(UTC))
        asyncio.run_coroutine_threadsafe(self._stop_all(jobs, request), self.loop).result()

    async def _all(self, starts: Sequence[ManagerStart]) -> dict[int, str]:
        limit = asyncio.Semaphore(AT_ONCE)
        problems = await asyncio.gather(*(self._start(start, limit) for start in starts))
        return {start.job.number: problem for start, problem in zip(starts, problems, strict=True) if problem}

    async def _start(self, start: ManagerStart, limit: asyncio.Semaphore) -> str | None:
        """Start the workflow. Return why the request is refused for good."""
        failures = 0
        async with limit:
            while True:
                try:
                    await self.supervisors.start_crawl(start.job.key, start.request)
                except PermanentError as error:
                    return error.message
                except LifecycleError as error:
                    logger.warning("%s waits for its start: %s", start.job.key, error.message)
                    await asyncio.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
                    failures += 1
                else:
                    return None

    async def _stop_all(self, jobs: Sequence[Job], request: StopRequest) -> None:
        for job in jobs:
            try:
                await self.supervisors.stop(job.key, request)
            except LifecycleError as error:  # the flow's supervisor asks as well
                logger.info("%s is not asked to stop by its host: %s", job.key, error.message)
