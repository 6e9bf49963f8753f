"""Attempts of hosted steps, and waits for them."""

import asyncio
from datetime import timedelta
from typing import Any

from crawler_lifecycle.flows.ports.records import AttemptRecord
from tests.contracts.flows import Flow
from tests.services.flows import authors


async def attempts(flow: Flow, path: str = "step") -> list[AttemptRecord]:
    return await asyncio.to_thread(flow.store.flow_records.attempts, flow.id, flow.row(path).number)


async def has_begun() -> None:
    assert await asyncio.to_thread(authors.begun.wait, 20)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def expire(flow: Flow, path: str, times: int = 1) -> None:
    """Let hosts claim the attempt and die."""
    for time in range(times):
        await asyncio.to_thread(
            flow.claim,
            flow.last(path) if time else flow.start(path),
            token=f"dead-{time}",
            lasts=timedelta(milliseconds=1),
        )
        await asyncio.to_thread(flow.store.step_claims.begin, flow.uid, flow.last(path), f"dead-{time}")
        await asyncio.sleep(0.01)
