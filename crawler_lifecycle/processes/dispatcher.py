"""Dispatcher process: lets the scheduler service deploy all runs' queued tasks, as the limits allow."""

import asyncio
from datetime import timedelta
from functools import partial

from crawler_lifecycle.assembly import process
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.base.background import loop_in_thread
from crawler_lifecycle.flows.processes.metrics import FlowMetrics, NeedMetrics
from crawler_lifecycle.http import health
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from crawler_lifecycle.runs.processes.metrics import LineMetrics, RunMetrics


def main() -> None:
    process.run(serve)


async def serve(parts: Parts, stopped: asyncio.Event) -> None:
    """Dispatch until a signal sets `stopped`."""
    settings = parts.settings.dispatcher
    with parts.dispatcher_pool() as pool:
        dispatcher = Dispatcher(
            parts.store.claims,
            parts.claim_deployer,
            parts.claim_for,
            settings.threads,
            pool,
        )
        interval = timedelta(seconds=settings.interval_seconds)
        needs = process.needs_of(parts) | {"scheduler service": lambda: asyncio.to_thread(parts.deployer.check)}
        async with health.served(parts.settings.health, needs, dispatcher.pulses) as health_server:
            if health_server is not None:
                health_server.metrics.register(LineMetrics(parts.store.limits.all))
                health_server.metrics.register(RunMetrics(parts.store.records.figures))
                health_server.metrics.register(FlowMetrics(parts.store.flow_records.figures))
                health_server.metrics.register(NeedMetrics(lambda: parts.store.flow_records))
            await loop_in_thread(partial(dispatcher.run, interval=interval), stopped)


if __name__ == "__main__":
    main()
