"""A manager had left its crawls alone, and its flow had ended. A stop of the flow then asked no crawl to end, and its
wait returned at once: nothing of the flow runs any more."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.commands import flow_commands as commands
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.model.requests import StopFlow, StopWay
from crawler_lifecycle.flows.model.turns import NO_EFFECTS
from crawler_lifecycle.managers.commands import CatalogueManagers
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.settings.installation import Installation
from tests.kit.data.databases import copy_of
from tests.kit.data.flows import CANCELLED
from tests.kit.data.managers import managed

pytestmark = pytest.mark.regression(
    "A stop of an ended flow reached none of the crawls that its manager had left alone"
)


class NotedStops:
    def __init__(self) -> None:
        self.stopped: list[tuple[str, bool]] = []

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None: ...

    async def flow_ended(self, flow_uid: str) -> None:
        raise NotFound("no supervisor")

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        self.stopped.append((workflow_id, stop.force))
        return "signal"


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def engine() -> NotedStops:
    return NotedStops()


@pytest.fixture
def flows(database_url: str, tmp_path: Path, engine: NotedStops) -> Iterator[FlowCommands]:
    control = Control(Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": database_url}))
    noted: Any = engine
    yield FlowCommands(control.context, noted, CatalogueManagers(control.context))
    control.context.close()


async def test_a_stop_of_an_ended_flow_reaches_the_crawls_that_its_manager_left(
    flows: FlowCommands, engine: NotedStops, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SLOW_READ", 0.05)
    flow = managed(database)
    flow.offer("a")
    run = flow.run_of(flow.started())
    await flows.stop(flow.id, StopFlow(way=StopWay.LEAVE))
    flow.managers.close(flow.mine, "left", NO_EFFECTS, 0)
    flow.end(flow.last("manager"), kind=CANCELLED)
    while not flow.go_on().is_empty:
        pass
    assert ((await flows.wait(flow.id)).state, engine.stopped) == ("cancelled", [])
    await flows.stop(flow.id, StopFlow(actor="ann"))
    assert engine.stopped == [(run.workflow_id, False)]
    assert flow.store.runs.get(run.run_id).intent == "STOP"
    proof = asyncio.create_task(flows.wait_for_proof(flow.id))
    await asyncio.wait([proof], timeout=0.3)
    assert not proof.done(), "the crawl still runs"
    flow.close(run, RunStatus.FAILED, "stopped")
    assert (await proof).state == "cancelled"
