"""The examples of the two reference pages run in memory, and print or return what their pages say."""

import inspect
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.client import WorkflowPlugin
from crawler_lifecycle.flows import FlowStatus, Workflow, generate_dot
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.testing import MemoryFlows, Play, Result, Scenario, run_inline
from tests.flows import reference_chancy, reference_oban
from tests.flows.reference_oban import ENDED, SEEN

chancy: Any = reference_chancy
oban: Any = reference_oban
DOT = r"""digraph "example" {
  rankdir=TB;
  node [shape=box, style="rounded,filled", fontname="Arial"];
  "top" [label="top\n(pending)", fillcolor=lightblue];
  "left" [label="left\n(pending)", fillcolor=lightblue];
  "right" [label="right\n(pending)", fillcolor=lightblue];
  "bottom" [label="bottom\n(pending)", fillcolor=lightblue];
  "top" -> "left";
  "top" -> "right";
  "left" -> "bottom";
  "right" -> "bottom";
  labelloc="t";
  label="Workflow: example\nState: pending";
}
"""
MERMAID = """flowchart TD
    setup["setup (SetupWorker)"]
    process_a["process_a (ProcessWorker)"]
    process_b["process_b (ProcessWorker)"]
    finish["finish (FinishWorker)"]
    setup --> process_a
    setup --> process_b
    process_a --> finish
    process_b --> finish
"""
EXAMPLES = {*(f"a{number}" for number in range(1, 6)), *(f"b{number}" for number in range(1, 25))}


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    ENDED.clear()
    SEEN.clear()
    yield
    ENDED.clear()


async def played(example: Any) -> Result:
    """Run an example that pushes its workflow with the open client."""
    async with MemoryFlows.open() as flows:
        workflow = await example()
    return Result(flows.plays[workflow.id]).assert_completed()


def test_each_example_has_a_test() -> None:
    tests = re.findall(r"^(?:async )?def test_([ab]\d+)_", Path(__file__).read_text(), re.M)
    assert set(tests) == EXAMPLES


# Chancy


async def test_a1_the_diamond_prints_in_order_and_is_drawn_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    workflow = await chancy.a1_main()
    assert capsys.readouterr().out.split() == ["Top", "Left", "Right", "Bottom"]
    for draw in (generate_dot, WorkflowPlugin.generate_dot):
        output = io.StringIO()
        draw(workflow, output)
        assert output.getvalue() == DOT


async def test_a2_a_wait_returns_the_completed_workflow() -> None:
    async with MemoryFlows.open() as flows:
        completed = await chancy.a2_wait(flows)
    assert completed.state is Workflow.State.COMPLETED
    assert [step.state for _, step in completed] == ["succeeded", "succeeded"]


def test_a3_steps_and_groups_are_added() -> None:
    workflow = Workflow("my_workflow")
    chancy.a3_add(workflow, chancy.top)
    assert workflow["step_2"].dependencies == ["step_1"]
    assert run_inline(workflow).order == ["step_1", "step_2"]
    group = chancy.a3_add_group()
    assert [step.dependencies for _, step in group] == [[], ["setup"], ["setup"], ["setup"]]
    assert run_inline(group).state is FlowState.COMPLETED


async def test_a4_a_sequence_runs_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert await chancy.a4_main()
    assert capsys.readouterr().out.split() == ["First", "Second", "Third"]


def test_a5_a_sequence_is_chained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_inline(chancy.a5_chain().workflow()).order == ["step_0", "step_1", "step_2"]
    assert capsys.readouterr().out.split() == ["First", "Second", "Third"]


# Oban


async def test_b1_the_basic_workflow_prints_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    await played(oban.b1_basic_usage)
    assert capsys.readouterr().out.splitlines() == [f"Executing: {name}" for name in "abcde"]


def test_b2_sequential() -> None:
    assert run_inline(oban.b2_sequential()).order == ENDED == ["first", "second", "third"]


def test_b3_fan_out() -> None:
    result = run_inline(oban.b3_fan_out(), takes={"child_*": 60})
    assert result.order == ["parent", "child_1", "child_2", "child_3"]
    assert len({result.started[f"child_{number}"] for number in (1, 2, 3)}) == 1  # all three at once


def test_b4_fan_in() -> None:
    result = run_inline(oban.b4_fan_in(), takes={"step_1": 30, "step_2": 10})
    assert result.order[-1] == "final"
    assert result.started["final"] == result.ended["step_1"]


def test_b5_a_diamond_whose_last_job_has_the_name_end() -> None:
    workflow = oban.b5_diamond()
    assert run_inline(workflow).order == ["start", "left", "right", "end"]
    assert 'n0["end (Worker)"]' in workflow.to_mermaid()  # a node with the id `end` would close a subgraph


async def test_b6_sub_workflows_are_composed() -> None:
    result = await played(oban.b6_sub_workflows)
    assert result.order == [
        "setup",
        "extract/extract",
        "extract/transform",
        "notify/prepare",
        "notify/send",
        "finalize",
    ]
    assert result.results["extract/extract"] == {"source": "database"}


@pytest.mark.parametrize("items", [[], [3], list(range(20))])
def test_b7_a_collection_by_numbers(items: list[int]) -> None:
    result = run_inline(oban.b7_numbered(items)).assert_completed()
    assert ["setup", *(str(number) for number in range(len(items))), "finish"] == ENDED
    assert result.recorded("process") == {str(number): {"item": item} for number, item in enumerate(items)}


def test_b8_a_collection_by_names() -> None:
    result = run_inline(oban.b8_named())
    assert result.order == ["fetch/users", "fetch/orders", "merge"]
    assert result.recorded("fetch") == {"users": {"table": "users"}, "orders": {"table": "orders"}}


async def test_b9_the_cascade_keeps_a_time_and_counts_the_records() -> None:
    result = await played(oban.b9_cascade)
    assert result.recorded("load") == {"loaded": 3}
    assert isinstance(result.recorded("extract")["extracted_at"], datetime)
    assert SEEN["saved"] == [10, 20, 30]


def test_b10_all_cascades_see_the_context() -> None:
    result = run_inline(oban.b10_context())
    assert result.recorded("step_1") == ["batch_size", "environment", "user_id"]
    assert result.recorded("step_2") == ["batch_size", "environment", "step_1", "user_id"]


def test_b11_a_fan_out_over_five_users() -> None:
    result = run_inline(oban.b11_fan_out_cascade())
    assert (result.recorded("summarize"), SEEN["batch_id"]) == (5, 456)
    assert result.recorded("process/3") == {"user_id": 4, "processed": True}


def test_b12_a_fan_out_over_a_dict() -> None:
    assert run_inline(oban.b12_fan_out_over_a_dict()).recorded("merge") == ["read https://...", "read https://..."]


async def test_b13_a_graft_runs_before_its_dependents() -> None:
    result = await played(oban.b13_graft)
    assert result.order == ["setup", "notify", "notify/123", "notify/124", "summary"]
    assert result.recorded("notify") == {"123": {"user_id": 123}, "124": {"user_id": 124}}


def test_b14_custom_ids_and_names() -> None:
    with_id, with_name = oban.b14_id_and_name()
    assert (with_id.id, with_id.name, with_name.name) == ("custom-unique-id", None, "nightly-etl")
    assert len(with_name.id) == 36
    defaults = inspect.signature(oban.constructor)
    mine = inspect.signature(Workflow.__init__)
    for name, parameter in defaults.parameters.items():
        assert mine.parameters[name].default == parameter.default
    assert oban.constructor(id="x", name="y").id == "x"


def test_b15_flags_of_a_workflow() -> None:
    workflow = oban.b15_flags_of_a_workflow()
    workflow.add("step_1", oban.Worker.new({})).add("step_2", oban.Worker.new({}), deps="step_1")
    result = run_inline(workflow, fails={"step_1": 1})
    assert result.states == {"step_1": "discarded", "step_2": "completed"}


def test_b16_flags_of_jobs() -> None:
    play = Play(oban.b16_flags_of_jobs(), Scenario(fails={"step_2": 1}))
    assert play.cancel("step_1") == 1
    assert play.run() is FlowState.DISCARDED
    assert play.states == {"step_1": "cancelled", "step_2": "discarded", "step_3": "completed"}


def test_b17_a_handle_for_the_workflow_of_a_running_job() -> None:
    workflow = Workflow("w").add("first", oban.Worker.new({})).add("mine", oban.MyWorker.new({}), deps="first")
    run_inline(workflow).assert_completed()
    status: FlowStatus = SEEN["status"]
    assert (status.id, status.state, status.counts) == (workflow.id, "executing", {"executing": 1, "completed": 1})
    assert [(job.name, job.state) for job in SEEN["all_jobs"]] == [("first", "completed"), ("mine", "executing")]


async def test_b18_a_handle_by_its_id() -> None:
    async with MemoryFlows.open() as flows:
        assert (await oban.b18_handle()).state == "unknown"
        await flows.push(Workflow(id="known-workflow-id").add("a", oban.Worker.new({})))
        assert (await oban.b18_handle()).state == "executing"
        await flows.wait("known-workflow-id")
        assert (await oban.b18_handle()).state == "completed"


def test_b19_jobs_are_fetched() -> None:
    workflow = Workflow().add("extract", oban.Worker.new({"x": 1})).add("transform", oban.Worker.new({}))
    workflow.add("mine", oban.FetchingJobs.new({}), deps="transform")
    run_inline(workflow).assert_completed()
    extract_job, all_jobs, some_jobs, dep_jobs = SEEN["jobs"]
    assert (extract_job.name, extract_job.args, extract_job.meta["workflow_id"]) == ("extract", {"x": 1}, workflow.id)
    assert [job.name for job in all_jobs] == ["extract", "transform", "mine"]
    assert [job.name for job in some_jobs] == ["extract", "transform"]
    assert [job.name for job in dep_jobs] == ["transform"]


def test_b20_a_status_has_all_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    sub = Workflow().add("x", oban.Worker.new({}))
    workflow = Workflow().add_workflow("sub", sub).add("mine", oban.CheckingStatus.new({}), deps="sub")
    result = run_inline(workflow).assert_completed()
    state, total, counts, duration, started_at, stopped_at, subs = capsys.readouterr().out.splitlines()
    assert (state, total, duration, stopped_at) == ("executing", "2", "None", "None")
    assert counts == "Counter({'executing': 1, 'completed': 1})"
    assert started_at == str(result.started["sub/x"])
    assert "'sub': FlowStatus(" in subs
    assert result.counts[MemberState.COMPLETED] == 2


def test_b21_the_mermaid_text_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    oban.b21_mermaid()
    assert capsys.readouterr().out == f"{MERMAID}\n"


def test_b21_a_notebook_shows_the_picture() -> None:
    workflow = Workflow().add("setup", oban.SetupWorker.new({}))
    shown: list[str] = []
    display, Markdown = shown.append, str  # noqa: N806 (IPython's)

    display(Markdown(f"```mermaid\n{workflow.to_mermaid()}```"))

    assert shown[0].splitlines() == ["```mermaid", "flowchart TD", '    setup["setup (SetupWorker)"]', "```"]


@pytest.mark.long
def test_b22_the_command_lines_print_what_the_programs_read(tmp_path: Path) -> None:
    (tmp_path / "myapp.py").write_text("from tests.flows.reference_oban import b2_sequential as b2\nworkflow = b2()\n")
    path = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}"}
    printed = {}
    for verb in ("to_mermaid", "to_dot"):
        code = f"from myapp import workflow; print(workflow.{verb}())"
        done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True)
        printed[verb] = done.stdout
    assert printed["to_mermaid"] == f"{oban.b2_sequential().to_mermaid()}\n"
    assert '"second" -> "third"' in [statement.strip() for statement in read_dot(printed["to_dot"]).split(";\n")]


def read_dot(text: str) -> str:
    """Return the statements of a graph whose brackets and quotes are closed."""
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert '"' not in outside
    assert outside.count("{") == outside.count("}")
    assert outside.count("[") == outside.count("]")
    match = re.fullmatch(r'digraph "[^"]+" \{\n(.*)\}\n', text, re.S)
    assert match is not None
    return match[1]


def step_flow(job: Any, *, waits: bool = True) -> Workflow:
    """A workflow in which a job cancels others that have not started."""
    workflow = Workflow().add("mine", job)
    for number in (1, 2, 3):
        workflow.add(f"step_{number}", oban.Worker.new({}), deps="mine" if waits else ())
    return workflow


def test_b23_cancel_all_and_cancel_two() -> None:
    result = run_inline(step_flow(oban.CancellingTwo.new({})))
    assert (SEEN["count"], result.state) == (2, "cancelled")
    assert result.states == {"mine": "completed", "step_1": "completed", "step_2": "cancelled", "step_3": "cancelled"}
    result = run_inline(step_flow(oban.CancellingAll.new({})))
    assert (SEEN["count"], result.state) == (4, "cancelled")  # the calling job is executing, so it is cancelled, too
    assert set(result.states.values()) == {"cancelled"}


async def test_b24_retry_all_and_retry_a_named_job() -> None:
    workflow = Workflow(id="w")
    for name in ("failed_step", "other", "fine"):
        workflow.add(name, oban.Worker.new({}))
    async with MemoryFlows.open(Scenario(fails={"failed_step": 1, "other": 1})) as flows:
        await flows.push(workflow)
        assert (await flows.wait("w")).state is Workflow.State.FAILED
        job: Any = await workflow.get_job("failed_step")
        assert await oban.b24_retry_one(job) == 1
        assert (await flows.wait("w")).state is Workflow.State.FAILED
        assert await oban.b24_retry_all(job) == 1
        assert (await flows.wait("w")).state is Workflow.State.COMPLETED


# the workflow tests of Chancy, in its words


def test_chancy_parallel() -> None:
    group = chancy.a3_add_group().add("finish", chancy.right, ["step_1", "step_2", "step_3"])
    result = run_inline(group).assert_completed()
    assert (result.order[0], result.order[-1], result.counts) == ("setup", "finish", {"completed": 5})


async def test_chancy_a_failure_leaves_its_dependents_without_a_start() -> None:
    workflow = Workflow("failing").add("step1", chancy.top).add("step2", chancy.left, ["step1"])
    workflow.add("step3", chancy.right, ["step2"])
    async with MemoryFlows.open(Scenario(fails={"step2": 1})) as flows:
        ended = await flows.wait(await flows.push(workflow))
    assert ended.state is Workflow.State.FAILED
    assert [step.state for _, step in ended] == ["succeeded", "failed", "failed"]
    assert ended["step3"].job_id is None  # it was never started
    assert flows.plays[workflow.id].order == ["step1", "step2"]


async def test_059_a_wait_times_out_and_the_flow_goes_on() -> None:
    async with MemoryFlows.open(Scenario(takes={"a": 5})) as flows:
        flow = await flows.push(Workflow().add("a", chancy.top))
        with pytest.raises(TimeoutError):
            await WorkflowPlugin.wait_for_workflow(flows, flow, interval=1, timeout=0.1)
        assert (await flows.wait(flow)).state is Workflow.State.COMPLETED


async def test_059_a_wait_for_an_unknown_workflow_is_a_key_error() -> None:
    async with MemoryFlows.open() as flows:
        with pytest.raises(KeyError):
            await WorkflowPlugin.wait_for_workflow(flows, "00000000-0000-0000-0000-000000000000")


async def test_058_workflows_are_fetched_by_states_and_ids() -> None:
    async with MemoryFlows.open(Scenario(fails={"failing": 1})) as flows:
        names = ("fine", "failing", "later")
        ids = [await flows.push(Workflow(name).add(name, chancy.top)) for name in names]
        for flow in ids[:2]:
            await flows.wait(flow)
        every = await WorkflowPlugin.fetch_workflows(flows)
        assert [workflow.name for workflow in every] == ["later", "failing", "fine"]  # newest first
        fetched = await WorkflowPlugin.fetch_workflows(flows, states=["failed"], ids=ids)
        assert [workflow.name for workflow in fetched] == ["failing"]
        assert await WorkflowPlugin.fetch_workflows(flows, ids=[]) == []
        assert len(await flows.fetch(states=["executing", "completed"], limit=1)) == 1
        fetched_again = await WorkflowPlugin.fetch_workflow(flows, ids[0])
        assert fetched_again is not None
        assert (fetched_again.id, fetched_again.name) == (ids[0], "fine")
        assert await WorkflowPlugin.fetch_workflow(flows, "nowhere") is None
        assert await WorkflowPlugin.fetch_workflow(flows, "x" * 1000) is None


def test_080_the_numbers_of_the_plugin_are_accepted() -> None:
    plugin = WorkflowPlugin(
        polling_interval=30, max_workflows_per_run=100, pruning_rule=WorkflowPlugin.Rules.Age() > 60
    )
    assert (plugin.polling_interval, plugin.max_workflows_per_run) == (30, 100)


async def test_084_a_cleanup_counts_or_returns_none() -> None:
    async with MemoryFlows.open() as flows:
        flow = await flows.push(Workflow().add("a", chancy.top))
        plugin = WorkflowPlugin(pruning_rule=WorkflowPlugin.Rules.Age() > 60)
        await flows.wait(flow)
        assert await plugin.cleanup(flows) is None
        flows.plays[flow].later(hours=1)
        assert await plugin.cleanup(flows) == 1
        assert await flows.fetch_one(flow) is None


def test_chancy_modified_jobs_keep_their_modifications() -> None:
    changed = chancy.top.job.with_queue("high_priority").with_priority(10).with_max_attempts(3)
    definition = Workflow("modified").add("step", changed).definition()
    (member,) = definition.members
    assert member.work.kind == "step"
    assert (member.work.queue, member.priority, member.retry.max_attempts) == ("high_priority", 10, 3)
