"""What happens to a stack: every part killed, kept away and frozen, and whatever it stands on or speaks to.

A fault holds as long as its block. Two at a time touch different things.
"""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.chaos.ground import ACCOUNT, PARTS, Ground
from tests.kit.data.databases import cut, set_read_only
from tests.kit.outside.proxy import Proxy
from tests.process.crawls import moved

Happening = Callable[[Ground, Random], AbstractAsyncContextManager[None]]
CUT_EVERY = 0.3
ERROR = b"503 Service Unavailable"


@dataclass(frozen=True)
class Fault:
    name: str
    touches: frozenset[str]
    happens: Happening


def faults(ground: Ground) -> dict[str, Fault]:
    """Those that can be produced here."""
    found = [_fault(f"{part} {how}", partial(_part, part, how), part) for part in PARTS for how in PART_FAULTS]
    if ground.database:
        found += [_fault(f"database {how}", partial(_mariadb, how), "database") for how in DATABASE_FAULTS]
    else:
        found.append(_fault("database locked", _sqlite_locked, "database"))
    found += [_fault(f"{door} {how}", partial(_door, door, how), door) for door in ground.outside.doors for how in DOOR]
    found += [
        _fault("second worker killed", _second_worker_killed, "second worker"),
        _fault("s3 killed", _s3_killed, "s3"),
        _fault("cluster away", _cluster_away, "cluster"),
        _fault("runner killed", _runner_killed, "runner"),
        _fault("everything killed", _everything_killed, *PARTS, "second worker"),
    ]
    if ground.disk.is_small:
        found.append(_fault("disk full", _disk_full, "disk"))
    return {fault.name: fault for fault in found}


def _fault(name: str, happens: Happening, *touches: str) -> Fault:
    return Fault(name, frozenset(touches), happens)


# The parts of the stack

PART_FAULTS = ("killed", "away", "frozen")


@asynccontextmanager
async def _part(part: str, how: str, ground: Ground, _: Random) -> AsyncIterator[None]:
    """`killed`: its stack starts it again. `away`: nobody does, before the block ends."""
    if how == "frozen":
        with _stopped_part(ground, part):
            yield
    elif how == "away":
        with ground.nobody_starts_parts():
            ground.signal_part(part, signal.SIGKILL)
            yield
    else:
        ground.signal_part(part, signal.SIGKILL)
        yield


@contextmanager
def _stopped_part(ground: Ground, part: str) -> Iterator[None]:
    process = ground.process_of(part)
    ground.signal_part(part, signal.SIGSTOP)
    try:
        yield
    finally:
        if process and process.is_running():
            process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def _second_worker_killed(ground: Ground, _: Random) -> AsyncIterator[None]:
    ground.end_second_worker()
    try:
        yield
    finally:
        ground.start_second_worker()


@asynccontextmanager
async def _everything_killed(ground: Ground, _: Random) -> AsyncIterator[None]:
    await ground.kill_everything()
    try:
        yield
    finally:
        await ground.start()


# The database

DATABASE_FAULTS = ("stopped", "killed", "frozen", "cut", "read-only")


@asynccontextmanager
async def _mariadb(how: str, ground: Ground, _: Random) -> AsyncIterator[None]:
    server = ground.database
    assert server
    assert server.process
    if how == "frozen":
        os.kill(server.process.pid, signal.SIGSTOP)
    elif how == "read-only":
        await asyncio.to_thread(set_read_only, server.port, is_so=True)
    elif how != "cut":
        await asyncio.to_thread(server.end, signal.SIGKILL if how == "killed" else signal.SIGTERM)
    cutting = asyncio.create_task(_cut_again_and_again(server.port)) if how == "cut" else None
    try:
        yield
    finally:
        if cutting:
            cutting.cancel()
            with suppress(asyncio.CancelledError):
                await cutting
        elif how == "frozen":
            os.kill(server.process.pid, signal.SIGCONT)
        elif how == "read-only":
            await asyncio.to_thread(set_read_only, server.port, is_so=False)
        else:
            assert await asyncio.to_thread(server.serves)


async def _cut_again_and_again(port: int) -> None:
    while True:
        await asyncio.to_thread(cut, port, ACCOUNT)
        await asyncio.sleep(CUT_EVERY)


@asynccontextmanager
async def _sqlite_locked(ground: Ground, _: Random) -> AsyncIterator[None]:
    """Somebody writes to the file and does not come to an end."""
    connection = sqlite3.connect(ground.state / "crawler.db", timeout=30, isolation_level=None, check_same_thread=False)
    with suppress(sqlite3.OperationalError):  # a full disk is no place for a lock
        await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


# What it speaks to

DOOR = ("away", "failing", "silent")


@asynccontextmanager
async def _door(name: str, how: str, ground: Ground, _: Random) -> AsyncIterator[None]:
    with _shut(ground.outside.doors[name], how):
        yield


@contextmanager
def _shut(door: Proxy, how: str) -> Iterator[None]:
    if how == "away":
        door.close_door()
    elif how == "failing":
        door.answer(ERROR)
    else:
        door.hold()
    try:
        yield
    finally:
        door.open_door()
        door.answer(None)
        door.let_go()


@asynccontextmanager
async def _s3_killed(ground: Ground, _: Random) -> AsyncIterator[None]:
    await asyncio.to_thread(ground.outside.s3.end)
    try:
        yield
    finally:
        await asyncio.to_thread(ground.outside.s3.start)


# Cluster and disk


@asynccontextmanager
async def _cluster_away(ground: Ground, _: Random) -> AsyncIterator[None]:
    with moved(ground.state / "cluster"):
        yield


@asynccontextmanager
async def _runner_killed(ground: Ground, chance: Random) -> AsyncIterator[None]:
    """Of one of the jobs that run: nobody will know how that ends."""
    choice = chance.random()
    started = sorted((ground.state / "cluster" / "jobs").glob("*/*/started.json"))
    running = [path.parent for path in started if not (path.parent / "exit.json").exists()]
    if running:
        ground.kill_runner(running[int(choice * len(running))])
    yield


@asynccontextmanager
async def _disk_full(ground: Ground, _: Random) -> AsyncIterator[None]:
    await asyncio.to_thread(ground.disk.fill)
    try:
        yield
    finally:
        ground.disk.empty()
