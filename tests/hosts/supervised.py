"""A host in this process with flows in a real database, and a small supervisor that lets the host run their steps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.authors.modules import Modules, load
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps, StepsEnded
from crawler_lifecycle.flows.rules.plan import Plan
from crawler_lifecycle.hosts.host import StepHost
from crawler_lifecycle.settings.processes import FlowSettings
from tests.hosts import authors
from tests.kit.data.flows import Flow, pushed

MODULE = authors.__name__
PATIENCE = 30.0


@dataclass
class Hosted:
    """A host with its database."""

    database: Database
    host: StepHost
    ends: list[StepsEnded] = field(default_factory=list)

    @property
    def store(self) -> SqlStore:
        return SqlStore(self.database)

    async def push(self, workflow: Workflow) -> Flow:
        return await asyncio.to_thread(pushed, self.database, workflow)

    async def play(self, workflow: Workflow) -> Flow:
        """Push the workflow, and let the host run its steps to the flow's end."""
        flow = await self.push(workflow)
        async with asyncio.timeout(PATIENCE):
            await self.go_on(flow)
        return flow

    async def go_on(self, flow: Flow) -> None:
        while True:
            plan, steps = await asyncio.to_thread(planned, flow)
            if plan.flow_state is not None and plan.flow_state.is_final:
                return
            if steps:
                self.ends += await asyncio.gather(*map(self.host.run, steps))
            elif plan.is_empty:
                assert plan.wake_at is not None, f"nothing goes on: {flow.states}"
                await asyncio.sleep(0.05)

    async def result(self, flow: Flow, path: str) -> Any:
        number = flow.row(path).number
        return decode((await asyncio.to_thread(flow.store.flow_records.results, flow.id, [number])).get(number))

    def starts_of(self, flow: Flow) -> list[RunSteps]:
        """The activities that the flow's plan asks for."""
        return planned(flow)[1]

    async def starting(self, flow: Flow) -> RunSteps:
        """The single activity that the flow's plan asks for."""
        [steps] = await asyncio.to_thread(self.starts_of, flow)
        return steps


def planned(flow: Flow) -> tuple[Plan, list[RunSteps]]:
    """Write the plan, and return the activities for its starts: one for each route."""
    planner, plan = flow.plan()
    starts = {start.number for start in plan.starts}
    assert flow.write(*(change for change in plan.changes if change.row.number not in starts))
    if plan.flow_state is not None:
        assert flow.write(state=plan.flow_state)
    rows = sorted((planner.rows[number] for number in starts), key=lambda row: row.route)
    steps = [
        RunSteps(
            flow=flow.flow,
            door=flow.door,
            flow_id=flow.id,
            route=route,
            starts=tuple(
                AttemptRef(number=row.number, generation=row.generation, attempt=row.attempt) for row in group
            ),
        )
        for route, group in groupby(rows, key=lambda row: row.route)
    ]
    return plan, steps


@asynccontextmanager
async def hosted(
    database: Database, *, store: Any = None, modules: Modules | None = None, **settings: Any
) -> AsyncIterator[Hosted]:
    """Run a host during the block. Its claims are short, so that tests see renewals. `store`: for its ports."""
    chosen = {"lease_seconds": 2, "drain_seconds": 5, **settings}
    store = store or SqlStore(database)
    host = StepHost(
        store.step_ledger,
        store.flow_doors,
        modules or load([MODULE]),
        FlowSettings(**chosen),
        "host of the test",
    )
    async with host.running():
        yield Hosted(database, host)


def single(function: Any, **options: Any) -> Workflow:
    return Workflow("single").add_cascade("step", function, **options)
