"""Oban's page on a real server: its examples, with nothing but the imports and the client changed."""

import asyncio
import io
import re
from contextlib import redirect_stdout
from datetime import datetime
from typing import Any

import pytest

from crawler_lifecycle.client import Flows
from crawler_lifecycle.flows import Workflow
from tests.flows import reference_oban, steps
from tests.flows.conftest import Service
from tests.flows.reference_oban import ENDED, SEEN

pytestmark = pytest.mark.process
oban: Any = reference_oban
COMPLETED, FAILED = Workflow.State.COMPLETED, Workflow.State.FAILED


@pytest.fixture(autouse=True)
def _clean() -> None:
    for kept in (ENDED, SEEN, steps.CALLS, steps.FAILING):
        kept.clear()


async def states(workflow: Workflow) -> dict[str, str]:
    async with Flows.open():
        return {job.path: job.state for job in await workflow.all_jobs(subs=True)}


async def test_b1_the_basic_workflow_prints_in_order(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    async with Flows.open():
        workflow = await oban.b1_basic_usage()
        assert (await service.ended(workflow)).state is COMPLETED
    lines = capfd.readouterr().out.splitlines()
    assert [*lines[:2], *sorted(lines[2:4]), lines[4]] == [f"Executing: {name}" for name in "abcde"]


async def test_b2_sequential(service: Service) -> None:
    await service.run(oban.b2_sequential())
    assert ENDED == ["first", "second", "third"]


async def test_b3_fan_out(service: Service) -> None:
    await service.run(oban.b3_fan_out())
    assert (ENDED[0], sorted(ENDED[1:])) == ("parent", ["child_1", "child_2", "child_3"])


async def test_b4_fan_in(service: Service) -> None:
    await service.run(oban.b4_fan_in())
    assert (sorted(ENDED[:3]), ENDED[3]) == (["step_1", "step_2", "step_3"], "final")


async def test_b5_a_diamond(service: Service) -> None:
    assert (await service.run(oban.b5_diamond())).state is COMPLETED
    assert (ENDED[0], sorted(ENDED[1:3]), ENDED[3]) == ("start", ["left", "right"], "end")


async def test_b6_sub_workflows(service: Service) -> None:
    async with Flows.open():
        workflow = await oban.b6_sub_workflows()
        assert (await service.ended(workflow)).state is COMPLETED
        assert ENDED == ["setup", "extract", "transform", "prepare", "send", "finalize"]
        assert await workflow.get_recorded("extract") == {
            "extract": {"source": "database"},
            "transform": {"type": "normalize"},
        }
        status = await workflow.status()
        assert {name: (sub.state, sub.total) for name, sub in status.subs.items()} == {
            "extract": ("completed", 2),
            "notify": ("completed", 2),
        }


@pytest.mark.parametrize("items", [[], list(range(20))])
async def test_b7_a_collection_by_numbers(service: Service, items: list[int]) -> None:
    workflow = oban.b7_numbered(items)
    assert (await service.run(workflow)).state is COMPLETED
    assert (ENDED[0], ENDED[-1], len(ENDED)) == ("setup", "finish", len(items) + 2)
    async with Flows.open():
        recorded = await workflow.get_recorded("process")
    assert recorded == {str(number): {"item": item} for number, item in enumerate(items)}


async def test_b8_a_collection_by_names(service: Service) -> None:
    workflow = oban.b8_named()
    await service.run(workflow)
    async with Flows.open():
        assert await workflow.all_recorded() == {"fetch": {"users": {"table": "users"}, "orders": {"table": "orders"}}}


async def test_b9_a_cascade(service: Service) -> None:
    async with Flows.open():
        workflow = await oban.b9_cascade()
        assert (await service.ended(workflow)).state is COMPLETED
        assert await workflow.get_recorded("load") == {"loaded": 3}
        extracted = await workflow.get_recorded("extract")
        assert (extracted["records"], type(extracted["extracted_at"])) == ([1, 2, 3], datetime)
        assert await workflow.get_context() == {"source": "api", "batch_id": 123}
    assert SEEN["saved"] == [10, 20, 30]


async def test_b10_context(service: Service) -> None:
    workflow = oban.b10_context()
    await service.run(workflow)
    async with Flows.open():
        assert await workflow.get_recorded("step_1") == ["batch_size", "environment", "user_id"]
        assert await workflow.get_recorded("step_2") == ["batch_size", "environment", "step_1", "user_id"]


async def test_b11_a_fan_out_over_five_users(service: Service) -> None:
    workflow = oban.b11_fan_out_cascade()
    await service.run(workflow)
    async with Flows.open():
        assert await workflow.get_recorded("summarize") == 5
        assert list(await workflow.get_recorded("process")) == ["0", "1", "2", "3", "4"]
    assert SEEN["batch_id"] == 456


async def test_b12_a_fan_out_over_a_dict(service: Service) -> None:
    workflow = oban.b12_fan_out_over_a_dict()
    await service.run(workflow)
    async with Flows.open():
        assert await workflow.get_recorded("merge") == ["read https://...", "read https://..."]


async def test_b13_a_graft(service: Service) -> None:
    async with Flows.open():
        workflow = await oban.b13_graft()
        assert (await service.ended(workflow)).state is COMPLETED
        assert await workflow.get_recorded("notify") == {"123": {"user_id": 123}, "124": {"user_id": 124}}
    assert (ENDED[0], sorted(ENDED[1:3]), ENDED[3]) == ("setup", ["123", "124"], "summary")


async def test_b14_custom_ids_and_names(service: Service) -> None:
    with_id, with_name = oban.b14_id_and_name()
    for workflow in (with_id, with_name):
        await service.run(workflow.add("a", oban.Worker.new({})))
    async with Flows.open() as flows:
        assert [(workflow.id, workflow.name) for workflow in await flows.fetch()] == [
            (with_name.id, "nightly-etl"),
            ("custom-unique-id", None),
        ]


async def test_b15_flags_of_a_workflow(service: Service) -> None:
    workflow = oban.b15_flags_of_a_workflow()
    steps.FAILING.add("step_1")
    workflow.add("step_1", steps.May.new({})).add("step_2", steps.May.new({}), deps="step_1")
    assert (await service.run(workflow)).state is FAILED
    assert await states(workflow) == {"step_1": "discarded", "step_2": "completed"}


@pytest.mark.long
async def test_b16_flags_of_jobs(service: Service) -> None:
    workflow = Workflow(check_deps=False).add("gate", steps.slow)
    for name, step in oban.b16_flags_of_jobs():
        deps = step.dependencies or ["gate"]
        flags = {"ignore_cancelled": step.ignore_cancelled, "ignore_discarded": step.ignore_discarded}
        workflow.add(name, steps.May.new({}), deps=deps, **flags)
    steps.FAILING.add("step_2")
    steps.RELEASE.clear()
    async with Flows.open():
        await workflow.push()
        assert await workflow.cancel_jobs(names="step_1") == 1
        steps.RELEASE.set()
        assert (await service.ended(workflow)).state is FAILED
    assert await states(workflow) == {
        "gate": "completed", "step_1": "cancelled", "step_2": "discarded", "step_3": "completed",
    }  # fmt: skip


async def test_b17_a_handle_inside_a_job(service: Service) -> None:
    workflow = Workflow("w").add("first", oban.Worker.new({})).add("mine", oban.MyWorker.new({}), deps="first")
    assert (await service.run(workflow)).state is COMPLETED
    status = SEEN["status"]
    assert (status.id, status.state, status.counts) == (workflow.id, "executing", {"executing": 1, "completed": 1})
    assert [(job.name, job.state) for job in SEEN["all_jobs"]] == [("first", "completed"), ("mine", "executing")]


@pytest.mark.long
async def test_b18_a_handle_by_its_id(service: Service) -> None:
    async with Flows.open():
        assert (await oban.b18_handle()).state == "unknown"
    await service.run(Workflow(id="known-workflow-id").add("a", oban.Worker.new({})))
    async with Flows.open():
        assert (await oban.b18_handle()).state == "completed"


async def test_b19_jobs_inside_a_job(service: Service) -> None:
    workflow = Workflow().add("extract", oban.Worker.new({"x": 1})).add("transform", oban.Worker.new({}))
    await service.run(workflow.add("mine", oban.FetchingJobs.new({}), deps=["extract", "transform"]))
    extract_job, all_jobs, some_jobs, dep_jobs = SEEN["jobs"]
    assert (extract_job.name, extract_job.args, extract_job.meta["workflow_id"]) == ("extract", {"x": 1}, workflow.id)
    assert [job.name for job in all_jobs] == ["extract", "transform", "mine"]
    assert [job.name for job in some_jobs] == [job.name for job in dep_jobs] == ["extract", "transform"]


async def test_b20_a_status_inside_a_job(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    sub = Workflow().add("x", oban.Worker.new({}))
    workflow = Workflow().add_workflow("sub", sub).add("mine", oban.CheckingStatus.new({}), deps="sub")
    await service.run(workflow)
    state, total, counts, duration, started_at, stopped_at, subs = capfd.readouterr().out.splitlines()
    assert (state, total, duration, stopped_at) == ("executing", "2", "None", "None")
    assert re.match(r"Counter\(\{.*executing.*: 1, .*completed.*: 1\}\)", counts)
    assert datetime.fromisoformat(started_at)
    assert "'sub': FlowStatus(" in subs


async def test_b21_b22_pictures_of_a_flow_on_record(service: Service) -> None:
    output = io.StringIO()
    with redirect_stdout(output):
        oban.b21_mermaid()
    workflow = (
        Workflow()
        .add("setup", oban.SetupWorker.new({}))
        .add("process_a", oban.ProcessWorker.new({}), deps="setup")
        .add("process_b", oban.ProcessWorker.new({}), deps="setup")
        .add("finish", oban.FinishWorker.new({}), deps=["process_a", "process_b"])
    )
    ended = await service.run(workflow)
    assert f"{ended.to_mermaid()}\n" == output.getvalue()
    assert ended.to_dot() == workflow.to_dot()
    assert "class setup,process_a,process_b,finish succeeded" in ended.to_mermaid(states=True)


@pytest.mark.long
async def test_b23_cancels_inside_a_job(service: Service) -> None:
    def around(job: Any) -> Workflow:
        workflow = Workflow().add("mine", job)
        for number in (1, 2, 3):
            workflow.add(f"step_{number}", oban.Worker.new({}), deps="mine")
        return workflow

    workflow = around(oban.CancellingTwo.new({}))
    assert (await service.run(workflow)).state is FAILED
    assert SEEN["count"] == 2
    assert await states(workflow) == {
        "mine": "completed", "step_1": "completed", "step_2": "cancelled", "step_3": "cancelled",
    }  # fmt: skip
    SEEN.clear()
    workflow = around(oban.CancellingAll.new({}))
    assert (await service.run(workflow)).state is FAILED
    assert set((await states(workflow)).values()) == {"cancelled"}


async def test_b24_retries(service: Service) -> None:
    workflow = Workflow(id="w")
    for name in ("failed_step", "other", "fine"):
        workflow.add(name, steps.May.new({}))
    steps.FAILING |= {"failed_step", "other"}
    assert (await service.run(workflow)).state is FAILED
    steps.FAILING.clear()
    async with Flows.open():
        job: Any = await workflow.get_job("failed_step")
        assert await oban.b24_retry_one(job) == 1
        assert (await service.ended(workflow)).state is FAILED
        assert await oban.b24_retry_all(job) == 1
        assert (await service.ended(workflow)).state is COMPLETED
        assert await oban.b24_retry_all(job) == 0
    assert sorted(steps.CALLS) == ["failed_step", "failed_step", "fine", "other", "other"]


async def test_a_wait_by_several_at_once(service: Service) -> None:
    async with Flows.open() as flows:
        workflow = oban.b5_diamond()
        await flows.push(workflow)
        ended = await asyncio.gather(*(flows.wait(workflow.id, timeout=60) for _ in range(5)))
    assert {one.state for one in ended} == {COMPLETED}
