"""Programs that push and wait run on flows in memory, in async code and in all other code."""

from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.client import Age
from crawler_lifecycle.client import flows as innermost
from crawler_lifecycle.errors import Conflict, NotReady
from crawler_lifecycle.flows import Context, RunningJob, Worker, Workflow, blocking, open_client, worker
from crawler_lifecycle.testing import MemoryFlows, Scenario, run_inline
from tests.kit.authors.steps import broken, note

SEEN: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


async def asks_for_itself(context: Context) -> str:
    return (await Workflow.for_job(context.job).status()).state


def asks_in_a_thread(context: Context) -> str:
    return blocking(Workflow.for_job(context.job).status()).state


async def pushes_another(context: Context) -> str:
    return await innermost.push(Workflow(id="another").add("a", note))


async def waits_for_itself(context: Context) -> None:
    await innermost.wait(context.job.flow_id)


async def appends(context: Context) -> int:
    return await Workflow(id=context.job.flow_id).append("more", Workflow().add("later", note))


@worker()
class Retries(Worker):
    async def process(self, job: RunningJob) -> int:
        return await Workflow.for_job(job).retry_jobs(names=["broken"])


async def test_steps_have_a_client() -> None:
    workflow = Workflow().add("a", asks_for_itself).add("b", asks_in_a_thread)
    result = run_inline(workflow).assert_completed()
    assert result.results == {"a": "executing", "b": "executing"}
    with pytest.raises(NotReady):
        open_client()


def test_steps_have_a_client_in_code_that_is_not_async() -> None:
    result = run_inline(Workflow().add("a", asks_for_itself).add("b", asks_in_a_thread)).assert_completed()
    assert result.results == {"a": "executing", "b": "executing"}


async def test_a_step_may_push_another_workflow() -> None:
    async with MemoryFlows.open() as flows:
        await flows.wait(await flows.push(Workflow().add("a", pushes_another)))
        assert [flow.id for flow in await flows.fetch(states=["executing"])] == ["another"]
    assert flows.plays["another"].status.state == "completed"  # all flows run to their ends


def test_a_step_cannot_wait_for_its_own_end() -> None:
    result = run_inline(Workflow().add("a", waits_for_itself))
    assert result.state == "discarded"


async def test_a_step_cannot_wait_for_its_own_end_in_a_program() -> None:
    async with MemoryFlows.open() as flows:
        flow = await flows.push(Workflow().add("a", waits_for_itself))
        await flows.wait(flow)
    assert isinstance(flows.plays[flow].errors["a"], Conflict)


def test_a_step_may_add_jobs() -> None:
    result = run_inline(Workflow().add("a", appends).add("b", note, deps="a")).assert_completed()
    assert (result.results["a"], result.order) == (1, ["a", "b", "later"])


def test_a_step_may_retry_others() -> None:
    workflow = Workflow().add("broken", broken).add("again", Retries.new({}))
    result = run_inline(workflow)
    assert (result.results["again"], result.order) == (1, ["broken", "again", "broken"])


def test_a_program_that_is_not_async() -> None:
    with MemoryFlows.open_sync(Scenario(takes={"a": 60})) as flows:
        workflow = Workflow("w").add("a", note)
        flow = flows.push(workflow)
        with pytest.raises(TimeoutError, match="waits for a"):
            flows.wait(flow, timeout=30)
        status = flows.run(workflow.status())
        assert (status.counts, status.elapsed) == ({"executing": 1}, timedelta(seconds=30))
        assert flows.wait(flow).is_complete
        assert flows.prune(Age() > 3600) == 0
        assert flows.fetch_one("nowhere") is None


async def test_people_act_by_the_client() -> None:
    async with MemoryFlows.open() as flows:
        flow = await flows.push(
            Workflow().add("a", note).add_approval("release", deps="a").add("b", note, deps="release")
        )
        await flows.pause(flow)
        flows.run_all()
        assert flows.plays[flow].order == []
        await flows.resume(flow)
        flows.run_all()
        assert flows.plays[flow].order == ["a"]
        await flows.approve(flow, "release", note="fine")
        await flows.wait(flow)
        assert (await Workflow(id=flow).get_recorded("release"))["note"] == "fine"


@pytest.mark.parametrize("timeout", [0, timedelta(0)])
async def test_a_timeout_of_nothing_is_over_at_once_as_with_the_service(timeout: float | timedelta) -> None:
    async with MemoryFlows.open() as flows:
        flow = await flows.push(Workflow().add("a", note))
        assert (await flows.wait(flow)).is_complete
        with pytest.raises(TimeoutError, match="timeout is 0"):
            await flows.wait(flow, timeout=timeout)
