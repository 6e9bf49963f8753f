"""Worker process for bare workflows: `python -m bench.floor.worker`, with our own worker's settings.

Pollers, slots, cache, workflow runner and converter are our worker's. There is no interceptor.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner

from bench.floor.bare import BareWorkflow, no_op
from crawler_lifecycle.assembly import process
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.processes.lifecycle import make_worker
from crawler_lifecycle.temporal.converter import lifecycle_data_converter

TASK_QUEUE = "bench-floor"


async def main(parts: Parts, stopped: asyncio.Event) -> None:
    settings = parts.settings.worker.model_copy(update={"task_queue": TASK_QUEUE})
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], data_converter=lifecycle_data_converter)
    plugin = SimplePlugin(
        "bench-floor", workflows=[BareWorkflow], activities=[no_op], workflow_runner=UnsandboxedWorkflowRunner()
    )
    with ThreadPoolExecutor(settings.activity_slots) as threads:
        async with make_worker(client, plugin, settings, threads):
            await stopped.wait()


if __name__ == "__main__":
    process.run(main)
