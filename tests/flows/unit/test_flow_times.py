"""Times in a flow: pauses between attempts, earliest starts, limits of approvals, and looks while nothing happens."""

import asyncio
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio import activity

from crawler_lifecycle.flows import RetryPolicy, Workflow, crawl
from crawler_lifecycle.flows.ports.steps import BegunStep
from crawler_lifecycle.flows.rules.messages import WriteFlow
from crawler_lifecycle.model.flow_states import MemberState
from tests.kit.authors.work import plain
from tests.kit.temporal.flow_stage import FAILED, FlowStage
from tests.kit.temporal.graphs import door, shown_as

MINUTE = timedelta(minutes=1)


def failing(flows: FlowStage, times: int, starts: list[datetime]) -> Any:
    """A function that fails so many times, and notes the workflow's time of each try."""

    async def play(step: BegunStep) -> dict[str, Any] | None:
        starts.append(flows.host.scheduled[-1])
        return {"kind": FAILED, "outcome": "banned", "at": starts[-1]} if len(starts) <= times else None

    return play


async def test_a_failed_step_is_tried_again_after_its_pause(skipping_flows: FlowStage) -> None:
    flows, starts = skipping_flows, list[datetime]()
    flows.host.plays["a"] = failing(flows, 2, starts)
    policy = RetryPolicy(max_attempts=3, pause_seconds=600, longest_pause_seconds=3600)
    flow = await flows.run(Workflow().add("a", plain, retry=policy).add("b", plain, deps="a"))
    assert flow.states == {"a": "completed", "b": "completed"}
    first, second, third = starts
    assert second - first >= 10 * MINUTE - timedelta(seconds=1)
    assert third - second >= 20 * MINUTE - timedelta(seconds=1)
    assert [attempt.outcome for attempt in flow.store.flow_records.attempts(flow.id, 0)] == ["banned", "banned", None]


async def test_a_step_waits_for_its_time(skipping_flows: FlowStage) -> None:
    flows = skipping_flows
    flow = await flows.run(Workflow().add("a", plain, schedule_in=3600).add("b", plain))
    assert flows.host.played == ["b", "a"]
    late, early = flows.host.scheduled[1], flows.host.scheduled[0]
    assert late - early >= timedelta(minutes=59)
    assert set(flow.states.values()) == {"completed"}


async def test_an_approval_ends_at_its_limit(skipping_flows: FlowStage) -> None:
    flow = await skipping_flows.run(Workflow().add_approval("ok", timeout=3600).add("a", plain, deps="ok"))
    assert flow.states == {"ok": "discarded", "a": "cancelled"}
    assert flow.row("ok").reason == "approval_timeout"


async def test_an_approval_brings_the_flow_on(flows: FlowStage) -> None:
    flow, supervisor = await flows.start(Workflow().add_approval("ok").add("a", plain, deps="ok"))
    await shown_as(flow, "ok", "available")
    await door(flow.approve, "ok")
    await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "completed"


@pytest.mark.parametrize("is_early", [False, True], ids=["after the flow came to it", "before"])
@pytest.mark.long
async def test_a_step_behind_an_approval_reads_the_decision(flows: FlowStage, is_early: bool) -> None:
    """The write of the approval's end is late. The step's start overtakes the write, and names the decision."""
    decisions, has_read = list[Any](), threading.Event()

    async def read(step: BegunStep) -> None:
        number = flow.row("ok").number
        results = await asyncio.to_thread(flows.store.step_ledger.results, step.flow_uid, [number], step.reads)
        decisions.extend(results.values())
        has_read.set()

    def delay_end(step: WriteFlow) -> None:
        if any(row.state is MemberState.COMPLETED for row in step.rows.unpacked()[0]):
            has_read.wait(1)
        else:
            flows.ledger.before["write"] = delay_end

    flows.host.plays["a"] = read
    flows.host.hold("before")
    workflow = Workflow().add("before", plain).add_approval("ok", deps="before").add("a", plain, deps="ok")
    flow, supervisor = await flows.start(workflow)
    flows.ledger.before["write"] = delay_end
    await flows.host.begun["before"].wait()
    if is_early:
        await door(flow.approve, "ok", actor="ann")
    flows.host.release("before")
    if not is_early:
        await shown_as(flow, "ok", "available")
        await door(flow.approve, "ok", actor="ann")
        await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "completed"
    assert [(decision["approved"], decision["actor"]) for decision in decisions] == [(True, "ann")]


async def test_looks_come_at_the_paces_of_runs(skipping_flows: FlowStage) -> None:
    """1, 2, 3, 5 and 8 minutes after one another, then every 15 minutes."""
    flows = skipping_flows
    flow, supervisor = await flows.start(Workflow().add("shop", crawl("books")))
    await flows.crawls.run_of("shop")
    looks = asyncio.create_task(_looks(flows, 8))
    ending = asyncio.create_task(supervisor.result())
    times = await looks
    await flows.crawls.end("shop", nudge=False)
    await ending
    begun = (await supervisor.describe()).start_time
    minutes = [round((time - begun) / MINUTE) for time in times]
    assert minutes == [1, 3, 6, 11, 19, 34, 49, 64]
    assert flow.states == {"shop": "completed"}


async def _looks(flows: FlowStage, number: int) -> list[datetime]:
    """The times of so many readings, by the workflow's clock."""
    times, enough, loop = list[datetime](), asyncio.Event(), asyncio.get_running_loop()

    def note(_: Any) -> None:
        times.append(activity.info().scheduled_time)
        if len(times) < number:
            flows.ledger.before["read"] = note
        else:
            loop.call_soon_threadsafe(enough.set)

    flows.ledger.before["read"] = note
    await enough.wait()
    return times


async def test_the_loss_of_all_nudges_delays_a_flow_and_does_not_hold_it_up(skipping_flows: FlowStage) -> None:
    flow, supervisor = await skipping_flows.start(Workflow().add_approval("ok").add("a", plain, deps="ok"))
    await shown_as(flow, "ok", "available")
    await door(flow.approve, "ok")
    assert (await supervisor.result())["state"] == "completed"
