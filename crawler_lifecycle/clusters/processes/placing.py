"""Loop in the scheduler service: starts waiting jobs as soon as a local cluster has free places."""

import asyncio
import logging
from typing import Protocol, runtime_checkable

from crawler_lifecycle.errors import LifecycleError

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0  # most seconds by which a waiting job waits longer than necessary


@runtime_checkable
class PlacesJobs(Protocol):
    """A cluster whose waiting jobs start only on request."""

    def place_waiting(self) -> object:
        """Start waiting jobs while the cluster has free places."""


class PlacingLoop:
    def __init__(self, cluster: PlacesJobs) -> None:
        self._cluster = cluster
        self.problem: str | None = None  # None: the last try succeeded

    async def run(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._cluster.place_waiting)
                self.problem = None
            except (LifecycleError, OSError) as error:
                self._report(str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    def report_end(self, task: asyncio.Task[None]) -> None:
        """Report that an unexpected error ended the loop's task. Deployments continue, but the service is not ready."""
        if not task.cancelled() and (error := task.exception()):
            self.problem = f"waiting jobs are not placed any more ({type(error).__name__}); restart the service"
            logger.error(self.problem, exc_info=error)

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("waiting jobs cannot be placed: %s", problem)
        self.problem = problem
