"""Trigger process: takes EventBridge's events from an SQS queue to the API. It needs no database and no Temporal."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from crawler_lifecycle.assembly import process
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.base.background import loop_in_thread
from crawler_lifecycle.client.api import Api
from crawler_lifecycle.http import health
from crawler_lifecycle.triggers.bridge import Bridge, posting
from crawler_lifecycle.triggers.queue import MOST_MESSAGES, EventQueue


def main() -> None:
    process.run(serve)


async def serve(parts: Parts, stopped: asyncio.Event) -> None:
    """Take events to the API until a signal sets `stopped`. The messages under way are finished first."""
    settings = parts.settings.triggers
    queue = EventQueue(settings)
    with Api.open(parts.settings.remote) as api, ThreadPoolExecutor(MOST_MESSAGES, "message") as pool:
        bridge = Bridge(queue, posting(api), timedelta(seconds=settings.longest_pause_seconds), pool)
        needs = {"api": lambda: asyncio.to_thread(api.token), "queue": lambda: asyncio.to_thread(queue.check)}
        async with health.served(parts.settings.health, needs, bridge.pulses) as health_server:
            if health_server is not None:
                health_server.metrics.register(bridge.metrics)
            await loop_in_thread(bridge.run, stopped)


if __name__ == "__main__":
    main()
