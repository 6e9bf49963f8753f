"""Attempts of hosted steps, and waits for them."""

import asyncio
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, literal, select

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import attempt_begins
from crawler_lifecycle.flows.ports.records import AttemptRecord
from tests.hosts import authors
from tests.kit.data.flows import Flow


async def attempts(flow: Flow, path: str = "step") -> list[AttemptRecord]:
    return await asyncio.to_thread(flow.store.flow_records.attempts, flow.id, flow.row(path).number)


async def has_begun() -> None:
    assert await asyncio.to_thread(authors.begun.wait, 20)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def take_over(database: Database, token: str) -> None:
    """Let another host with a lease begin all attempts anew."""
    begins = attempt_begins.c
    again: dict[str, Any] = {"number": literal(2), "token": literal(token), "noted": literal(1)}
    again["counted"] = begins.counted + 1
    copied = select(*(again.get(column.name, column).label(column.name) for column in begins))
    with database.transaction() as tx:
        tx.execute(insert(attempt_begins).from_select([column.name for column in begins], copied))
    SqlStore(database).step_ledger.renew(token, timedelta(minutes=1))


async def expire(flow: Flow, path: str, times: int = 1) -> None:
    """Let hosts begin the attempt and die."""
    start = flow.start(path)
    for time in range(times):
        lasts = timedelta(milliseconds=1)
        await asyncio.to_thread(flow.begin_steps, start, token=f"dead-{time}", lasts=lasts)
        await asyncio.sleep(0.01)
