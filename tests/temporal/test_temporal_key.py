"""A real Temporal server behind a gate that asks for an API key and refuses what only operators may do."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly import checks, failing_workflows
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.plugin import LifecyclePlugin, activities
from crawler_lifecycle.base.background import in_background
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.database import migrate
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.processes import lifecycle
from crawler_lifecycle.runs.processes.watcher import Watcher
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.temporal.engine import Engine
from crawler_lifecycle.temporal.worker_checks import check_worker
from tests.kit.clusters.schedulers import TOKEN, a_catalogue, served
from tests.kit.service import apis
from tests.kit.temporal.gate import Gate, guarded
from tests.kit.temporal.plays import working
from tests.kit.temporal.servers import FAST, temporal_program
from tests.kit.waiting import eventually, until
from tests.kubernetes.certificates import Certificates

KEY = "the-key-of-this-test"
CATALOGUE = '[crawlers.short]\ncommand = ["/bin/sh", "-c", "sleep 1"]\n'
SCHEDULE = {"run": {"crawler": "short"}, "cron": ["0 3 * * *"]}


@dataclass
class Guarded:
    gate: Gate
    variables: dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    """A server without our search attributes, behind the gate."""
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    certificates.make()
    server = await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_program(),
        dev_server_extra_args=FAST,
        dev_server_startup_timeout=timedelta(seconds=30),
    )
    async with server, guarded(server.client.service_client.config.target_host, KEY, certificates) as (gate, address):
        variables = {
            "TEMPORAL_ADDRESS": address,
            "TEMPORAL_NAMESPACE": server.client.namespace,
            "TEMPORAL_API_KEY": KEY,
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(certificates.authority),
        }
        yield Guarded(gate, variables)


@contextmanager
def installation(folder: Path, variables: dict[str, str]) -> Iterator[tuple[Installation, httpx.Client]]:
    cluster = LocalCluster(folder / "cluster", folder / "files", None, capacity=8)
    with served(cluster, a_catalogue(folder, CATALOGUE)) as url:
        own = {
            "CRAWLER_SCHEDULER__URL": url,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "CRAWLER_WORKER__TASK_QUEUE": f"guarded-{uuid4()}",
        }
        located = Installation.with_variables(folder, variables | own)
        migrate.upgrade(located.settings.database_url)
        with apis.served(folder, located.settings.database_url, **variables, **own) as api, api.client() as http:
            yield located, http


@pytest.mark.long
async def test_a_crawl_ends_by_the_key_without_the_rights_of_an_operator(
    guarded_server: Guarded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with installation(tmp_path, guarded_server.variables) as (located, http), ThreadPoolExecutor(8) as threads:
        control = Control(located)
        has_attributes = await lifecycle._has_search_attributes(control.engine)
        assert not has_attributes
        assert "runs are not listed by search attributes: not registered are" in caplog.text
        plugin = LifecyclePlugin(activities(control.parts, control.engine, search_attributes=has_attributes))
        client, queue = await control.engine.client(), control.engine.task_queue
        watcher = Watcher(control.parts.store.claims, control.parts.cluster, control.engine.nudge)
        async with (
            working(client, queue, (), plugins=[plugin], activity_executor=threads),
            in_background(watcher.run(control.engine.client)),
        ):
            await asyncio.to_thread(_crawl, http)
        line = await checks._search_attributes(control.engine)
    assert line.startswith("runs work, but Temporal's lists cannot filter by CrawlerName, CrawlRunId")
    assert "temporal operator search-attribute create --name CrawlerName --type Keyword" in line
    assert not guarded_server.gate.refused
    with pytest.raises(RPCError, match="Request unauthorized"):
        await client.operator_service.list_search_attributes(ListSearchAttributesRequest())
    methods = {method.rpartition("/")[2] for method in guarded_server.gate.passed}
    assert {"StartWorkflowExecution", "RespondWorkflowTaskCompleted", "CreateSchedule", "DeleteSchedule"} <= methods


def _crawl(http: httpx.Client) -> None:
    """Run a crawl to its end; make and delete a schedule."""
    started = http.post("/v1/runs", json={"crawler": "short"}).raise_for_status().json()
    http.put("/v1/schedules/nightly", json=SCHEDULE).raise_for_status()
    http.delete("/v1/schedules/nightly").raise_for_status()

    def run() -> dict[str, Any]:
        view: dict[str, Any] = http.get(f"/v1/runs/{started['run_id']}").raise_for_status().json()["run"]
        return view

    until(lambda: run()["finished_at"], "the end of the run", seen=run)
    assert (run()["status"], run()["reason"]) == ("COMPLETED", "all_succeeded")


@pytest.mark.parametrize("key", ["another-key", None])
async def test_a_wrong_key_is_one_line_that_names_the_setting(guarded_server: Guarded, key: str | None) -> None:
    variables = {name: value for name, value in guarded_server.variables.items() if name != "TEMPORAL_API_KEY"}
    with pytest.raises(NotReady) as refused:
        await Engine(variables | ({"TEMPORAL_API_KEY": key} if key else {}), "nobody").ping()
    assert refused.value.message == (
        f"Temporal at {variables['TEMPORAL_ADDRESS']} refuses us (Request unauthorized.): check TEMPORAL_API_KEY or "
        "the client certificate, and their rights in the namespace"
    )


async def test_a_key_that_is_withdrawn_is_named(guarded_server: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(guarded_server.variables, "nobody")
    await engine.ping()
    monkeypatch.setattr(guarded_server.gate, "key", "a-new-key")
    with pytest.raises(NotReady, match=r"refuses us \(Request unauthorized\.\): check TEMPORAL_API_KEY"):
        await engine.ping()


@pytest.mark.long
async def test_a_worker_outlives_a_key_that_is_withdrawn(
    guarded_server: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failing_workflows, "SEARCH_PAUSE", 2.0)  # its search asks Temporal first
    for name, value in guarded_server.variables.items():
        monkeypatch.setenv(name, value)
    with installation(tmp_path, guarded_server.variables) as (located, http):
        control, stopped = Control(located), asyncio.Event()
        async with in_background(lifecycle.serve(control.parts, stopped)) as worker:
            await asyncio.to_thread(_start, http)
            monkeypatch.setattr(guarded_server.gate, "key", "a-new-key")
            await eventually(lambda: "TEMPORAL_API_KEY" in caplog.text, "the line about the key")
            for check in (checks._temporal, check_worker):
                with pytest.raises(NotReady, match="check TEMPORAL_API_KEY or the client certificate"):
                    await check(control.engine)
            await asyncio.sleep(5)
            lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
            assert not any(record.exc_info for record in lines)
            assert len([line for line in lines if "TEMPORAL_API_KEY" in line.getMessage()]) < 6, "one in 2 s"
            assert not worker.done()
            monkeypatch.setattr(guarded_server.gate, "key", KEY)
            await asyncio.to_thread(_start, http)
            stopped.set()
            await worker


def _start(http: httpx.Client) -> None:
    """Start a run: the worker makes its row."""
    assert http.post("/v1/runs", json={"crawler": "short"}, timeout=60).raise_for_status().json()["run_id"]
