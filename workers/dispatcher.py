"""Dispatcher process: lets the scheduler service deploy the child tasks of all runs."""

import asyncio
import threading
from datetime import timedelta

from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.services import health, process
from crawler_lifecycle.services.dispatcher import Dispatcher


async def main(parts: Parts, stopped: asyncio.Event) -> None:
    settings = parts.settings.dispatcher
    ending = threading.Event()
    with parts.dispatcher_pool() as pool:
        dispatcher = Dispatcher(
            parts.store.claims,
            parts.claim_deployer,
            settings.most_in_cluster,
            parts.claim_for,
            settings.threads,
            pool,
        )
        interval = timedelta(seconds=settings.interval_seconds)
        needs = health.needs_of(parts) | {"scheduler service": lambda: asyncio.to_thread(parts.deployer.check)}
        async with health.served(parts.settings.health, needs, dispatcher.pulses):
            loop = asyncio.create_task(asyncio.to_thread(dispatcher.run, ending, interval))
            stopping = asyncio.create_task(stopped.wait())
            await asyncio.wait((loop, stopping), return_when=asyncio.FIRST_COMPLETED)
            ending.set()
            await loop


if __name__ == "__main__":
    process.run(main)
