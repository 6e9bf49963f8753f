"""The programs of examples/triggers, built and run: what they send is what a run takes. `make test-triggers`.

Not among the tests of `make test`, because their packages are downloaded. A language that is not installed is skipped.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.requests import RunRequest, StopRequest, any_stop, parse
from crawler_lifecycle.model.states import Trigger
from crawler_lifecycle.settings.processes import WorkerSettings

pytestmark = pytest.mark.timeout(900)
EXAMPLES = Path(__file__).parents[2] / "examples" / "triggers"
BUILDING = 600.0
RUNNING = 60.0


@workflow.defn(name=RUN_WORKFLOW, sandboxed=False)
class Run:
    """Takes a request and a stop as the real one does, and answers with both."""

    def __init__(self) -> None:
        self._stops: list[bytes] = []

    @workflow.run
    async def run(self, raw: RawValue) -> list[str]:
        await workflow.wait_condition(lambda: bool(self._stops))
        return [raw.payload.data.decode(), self._stops[0].decode()]

    @workflow.signal
    def stop(self, raw: RawValue) -> None:
        self._stops.append(raw.payload.data)


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def _build(folder: Path, *words: str) -> None:
    built = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=BUILDING, check=False)
    assert built.returncode == 0, built.stdout + built.stderr


def _python(folder: Path) -> Sequence[str]:
    return [sys.executable, str(folder / "crawltrigger.py")]


def _go(folder: Path) -> Sequence[str]:
    go = _tool("go")
    _build(folder, go, "vet", "./...")
    _build(folder, go, "build", "-mod=readonly", "-o", "crawltrigger", ".")
    return [str(folder / "crawltrigger")]


def _typescript(folder: Path) -> Sequence[str]:
    node, npm = _tool("node"), _tool("npm")
    _build(folder, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    _build(folder, npm, "run", "build")
    return [node, str(folder / "crawltrigger.js")]


BUILDERS: dict[str, Callable[[Path], Sequence[str]]] = {"python": _python, "go": _go, "typescript": _typescript}


@pytest.fixture(scope="module", params=BUILDERS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """How it is called, built in a copy of its folder."""
    folder = tmp_path_factory.mktemp("triggers") / request.param
    shutil.copytree(EXAMPLES / request.param, folder, ignore=shutil.ignore_patterns("node_modules", "*.js"))
    return BUILDERS[request.param](folder)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(real_time: WorkflowEnvironment) -> AsyncIterator[Client]:
    there = real_time.client
    client = await Client.connect(
        there.service_client.config.target_host, namespace=there.namespace, data_converter=pydantic_data_converter
    )
    async with Worker(client, task_queue=WorkerSettings().task_queue, workflows=[Run]):
        yield client


async def _call(program: Sequence[str], client: Client, *words: str) -> tuple[int, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    where = {"TEMPORAL_ADDRESS": client.service_client.config.target_host, "TEMPORAL_NAMESPACE": client.namespace}
    process = await asyncio.create_subprocess_exec(
        *program, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=others | where
    )
    async with asyncio.timeout(RUNNING):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_a_run_is_started_once_and_stopped(
    program: Sequence[str], client: Client, request: pytest.FixtureRequest
) -> None:
    key = f"order-{Path(program[-1]).parent.name}"
    workflow_id = f"crawl-bookshop-{key}"
    status, first = await _call(program, client, "start", "bookshop", key)
    assert status == 0, first
    assert await _call(program, client, "start", "bookshop", key) == (0, first), "the same run"

    status, said = await _call(program, client, "stop", workflow_id, "wrong site")
    assert (status, said) == (0, "")
    handle = client.get_workflow_handle(workflow_id, result_type=list[str])
    asked, stopped = await handle.result()
    assert first.split() == [workflow_id, (await handle.describe()).run_id]
    run = parse(RunRequest, asked)
    assert (run.crawler, run.trigger, run.arguments, run.tasks) == ("bookshop", Trigger.API, {"order": key}, 2)
    assert (run.requested_by or "").startswith("orders (")
    stop = parse(StopRequest, stopped)
    assert stop == any_stop(stopped.encode())
    assert (stop.actor, stop.reason, stop.door, stop.force) == ("ann", "wrong site", "orders", False)
    assert stop.asked_at is not None
    assert abs(datetime.now(UTC) - stop.asked_at) < timedelta(hours=1)

    assert await _call(program, client, "start", "bookshop", key) == (0, f"{workflow_id} has run already\n")
    assert (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED


async def test_what_is_wrong_is_said(program: Sequence[str], client: Client) -> None:
    status, said = await _call(program, client, "stop", "crawl-nothing", "no such run")
    assert status == 1
    assert "not found" in said.lower()
    for words in ((), ("start", "bookshop"), ("begin", "bookshop", "x")):
        status, said = await _call(program, client, *words)
        assert (status, said.startswith("usage: ")) == (1, True), said
