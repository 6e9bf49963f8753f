"""Steps that a host starts by itself, after the steps of an activity."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from crawler_lifecycle.base.ranges import from_ranges
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.activities.steps import TryAgain
from crawler_lifecycle.flows.rules.messages import AttemptRef, RunSteps, StepsEnded
from crawler_lifecycle.flows.rules.slicing import followers
from crawler_lifecycle.hosts import looks
from tests.hosts import authors
from tests.hosts.attempts import attempts, expire, has_begun
from tests.hosts.supervised import Hosted, hosted
from tests.kit.data.flows import Flow

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine ends no following."""
    monkeypatch.setattr(looks, "SLOW_SECONDS", 60.0)


def diamond() -> Workflow:
    return (
        Workflow("diamond")
        .add_cascade("start", authors.nothing)
        .add_cascade("left", authors.nothing, deps="start")
        .add_cascade("right", authors.async_nothing, deps="start")
        .add_cascade("end", authors.nothing, deps=["left", "right"])
    )


def chain(*functions: Callable[..., object]) -> Workflow:
    workflow, before = Workflow("chain"), list[str]()
    for number, function in enumerate(functions):
        workflow.add_cascade(f"s{number}", function, deps=before)
        before = [f"s{number}"]
    return workflow


async def activity(flow: Flow) -> RunSteps:
    """The activity for the flow's first step, as a supervisor asks for it: with its followers."""

    def planned() -> RunSteps:
        planner, plan = flow.plan()
        [start] = plan.starts
        chosen = followers(planner, start.number)
        ref = chosen[0].start.model_copy(update={"number": start.number, "attempt": start.attempt})
        route = planner.rows[start.number].route
        return RunSteps(flow=flow.flow, door=flow.door, flow_id=flow.id, route=route, starts=(ref,), followers=chosen)

    return await asyncio.to_thread(planned)


def paths(flow: Flow, answer: StepsEnded) -> tuple[set[str], set[str]]:
    """The jobs that have ended by the answer, and the jobs that the host has started by itself."""
    rows = flow.ledger.members
    return {rows[end.number].path for end in answer.ends}, {rows[n].path for n in from_ranges(answer.followed)}


async def test_a_diamond_is_a_single_activity(host: Hosted) -> None:
    flow = await host.push(diamond())
    answer = await host.host.run(await activity(flow))
    assert paths(flow, answer) == ({"start", "left", "right", "end"}, {"left", "right", "end"})
    assert set(flow.states.values()) == {"completed"}
    _, plan = flow.plan()
    assert plan.flow_state is not None
    assert plan.flow_state.is_final


async def test_a_failed_step_is_followed_by_none(host: Hosted) -> None:
    flow = await host.push(chain(authors.nothing, authors.fail, authors.nothing))
    answer = await host.host.run(await activity(flow))
    assert paths(flow, answer) == ({"s0", "s1"}, {"s1"})
    assert flow.states["s2"] == "suspended"


async def test_behind_a_door_no_follower_starts(host: Hosted) -> None:
    flow = await host.push(chain(authors.wait, authors.nothing, authors.nothing))
    running = asyncio.create_task(host.host.run(await activity(flow)))
    await has_begun()
    await asyncio.to_thread(flow.append, "later", Workflow().add_cascade("further", authors.nothing))
    authors.gate.set()
    answer = await running
    assert paths(flow, answer) == ({"s0"}, set())
    assert answer.stale == ""  # no start of the supervisor was refused
    assert flow.states["s1"] == "suspended"


@pytest.mark.parametrize("hold", ["pause", "drain"])
async def test_in_a_held_flow_no_follower_starts(host: Hosted, hold: str) -> None:
    flow = await host.push(chain(authors.wait, authors.nothing))
    running = asyncio.create_task(host.host.run(await activity(flow)))
    await has_begun()
    await asyncio.to_thread(flow.hold, hold)
    authors.gate.set()
    assert paths(flow, await running) == ({"s0"}, set())


async def test_a_graft_in_a_follower_ends_the_following(host: Hosted) -> None:
    flow = await host.push(chain(authors.nothing, authors.nothing).add_graft("grown", authors.graft, deps="s1"))
    answer = await host.host.run(await activity(flow))
    assert paths(flow, answer) == ({"s0", "s1", "grown"}, {"s1", "grown"})
    assert answer.has_news


async def test_an_outdated_supervisors_followers_do_not_start(host: Hosted) -> None:
    flow = await host.push(chain(authors.wait, authors.nothing))
    running = asyncio.create_task(host.host.run(await activity(flow)))
    await has_begun()
    await asyncio.to_thread(flow.begin, "second")
    authors.gate.set()
    with pytest.raises(Exception, match="another supervisor"):
        await running
    assert flow.states == {"s0": "completed", "s1": "suspended"}


async def test_another_try_goes_on_behind_the_ends_on_record(host: Hosted) -> None:
    """The host before has died: its activity comes again, with ends on record and a claim that expires."""
    flow = await host.push(chain(authors.nothing, authors.nothing, authors.nothing))
    step = await activity(flow)
    flow.begin_steps(step.starts[0])
    flow.end(step.starts[0])
    await expire(flow, "s1")
    answer = await host.host.run(step)
    assert paths(flow, answer) == ({"s0", "s1", "s2"}, {"s1", "s2"})
    assert answer.seconds == 0  # the followers' time tells nothing about the route of `s0`
    [attempt] = await attempts(flow, "s1")
    assert attempt.deaths == 1


async def test_a_follower_in_another_host_is_waited_for(host: Hosted) -> None:
    flow = await host.push(chain(authors.nothing, authors.nothing))
    step = await activity(flow)
    flow.begin_steps(step.starts[0])
    flow.end(step.starts[0])
    flow.begin_steps(step.followers[0].start, token="other", lasts=timedelta(minutes=1))
    running = asyncio.create_task(host.host.run(step))
    done, _ = await asyncio.wait({running}, timeout=0.5)
    assert not done
    flow.end(step.followers[0].start, token="other")
    assert paths(flow, await running) == ({"s0", "s1"}, {"s1"})


async def test_after_slow_steps_the_supervisor_plans(host: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "SLOW_SECONDS", 0.0)
    flow = await host.push(chain(authors.nothing, authors.nothing, authors.nothing))
    answer = await host.host.run(await activity(flow))
    ended, followed = paths(flow, answer)
    assert len(ended) < 3
    assert followed == ended - {"s0"}


async def test_an_awaited_end_is_told_beside_running_followers(host: Hosted) -> None:
    """A crawl waits for `left`, while `right` goes on."""
    flow = await host.push(
        Workflow("awaited")
        .add_cascade("start", authors.nothing)
        .add_cascade("left", authors.nothing, deps="start")
        .add_cascade("right", authors.wait, deps="start")
        .add_approval("after", deps="left")
    )
    answer = await host.host.run(await activity(flow))
    assert paths(flow, answer) == ({"start", "left"}, {"left", "right"})
    authors.gate.set()


async def test_a_busy_host_leaves_followers_to_the_supervisor(host: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = await host.push(chain(authors.wait, authors.nothing))
    running = asyncio.create_task(host.host.run(await activity(flow)))
    await has_begun()
    monkeypatch.setattr(host.host.slots, "take_soon", _busy)
    authors.gate.set()
    assert paths(flow, await running) == ({"s0"}, set())


async def _busy() -> None:
    raise TryAgain("all slots of the host are busy", timedelta(seconds=1), cause="Busy")


def fork(quick: Callable[..., object] = authors.nothing) -> Workflow:
    """`slow` takes as long as the test likes, beside `quick`, which `last` waits for."""
    return (
        Workflow("fork")
        .add_cascade("start", authors.nothing)
        .add_cascade("slow", authors.wait, deps="start")
        .add_cascade("quick", quick, deps="start")
        .add_cascade("last", authors.nothing, deps="quick")
    )


async def running_beside(host: Hosted, flow: Flow) -> tuple["asyncio.Task[StepsEnded]", AttemptRef]:
    """The activity with `slow` under way, and with `quick` in another host. The test ends `quick`."""
    step = await activity(flow)
    flow.begin_steps(step.starts[0])
    flow.end(step.starts[0])
    quick = next(item.start for item in step.followers if item.start.number == flow.row("quick").number)
    flow.begin_steps(quick, token="other", lasts=timedelta(minutes=1))
    running = asyncio.create_task(host.host.run(step))
    await has_begun()
    return running, quick


@pytest.mark.long
async def test_a_follower_that_is_due_late_is_left_to_the_supervisor_at_once(
    host: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await host.push(fork())
    running, quick = await running_beside(host, flow)
    monkeypatch.setattr(looks, "SLOW_SECONDS", 0.0)
    await asyncio.to_thread(flow.end, quick, token="other")
    assert paths(flow, await asyncio.wait_for(running, 20)) == ({"start", "quick"}, {"slow", "quick"})
    assert flow.states["slow"] == "executing"


@pytest.mark.long
async def test_a_failed_follower_is_told_beside_running_followers(host: Hosted) -> None:
    flow = await host.push(fork(authors.fail))
    answer = await asyncio.wait_for(host.host.run(await activity(flow)), 20)
    assert paths(flow, answer) == ({"start", "quick"}, {"slow", "quick"})


@pytest.mark.long
async def test_a_refused_follower_is_left_to_the_supervisor_at_once(host: Hosted) -> None:
    flow = await host.push(fork())
    running, quick = await running_beside(host, flow)
    await asyncio.to_thread(flow.hold, "pause")
    await asyncio.to_thread(flow.end, quick, token="other")
    assert paths(flow, await asyncio.wait_for(running, 20)) == ({"start", "quick"}, {"slow", "quick"})
    assert flow.states["last"] == "suspended"


@pytest.mark.long
async def test_a_follower_without_a_function_is_left_to_the_supervisor_at_once(host: Hosted) -> None:
    flow = await host.push(fork())
    step, last = await activity(flow), flow.row("last")
    *others, item = sorted(step.followers, key=lambda item: item.start.number == last.number)
    unknown = item.model_copy(update={"route": f"{item.route}_that_a_later_version_has"})
    step = step.model_copy(update={"followers": (*others, unknown)})
    answer = await asyncio.wait_for(host.host.run(step), 20)
    assert paths(flow, answer) == ({"start", "quick"}, {"slow", "quick"})


async def test_a_refused_follower_of_two_activities_counts_as_started_in_neither(host: Hosted) -> None:
    """A reading has found `s1` under way, so two activities wait for its end, and ask for `s2` at once."""
    flow = await host.push(chain(authors.nothing, authors.wait, authors.nothing))
    first = await activity(flow)
    running = asyncio.create_task(host.host.run(first))
    await has_begun()
    await asyncio.to_thread(flow.hold, "pause")
    planner, _ = await asyncio.to_thread(flow.plan)
    second = first.model_copy(
        update={
            "door": flow.door,
            "starts": (flow.last("s1"),),
            "route": flow.row("s1").route,
            "followers": followers(planner, flow.row("s1").number),
        }
    )
    assert second.followers
    also = asyncio.create_task(host.host.run(second))
    await asyncio.sleep(0.2)  # until the second activity waits, too; a later wait passes as well
    authors.gate.set()
    assert paths(flow, await running) == ({"s0", "s1"}, {"s1"})
    assert paths(flow, await also) == ({"s1"}, set())


async def test_followers_beyond_the_free_slots_are_for_other_hosts(flows_database: Database) -> None:
    authors.reset()
    workflow = Workflow("wide").add_cascade("start", authors.nothing)
    for path in ("left", "middle", "right"):
        workflow.add_cascade(path, authors.wait, deps="start")
    async with hosted(flows_database, slots=2) as host:
        flow = await host.push(workflow)
        answer = await asyncio.wait_for(host.host.run(await activity(flow)), 20)
        assert paths(flow, answer) == ({"start"}, {"left", "middle"})
        assert flow.states["right"] == "suspended"
        authors.gate.set()
