"""Start and end for every process: settings, log, signals, and one line for an impossible start."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from crawler_lifecycle import configuration, logs
from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.services.background import in_background
from crawler_lifecycle.services.disk import DiskWatch

Main = Callable[[Parts, asyncio.Event], Coroutine[Any, Any, None]]
logger = logging.getLogger(__name__)
ENDING = (signal.SIGTERM, signal.SIGINT)


def run(main: Main) -> NoReturn:
    """Run `main` until it returns. SIGTERM and SIGINT set the event given to `main`."""
    try:
        configured = configuration.load()
        logs.configure(configured.log.format, configured.log.level)
        for line in configuration.misspelt(os.environ):
            logger.warning(line)
        asyncio.run(_until_told(main, Parts(configured)))
    except LifecycleError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 (the log may not be set up yet)
        sys.exit(1)
    sys.exit(0)


async def _until_told(main: Main, parts: Parts) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, stopped.set)
    async with in_background(DiskWatch(parts.settings.local_folders).run()):
        await main(parts, stopped)
