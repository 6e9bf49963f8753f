"""Slots of hosts for crawl managers, beside the slots for steps."""

import asyncio
from collections.abc import Callable

import pytest

from crawler_lifecycle.flows.model.turns import Counts
from tests.hosts.stages import PATIENCE, Stage

Staged = Callable[..., Stage]


async def test_a_manager_without_a_slot_waits_with_a_cause(staged: Staged) -> None:
    first, second = staged("Shops", id="shops/first"), staged("Shops", id="shops/second")
    host = first.host(manager_slots=1)
    async with host.running():
        brought_on = asyncio.create_task(first.brought_on(host))
        await first.started(3)
        second.temporal = first.temporal
        waits = asyncio.create_task(second.brought_on(host))
        await second.until(lambda: second.flow.row("manager").cause == "no_host")
        await asyncio.to_thread(first.end_runs)
        await asyncio.wait_for(brought_on, PATIENCE)
        await second.started(6)
        await asyncio.to_thread(second.end_runs)
        await asyncio.wait_for(waits, PATIENCE)
    assert first.counts == second.counts == Counts(completed=3)


@pytest.mark.long
async def test_managers_and_steps_need_no_slots_of_one_another(staged: Staged) -> None:
    stage = staged("Shops")
    host = stage.host(slots=1, manager_slots=1)
    async with host.running():
        await host.slots.take()
        running = asyncio.create_task(stage.brought_on(host))
        await stage.started(3)
        assert (host.slots.busy, host.manager_slots.busy) == (1, 1)
        host.slots.give_back()
        await asyncio.wait_for(host.slots.take(), 1)
        host.slots.give_back()
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
        assert host.manager_slots.busy == 0
