"""A watcher of a rig's cluster, and the workflows that it nudges."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.errors import NotFound, TemporaryError
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.supervision import Nudge
from crawler_lifecycle.runs.processes.watcher import Watcher
from tests.kit.service.rig import Rig


@dataclass
class Workflows:
    """What would be signalled."""

    nudges: list[Nudge] = field(default_factory=list)
    away: int = 0
    closed: bool = False

    async def send(self, nudge: Nudge) -> None:
        if self.closed:
            raise NotFound("no such workflow")
        if self.away:
            self.away -= 1
            raise TemporaryError("Temporal does not answer")
        self.nudges.append(nudge)

    async def nudged(self, times: int) -> None:
        async with asyncio.timeout(20):
            while len(self.nudges) < times:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def watched(rig: Rig, workflows: Workflows) -> AsyncIterator[None]:
    watching = asyncio.create_task(Watcher(SqlStore(rig.database).claims, rig.bench.cluster, workflows.send).run())
    await asyncio.sleep(0.3)  # changes before it watches are none of its business
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def deploy(rig: Rig) -> RunPlan:
    plan = rig.started("sleepy", tasks=2)
    rig.deploy_children(plan)
    return plan
