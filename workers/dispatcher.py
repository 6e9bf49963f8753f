"""Process of the dispatcher, which has the child tasks of all runs deployed."""

import asyncio
import threading
from datetime import timedelta

from crawler_lifecycle.adapters.disk import check_room
from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.services import health, process
from crawler_lifecycle.services.dispatcher import Dispatcher


async def main(parts: Parts, stopped: asyncio.Event) -> None:
    settings = parts.settings.dispatcher
    told = threading.Event()
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
        async with health.served(parts.settings.health, _needs(parts), dispatcher.pulses):
            loop = asyncio.create_task(asyncio.to_thread(dispatcher.run, told, interval))
            stopping = asyncio.create_task(stopped.wait())
            await asyncio.wait((loop, stopping), return_when=asyncio.FIRST_COMPLETED)
            told.set()
            await loop


def _needs(parts: Parts) -> dict[str, health.Need]:
    return {
        "database": lambda: asyncio.to_thread(parts.store.records.installation),
        "disk": lambda: asyncio.to_thread(check_room, parts.settings.local_folders),
        "scheduler service": lambda: asyncio.to_thread(parts.deployer.check),
    }


if __name__ == "__main__":
    process.run(main)
