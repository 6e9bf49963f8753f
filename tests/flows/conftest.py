"""The service for the reference pages: a real server, a supervisor and a host of their modules in this process."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.client import Flows
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.authors.modules import load
from crawler_lifecycle.hosts.contexts import StepClients
from crawler_lifecycle.hosts.host import StepHost
from crawler_lifecycle.model.naming import steps_queue
from crawler_lifecycle.processes.flows import for_steps, working
from crawler_lifecycle.settings.processes import FlowSettings
from tests.kit.data.databases import copy_of
from tests.kit.temporal.flow_stage import FlowStage, flow_stage

MODULES = (
    "tests.compat.graphs",
    "tests.flows.reference_chancy",
    "tests.flows.reference_oban",
    "tests.flows.steps",
    "tests.flows.test_random_graphs",
)
QUEUES = ("default", "high_priority", "mail", "reports", "slow")
PATIENCE = 60.0


@dataclass
class Service:
    """The view of an author's program: the state folder, and the environment that the fixture has set."""

    state: Path
    stage: FlowStage

    async def ended(self, workflow: Workflow) -> Workflow:
        """The workflow at its end; its client has to be open."""
        return await Flows.current().wait(workflow.id, timeout=PATIENCE)

    async def run(self, workflow: Workflow) -> Workflow:
        """Push the workflow with an own client, and return it at its end."""
        async with Flows.open(self.state) as flows:
            return await flows.wait(await flows.push(workflow), timeout=PATIENCE)


@pytest_asyncio.fixture
async def service(
    real_time: WorkflowEnvironment, sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Service]:
    url = copy_of(sqlite_template, tmp_path)
    database = Database(url)
    async with flow_stage(real_time.client, database, hosted=False) as stage:
        monkeypatch.setenv("CRAWLER_DATABASE__URL", url)
        monkeypatch.setenv("CRAWLER_STATE", str(tmp_path))
        monkeypatch.setenv("CRAWLER_WORKER__TASK_QUEUE", stage.queue)
        monkeypatch.setenv("TEMPORAL_ADDRESS", real_time.client.service_client.config.target_host)
        store, modules = stage.store, load(MODULES)
        host = StepHost(store.step_ledger, store.flow_doors, modules, FlowSettings(), "test", StepClients().around)
        routes = [f"{queue}|{name}|" for queue in QUEUES for name in modules.names]
        queues = {steps_queue(stage.queue, route): for_steps(host) for route in routes}
        async with working(real_time.client, host, queues, 1.0):
            yield Service(tmp_path, stage)
    await asyncio.to_thread(database.close)
