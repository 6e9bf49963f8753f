"""Starts and ends a process without HTTP endpoints: settings, log, signals, disk watch and needs."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from crawler_lifecycle import extras, logs
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.base.background import in_background
from crawler_lifecycle.base.disk import check_room
from crawler_lifecycle.base.hiding import hide_process
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.http.health import DiskWatch, Need
from crawler_lifecycle.metrics import show_build
from crawler_lifecycle.runs.ports import Records
from crawler_lifecycle.settings import Settings, configuration
from crawler_lifecycle.settings.configuration import forget_secrets

Main = Callable[[Parts, asyncio.Event], Coroutine[Any, Any, None]]  # the event is set when the process has to end
logger = logging.getLogger(__name__)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(main: Main) -> NoReturn:
    """Run `main` with the settings in the environment, then end the process. An error is printed in a single line."""
    hide_process()
    try:
        with extras.named():
            run_until_signal(main, configuration.load())
    except LifecycleError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 (the log may not be set up yet)
        sys.exit(1)
    sys.exit(0)


def run_until_signal(main: Main, settings: Settings) -> None:
    """Run `main`, whose event SIGTERM and SIGINT set. The environment loses its secrets."""
    show_build()
    logs.configure(settings.log.format, settings.log.level)
    for line in configuration.misspelt(os.environ):
        logger.warning(line)
    if settings.database.warning:
        logger.warning(settings.database.warning)
    forget_secrets()
    asyncio.run(_with_signals(main, Parts(settings)))


async def _with_signals(main: Main, parts: Parts) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    async with in_background(DiskWatch(parts.settings.local_folders).run()):
        await main(parts, stopped)


def needs_of(parts: Parts, *, writes: bool = True, **more: Need) -> dict[str, Need]:
    """Return the needs of every process with a database, together with `more` needs by their names.

    Without `writes`, reading the database is enough: a step host's account may write few tables.
    """
    return {
        "database": lambda: asyncio.to_thread(_check_database, parts.store.records, writes=writes),
        "disk": lambda: asyncio.to_thread(check_room, parts.settings.local_folders),
        **more,
    }


def _check_database(records: Records, *, writes: bool) -> None:
    records.installation()
    if writes:
        records.check_write()
