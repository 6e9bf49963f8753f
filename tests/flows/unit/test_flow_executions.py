"""Executions of a flow's workflow: take-overs, continue-as-new, cancels by Temporal's tools, and inputs."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.ports.steps import BegunStep
from crawler_lifecycle.flows.rules.messages import StartCrawls
from crawler_lifecycle.flows.workflows.supervision import FlowDisplay
from crawler_lifecycle.model.naming import FLOW_WORKFLOW
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.flows.resets import reset, task_behind
from tests.kit.authors.work import plain
from tests.kit.data.databases import copy_of
from tests.kit.temporal.flow_stage import FlowStage, flow_stage
from tests.kit.temporal.graphs import activities_of, chain, door, pair, shown_as
from tests.kit.waiting import eventually, eventually_async


async def test_another_execution_goes_on_with_the_steps_under_way(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair())
    await flows.host.begun["a"].wait()
    await supervisor.terminate("an operator's mistake")
    await flows.nudge(flow)
    await eventually(lambda: len(flows.host.calls) == 2)
    flows.host.release("a")
    assert (await flows.supervisor(flow).result())["state"] == "completed"
    assert flows.host.played == ["a", "b"]
    assert [ref.attempt for step in flows.host.calls for ref in step.starts] == [1, 1, 1]


async def test_what_ended_without_a_supervisor_counts(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair().add("shop", crawl("books")))
    await flows.host.begun["a"].wait()
    await flows.crawls.run_of("shop")
    await supervisor.terminate("an operator's mistake")
    flows.host.release("a")
    await flows.crawls.end("shop", nudge=False)
    await shown_as(flow, "a", "completed")
    await flows.nudge(flow)
    assert (await flows.supervisor(flow).result())["state"] == "completed"
    assert flows.host.played == ["a", "b"]
    assert len(flows.crawls.runs["shop"]) == 1


async def test_a_crawl_on_record_without_a_workflow_is_started_by_the_next_execution(flows: FlowStage) -> None:
    flow, loop = flows.push(Workflow().add("shop", crawl("books"))), asyncio.get_running_loop()
    started = flows.crawls.start_crawl

    def die_after_the_record(step: StartCrawls) -> None:
        asyncio.run_coroutine_threadsafe(flows.supervisor(flow).terminate(), loop).result()

    async def die(*_: Any) -> None:
        raise ApplicationError("the worker died", non_retryable=True)

    flows.crawls.start_crawl = die  # type: ignore[assignment, method-assign]
    flows.ledger.after["start_crawls"] = die_after_the_record
    await flows.nudge(flow)
    with pytest.raises(WorkflowFailureError):
        await flows.supervisor(flow).result()
    flows.crawls.start_crawl = started  # type: ignore[method-assign]
    await flows.nudge(flow)
    await flows.crawls.end("shop")
    assert (await flows.supervisor(flow).result())["state"] == "completed"
    assert len(flows.crawls.runs["shop"]) == 1
    assert flow.row("shop").attempt == 1


async def test_an_execution_that_was_taken_over_ends_as_failed(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair())
    await flows.host.begun["a"].wait()
    await asyncio.to_thread(flows.store.flow_ledger.begin, flow.uid, SupervisorExecution("another", str(uuid4())))
    flows.host.release("a")
    with pytest.raises(WorkflowFailureError) as failure:
        await supervisor.result()
    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.type == "Fenced"
    assert "has another supervisor now" in failure.value.cause.message


async def path_as_result(step: BegunStep) -> dict[str, Any]:
    return {"result": json.dumps(step.path)}


@pytest.mark.parametrize("ends", [0, 1, 2], ids=["first_task", "behind_the_first_step", "beside_the_held_step"])
@pytest.mark.long
async def test_a_reset_of_the_workflow_goes_on_with_the_rows(flows: FlowStage, ends: int) -> None:
    """The former execution still has its activity for the held step under way; the step is asked for again."""
    flows.host.plays = dict.fromkeys(["j0", "j1", "j2"], path_as_result)
    flows.host.hold("j1")
    flow, supervisor = await flows.start(chain(3))
    await flows.host.begun["j1"].wait()
    await flows.nudge(flow)  # the reading is the second activity that ends
    await task_behind(supervisor, 2)
    again = await reset(flows, supervisor, ends)
    await eventually(lambda: any(step.flow.epoch > 1 and step.starts[0].number == 1 for step in flows.host.calls))
    assert sum(not running.done() for running in flows.host.running) >= 2
    flows.host.release("j1")
    assert (await again.result())["state"] == "completed"
    assert flows.host.played == ["j0", "j1", "j2"]
    assert flow.store.flow_records.results(flow.id, range(3)) == {0: "j0", 1: "j1", 2: "j2"}
    assert {row.attempt for row in flow.ledger.members.values()} == {1}
    assert flow.ledger.flow.state.value == "completed"
    assert flow.events == ["pushed", "taken over", "ended"]
    assert len(flows.receivers.notices) == len(flows.receivers.events) == 1


async def test_a_beginning_and_an_end_survive_an_absent_database(flows: FlowStage) -> None:
    """Both are tried once inside of the workflow task, and then as any activity."""

    def be_absent(_: Any) -> None:
        raise TemporaryError("the database does not answer")

    flows.ledger.before |= {"begin": lambda *_: be_absent(None), "write": be_absent}
    flow = await flows.run(pair())
    assert set(flow.states.values()) == {"completed"}
    activities = await activities_of(flows.supervisor(flow))
    assert (activities["begin_flow"], activities["write_flow"]) == (1, 1)


async def test_an_execution_that_changed_code_cannot_replay_is_followed_by_another(
    real_time: WorkflowEnvironment, sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(copy_of(sqlite_template, tmp_path))
    async with flow_stage(real_time.client, database, cached_workflows=0) as flows:
        flows.host.hold("a")
        flow, supervisor = await flows.start(pair())
        await flows.host.begun["a"].wait()
        monkeypatch.setattr(FlowDisplay, "show", lambda *_: None)  # without the search attributes in the history
        await flows.nudge(flow)
        with pytest.raises(WorkflowFailureError) as failure:
            await supervisor.result()
        assert "Nondeterminism" in str(failure.value.cause)
        await flows.nudge(flow)
        flows.host.release("a")
        assert (await flows.supervisor(flow).result())["state"] == "completed"
        assert flows.host.played == ["a", "b"]
    database.close()


@pytest.mark.long
async def test_a_long_history_goes_on_in_another_execution(long_flows: FlowStage) -> None:
    flows = long_flows
    flows.host.hold("slow")
    workflow = chain(40).add("slow", plain).add("last", plain, deps=["slow", "j39"])
    flow, supervisor = await flows.start(workflow)
    await flows.host.begun["slow"].wait()
    await shown_as(flow, "j39", "completed")
    flows.host.release("slow")
    assert (await supervisor.result())["state"] == "completed"
    assert Counter(flows.host.played) == Counter([f"j{n}" for n in range(40)] + ["slow", "last"])
    described = await supervisor.describe()
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
    assert {row.attempt for row in flow.ledger.members.values()} == {1}


async def test_doors_and_crawls_while_executions_follow_one_another(long_flows: FlowStage) -> None:
    flows = long_flows
    flow, supervisor = await flows.start(chain(30).add("shop", crawl("books")).add("after", plain, deps="shop"))
    await flows.crawls.run_of("shop")
    for number in range(15):
        await door(flow.append, str(number), Workflow(check_deps=False).add(f"more{number}", plain))
        await flows.nudge(flow)
    await shown_as(flow, "j29", "completed")
    await flows.crawls.end("shop")
    assert (await supervisor.result())["state"] == "completed"
    assert set(flow.states.values()) == {"completed"}
    assert len(flows.host.played) == len(set(flows.host.played)) == 46


async def test_a_cancel_and_nudges_meet_a_continuation_with_a_step_under_way(long_flows: FlowStage) -> None:
    """Each execution asks for the step under way again, and no host begins its function again."""
    flows = long_flows
    flows.host.hold("slow")
    flow, supervisor = await flows.start(Workflow().add("slow", plain).add("never", plain, deps="slow"))
    await flows.host.begun["slow"].wait()

    async def continued() -> bool:
        await asyncio.gather(*(flows.nudge(flow) for _ in range(20)))
        return len(flows.host.calls) == 2

    await eventually_async(continued, "a second execution asks for the step", seen=lambda: len(flows.host.calls))
    await asyncio.gather(door(flow.cancel), *(flows.nudge(flow) for _ in range(20)))
    await shown_as(flow, "slow", "cancelled")
    flows.host.release("slow")
    assert (await flows.supervisor(flow).result())["state"] == "cancelled"
    assert flows.host.played == ["slow"]
    described = await supervisor.describe()
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id


@pytest.mark.sequences
async def test_two_thousand_nudges_are_taken_together(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair())
    await flows.host.begun["a"].wait()
    for _ in range(20):
        await asyncio.gather(*(flows.nudge(flow) for _ in range(100)))
    flows.host.release("a")
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == ["a", "b"]
    assert (await activities_of(supervisor))["read_flow"] < 1000, "each nudge was read by itself"


async def test_a_cancel_by_temporal_cancels_all_members(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair().add("shop", crawl("books")))
    await flows.host.begun["a"].wait()
    run = await flows.crawls.run_of("shop")
    await supervisor.cancel()
    await eventually(lambda: flows.crawls.stopped == [run.workflow_id])
    assert flow.states == {"a": "cancelled", "b": "cancelled", "shop": "cancelled"}
    flows.host.release("a")
    await flows.crawls.end("shop", RunStatus.FAILED, "stopped")
    with pytest.raises(WorkflowFailureError):
        await supervisor.result()
    assert (await supervisor.describe()).status is WorkflowExecutionStatus.CANCELED
    line = next(line for line in flow.store.flow_records.lines(flow.id, after=0, limit=9) if line.actor == "temporal")
    assert line.door == "temporal"
    assert flow.ledger.flow.state.value == "cancelled"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "request: expected a JSON object, got no input"),
        ({"flow_uid": 7, "flow_id": "x"}, "flow_uid: expected a text"),
        ({"flow_uid": "nowhere", "flow_id": "x"}, "there is no flow with the uid nowhere"),
    ],
)
async def test_a_bad_input_ends_the_workflow_with_a_message(flows: FlowStage, given: Any, message: str) -> None:
    inputs = [] if given is None else [given]
    handle = await flows.client.start_workflow(FLOW_WORKFLOW, args=inputs, id=str(uuid4()), task_queue=flows.queue)
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.message.startswith(message)


async def test_lists_show_the_flow_and_its_state(flows: FlowStage) -> None:
    flow = await flows.run(Workflow(id=f"nightly-{uuid4()}").add("a", plain))
    query = f"FlowId = '{flow.id}' AND FlowState = 'completed'"

    async def listed() -> int:
        return (await flows.client.count_workflows(query)).count

    assert await eventually_async(listed) == 1


async def test_the_page_of_a_flow_shows_its_state_and_counts(flows: FlowStage) -> None:
    flows.host.hold("a")
    _, supervisor = await flows.start(pair())

    async def details() -> str:
        query = "__temporal_workflow_metadata"
        metadata: WorkflowMetadata = await supervisor.query(query, result_type=WorkflowMetadata)
        return metadata.current_details

    await flows.host.begun["a"].wait()
    assert await details() == "**executing**: 2 members\n\n- 1 suspended\n- 1 executing"
    flows.host.release("a")
    await supervisor.result()
    assert await details() == "**completed**: 2 members\n\n- 2 completed"
