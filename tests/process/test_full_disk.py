"""The volume with the runs' files, the archives and the service's logs is full, and the database is elsewhere.

Jobs are deployed and stopped, and every status is right. Logs, archives and events wait for room."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from tests.chaos.disk import Disk, small_disk
from tests.kit.data.databases import missing
from tests.kit.waiting import eventually
from tests.process.crawls import PATIENCE, Site, clean_site
from tests.process.stops import CRAWLERS

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
ON_THE_VOLUME = ("files", "exports", "logs")
MEBIBYTES = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("full")


@pytest.fixture(scope="module")
def disks(folder: Path) -> Iterator[list[Disk]]:
    with ExitStack() as mounted:
        disks = [mounted.enter_context(small_disk(folder / "state" / name, MEBIBYTES)) for name in ON_THE_VOLUME]
        if not all(disk.is_small for disk in disks):
            missing("no file system may be mounted here: this disk cannot be filled")
        yield disks


@pytest_asyncio.fixture(loop_scope="session")
async def stack(folder: Path, disks: list[Disk]) -> AsyncIterator[Site]:
    async with clean_site(folder, CRAWLERS) as running:
        yield running


async def test_a_full_disk_delays_no_deployment_no_stop_and_no_status(stack: Site, disks: list[Disk]) -> None:
    ending = await stack.start(tasks=2)
    await stack.until_running(ending, 2)
    for disk in disks:
        disk.fill()

    deployed, stopping = await stack.start(), await stack.start("polite")
    await stack.until_running(deployed, 1)
    await stack.until_running(stopping, 1)
    await stack.control.runs.stop(stopping.run_id, StopRequest(actor="ann"))
    stack.release(ending, 0, 1, codes={1: 4})
    stack.release(deployed, 0)
    await until_over(stack, ending, RunStatus.FAILED, [TaskStatus.SUCCEEDED, TaskStatus.FAILED])
    await until_over(stack, deployed, RunStatus.COMPLETED, [TaskStatus.SUCCEEDED])
    await until_over(stack, stopping, RunStatus.FAILED, [TaskStatus.STOPPED])
    for run in (ending, deployed, stopping):
        assert ExportState.DONE not in [export.state for export in stack.details(run).exports], "there is no room"

    for disk in disks:
        disk.empty()
    for run in (ending, deployed, stopping):
        await stack.control.runs.export(run.run_id)  # a try now: the next one would come after a growing pause
    await stack.assert_true(ending, {0: 0, 1: 4})
    await stack.assert_true(deployed, {0: 0})
    stopped = await stack.until_over(stopping)
    assert {export.state for export in stopped.exports} == {ExportState.DONE}


async def until_over(stack: Site, run: Started, status: RunStatus, tasks: list[TaskStatus]) -> None:
    await eventually(lambda: stack.details(run).run.status.is_over, patience=PATIENCE)
    assert (stack.details(run).run.status, stack.statuses(run)) == (status, tasks)
