"""The examples of the two reference pages, as far as they need no client: order, states, results and pictures."""

import io
from typing import Any

import pytest

from crawler_lifecycle.contract.flows.states import FlowState
from crawler_lifecycle.flows import Sequence, Workflow, generate_dot
from tests.unit.flows import work
from tests.unit.flows.plays import FAILED, Play
from tests.unit.flows.work import (
    FinishWorker,
    NotifyWorker,
    ProcessWorker,
    SetupWorker,
    UserNotifier,
    bottom,
    extract,
    fetch_from_source,
    lefts,
    load,
    merge_results,
    process_user,
    right,
    summarize,
    top,
    transform,
)

Worker: Any = work.StepWorker
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
    process_b --> finish"""


@pytest.fixture(autouse=True)
def _no_lines() -> None:
    work.LINES.clear()


def diamond() -> Workflow:
    return (
        Workflow("example")
        .add(top, "top")
        .add(lefts, "left", ["top"])
        .add(right, "right", ["top"])
        .add(bottom, "bottom", ["left", "right"])
    )


def test_a1_the_diamond_prints_in_order_and_is_drawn_exactly() -> None:
    output = io.StringIO()
    generate_dot(diamond(), output)
    assert output.getvalue() == DOT
    assert Play(diamond()).run(call=True) is FlowState.COMPLETED
    assert work.LINES == ["Top", "Left", "Right", "Bottom"]


def test_a3_steps_and_groups_are_added() -> None:
    workflow = Workflow("my_workflow")
    workflow.add("step_0", top)
    workflow.add("setup", lefts, ["step_0"])
    workflow.add_group([("step_1", top), ("step_2", lefts), ("step_3", right)], ["setup"])
    assert [step.dependencies for _, step in workflow][2:] == [["setup"]] * 3
    assert Play(workflow).run() is FlowState.COMPLETED


def test_a4_a_sequence_runs_in_order() -> None:
    workflow = Sequence("example_workflow", [top, lefts, right]).workflow()
    play = Play(workflow)
    assert play.run(call=True) is FlowState.COMPLETED
    assert work.LINES == ["Top", "Left", "Right"]
    assert play.order == ["step_0", "step_1", "step_2"]


def test_a5_a_sequence_is_chained() -> None:
    sequence = Sequence("example_sequence").add(top).add(lefts).add(right)
    assert Play(sequence.workflow()).run(call=True) is FlowState.COMPLETED
    assert work.LINES == ["Top", "Left", "Right"]


def test_b1_the_basic_workflow_prints_in_order() -> None:
    workflow = (
        Workflow()
        .add("a", Worker.new({}))
        .add("b", Worker.new({}), deps="a")
        .add("c", Worker.new({}), deps="b")
        .add("d", Worker.new({}), deps="b")
        .add("e", Worker.new({}), deps=["c", "d"])
    )
    assert Play(workflow).run(call=True) is FlowState.COMPLETED
    assert [f"Executing: {name}" for name in "abcde"] == work.LINES


def test_b2_sequential() -> None:
    workflow = (
        Workflow()
        .add("first", Worker.new({}))
        .add("second", Worker.new({}), deps="first")
        .add("third", Worker.new({}), deps="second")
    )
    play = Play(workflow)
    assert play.run() is FlowState.COMPLETED
    assert play.order == ["first", "second", "third"]


def test_b3_fan_out() -> None:
    workflow = Workflow().add("parent", Worker.new({}))
    for number in (1, 2, 3):
        workflow.add(f"child_{number}", Worker.new({}), deps="parent")
    play = Play(workflow)
    assert [start.number for start in play.advance().starts] == [0]
    play.end("parent")
    assert len(play.advance().starts) == 3


def test_b4_fan_in() -> None:
    workflow = (
        Workflow()
        .add("step_1", Worker.new({}))
        .add("step_2", Worker.new({}))
        .add("step_3", Worker.new({}))
        .add("final", Worker.new({}), deps=["step_1", "step_2", "step_3"])
    )
    play = Play(workflow)
    play.advance()
    for path in ("step_3", "step_1"):
        play.end(path)
        assert not play.advance().starts
    play.end("step_2")
    assert len(play.advance().starts) == 1


def test_b5_a_diamond_whose_last_job_has_the_name_end() -> None:
    workflow = (
        Workflow()
        .add("start", Worker.new({}))
        .add("left", Worker.new({}), deps="start")
        .add("right", Worker.new({}), deps="start")
        .add("end", Worker.new({}), deps=["left", "right"])
    )
    assert Play(workflow).run() is FlowState.COMPLETED
    assert 'n0["end (StepWorker)"]' in workflow.to_mermaid()  # a node with the id `end` would close a subgraph


def test_b6_sub_workflows_are_composed() -> None:
    extract_flow = (
        Workflow()
        .add("extract", Worker.new({"source": "database"}))
        .add("transform", Worker.new({"type": "normalize"}), deps="extract")
    )
    notify_flow = (
        Workflow()
        .add("prepare", Worker.new({"template": "report"}))
        .add("send", Worker.new({"method": "email"}), deps="prepare")
    )
    workflow = (
        Workflow()
        .add("setup", Worker.new({"mode": "initialize"}))
        .add_workflow("extract", extract_flow, deps="setup")
        .add_workflow("notify", notify_flow, deps="extract")
        .add("finalize", Worker.new({"mode": "cleanup"}), deps="notify")
    )
    play = Play(workflow)
    assert play.run() is FlowState.COMPLETED
    assert play.order == ["setup", "extract/extract", "extract/transform", "notify/prepare", "notify/send", "finalize"]


@pytest.mark.parametrize("items", [[], [3], list(range(20))])
def test_b7_a_collection_by_numbers(items: list[int]) -> None:
    workflow = (
        Workflow()
        .add("setup", SetupWorker.new({}))
        .add_many("process", [ProcessWorker.new({"item": item}) for item in items], deps="setup")
        .add("finish", FinishWorker.new({}), deps="process")
    )
    play = Play(workflow)
    assert play.run(call=True) is FlowState.COMPLETED
    assert ["setup", *(str(number) for number in range(len(items))), "finish"] == work.LINES


def test_b8_a_collection_by_names() -> None:
    workflow = (
        Workflow()
        .add_many("fetch", {"users": Worker.new({"table": "users"}), "orders": Worker.new({"table": "orders"})})
        .add("merge", Worker.new({}), deps="fetch")
    )
    play = Play(workflow)
    assert play.run() is FlowState.COMPLETED
    assert play.order == ["fetch/users", "fetch/orders", "merge"]


def test_b9_the_cascade_keeps_a_time_and_counts_the_records() -> None:
    workflow = (
        Workflow()
        .add_context({"source": "api", "batch_id": 123})
        .add_cascade("extract", extract)
        .add_cascade("transform", transform, deps="extract")
        .add_cascade("load", load, deps="transform")
    )
    play = Play(workflow)
    assert play.run(call=True) is FlowState.COMPLETED
    assert play.recorded("load") == {"loaded": 3}
    assert play.recorded("extract")["extracted_at"] == work.MOMENT


def test_b10_all_cascades_see_the_context() -> None:
    context = {"user_id": 123, "batch_size": 100, "environment": "production"}
    workflow = (
        Workflow()
        .add_context(context)
        .add_cascade("step_1", work.with_context)
        .add_cascade("step_2", work.with_context, deps="step_1")
    )
    play = Play(workflow)
    play.run(call=True)
    assert play.recorded("step_1") == sorted(context)
    assert play.recorded("step_2") == sorted([*context, "step_1"])


def test_b11_a_fan_out_over_five_users() -> None:
    workflow = (
        Workflow()
        .add_context({"batch_id": 456})
        .add_cascade("process", ([1, 2, 3, 4, 5], process_user))
        .add_cascade("summarize", summarize, deps="process")
    )
    play = Play(workflow)
    assert play.run(call=True) is FlowState.COMPLETED
    assert play.recorded("summarize") == 5
    assert play.recorded("process/3") == {"user_id": 4, "batch_id": 456, "processed": True}


def test_b12_a_fan_out_over_a_dict() -> None:
    sources = {"wiki": "https://wiki", "docs": "https://docs"}
    workflow = (
        Workflow().add_cascade("fetch", (sources, fetch_from_source)).add_cascade("merge", merge_results, deps="fetch")
    )
    play = Play(workflow)
    play.run(call=True)
    assert play.recorded("merge") == ["read https://wiki", "read https://docs"]


def test_b13_a_graft_runs_before_its_dependents() -> None:
    workflow = (
        Workflow()
        .add("setup", SetupWorker.new({}))
        .add_graft("notify", UserNotifier.new({"account_id": 3}), deps="setup")
        .add("summary", FinishWorker.new({}), deps="notify")
    )
    play = Play(workflow)
    assert play.run(call=True) is FlowState.COMPLETED
    assert play.order == ["setup", "notify", "notify/0", "notify/1", "notify/2", "summary"]
    assert [play.recorded(f"notify/{user}") for user in range(3)] == [0, 1, 2]


def test_b14_custom_ids_and_names() -> None:
    assert Workflow(id="custom-unique-id").id == "custom-unique-id"
    assert Workflow(name="nightly-etl").name == "nightly-etl"


def test_b15_flags_of_a_workflow() -> None:
    workflow = Workflow(ignore_cancelled=True, ignore_discarded=True)
    workflow.add("step_1", Worker.new({})).add("step_2", Worker.new({}), deps="step_1")
    play = Play(workflow)
    play.advance()
    play.end("step_1", FAILED)
    assert play.run() is FlowState.DISCARDED
    assert play.states == {"step_1": "discarded", "step_2": "completed"}


def test_b16_flags_of_jobs() -> None:
    workflow = (
        Workflow()
        .add("step_1", Worker.new({}))
        .add("step_2", Worker.new({}), deps="step_1", ignore_cancelled=True)
        .add("step_3", Worker.new({}), deps="step_2", ignore_discarded=True)
    )
    play = Play(workflow)
    assert play.cancel("step_1") == 1
    play.advance()
    play.end("step_2", FAILED)
    assert play.run() is FlowState.DISCARDED
    assert play.states == {"step_1": "cancelled", "step_2": "discarded", "step_3": "completed"}


def test_b21_the_mermaid_text_is_exact() -> None:
    workflow = (
        Workflow()
        .add("setup", SetupWorker.new({}))
        .add("process_a", ProcessWorker.new({}), deps="setup")
        .add("process_b", ProcessWorker.new({}), deps="setup")
        .add("finish", FinishWorker.new({}), deps=["process_a", "process_b"])
    )
    assert workflow.to_mermaid() == MERMAID


def test_b23_cancel_all_and_cancel_two() -> None:
    def flow() -> Play:
        workflow = Workflow()
        for number in range(5):
            workflow.add(f"step_{number}", NotifyWorker.new({"user_id": number}))
        return Play(workflow)

    everything, two = flow(), flow()
    assert everything.cancel() == 5
    assert two.cancel("step_2", "step_3") == 2
    assert two.run() is FlowState.CANCELLED


def test_b24_retry_all_and_retry_a_named_job() -> None:
    workflow = Workflow().add("failed_step", Worker.new({})).add("other", Worker.new({})).add("fine", Worker.new({}))
    play = Play(workflow)
    assert play.run(fails={"failed_step": [None], "other": [None]}) is FlowState.DISCARDED
    assert play.retry("failed_step") == 1
    assert play.run() is FlowState.DISCARDED
    assert play.retry() == 1
    assert play.run() is FlowState.COMPLETED


# the workflow tests of Chancy, in its words


def test_chancy_a_failure_leaves_its_dependents_without_a_start() -> None:
    workflow = Workflow("failing").add("step1", top).add("step2", lefts, ["step1"]).add("step3", right, ["step2"])
    play = Play(workflow)
    assert play.run(fails={"step2": [None]}) is FlowState.DISCARDED
    assert play.states == {"step1": "completed", "step2": "discarded", "step3": "cancelled"}
    assert play.order == ["step1", "step2"]


def test_chancy_modified_jobs_keep_their_modifications() -> None:
    changed = top.job.with_queue("high_priority").with_priority(10).with_max_attempts(3)
    definition = Workflow("modified").add("step", changed).definition()
    (member,) = definition.members
    assert member.work.kind == "step"
    assert (member.work.queue, member.priority, member.retry.max_attempts) == ("high_priority", 10, 3)
