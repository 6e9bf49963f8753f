"""An execution that was reset by Temporal's tools has the epoch of its former execution, and an older planner. A flow
waited for ever for a crawl whose end was on record, and an ended flow was reopened and announced twice."""

import asyncio
import threading

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

from crawler_lifecycle.flows import Workflow, crawl
from tests.flows.resets import reset
from tests.kit.authors.work import plain
from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.temporal.graphs import chain, shown_as
from tests.kit.waiting import eventually

pytestmark = pytest.mark.regression(
    "After a reset by Temporal's tools a flow waited forever for a crawl, or was announced twice"
)


@pytest.mark.long
async def test_an_end_that_the_former_execution_has_written_is_read(flows: FlowStage) -> None:
    written = threading.Event()
    flows.ledger.after["write"] = lambda _: written.set()
    flows.host.hold("first", "last")
    workflow = Workflow().add("shop", crawl("books")).add("first", plain).add("second", plain, deps="first")
    flow, supervisor = await flows.start(workflow.add("last", plain, deps=["second", "shop"]))
    await flows.crawls.run_of("shop")
    flows.host.release("first")
    await shown_as(flow, "second", "completed")
    await flows.crawls.end("shop")
    await flows.host.begun["last"].wait()
    await eventually(written.is_set)

    async def start_crawl(*_: object) -> None:
        """As Temporal does, which starts no second workflow under the id."""

    flows.crawls.start_crawl = start_crawl  # type: ignore[assignment, method-assign]
    again = await reset(flows, supervisor, 2)  # behind the crawl's start and the end of `first`
    flows.host.release("last")
    async with asyncio.timeout(30):
        assert (await again.result())["state"] == "completed"
    assert flows.host.played == ["first", "second", "last"]
    assert len(flows.crawls.runs["shop"]) == 1


@pytest.mark.long
async def test_an_ended_flow_ends_once(flows: FlowStage) -> None:
    graph = chain(2).add_approval("release", deps="j1").add("last", plain, deps="release")
    flow = flows.push(graph)
    await asyncio.to_thread(flow.approve, "release", approved=True)
    await flows.nudge(flow)
    supervisor = flows.supervisor(flow)
    await supervisor.result()
    claims = asyncio.Event()
    flows.host.before_begin = lambda _: claims.wait()  # type: ignore[assignment, return-value]
    again = await reset(flows, supervisor, 1)
    await flows.nudge(flow)
    try:
        async with asyncio.timeout(30):
            assert (await again.result())["state"] == "completed"
    finally:
        claims.set()
    assert flows.host.played == ["j0", "j1", "last"]
    assert flow.events.count("ended") == len(flows.receivers.notices) == len(flows.receivers.events) == 1


async def test_a_cancel_behind_a_reset_is_not_lost(flows: FlowStage) -> None:
    """The execution that was reset continues as new, and the next execution cancels all members."""
    flows.host.hold("j1")
    flow, supervisor = await flows.start(chain(3))
    await flows.host.begun["j1"].wait()
    again = await reset(flows, supervisor, 1)
    await again.cancel()
    await shown_as(flow, "j1", "cancelled")
    flows.host.release("j1")
    with pytest.raises(WorkflowFailureError) as failure:
        await flows.supervisor(flow).result()
    assert isinstance(failure.value.cause, CancelledError)
    assert set(flow.states.values()) == {"completed", "cancelled"}
    assert flow.ledger.flow.state.value == "cancelled"
