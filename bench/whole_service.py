"""Whole service on the control plane, with its own database and its own Temporal, for benchmarks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.table import Scale
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.states import TaskStatus
from tests.kit.data.databases import create_database, running_mariadb
from tests.kit.temporal.servers import start_real_time
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.service import Service, served

PATIENCE = 600.0
PAUSE = 0.1
SETTINGS = {"CRAWLER_LIMITS__TASKS_IN_CLUSTER": "10000", "CRAWLER_DISPATCHER__THREADS": "32"}
Rows = list[tuple[object, ...]]


def on_service(work: Callable[[Service, Scale], Coroutine[Any, Any, Rows]]) -> Callable[[Bed, Scale], Rows]:
    async def measured(bed: Bed, scale: Scale) -> Rows:
        async with _service(bed) as service:
            return await work(service, scale)

    return lambda bed, scale: asyncio.run(measured(bed, scale))


@asynccontextmanager
async def _service(bed: Bed) -> AsyncIterator[Service]:
    with TemporaryDirectory(prefix="bench-service-", ignore_cleanup_errors=True) as folder, running_mariadb() as port:
        async with await start_real_time() as environment:
            address = environment.client.service_client.config.target_host
            url = create_database(port, "bench")
            service = Service(bed, bed.namespace(), Path(folder) / "service", address, url, more=SETTINGS)
            service.crawlers({"obeys": fates.RUNS})
            async with served(service):
                yield service


async def start_running(service: Service, tasks: int) -> Started:
    run = await service.run("obeys", tasks=tasks, grace_seconds=600)
    await service.until(run, TaskStatus.RUNNING, tasks, PATIENCE)
    return run


async def end(service: Service, run: Started) -> None:
    await service.stop_run(run)
    await service.until_over(run, PATIENCE)


async def until_all(runs: Callable[[], Iterable[Any]], holds: Callable[[Any], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not all(holds(run) for run in await asyncio.to_thread(runs)):
            await asyncio.sleep(PAUSE)
