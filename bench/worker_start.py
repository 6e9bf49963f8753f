"""Duration from a worker's start to its first poll for work."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring import BARE_PYTHON, side_by_side
from bench.table import Scale, Table
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.stack.plan import Ports, StackPlan, lifecycle_part, make_plan
from tests.kit.temporal.servers import start_real_time

PATIENCE = 30.0
PROBE_PAUSE = 0.01


def measure(scale: Scale) -> Table:
    repeats = max(1, scale.repeats // 2)
    seconds = asyncio.run(_starts(repeats))
    bare = side_by_side({"bare": BARE_PYTHON}, repeats)["bare"].seconds
    median = statistics.median(seconds)
    return Table(
        ("starts", "median s", "longest s", "times bare Python"), [(repeats, median, max(seconds), median / bare)]
    )


async def _starts(repeats: int) -> list[float]:
    with TemporaryDirectory(prefix="bench-worker-") as folder:
        async with await start_real_time() as environment:
            port = environment.client.service_client.config.target_host.rpartition(":")[2]
            plan = make_plan(Path(folder), Ports(temporal=int(port)), Path(folder) / "none.toml")
            upgrade(plan.environment["CRAWLER_DATABASE__URL"])
            control = Control(Installation.with_variables(plan.state, plan.environment))
            await control.engine.ping()
            return [await _start(plan, control) for _ in range(repeats + 1)][
                1:
            ]  # the first start compiles the imported modules


async def _start(plan: StackPlan, control: Control) -> float:
    began = time.perf_counter()
    async with _worker(plan) as process, asyncio.timeout(PATIENCE):
        while not any(poller.startswith(f"{process.pid}@") for poller in await control.engine.pollers()):
            assert process.returncode is None, "the worker ended at once"
            await asyncio.sleep(PROBE_PAUSE)
        return time.perf_counter() - began


@asynccontextmanager
async def _worker(plan: StackPlan) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *lifecycle_part(plan, drain_seconds=1).command, env=plan.child_environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
