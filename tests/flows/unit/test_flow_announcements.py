"""A supervisor and the announcement of its flow's end."""

import asyncio
from typing import Any

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import TemporaryError
from tests.kit.authors.work import plain
from tests.kit.data.flows import Flow
from tests.kit.temporal.flow_stage import FlowStage, flow_stage
from tests.kit.temporal.graphs import activities_of, chain, pair
from tests.kit.waiting import eventually


def ends(stage: FlowStage) -> tuple[list[int], list[int]]:
    """Numbers of the ends in notices and in events."""
    return [notice.end for notice in stage.receivers.notices], [event.end for event in stage.receivers.events]


async def retried(stage: FlowStage, flow: Flow) -> Any:
    await asyncio.to_thread(flow.retry, "a", completed=True)
    await stage.nudge(flow)
    return stage.supervisor(flow)


async def test_each_end_is_announced_once(flows: FlowStage) -> None:
    flow = await flows.run(pair())
    assert ends(flows) == ([1], [1])
    assert (await activities_of(flows.supervisor(flow)))["announce_flow"] == 1  # no workflow task waits for a receiver
    await (await retried(flows, flow)).result()
    assert ends(flows) == ([1, 2], [1, 2])
    await flows.nudge(flow)
    await flows.supervisor(flow).result()
    assert ends(flows) == ([1, 2], [1, 2])


async def test_an_end_is_announced_in_the_workflow_task_if_no_receiver_can_be_slow(
    real_time: WorkflowEnvironment, database: Database
) -> None:
    async with flow_stage(real_time.client, database, receivers_are_files=True) as flows:
        flow = await flows.run(pair())
        assert ends(flows) == ([1], [1])
        assert "announce_flow" not in await activities_of(flows.supervisor(flow))
        flows.receivers.tried.clear()
        flows.receivers.trouble = TemporaryError("the disk is full")
        supervisor = await retried(flows, flow)
        await eventually(flows.receivers.tried.is_set)
        flows.receivers.trouble = None
        await supervisor.result()
        assert ends(flows) == ([1, 2], [1, 2])
        assert (await activities_of(supervisor))["announce_flow"] == 1, "the usual activity follows a failure"


async def test_a_receiver_that_was_configured_later_is_not_waited_for_in_the_workflow_task(
    real_time: WorkflowEnvironment, database: Database
) -> None:
    async with flow_stage(real_time.client, database, receivers_were_files=True) as flows:
        flow = await flows.run(pair())
        assert ends(flows) == ([1], [1])
        assert (await activities_of(flows.supervisor(flow)))["announce_flow"] == 1


async def test_an_end_whose_supervisor_died_is_announced_by_the_next(flows: FlowStage) -> None:
    """Between the end on record and its announcement, the supervisor is terminated."""
    flow, loop = flows.push(chain(1)), asyncio.get_running_loop()
    ended = asyncio.Event()

    def end_and_die(_: Any) -> None:
        asyncio.run_coroutine_threadsafe(flows.supervisor(flow).terminate("a crash"), loop).result()
        loop.call_soon_threadsafe(ended.set)

    flows.ledger.after["write"] = end_and_die
    await flows.nudge(flow)
    await ended.wait()
    assert flow.events[-1] == "ended"
    assert ends(flows) == ([], [])
    await flows.nudge(flow)  # as the audit does
    await flows.supervisor(flow).result()
    assert ends(flows) == ([1], [1])


@pytest.mark.long
async def test_a_retry_does_not_wait_for_an_absent_receiver(flows: FlowStage) -> None:
    flows.receivers.trouble = TemporaryError("no answer")
    flow, supervisor = await flows.start(pair())
    await eventually(flows.receivers.tried.is_set)
    flows.host.hold("a")
    await retried(flows, flow)
    await flows.host.begun["a"].wait()
    flows.receivers.trouble = None
    flows.host.release("a")
    assert (await supervisor.result())["state"] == "completed"
    assert ends(flows) == ([1, 2], [1, 2])
    assert flow.events.count("undelivered") == flow.events.count("delivered") == 1


@pytest.mark.long
async def test_a_flow_ends_although_its_announcement_fails(skipping_flows: FlowStage) -> None:
    """The tries end after an hour; the audit repeats them."""
    skipping_flows.receivers.trouble = TemporaryError("no answer")
    flow = await skipping_flows.run(pair().add("c", plain))
    assert ends(skipping_flows) == ([], [1])
    assert [owed.owed for owed in skipping_flows.store.flow_ends.owed(flow.uid)] == [{"notice"}]
