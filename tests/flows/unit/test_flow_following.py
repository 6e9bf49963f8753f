"""Steps that a host starts by itself: the supervisor learns of them from the answer, or from the rows."""

import asyncio
from datetime import timedelta

import pytest

from crawler_lifecycle.flows import RetryPolicy, Workflow, crawl
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps, StepsEnded
from tests.kit.authors.work import plain
from tests.kit.temporal.flow_stage import FAILED, FlowStage
from tests.kit.temporal.graphs import activities_of, chain, diamond, door, shown_as
from tests.kit.waiting import eventually


async def test_a_chain_is_a_single_activity(flows: FlowStage) -> None:
    flows.host.follows = True
    flow, supervisor = await flows.start(chain(20))
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == [f"j{number}" for number in range(20)]
    assert (await activities_of(supervisor))["run_steps"] == 1
    assert all(row.attempt == 1 for row in flow.ledger.members.values())


async def test_a_diamond_is_a_single_activity(flows: FlowStage) -> None:
    flows.host.follows = True
    flow, supervisor = await flows.start(diamond())
    await supervisor.result()
    assert sorted(flows.host.played[1:3]) == ["left", "right"]
    assert (await activities_of(supervisor))["run_steps"] == 1
    assert set(flow.states.values()) == {"completed"}


async def test_a_failed_follower_is_tried_again_by_the_supervisor(flows: FlowStage) -> None:
    outcomes = [FAILED]

    async def once(_: object) -> dict[str, object] | None:
        return {"kind": outcomes.pop(), "outcome": "raised"} if outcomes else None

    flows.host.follows, flows.host.plays["b"] = True, once
    policy = RetryPolicy(max_attempts=2, pause_seconds=0)
    workflow = Workflow().add("a", plain).add("b", plain, deps="a", retry=policy).add("c", plain, deps="b")
    flow, supervisor = await flows.start(workflow)
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == ["a", "b", "b", "c"]
    assert (flow.row("b").attempt, flow.row("c").attempt) == (2, 1)


async def test_a_door_before_a_follower_leaves_the_start_to_the_supervisor(flows: FlowStage) -> None:
    flows.host.follows = True
    flows.host.hold("j1")
    flow, supervisor = await flows.start(chain(4))
    await flows.host.begun["j1"].wait()
    await door(flow.append, "more", Workflow(check_deps=False).add("extra", plain, deps="j3"))
    flows.host.release("j1")
    await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == ["j0", "j1", "j2", "j3", "extra"]
    assert flow.row("j2").attempt == 1


async def test_a_reading_finds_a_follower_under_way_before_the_answer(flows: FlowStage) -> None:
    """The supervisor knows neither end nor start: a drain must not end the flow beside a step that runs."""
    flows.host.follows = True
    flows.host.hold("j1")
    flow, supervisor = await flows.start(chain(3))
    await flows.host.begun["j1"].wait()
    await door(flow.hold, "drain")
    await flows.nudge(flow)
    # the supervisor asks for the follower by an activity of its own, which waits for the host
    await eventually(lambda: len(flows.host.calls) == 2)
    assert not flow.ledger.flow.state.is_final
    flows.host.release("j1")
    assert (await supervisor.result())["state"] == "cancelled"
    assert flow.states == {"j0": "completed", "j1": "completed", "j2": "cancelled"}
    assert flows.host.played == ["j0", "j1"]


async def test_a_cancelled_follower_is_asked_to_end(flows: FlowStage) -> None:
    flows.host.follows = True
    flows.host.hold("j1")
    flow, supervisor = await flows.start(chain(3))
    await flows.host.begun["j1"].wait()
    await door(flow.cancel)
    await flows.nudge(flow)
    await shown_as(flow, "j1", "cancelled")
    assert not flow.ledger.flow.state.is_final  # the function goes on
    flows.host.release("j1")
    assert (await supervisor.result())["state"] == "cancelled"
    assert flows.host.played == ["j0", "j1"]


async def test_another_execution_goes_on_with_a_follower_under_way(flows: FlowStage) -> None:
    flows.host.follows = True
    flows.host.hold("j1")
    flow, supervisor = await flows.start(chain(4))
    await flows.host.begun["j1"].wait()
    await supervisor.terminate()
    await flows.nudge(flow)
    again = flows.supervisor(flow)
    await eventually(lambda: len(flows.host.calls) == 2)
    flows.host.release("j1")
    assert (await again.result())["state"] == "completed"
    assert flows.host.played == ["j0", "j1", "j2", "j3"]


async def test_a_crawl_behind_a_chain_starts_at_its_end(flows: FlowStage) -> None:
    flows.host.follows = True
    _, supervisor = await flows.start(chain(3).add("shop", crawl("books"), deps="j2"))
    await flows.crawls.end("shop")
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == ["j0", "j1", "j2"]
    assert len(flows.host.calls) == 1


@pytest.mark.long
async def test_a_follower_that_was_not_started_after_all_is_read(flows: FlowStage) -> None:
    """A host's answer names a follower that is not on record: the flow goes on, without a start before its time."""

    async def with_the_next(step: RunSteps, answer: StepsEnded) -> StepsEnded:
        """Name `j2`, as its claim were on record. A pause has refused the claim."""
        if not answer.ends or step.starts[0].number != 1 or not step.followers:
            return answer
        return answer.model_copy(update={"followed": "2"})

    flows.host.follows, flows.host.before_answer = True, with_the_next
    flows.host.hold("j1")
    flow, supervisor = await flows.start(chain(3))
    await flows.host.begun["j1"].wait()
    await door(flow.hold, "pause")
    await flows.nudge(flow)
    await eventually(lambda: len(flows.host.calls) == 2)
    flows.host.release("j1")
    await eventually(lambda: flow.states["j1"] == "completed")
    await eventually(lambda: len(flows.host.calls) == 3)  # for `j2`, which the pause refuses again
    flows.host.before_answer = None
    await asyncio.sleep(1)
    assert len(flows.host.calls) == 3
    await door(flow.hold, "run")
    await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == ["j0", "j1", "j2"]
    assert flow.row("j2").attempt == 1


async def test_a_flow_does_not_end_beside_a_follower_that_an_earlier_try_has_started(flows: FlowStage) -> None:
    flow, starts = None, list[AttemptRef]()

    async def busy(step: RunSteps, answer: StepsEnded) -> StepsEnded:
        """Answer as a busy host does, for the first step alone: the host before has died after its begin of `j1`."""
        if not starts:
            starts.append(step.followers[0].start)
            assert flow is not None
            ledger, before = flows.store.step_ledger, {step.starts[0].number: 1}
            await asyncio.to_thread(ledger.renew, "other", timedelta(hours=1))
            await asyncio.to_thread(ledger.begin, step.flow, step.door, starts, "other", "host", None, before)
            await door(flow.hold, "drain")
            return answer.model_copy(update={"has_news": True})
        return answer

    flows.host.before_answer = busy
    flows.host.hold("j0")
    flow, supervisor = await flows.start(chain(3))
    await flows.host.begun["j0"].wait()
    flows.host.release("j0")
    await eventually(lambda: len(flows.host.calls) == 2)
    assert flows.host.calls[1].starts == tuple(starts)
    assert not flow.ledger.flow.state.is_final
    await asyncio.to_thread(flow.end, *starts, token="other")
    assert (await supervisor.result())["state"] == "cancelled"
    assert flow.states == {"j0": "completed", "j1": "completed", "j2": "cancelled"}
