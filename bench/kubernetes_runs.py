"""How many runs can change every half minute until looks fall behind, and the CPU time per look.

Before the looks of that many runs, the floor is measured in as many bare workflows on the same server.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psutil
from sqlalchemy import Select, func, select

from bench.control_plane import Spent, on_control_plane
from bench.floor.looks import BareLooks, bare_looks
from bench.measuring import cpu_seconds
from bench.table import Scale, Table
from bench.whole_service import PATIENCE, PAUSE, Rows, on_service, until_all
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import ALL_RUNS
from crawler_lifecycle.model.states import TaskStatus
from tests.kubernetes.service import Service

COLUMNS = (
    "",
    "runs",
    "s until all were looked at",
    "s at most",
    "looks/s",
    "lag",
    "CPU ms a look",
    "times the floor",
)
STARTED_AT_ONCE = 20
WAVES = 3
PACE = 30.0  # seconds between two changes of all jobs


def measure(scale: Scale) -> Table:
    return on_control_plane(COLUMNS, on_service(_looks), scale)


async def _looks(service: Service, scale: Scale) -> Rows:
    runs: list[Started] = []
    parties = _parties(service)
    rows: Rows = []
    behind = False
    while not behind and len(runs) < scale.most_supervised:
        count = 2 * len(runs) or scale.supervised
        bare = await bare_looks(service.environment("lifecycle"), parties["temporal"], count)
        rows.append(_floor_row(count, bare))
        runs += await _more(service, count - len(runs))
        await until_all(
            partial(service.control.runs.select, ALL_RUNS, limit=len(runs)), lambda run: TaskStatus.RUNNING in run.tasks
        )
        seconds, longest, spent = await _waves(service, len(runs), parties)
        behind = longest > PACE
        lag = "yes" if behind else "no"
        rows.append(("looks", len(runs), seconds, longest, len(runs) / seconds, lag, spent, spent / bare.cpu_ms))
    await asyncio.gather(*(service.stop_run(run) for run in runs))
    await asyncio.gather(*(service.until_over(run, PATIENCE) for run in runs))
    return rows


def _floor_row(workflows: int, bare: BareLooks) -> tuple[object, ...]:
    return "floor", workflows, bare.seconds, "-", workflows / bare.seconds, "-", bare.cpu_ms, 1.0


async def _more(service: Service, count: int) -> list[Started]:
    begun: list[Started] = []
    while len(begun) < count:
        few = min(STARTED_AT_ONCE, count - len(begun))
        begun += await asyncio.gather(*(service.run("obeys", tasks=1, grace_seconds=600) for _ in range(few)))
    return begun


async def _waves(service: Service, runs: int, parties: dict[str, psutil.Process]) -> tuple[float, float, float]:
    """Change every job, so that every run is nudged, and wait for a look at every run; repeat.

    Return the seconds until a look, on average and at most, and all CPU milliseconds per look.
    """
    spent, before = Spent(service.bed), sum(map(cpu_seconds, parties.values()))
    waves = [await _wave(service) for _ in range(WAVES)]
    seconds = sum(map(cpu_seconds, parties.values())) - before + spent.by_program()["kube-apiserver"]
    return sum(waves) / WAVES, max(waves), 1000 * seconds / (runs * WAVES)


async def _wave(service: Service) -> float:
    began, since = time.monotonic(), datetime.now(UTC)
    await asyncio.to_thread(_touch_all, service)
    late = select(func.count()).where(histories.c.finished_at.is_(None), histories.c.last_look_at <= since)
    database = Database(service.database_url)
    async with asyncio.timeout(PATIENCE):
        while await asyncio.to_thread(_count, database, late):
            await asyncio.sleep(PAUSE)
    database.close()
    return time.monotonic() - began


def _count(database: Database, query: Select[Any]) -> int:
    """Count by a single query, since the benchmark shares the cores with the service."""
    with database.read() as connection:
        return int(connection.execute(query).scalar_one())


def _touch_all(service: Service) -> None:
    change = {"metadata": {"annotations": {"touched": str(time.time_ns())}}}
    jobs = f"/apis/batch/v1/namespaces/{service.namespace}/jobs"
    with ThreadPoolExecutor(8) as pool:
        names = [job["metadata"]["name"] for job in service.objects("jobs")]
        list(pool.map(lambda name: service.bed.admin.merge(f"{jobs}/{name}", change), names))


def _parties(service: Service) -> dict[str, psutil.Process]:
    ours = {name: psutil.Process(process.pid) for name, process in service.running.items()}
    children = psutil.Process().children(recursive=True)
    return ours | {
        name: next(child for child in children if child.name().startswith(name)) for name in ("temporal", "mariadbd")
    }
