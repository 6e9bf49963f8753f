"""Watcher process: nudges runs when their jobs change."""

import asyncio
import os

from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.services import health, process
from crawler_lifecycle.services.watcher import Watcher


async def main(parts: Parts, stopped: asyncio.Event) -> None:
    engine = Engine(os.environ, parts.settings.worker.task_queue)
    watcher = Watcher(parts.store.claims, parts.cluster, engine.nudge)  # refuses a database with an unknown schema
    needs = health.needs_of(parts, temporal=engine.ping, cluster=lambda: asyncio.to_thread(parts.cluster.check))
    async with health.served(parts.settings.health, needs, watcher.pulses):
        watching = asyncio.create_task(watcher.run(engine.client))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((watching, stopping), return_when=asyncio.FIRST_COMPLETED)
        watching.cancel()
        if not stopped.is_set():
            await watching  # the loop never ends by itself: the line raises its error


if __name__ == "__main__":
    process.run(main)
