"""Rounds with bare workflows. Their own worker process runs beside the measured service."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from temporalio.client import Client, WorkflowHandle

from bench.embedded import Cpu, Round
from bench.floor.bare import BareWorkflow, Step
from bench.floor.worker import TASK_QUEUE
from bench.measuring import cpu_seconds

END_SECONDS = 30.0
MOST_WAITS = 500  # the server refuses more long polls in a namespace at some number below 800
Handle = WorkflowHandle[BareWorkflow, Any]


@dataclass(frozen=True)
class Floor:
    client: Client
    server: psutil.Process
    worker: psutil.Process

    async def round(self, steps: Sequence[Step], workflows: int) -> Round:
        """Start the workflows at the same moment, and wait until all are closed."""
        before, began = self._cpu(), time.time()
        name = f"bench-floor-{time.time_ns()}"
        handles = await asyncio.gather(*(self._start(f"{name}-{number}", steps) for number in range(workflows)))
        waits = asyncio.Semaphore(MOST_WAITS)
        durations = await asyncio.gather(*(_duration(handle, began, waits) for handle in handles))
        after = self._cpu()
        return Round(
            time.time() - began, durations, {party: (after[party] - before[party]) / workflows for party in after}
        )

    async def _start(self, workflow_id: str, steps: Sequence[Step]) -> Handle:
        return await self.client.start_workflow(BareWorkflow.run, list(steps), id=workflow_id, task_queue=TASK_QUEUE)

    def _cpu(self) -> Cpu:
        return {"server": cpu_seconds(self.server), "worker": cpu_seconds(self.worker)}


async def _duration(handle: Handle, began: float, waits: asyncio.Semaphore) -> float:
    async with waits:
        await handle.result()
        return time.time() - began


@asynccontextmanager
async def floor(environment: Mapping[str, str], server: psutil.Process) -> AsyncIterator[Floor]:
    """Yield the floor for a service with this environment and this Temporal server. The first workflow has closed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "bench.floor.worker"),
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        client = await Client.connect(environment["TEMPORAL_ADDRESS"])
        bare = Floor(client, server, psutil.Process(process.pid))
        await bare.round([Step(1)], 1)  # the first workflow loads modules and connections for all later workflows
        yield bare
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
