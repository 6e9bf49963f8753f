"""Crawls in a flow. The flow reads the rows of its runs, and every nudge may be lost."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from crawler_lifecycle.database.schema import task_histories
from crawler_lifecycle.flows import RetryPolicy, RetryRule, Workflow, crawl, each_task
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.naming import crawl_workflow_id, event_id
from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportKind, ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from crawler_lifecycle.runs.store.exports import Exports
from tests.kit.authors.work import item_and_context, plain
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import ref_to
from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.temporal.graphs import door, shown_as
from tests.kit.waiting import eventually

ONE = RetryPolicy(max_attempts=1)


def shop(**options: Any) -> Workflow:
    return Workflow().add("shop", crawl("books"), **options).add("parse", plain, deps="shop")


async def test_a_crawl_is_a_run_and_its_end_brings_the_flow_on(flows: FlowStage) -> None:
    flow, supervisor = await flows.start(shop())
    run = await flows.crawls.run_of("shop")
    assert run.workflow_id == crawl_workflow_id(flow.uid, 0, 1)
    link = run.request.flow
    assert link is not None
    assert (link.flow_uid, link.member, link.attempt, link.tells_tasks) == (flow.uid, 0, 1, False)
    assert flows.host.played == []
    await flows.crawls.end("shop")
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == ["parse"]


async def test_a_lost_nudge_is_made_good_by_a_look(skipping_flows: FlowStage) -> None:
    flows = skipping_flows
    flow, supervisor = await flows.start(shop())
    await flows.crawls.end("shop", nudge=False)
    await supervisor.result()
    assert set(flow.states.values()) == {"completed"}


async def test_a_failed_crawl_is_tried_again_as_a_new_run(skipping_flows: FlowStage) -> None:
    flows = skipping_flows
    policy = RetryPolicy(max_attempts=2, pause_seconds=600)
    flow, supervisor = await flows.start(shop(retry=policy))
    ending = asyncio.create_task(supervisor.result())  # while a result is awaited, the server skips time
    await flows.crawls.end("shop", RunStatus.FAILED, "all_failed")
    second = await flows.crawls.run_of("shop", 2)
    assert second.workflow_id == crawl_workflow_id(flow.uid, 0, 2)
    await flows.crawls.end("shop", number=2)
    assert (await ending)["state"] == "completed"
    first, last = flow.store.flow_records.attempts(flow.id, 0)
    assert (first.run_id, last.run_id) == (flows.crawls.runs["shop"][0].run_id, second.run_id)


async def test_rules_retry_by_the_crawls_words(skipping_flows: FlowStage) -> None:
    """First banned although the run is completed, then out of memory."""
    flows = skipping_flows
    rules = (
        RetryRule(outcomes=("banned",), max_attempts=2, pause_seconds=3600),
        RetryRule(outcomes=("killed by oom",), max_attempts=2, memory_factor=3),
    )
    flow, supervisor = await flows.start(shop(retry=RetryPolicy(rules=rules)))
    ending = asyncio.create_task(supervisor.result())  # while a result is awaited, the server skips time
    first = await flows.crawls.run_of("shop")
    await asyncio.to_thread(end_tasks, flows.database, first, [CrawlResult(outcome="banned")])
    await flows.crawls.end("shop")
    second = await flows.crawls.run_of("shop", 2)
    await asyncio.to_thread(end_tasks, flows.database, second, [None], TaskStatus.FAILED, "oom_killed")
    await flows.crawls.end("shop", RunStatus.FAILED, "main_job_failed", number=2)
    third = await flows.crawls.run_of("shop", 3)
    await flows.crawls.end("shop", number=3)
    assert (await ending)["state"] == "completed"
    assert [run.request.memory_factor for run in (first, second, third)] == [1, 1, 3]
    outcomes = [attempt.outcome for attempt in flow.store.flow_records.attempts(flow.id, 0)]
    assert outcomes == ["banned", "killed by oom", "finished"]
    assert flows.host.played == ["parse"]


async def test_a_crawl_that_the_catalogue_does_not_know_is_refused_at_once(flows: FlowStage) -> None:
    workflow = Workflow().add("shop", crawl("unknown")).add("other", crawl("books"))
    flow, supervisor = await flows.start(workflow)
    await shown_as(flow, "shop", "discarded")
    assert flow.row("shop").reason == "start_refused"
    (attempt,) = flow.store.flow_records.attempts(flow.id, 0)
    assert attempt.error == "crawler: there is no crawler named unknown"
    await flows.crawls.end("other")
    assert (await supervisor.result())["state"] == "discarded"


async def test_a_workflow_that_failed_before_its_run_refuses_the_attempt(skipping_flows: FlowStage) -> None:
    flows = skipping_flows
    flows.crawls.failing["shop"] = "tasks: 7 are asked for"
    flow, supervisor = await flows.start(shop())
    assert (await supervisor.result())["state"] == "discarded"
    (attempt,) = flow.store.flow_records.attempts(flow.id, 0)
    assert (attempt.reason, attempt.error) == ("start_refused", "tasks: 7 are asked for")


async def test_a_cancel_stops_the_run_and_waits_for_its_end(flows: FlowStage) -> None:
    flow, supervisor = await flows.start(shop())
    run = await flows.crawls.run_of("shop")
    await door(flow.cancel)
    await flows.nudge(flow)
    await stopped(flows, run)
    assert flow.states == {"shop": "cancelled", "parse": "cancelled"}
    assert not flow.ledger.flow.state.is_final
    await flows.crawls.end("shop", RunStatus.FAILED, "stopped")
    assert (await supervisor.result())["state"] == "cancelled"


async def stopped(flows: FlowStage, run: RunRecord) -> None:
    await eventually(lambda: flows.crawls.stopped == [run.workflow_id])
    assert flows.store.runs.get(run.run_id).intent is Intent.STOP


async def test_a_cancel_before_the_run_exists_reaches_its_workflow(flows: FlowStage) -> None:
    """The start goes first, so that the stop finds the workflow."""
    flow, begun = flows.push(shop()), asyncio.Event()
    starts, start = list[str](), flows.crawls.start_crawl

    async def start_late(workflow_id: str, request: Any) -> None:
        await door(flow.cancel)
        await flows.nudge(flow)
        await shown_as(flow, "parse", "cancelled")
        begun.set()
        starts.append(workflow_id)
        await start(workflow_id, request)

    flows.crawls.start_crawl = start_late  # type: ignore[method-assign]
    await flows.nudge(flow)
    run = await flows.crawls.run_of("shop")
    await stopped(flows, run)
    assert starts == [run.workflow_id]
    await flows.crawls.end("shop", RunStatus.FAILED, "stopped")
    assert (await flows.supervisor(flow).result())["state"] == "cancelled"


async def test_a_run_that_is_reopened_after_the_end_of_its_flow_goes_on(flows: FlowStage) -> None:
    flow, supervisor = await flows.start(shop(retry=ONE))
    await flows.crawls.end("shop", RunStatus.FAILED, "all_failed")
    assert (await supervisor.result())["state"] == "discarded"
    (run,) = flows.crawls.runs["shop"]
    await asyncio.to_thread(flows.store.runs.reopen, run.run_id, SupervisorExecution(run.workflow_id, "second"))
    await flows.nudge(flow)
    await shown_as(flow, "shop", "executing")
    await flows.crawls.end("shop")
    assert (await flows.supervisor(flow).result())["state"] == "completed"
    assert flows.host.played == ["parse"]


async def test_a_crawl_may_count_as_completed_when_its_archive_is_ready(flows: FlowStage) -> None:
    flow, supervisor = await flows.start(shop(when="archived"))
    run = await flows.crawls.run_of("shop")
    assert run.request.flow
    assert run.request.flow.waits_for_archive
    await flows.crawls.end("shop")
    await eventually(lambda: flow.row("shop").cause == "archive")
    run = flows.store.runs.get(run.run_id)
    for kind in ExportKind:
        await asyncio.to_thread(export, flows, run, kind)
    await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played == ["parse"]


def export(flows: FlowStage, run: RunRecord, kind: ExportKind) -> None:
    exports: Exports = flows.store.runs  # type: ignore[assignment]
    event = ExportEvent(
        event_id=event_id(run.run_uid, kind, 1),
        end=1,
        kind=kind,
        run_id=run.run_id,
        run_uid=run.run_uid,
        crawler=run.crawler,
        status=run.status,
        reason=run.reason,
        tasks=run.tasks,
        supporting_files="nowhere",
        at=run.finished_at,
    )
    exports.open_export(ref_to(run), event)
    exports.settle_export(ref_to(run), event.event_id, ExportState.DONE, None, None, event)


async def test_steps_for_the_tasks_of_a_crawl_start_as_their_tasks_end(flows: FlowStage) -> None:
    workflow = Workflow().add("shop", crawl("books", tasks=3)).add_cascade("parse", each_task("shop", item_and_context))
    flow, supervisor = await flows.start(workflow.add("merge", plain, deps="parse"))
    run = await flows.crawls.run_of("shop")
    assert run.request.flow
    assert run.request.flow.tells_tasks
    await asyncio.to_thread(succeed, flows, run, 1)
    await flows.nudge(flow)
    await shown_as(flow, "parse/1", "completed")
    assert flow.states["parse/0"] == "suspended"
    for task in (0, 2):
        await asyncio.to_thread(succeed, flows, run, task)
    await flows.crawls.end("shop")
    assert (await supervisor.result())["state"] == "completed"
    assert flows.host.played[0] == "parse/1"
    assert flows.host.played[-1] == "merge"


def succeed(flows: FlowStage, run: RunRecord, task: int) -> None:
    row = task_histories.c
    with flows.store.runs._db.transaction() as tx:  # type: ignore[attr-defined]
        this_task = (row.history_id == run.run_id, row.task == task)
        tx.execute(update(task_histories).where(*this_task).values(status=TaskStatus.SUCCEEDED))


@pytest.mark.sequences
async def test_a_hundred_crawls_start_and_end(flows: FlowStage) -> None:
    workflow = (
        Workflow().add_many("shops", {str(n): crawl("books") for n in range(120)}).add("all", plain, deps="shops")
    )
    flow, supervisor = await flows.start(workflow)
    for number in range(120):
        await flows.crawls.run_of(f"shops/{number}")
    await asyncio.gather(*(flows.crawls.end(f"shops/{number}", nudge=number % 10 == 9) for number in range(120)))
    await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "completed"
    assert len(flows.crawls.runs) == 120
