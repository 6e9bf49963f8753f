"""Archives hold nobody up: a stop is proved in seconds while a hundred of them wait for their turn."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.plugin import activities
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.database import migrate
from crawler_lifecycle.model.naming import EXPORT_WORKFLOW
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.run_plan import ExportAgain, RunRef
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.processes.lifecycle import working
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.settings.installation import Installation
from tests.kit.clusters.clusters import LocalBench
from tests.kit.clusters.schedulers import TOKEN, a_catalogue, served
from tests.kit.data.databases import ref_to
from tests.kit.waiting import eventually, eventually_async

CATALOGUE = '[crawlers.sleeper]\ncommand = ["/bin/sh", "-c", "exec sleep 300"]\n'
ARCHIVES = 100
SECONDS_TO_THE_PROOF = 10.0
SMALL_FILES = 20_000
HOLES = 150 << 30
Handles = list[WorkflowHandle[object, object]]


@asynccontextmanager
async def service(real_time: WorkflowEnvironment, folder: Path) -> AsyncIterator[Control]:
    """A worker as its main makes it, in this process: its loop shares the interpreter with the archives."""
    bench = LocalBench(folder)
    cluster = LocalCluster(folder / "cluster", folder / "files", None, capacity=8)
    with served(cluster, a_catalogue(folder, CATALOGUE)) as url:
        variables = {
            "CRAWLER_SCHEDULER__URL": url,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "CRAWLER_WORKER__TASK_QUEUE": f"archives-{uuid4()}",
            "CRAWLER_WORKER__DRAIN_SECONDS": "0",
            "TEMPORAL_ADDRESS": real_time.client.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": real_time.client.namespace,
        }
        control = Control(Installation.with_variables(folder, variables))
        migrate.upgrade(control.installation.settings.database_url)
        steps = activities(control.parts, control.engine, search_attributes=False)
        try:
            async with working(await control.engine.client(), steps, control.installation.settings.worker):
                yield control
        finally:
            bench.clear()


def over_with_files(control: Control, files: str) -> RunRef:
    """A run that is over, whose files take long to archive."""
    entry = control.parts.deployer.crawler("sleeper")
    new = NewRun(RunRequest(crawler="sleeper"), entry, 1, f"crawl-{uuid4()}", str(uuid4()))
    store = SqlStore(control.parts.database)
    run = ref_to(store.runs.create(new))
    store.tasks.cancel_queued(run, "stopped")
    store.runs.close(run, RunStatus.FAILED, "stopped")
    folder = control.installation.settings.files_folder / run.run_uid
    folder.mkdir(parents=True)
    if files == "holes":
        (folder / "holes").touch()
        os.truncate(folder / "holes", HOLES)
    for number in range(SMALL_FILES if files == "small files" else 0):
        (folder / f"{number}").write_bytes(os.urandom(100))
    return run


async def begin_archives(client: Client, control: Control, run: RunRef) -> Handles:
    step, queue = ExportAgain(run=run), control.engine.task_queue
    return [
        await client.start_workflow(EXPORT_WORKFLOW, step, id=f"archive-{number}-{run.run_uid}", task_queue=queue)
        for number in range(ARCHIVES)
    ]


async def open_ones(archives: Handles) -> int:
    descriptions = await asyncio.gather(*(archive.describe() for archive in archives))
    return sum(description.status is WorkflowExecutionStatus.RUNNING for description in descriptions)


@pytest.mark.system
@pytest.mark.timeout(180)
@pytest.mark.parametrize("files", ["holes", "small files"])
async def test_a_stop_is_proved_in_seconds_while_a_hundred_archives_are_under_way(
    real_time: WorkflowEnvironment, tmp_path: Path, files: str
) -> None:
    async with service(real_time, tmp_path) as control:
        client = await control.engine.client()
        sleeper = await control.runs.start(RunRequest(crawler="sleeper"))
        await eventually(lambda: control.runs.show(sleeper.run_id).tasks[0].job_name, "its job to be deployed")
        run = over_with_files(control, files)
        archives = await begin_archives(client, control, run)

        async def under_way() -> bool:
            return any(control.installation.settings.exports_folder.glob(f".{run.run_uid}.*.part"))

        await eventually_async(under_way, "an archive to be under way")
        began = time.monotonic()
        await control.runs.stop(sleeper.run_id, StopRequest(actor="a test"))
        await eventually(
            lambda: "proved" in [line.event for line in control.runs.show(sleeper.run_id).log], "the proof"
        )
        seconds = time.monotonic() - began
        waiting = await open_ones(archives)
        for archive in archives:
            with suppress(RPCError):  # it is over
                await archive.terminate("the test is over")
    assert seconds < SECONDS_TO_THE_PROOF
    assert waiting > ARCHIVES / 2


async def test_doctor_says_when_no_worker_makes_archives(real_time: WorkflowEnvironment, tmp_path: Path) -> None:
    async with service(real_time, tmp_path) as control:
        await eventually_async(control.engine.archive_pollers, "a worker to ask for archives")
        served_queue = {check.part: check for check in await control.doctor()}["archive worker"]
        control.engine.task_queue = "of-nobody"
        without = {check.part: check for check in await control.doctor()}["archive worker"]
    assert served_queue.ok
    assert served_queue.line.startswith("task queue archives-")
    assert not without.ok
    assert without.line.startswith("no worker asks task queue of-nobody-archives for archives to make")
