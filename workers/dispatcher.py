"""Dispatcher process: lets the scheduler service deploy all runs' queued tasks, as the limits allow."""

import asyncio
import threading
from datetime import timedelta

from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.services import health, process
from crawler_lifecycle.services.dispatcher import Dispatcher
from crawler_lifecycle.services.flow_metrics import FlowMetrics
from crawler_lifecycle.services.line_metrics import LineMetrics


async def main(parts: Parts, stopped: asyncio.Event) -> None:
    """Dispatch until a signal sets `stopped`. The loop runs in a thread until `loop_end` is set."""
    settings = parts.settings.dispatcher
    loop_end = threading.Event()
    with parts.dispatcher_pool() as pool:
        dispatcher = Dispatcher(
            parts.store.claims,
            parts.claim_deployer,
            parts.claim_for,
            settings.threads,
            pool,
        )
        interval = timedelta(seconds=settings.interval_seconds)
        needs = health.needs_of(parts) | {"scheduler service": lambda: asyncio.to_thread(parts.deployer.check)}
        async with health.served(parts.settings.health, needs, dispatcher.pulses) as health_server:
            if health_server is not None:
                health_server.metrics.register(LineMetrics(parts.store.limits.all))
                health_server.metrics.register(FlowMetrics(parts.store.flow_records.figures))
            loop = asyncio.create_task(asyncio.to_thread(dispatcher.run, loop_end, interval))
            signal = asyncio.create_task(stopped.wait())
            await asyncio.wait((loop, signal), return_when=asyncio.FIRST_COMPLETED)
            loop_end.set()
            await loop  # raises the error if the loop failed


if __name__ == "__main__":
    process.run(main)
