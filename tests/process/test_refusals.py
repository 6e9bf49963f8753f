"""A process whose database is down, or not the one it knows, says so in one line and ends; it takes no work."""

import asyncio
import socket
import sqlite3
import sys
from pathlib import Path

import pytest

from crawler_lifecycle.database.migrate import upgrade
from tests.kit.service.embedded import environment

pytestmark = [pytest.mark.process, pytest.mark.system]
PARTS = ("lifecycle", "dispatcher", "watcher")
PATIENCE = 60.0


async def _refuses(folder: Path, part: str, url: str, **settings: str) -> str:
    nowhere = {"TEMPORAL_ADDRESS": "127.0.0.1:1", "TEMPORAL_CONFIG_FILE": "/dev/null"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", f"workers.{part}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment(folder) | nowhere | {"CRAWLER_STATE": str(folder), "CRAWLER_DATABASE__URL": url} | settings,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = output.decode().splitlines()
    assert (process.returncode, len(lines)) == (1, 1), output.decode()
    return lines[0]


async def _all_refuse(folder: Path, url: str, *expected: str) -> None:
    for line in await asyncio.gather(*(_refuses(folder, part, url) for part in PARTS)):
        assert all(words in line for words in expected), line


@pytest.mark.parametrize("part", ["api", "lifecycle"])
async def test_a_pool_smaller_than_the_process_needs(tmp_path: Path, part: str) -> None:
    line = await _refuses(tmp_path, part, f"sqlite:///{tmp_path}/crawler.db", CRAWLER_DATABASE__POOL_SIZE="7")
    assert "CRAWLER_DATABASE__POOL_SIZE: expected 8 or more for this process" in line


async def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "crawler.db"
    await _all_refuse(tmp_path, f"sqlite:///{path}", str(path), "crawlctl db upgrade")
    assert not path.exists()


async def test_a_database_that_is_down(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers, and nobody else takes it
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        await _all_refuse(tmp_path, f"mysql://crawler:secret@{address}/crawler", address, "is it up?")


async def test_a_misspelt_variable_is_told_before(tmp_path: Path) -> None:
    """It is a line of the log, with the nearest name; what is wrong because of it comes after."""
    said = {"CRAWLER_STATE": str(tmp_path), "CRAWLER_DATABASE_URL": "mysql://db/crawler"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "workers.dispatcher"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment(tmp_path) | said,
    )
    async with asyncio.timeout(PATIENCE):
        output, _ = await process.communicate()
    warning, refusal = output.decode().splitlines()
    assert "CRAWLER_DATABASE_URL is not a setting and is ignored: is CRAWLER_DATABASE__URL meant?" in warning
    assert "crawlctl db upgrade" in refusal


async def test_a_database_that_was_never_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "crawler.db"
    sqlite3.connect(path).close()
    path.touch()
    await _all_refuse(tmp_path, f"sqlite:///{path}", "no schema", "crawlctl db upgrade")


async def test_a_schema_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "crawler.db"
    upgrade(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    await _all_refuse(tmp_path, f"sqlite:///{path}", "'9999'", "newer version of the program")
