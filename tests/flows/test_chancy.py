"""Chancy's page, and equivalents of the eight tests of its workflows, on a real server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.client import Flows, WorkflowPlugin
from crawler_lifecycle.flows import Sequence, StepState, Workflow
from tests.flows import reference_chancy, steps
from tests.flows.conftest import PATIENCE, Service

pytestmark = pytest.mark.process
chancy: Any = reference_chancy


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(chancy, "MemoryFlows", Flows)  # the construction of the client
    steps.FAILING.clear()
    steps.CALLS.clear()
    steps.RELEASE.clear()
    yield
    steps.RELEASE.set()


async def test_a1_the_diamond(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    workflow = await chancy.a1_main()
    async with Flows.open() as flows:
        ended = await flows.wait(workflow.id, timeout=PATIENCE)
    assert (ended.name, ended.state) == ("example", Workflow.State.COMPLETED)
    first, *middle, last = capfd.readouterr().out.split()
    assert (first, sorted(middle), last) == ("Top", ["Left", "Right"], "Bottom")


async def test_a2_a_wait_for_a_workflow(service: Service) -> None:
    async with Flows.open() as flows:
        completed = await chancy.a2_wait(flows)
    assert completed.state is Workflow.State.COMPLETED
    assert [step.state for _, step in completed] == [StepState.SUCCEEDED, StepState.SUCCEEDED]


async def test_a3_snippets(service: Service) -> None:
    workflow = Workflow("my_workflow")
    chancy.a3_add(workflow, chancy.top)
    assert (await service.run(workflow)).state is Workflow.State.COMPLETED
    assert (await service.run(chancy.a3_add_group())).state is Workflow.State.COMPLETED


async def test_a4_a_sequence(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    flow = await chancy.a4_main()
    async with Flows.open() as flows:
        assert (await flows.wait(flow, timeout=PATIENCE)).state is Workflow.State.COMPLETED
    assert capfd.readouterr().out.split() == ["First", "Second", "Third"]


async def test_a5_a_chained_sequence(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    async with Flows.open() as flows:
        flow = await chancy.a5_chain().push(flows)
        assert (await flows.wait(flow, timeout=PATIENCE)).state is Workflow.State.COMPLETED
    assert capfd.readouterr().out.split() == ["First", "Second", "Third"]


# the eight tests


@pytest.mark.long
async def test_a_sequential_workflow(service: Service) -> None:
    workflow = Workflow("sequential")
    for number in (1, 2, 3):
        deps = [f"step{number - 1}"] if number > 1 else []
        workflow.add(f"step{number}", steps.note.job.with_kwargs(name=f"step{number}"), deps)
    ended = await service.run(workflow)
    assert ended.state is Workflow.State.COMPLETED
    assert {step.state for _, step in ended} == {StepState.SUCCEEDED}
    assert steps.CALLS == ["step1", "step2", "step3"]


async def test_a_parallel_workflow(service: Service) -> None:
    workflow = Workflow("parallel").add("setup", chancy.top)
    workflow.add_group([(f"parallel{number}", chancy.left) for number in (1, 2, 3)], ["setup"])
    workflow.add("finish", chancy.right, ["parallel1", "parallel2", "parallel3"])
    ended = await service.run(workflow)
    assert {state: len(found) for state, found in ended.steps_by_state.items()} == {StepState.SUCCEEDED: 5}


async def test_a_failing_workflow(service: Service) -> None:
    workflow = Workflow("failing").add("step1", chancy.top).add("step2", steps.fails, ["step1"])
    ended = await service.run(workflow.add("step3", chancy.right, ["step2"]))
    assert ended.state is Workflow.State.FAILED
    assert [step.state for _, step in ended] == [StepState.SUCCEEDED, StepState.FAILED, StepState.FAILED]
    assert ended["step3"].job_id is None, "it was never started"


async def test_a_sequence(service: Service) -> None:
    names = ("one", "two", "three")
    sequence = Sequence("sequence", [steps.note.job.with_kwargs(name=name) for name in names])
    async with Flows.open() as flows:
        ended = await flows.wait(await sequence.push(flows), timeout=PATIENCE)
    assert (ended.state, steps.CALLS) == (Workflow.State.COMPLETED, [*names])


async def test_a_wait_that_times_out(service: Service) -> None:
    async with Flows.open() as flows:
        flow = await WorkflowPlugin.push(flows, Workflow("slow").add("slow", steps.slow))
        with pytest.raises(asyncio.TimeoutError):
            await WorkflowPlugin.wait_for_workflow(flows, flow, timeout=0.1)
        steps.RELEASE.set()
        assert (await WorkflowPlugin.wait_for_workflow(flows, flow, timeout=PATIENCE)).is_complete


@pytest.mark.long
async def test_a_wait_for_a_missing_workflow(service: Service) -> None:
    async with Flows.open() as flows:
        with pytest.raises(KeyError):
            await WorkflowPlugin.wait_for_workflow(flows, "00000000-0000-0000-0000-000000000000")


async def test_async_and_sync_jobs(service: Service) -> None:
    workflow = (
        Workflow("mixed").add("async", chancy.top).add("sync", steps.note.job.with_kwargs(name="sync"), ["async"])
    )
    ended = await service.run(workflow)
    assert (ended.state, steps.CALLS) == (Workflow.State.COMPLETED, ["sync"])


@pytest.mark.long
async def test_modified_jobs(service: Service) -> None:
    modified = chancy.top.job.with_queue("high_priority").with_priority(10).with_max_attempts(3)
    async with Flows.open() as flows:
        workflow = Workflow("modified").add("step1", modified)
        await flows.push(workflow)
        found = await workflow.get_job("step1")
        assert found is not None
        assert (found.queue, found.priority, found.max_attempts) == ("high_priority", 10, 3)
        assert (await service.ended(workflow)).state is Workflow.State.COMPLETED
