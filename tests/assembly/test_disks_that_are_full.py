"""A full disk stopped everything, and doctor said that all was well. (W3)

Later a full disk took every replica of the API away and kept the stack from starting. (M4)"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.process import needs_of
from crawler_lifecycle.base.background import in_background
from crawler_lifecycle.base.disk import check_room
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.http.health import DiskWatch
from crawler_lifecycle.http.health import served as health_served
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.settings.processes import HealthSettings
from crawler_lifecycle.stack.stack import _probe_scheduler
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as scheduler_served
from tests.kit.outside.disks import small_disk
from tests.kit.service.apis import served as api_served
from tests.kit.waiting import until

pytestmark = pytest.mark.regression("A full disk stopped everything, and doctor said that all was well")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 66 MiB."""
    with small_disk(tmp_path / "small", 66) as folder:
        yield folder


def fill(folder: Path, left: int) -> None:
    with (folder / "filler").open("wb") as file:
        file.write(bytes((66 << 20) - left))


def test_room_is_told_and_its_end(small: Path) -> None:
    assert check_room([small, small, small / "missing"]) == f"{small}: 66 MiB free"
    fill(small, 10 << 20)
    with pytest.raises(NotReady, match=f"only 10 MiB are free in {small}"):
        check_room([small])
    fill(small, 0)
    with pytest.raises(NotReady, match=rf"nothing can be written in {small} \(No space left on device\): make room"):
        check_room([small])


async def test_doctor_tells_a_full_disk(small: Path) -> None:
    fill(small, 0)
    control = Control(Installation.with_variables(small, {"TEMPORAL_ADDRESS": "127.0.0.1:1"}))
    disk = {check.part: check for check in await control.doctor()}["disk"]
    assert not disk.ok
    assert f"nothing can be written in {small}" in disk.line


async def test_a_process_tells_once_that_it_cannot_write_and_once_that_it_can(
    small: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = DiskWatch([small], pause=0.01)
    watching = asyncio.create_task(watch.run())
    with caplog.at_level(logging.INFO, "crawler_lifecycle.http.health"):
        for left, said in ((0, "nothing can be written"), (66 << 20, "can be written to again")):
            fill(small, left)
            async with asyncio.timeout(20):
                while not any(said in message for message in caplog.messages):
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.1)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert len(caplog.messages) == 2, caplog.messages


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every disk counts as full. This takes no mount."""
    monkeypatch.setattr("crawler_lifecycle.base.disk.ENOUGH", 1 << 62)


def a_scheduler_client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30, trust_env=False)


def told_of(read_metrics: Callable[[], str], gauge: str) -> bool:
    return f"{gauge} 1.0" in read_metrics()


def test_the_scheduler_service_stays_ready(full: None, tmp_path: Path) -> None:
    """Otherwise `crawlctl up` waits for a disk with room, and no run on it can be shown or stopped. (M4)"""
    catalogue = a_catalogue(tmp_path)
    with scheduler_served(SmallCluster(), catalogue, folders=[tmp_path]) as url, a_scheduler_client(url) as http:
        until(lambda: told_of(lambda: http.get("/metrics").text, "scheduler_disk_problem"), "the metrics to tell it")
        assert http.get("/readyz").status_code == 200


def test_the_api_stays_ready(full: None, tmp_path: Path, database_url: str, real_time: WorkflowEnvironment) -> None:
    """Otherwise a full disk takes every replica away, and with them the way to stop a run. (M4)"""
    (tmp_path / "exports").mkdir()
    address = real_time.client.service_client.config.target_host
    with api_served(tmp_path, database_url, TEMPORAL_ADDRESS=address) as api, api.client() as http:
        until(lambda: told_of(lambda: http.get("/metrics").text, "api_disk_problem"), "the metrics to tell it")
        assert http.get("/readyz").status_code == 200


async def test_the_other_processes_are_not_ready(full: None, tmp_path: Path) -> None:
    (tmp_path / "exports").mkdir()
    needs = needs_of(Control(Installation.with_variables(tmp_path, {})).parts)
    with pytest.raises(NotReady, match=f"MiB are free in {tmp_path}"):
        await needs["disk"]()


async def test_the_stack_waits_for_no_room(full: None, tmp_path: Path) -> None:
    """A cluster that makes no job is no reason to wait either. (M4)"""
    cluster = SmallCluster()
    cluster.trouble = TemporaryError("the disk is full")
    with scheduler_served(cluster, a_catalogue(tmp_path), folders=[tmp_path]) as url:
        variables = {"CRAWLER_SCHEDULER__URL": url, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        control = Control(Installation.with_variables(tmp_path, variables))
        await _probe_scheduler(control)
        with pytest.raises(TemporaryError, match="the disk is full"):
            control.parts.deployer.check()


NO_NAME = Path("/" + "x" * 300)  # of which the file system tells nothing, as of a folder on a broken disk


def test_a_folder_that_cannot_be_read_is_not_ready() -> None:
    with pytest.raises(NotReady, match="cannot be read"):
        check_room([NO_NAME])


async def test_a_watch_outlives_a_folder_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The watch ended without a word, and told of no full disk any more. (M5)"""
    folders = [NO_NAME]
    watch = DiskWatch(folders, pause=0.01)
    with caplog.at_level(logging.INFO, "crawler_lifecycle.http.health"):
        async with in_background(watch.run()), asyncio.timeout(20):
            while not watch.has_problem:
                await asyncio.sleep(0.01)
            folders[:] = [tmp_path]
            while watch.has_problem:
                await asyncio.sleep(0.01)
    assert len(caplog.messages) == 2, caplog.messages


async def test_a_need_is_asked_again_after_a_fault() -> None:
    """A fault in one question ended the asking, and the process was not ready for ever. (M5)"""
    asked = iter([RuntimeError("a fault in our program")])

    async def need() -> None:
        for fault in asked:
            raise fault

    async with health_served(HealthSettings(port=0, ready_seconds=0.4), {"database": need}) as door:
        assert door is not None
        ready = f"http://127.0.0.1:{door.server_address[1]}/readyz"
        await asyncio.to_thread(until, lambda: httpx.get(ready).status_code == 200, "the process to be ready")
