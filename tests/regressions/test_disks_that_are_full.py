"""A full disk stopped everything, and doctor said that all was well. (W3)"""

import asyncio
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from crawler_lifecycle.adapters.disk import check_room
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.control.installation import Installation
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.services.disk import DiskWatch
from tests.apis import problem
from tests.apis import served as api_served
from tests.schedulers import SmallCluster, a_catalogue
from tests.schedulers import served as scheduler_served
from tests.waiting import until


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 66 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=66m", "small", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"this user may not mount: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


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
    control = Control(Installation.of(small, {"TEMPORAL_ADDRESS": "127.0.0.1:1"}))
    disk = {check.part: check for check in await control.doctor()}["disk"]
    assert not disk.ok
    assert f"nothing can be written in {small}" in disk.line


async def test_a_process_tells_once_that_it_cannot_write_and_once_that_it_can(
    small: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = DiskWatch([small], pause=0.01)
    watching = asyncio.create_task(watch.run())
    with caplog.at_level(logging.INFO, "crawler_lifecycle.services.disk"):
        for left, said in ((0, "nothing can be written"), (66 << 20, "can be written to again")):
            fill(small, left)
            async with asyncio.timeout(20):
                while not any(said in message for message in caplog.messages):
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.1)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert len(caplog.messages) == 2, caplog.messages


def refused(url: str) -> str | None:
    """Return the reason why the service is not ready. The first look at the disk is a moment after the start."""
    answer = httpx.get(f"{url}/readyz", trust_env=False, timeout=30)
    return None if answer.status_code == 200 else problem(answer, 503).detail


def test_the_scheduler_service_is_not_ready(small: Path) -> None:
    catalogue = a_catalogue(small)
    fill(small, 1 << 20)
    with scheduler_served(SmallCluster(), catalogue, folders=[small]) as url:
        assert until(lambda: refused(url)).endswith(
            f"are free in {small}: make room there before nothing can be written"
        )


def test_the_api_is_not_ready(small: Path, database_url: str) -> None:
    (small / "exports").mkdir()
    fill(small, 1 << 20)
    with api_served(small, database_url) as api:
        assert until(lambda: "MiB are free in" in (refused(api.url) or ""))
        assert httpx.get(f"{api.url}/healthz", trust_env=False).status_code == 200
