"""Crawl managers of the crowd: a crawl of each ends in every outage, and the manager reacts and starts the next."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.states import TaskStatus
from tests.chaos.ground import Ground
from tests.chaos.manager_comparison import compared_manager
from tests.chaos.manager_people import ManagerDeed, ManagerPeople
from tests.chaos.managing import AT_ONCE, Branches
from tests.kit.waiting import eventually_async

FLOWS = ("branches-1", "branches-2")
CRAWLS = len(FLOWS) * AT_ONCE  # under way
PATIENCE = 150.0


class CrowdOfManagers:
    """Managers with crawls that run until they are released. Each crawl under way has a place or waits for its place.

    `completed`: items that are completed after the present outage, by flow.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._people = ManagerPeople(ground)
        self._completed = dict.fromkeys(FLOWS, 0)

    async def gather(self) -> None:
        for flow_id in FLOWS:
            await self._people.start(flow_id, 0, Branches)

        async def are_running() -> bool:
            return await self.running() == CRAWLS

        await eventually_async(are_running, f"{CRAWLS} crawls of managers to run", PATIENCE, pause=0.5)

    async def running(self) -> int:
        """Return the number of crawls with a place."""
        return sum([len(await self._with_places(flow_id)) for flow_id in FLOWS])

    async def crawls_to_end(self) -> list[Started]:
        """Return the oldest crawl of each manager. A crawl that waits for its place cannot end."""
        ending: list[Started] = []
        for flow_id in FLOWS:
            oldest = (await self._with_places(flow_id))[-1:]
            self._completed[flow_id] += len(oldest)
            ending += oldest
        return ending

    def release(self, crawls: Sequence[Started]) -> None:
        for run in crawls:
            self._ground.site.release(run, 0)

    async def until_reacted(self) -> None:
        """Wait for the reactions to the ends, and for the starts that follow."""
        seen: dict[str, Counts] = {}

        async def reacted() -> bool:
            with suppress(LifecycleError):
                for flow_id in FLOWS:
                    seen[flow_id] = (await asyncio.to_thread(self._people.status, flow_id)).counts
                numbers = {flow_id: (counts.completed, counts.running) for flow_id, counts in seen.items()}
                return numbers == {flow_id: (self._completed[flow_id], AT_ONCE) for flow_id in FLOWS}
            return False

        await eventually_async(
            reacted, f"managers to complete {self._completed}", PATIENCE, pause=0.5, seen=lambda: seen
        )

    async def end(self) -> list[str]:
        """Drain the managers, and let all crawls end. Return what is wrong then."""
        for flow_id in FLOWS:
            await self._people.do(ManagerDeed.DRAIN, flow_id)

        async def ended() -> bool:
            for flow_id in FLOWS:
                self.release(await asyncio.to_thread(self._people.open_runs, flow_id))
            return not await self._people.under_way()

        await eventually_async(ended, "managers to end", PATIENCE, pause=1.0)
        seen = {flow_id: await asyncio.to_thread(self._people.seen, flow_id) for flow_id in FLOWS}
        return [f"{flow_id}: {problem}" for flow_id in FLOWS for problem in compared_manager(seen[flow_id])]

    async def _with_places(self, flow_id: str) -> list[Started]:
        """Return the manager's crawls that have a place, newest first."""
        runs = await asyncio.to_thread(self._people.open_runs, flow_id)
        statuses = [await asyncio.to_thread(self._ground.site.statuses, run) for run in runs]
        return [run for run, tasks in zip(runs, statuses, strict=True) if tasks == [TaskStatus.RUNNING]]
