"""Watcher process: follows the jobs' changes in the cluster and nudges the runs."""

import asyncio
import os
from functools import partial

from crawler_lifecycle.assembly import process
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.base.background import in_background
from crawler_lifecycle.http import health
from crawler_lifecycle.runs.processes.watcher import Watcher
from crawler_lifecycle.schedules.commands.late_starts import late_starts
from crawler_lifecycle.schedules.processes import LateStartMetrics
from crawler_lifecycle.temporal.engine import Engine


def main() -> None:
    process.run(serve)


async def serve(parts: Parts, stopped: asyncio.Event) -> None:
    """Watch until a signal sets `stopped`, or until the watching fails."""
    engine = Engine(os.environ, parts.settings.worker.task_queue)
    watcher = Watcher(parts.store.claims, parts.cluster, engine.nudge)  # raises NotReady for an unknown database schema
    needs = process.needs_of(parts, temporal=engine.ping, cluster=lambda: asyncio.to_thread(parts.cluster.check))
    async with (
        health.served(parts.settings.health, needs, watcher.pulses) as health_server,
        in_background(_late_starts(engine, health_server).run()),
    ):
        watching = asyncio.create_task(watcher.run(engine.client))
        signal = asyncio.create_task(stopped.wait())
        await asyncio.wait((watching, signal), return_when=asyncio.FIRST_COMPLETED)
        watching.cancel()
        if not stopped.is_set():
            await watching  # without a signal, the watching ends only by an error: the await raises the error


def _late_starts(engine: Engine, health_server: health.HealthServer | None) -> LateStartMetrics:
    metrics = None if health_server is None else health_server.metrics
    return LateStartMetrics(partial(late_starts, engine), metrics)


if __name__ == "__main__":
    main()
