"""Worker, dispatcher and watcher as processes: what their doors tell when Temporal or their database is not there."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.stack.plan import free_ports
from tests.kit.service.embedded import environment, of_worker, stack_processes, up

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(300)]
PARTS = ("lifecycle", "dispatcher", "watcher")
PATIENCE = 60.0
READY_SECONDS = "8"


@asynccontextmanager
async def part(name: str, folder: Path, told: dict[str, str]) -> AsyncIterator[str]:
    """One more process of the stack, with a door; its address."""
    (port,) = free_ports(1)
    ours = {"CRAWLER_HEALTH__PORT": str(port), "CRAWLER_HEALTH__READY_SECONDS": READY_SECONDS}
    with (folder / f"second-{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", f"workers.{name}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(folder) | told | ours,
        )
    try:
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def says(door: str, path: str, status: int) -> str:
    """What it says once it says so."""
    answer = None
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient(timeout=PATIENCE) as client:
        while answer is None or answer.status_code != status:
            await asyncio.sleep(0.1)
            try:
                answer = await client.get(door + path)
            except httpx.ConnectError:
                answer = None
    return answer.text


async def all_say(doors: dict[str, str], path: str, status: int) -> dict[str, str]:
    answers = await asyncio.gather(*(says(door, path, status) for door in doors.values()))
    return dict(zip(doors, answers, strict=True))


async def test_doors_tell_what_is_away_and_stay_open(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with up(state), AsyncExitStack() as running:
        told = json.loads((state / "stack.json").read_text())["environment"] | of_worker(state)
        doors = {name: await running.enter_async_context(part(name, tmp_path, told)) for name in PARTS}
        await all_say(doors, "/readyz", 200)
        await all_say(doors, "/healthz", 200)
        metrics = await all_say(doors, "/metrics", 200)
        assert all('process_pulse_age_seconds{of="database"}' in text for text in metrics.values())

        temporal = stack_processes(state)["temporal"]
        os.kill(temporal, signal.SIGSTOP)
        try:
            of_temporal = {name: door for name, door in doors.items() if name != "dispatcher"}
            away = await all_say(of_temporal, "/readyz", 503)
            assert all("temporal: " in text for text in away.values()), away
            await all_say(doors, "/healthz", 200)
            await says(doors["dispatcher"], "/readyz", 200)
        finally:
            os.kill(temporal, signal.SIGCONT)
        await all_say(doors, "/readyz", 200)

        known = schema(state, "9999")
        unknown = await all_say(doors, "/readyz", 503)
        assert all("database: not_ready" in text and "9999" not in text for text in unknown.values()), unknown
        await all_say(doors, "/healthz", 200)
        schema(state, known)
        await all_say(doors, "/readyz", 200)


async def test_a_watcher_that_begins_without_temporal_waits_at_its_door(tmp_path: Path) -> None:
    """It would be started anew again and again, with longer and longer pauses, and come late when Temporal is back."""
    state = tmp_path / "state"
    upgrade(f"sqlite:///{state / 'crawler.db'}")
    nowhere = {"CRAWLER_STATE": str(state), "TEMPORAL_ADDRESS": "127.0.0.1:1", "TEMPORAL_CONFIG_FILE": os.devnull}
    async with part("watcher", tmp_path, nowhere) as door:
        away = await says(door, "/readyz", 503)
        assert "temporal: " in away
        await says(door, "/healthz", 200)


def schema(state: Path, version: str) -> str:
    """The database says that it has this one; answers what it said before."""
    with closing(sqlite3.connect(state / "crawler.db", timeout=PATIENCE)) as connection, connection:
        (before,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
    return str(before)
