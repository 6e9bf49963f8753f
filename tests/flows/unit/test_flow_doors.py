"""Doors while a flow runs: a door may come between a plan and its start, in a reading, or as the flow ends."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.rules.messages import RunSteps, WriteFlow
from crawler_lifecycle.model.flow_states import FlowState
from tests.kit.authors.work import plain
from tests.kit.temporal.flow_stage import FAILED, FlowStage
from tests.kit.temporal.graphs import door, pair, shown_as
from tests.kit.waiting import eventually

HOUR = timedelta(hours=1)


async def test_a_start_that_a_door_outdates_is_planned_anew(flows: FlowStage) -> None:
    flow = flows.push(pair())
    doors = [flow.append]

    async def append_first(step: RunSteps) -> None:
        while doors:
            await door(doors.pop(), "more", Workflow(check_deps=False).add("c", plain, deps="b"))

    flows.host.before_begin = append_first
    await flows.nudge(flow)
    await flows.supervisor(flow).result()
    assert flows.host.played == ["a", "b", "c"]
    assert flow.row("a").attempt == 1
    assert [ref.number for step in flows.host.calls for ref in step.starts] == [0, 0, 1, 2]


async def test_a_step_that_is_cancelled_before_its_claim_never_starts(flows: FlowStage) -> None:
    flow = flows.push(pair())
    doors = [flow.cancel]

    async def cancel_first(step: RunSteps) -> None:
        while doors:
            await door(doors.pop(), "a")

    flows.host.before_begin = cancel_first
    await flows.nudge(flow)
    assert (await flows.supervisor(flow).result())["state"] == "cancelled"
    assert flows.host.played == []
    assert flow.row("b").reason == "dependency:a"


async def test_a_flow_ends_by_a_cancel_although_no_host_takes_its_steps(flows: FlowStage) -> None:
    workflow = Workflow().add("a", plain, queue="elsewhere").add("b", plain, deps="a")
    flow, supervisor = await flows.start(workflow)
    await shown_as(flow, "a", "available")
    await door(flow.cancel)
    await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "cancelled"


@pytest.mark.long
async def test_a_start_without_a_host_is_shown_as_available(flows: FlowStage) -> None:
    workflow = Workflow().add("a", plain).add("b", plain, deps="a", queue="elsewhere")
    flow, _ = await flows.start(workflow)
    await shown_as(flow, "b", "available")
    await door(flow.cancel)
    await flows.nudge(flow)


async def test_a_cancel_ends_what_is_open_and_waits_for_what_runs(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair())
    await flows.host.begun["a"].wait()
    await door(flow.cancel)
    await flows.nudge(flow)
    (token,), key = flows.host.tokens, (flow.uid, 0, 1)
    await eventually(lambda: flows.store.step_ledger.renew(token, HOUR, [key]) == {key: True})
    assert not flow.ledger.flow.state.is_final
    flows.host.release("a")
    assert (await supervisor.result())["state"] == "cancelled"
    assert flow.states == {"a": "cancelled", "b": "cancelled"}


async def test_members_join_while_the_flow_runs(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair())
    await flows.host.begun["a"].wait()
    await door(flow.append, "more", Workflow(check_deps=False).add("c", plain).add("d", plain, deps=["b", "c"]))
    await flows.nudge(flow)
    await shown_as(flow, "c", "completed")
    flows.host.release("a")
    await supervisor.result()
    assert flows.host.played == ["a", "c", "b", "d"]


async def test_other_needs_make_another_planner(flows: FlowStage) -> None:
    flows.host.hold("a")
    workflow = Workflow(id="graph").add("a", plain).add("b", plain, deps="a").add("c", plain)
    flows.host.hold("c")
    flow, supervisor = await flows.start(workflow)
    await asyncio.gather(flows.host.begun["a"].wait(), flows.host.begun["c"].wait())
    await door(flow.push, Workflow(id="graph", check_deps=False).add("b", plain, deps="c"))
    await flows.nudge(flow)
    flows.host.release("c")
    await shown_as(flow, "b", "completed")
    flows.host.release("a")
    await supervisor.result()
    assert flow.states == dict.fromkeys("abc", "completed")


async def test_a_paused_flow_starts_nothing_until_it_goes_on(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair())
    await flows.host.begun["a"].wait()
    await door(flow.hold, "pause")
    await flows.nudge(flow)
    flows.host.release("a")
    await shown_as(flow, "b", "available")
    assert flow.ledger.flow.state is FlowState.PAUSED
    await door(flow.hold, "run")
    await flows.nudge(flow)
    await supervisor.result()
    assert flows.host.played == ["a", "b"]


async def test_a_retry_after_the_end_begins_another_execution(flows: FlowStage) -> None:
    async def fail(step: Any) -> dict[str, Any]:
        flows.host.plays.clear()
        return {"kind": FAILED}

    flows.host.plays["a"] = fail
    flow = await flows.run(pair())
    assert flow.states == {"a": "discarded", "b": "cancelled"}
    await door(flow.retry)
    await flows.nudge(flow)
    assert (await flows.supervisor(flow).result())["state"] == "completed"
    assert flows.host.played == ["a", "a", "b"]
    assert flow.events.count("taken over") == 1


async def test_a_door_just_before_the_end_is_written_keeps_the_flow_open(flows: FlowStage) -> None:
    flow = flows.push(pair())

    def append_before_the_end(step: WriteFlow) -> None:
        assert step.state is FlowState.COMPLETED
        flow.append("more", Workflow(check_deps=False).add("c", plain, deps="b"))

    flows.ledger.before["write"] = append_before_the_end
    await flows.nudge(flow)
    await flows.supervisor(flow).result()
    assert flows.host.played == ["a", "b", "c"]
    assert flow.ledger.flow.state is FlowState.COMPLETED


async def test_a_door_just_after_the_end_is_written_finds_a_supervisor(flows: FlowStage) -> None:
    flow, loop = flows.push(pair()), asyncio.get_running_loop()

    def retry_after_the_end(step: WriteFlow) -> None:
        flow.retry("b", completed=True)
        asyncio.run_coroutine_threadsafe(flows.nudge(flow), loop).result()

    flows.ledger.after["write"] = retry_after_the_end
    await flows.nudge(flow)
    await flows.supervisor(flow).result()
    assert flows.host.played == ["a", "b", "b"]
    assert flow.ledger.flow.state is FlowState.COMPLETED
    assert "taken over" not in flow.events


async def test_many_doors_at_once_start_every_step_once(flows: FlowStage) -> None:
    flow, supervisor = await flows.start(Workflow().add_many("many", [plain] * 30).add("last", plain, deps="many"))

    async def append(number: int) -> None:
        await door(flow.append, str(number), Workflow(check_deps=False).add(f"more{number}", plain))
        await flows.nudge(flow)

    flows.host.hold("last")
    await asyncio.gather(*(append(number) for number in range(20)))
    flows.host.release("last")
    await supervisor.result()
    assert set(flow.states.values()) == {"completed"}
    assert len(flows.host.played) == len(set(flows.host.played)) == 51
