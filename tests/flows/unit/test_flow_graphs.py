"""Graphs of steps, from their push to their end."""

import asyncio
from collections import Counter

import pytest

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.model.flow_states import FlowState
from tests.kit.authors.work import plain
from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.temporal.graphs import activities_of, chain, diamond


async def test_a_diamond_comes_to_its_end(flows: FlowStage) -> None:
    flow, supervisor = await flows.start(diamond())
    end = await supervisor.result()
    assert end == {"flow_uid": flow.uid, "flow_id": flow.id, "state": "completed"}
    assert set(flow.states.values()) == {"completed"}
    assert flow.ledger.flow.state is FlowState.COMPLETED
    first, *middle, last = flows.host.played
    assert (first, sorted(middle), last) == ("top", ["left", "right"], "bottom")


@pytest.mark.long
async def test_a_chain_costs_an_activity_a_step(flows: FlowStage) -> None:
    flow = await flows.run(chain(20))
    assert flows.host.played == [f"j{number}" for number in range(20)]
    activities = await activities_of(flows.supervisor(flow))
    # the beginning and the end are written inside of workflow tasks, and changes in between once a second
    assert activities - Counter(write_flow=20) == {"run_steps": 20, "announce_flow": 1}
    assert activities["write_flow"] < 10


async def test_a_fan_out_of_a_thousand_goes_in_slices(flows: FlowStage) -> None:
    fan = Workflow().add("first", plain).add_many("many", [plain] * 1000, deps="first").add("last", plain, deps="many")
    flow = await flows.run(fan)
    assert Counter(flow.states.values()) == {"completed": 1002}
    assert (flows.host.played[0], flows.host.played[-1]) == ("first", "last")
    assert len(flows.host.played) == len(set(flows.host.played)) == 1002
    sizes = [len(step.starts) for step in flows.host.calls]
    assert max(sizes) == 50
    assert len(sizes) < 60


async def test_few_steps_go_one_by_one_so_that_hosts_share_them(flows: FlowStage) -> None:
    await flows.run(Workflow().add_many("few", [plain] * 7))
    assert [len(step.starts) for step in flows.host.calls] == [1] * 7


async def test_a_step_that_another_step_awaits_alone_is_in_no_slice(flows: FlowStage) -> None:
    workflow = Workflow().add_many("many", [plain] * 20).add("after", plain, deps="many/3")
    await flows.run(workflow)
    alone = [step for step in flows.host.calls if len(step.starts) == 1]
    assert [flows.host.played.index("after") > 0, len(alone)] == [True, 2]


@pytest.mark.long
async def test_at_most_500_steps_are_with_hosts_at_a_time(flows: FlowStage) -> None:
    flows.host.hold(*(f"many/{number}" for number in range(600)))
    flow, supervisor = await flows.start(Workflow().add_many("many", [plain] * 600))
    await asyncio.gather(*(flows.host.begun[f"many/{number}"].wait() for number in range(500)))
    assert Counter(flow.states.values()) == {"executing": 500, "available": 100}
    flows.host.release(*flows.host.held)
    await supervisor.result()
    assert set(flow.states.values()) == {"completed"}
