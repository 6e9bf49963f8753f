"""Every path through the workflow of flows, as a course that a test takes with a graph on a real ledger."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows import RetryPolicy, Workflow, crawl, each_task
from crawler_lifecycle.flows.rules.messages import FlowOccurrence, RunSteps
from crawler_lifecycle.flows.workflows import course as flow_course
from crawler_lifecycle.flows.workflows import scheduled_flow
from crawler_lifecycle.flows.workflows import steps as flow_steps
from crawler_lifecycle.model.naming import SCHEDULED_FLOW_WORKFLOW, flow_workflow_id
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from tests.kit.authors.work import item_and_context, plain
from tests.kit.temporal.flow_stage import FAILED, FlowStage, flow_stage
from tests.kit.temporal.graphs import chain, diamond, door, pair, shown_as
from tests.kit.waiting import PATIENCE

Course = Callable[[FlowStage], Awaitable[WorkflowHandle[Any, Any]]]
LATE = timedelta(hours=1)
SOON = timedelta(milliseconds=100)


@dataclass(frozen=True)
class FlowPath:
    course: Course
    continues: bool = False  # as new, on a server that suggests it early
    receivers_are_files: bool = False
    has_one_order: bool = True  # whether acts come in one order, although several are under way at once


async def play_flow(
    environment: WorkflowEnvironment, path: FlowPath, unseen: timedelta = flow_steps.UNSEEN
) -> WorkflowHandle[Any, Any]:
    """Take the course to the flow's end; return the handle of its last execution.

    `unseen`: how long a start may take, and changes gather. On a busy machine a start leaves marks in the history.
    """
    patched = patch.object(flow_steps, "UNSEEN", unseen), patch.object(flow_course, "GATHERING", unseen / 2)
    with TemporaryDirectory() as folder, patched[0], patched[1]:
        url = f"sqlite:///{Path(folder) / 'crawler.db'}"
        upgrade(url)
        database = Database(url)
        try:
            async with flow_stage(environment.client, database, receivers_are_files=path.receivers_are_files) as flows:
                return await path.course(flows)
        finally:
            database.close()


def _runs(make: Callable[[], Workflow]) -> Course:
    async def course(flows: FlowStage) -> WorkflowHandle[Any, Any]:
        return flows.supervisor(await flows.run(make()))

    return course


def _ends_of_itself(flows: FlowStage, *ends: RunStatus) -> None:
    """Let each run end before its start is over, so that a history has one order."""
    start, statuses = flows.crawls.start_crawl, list(ends)

    async def start_and_end(workflow_id: str, request: RunRequest) -> None:
        await start(workflow_id, request)
        assert request.flow is not None
        number = len(flows.crawls.runs[request.flow.path])
        status = statuses.pop(0)
        reason = "all_succeeded" if status is RunStatus.COMPLETED else "all_failed"
        await flows.crawls.end(request.flow.path, status, reason, number=number)

    flows.crawls.start_crawl = start_and_end  # type: ignore[method-assign]


async def _crawl(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    _ends_of_itself(flows, RunStatus.COMPLETED)
    return flows.supervisor(await flows.run(Workflow().add("shop", crawl("books")).add("a", plain, deps="shop")))


async def _grown(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    _ends_of_itself(flows, RunStatus.COMPLETED)
    workflow = Workflow().add("shop", crawl("books", tasks=2)).add_cascade("each", each_task("shop", item_and_context))
    return flows.supervisor(await flows.run(workflow))


async def _outdated(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    flow = flows.push(pair())
    doors = [flow.append]

    async def append_first(step: RunSteps) -> None:
        while doors:
            await door(doors.pop(), "more", Workflow(check_deps=False).add("c", plain, deps="b"))

    flows.host.before_begin = append_first
    await flows.nudge(flow)
    await flows.supervisor(flow).result()
    return flows.supervisor(flow)


async def _held(
    flows: FlowStage, act: Callable[[Any, WorkflowHandle[Any, Any]], Awaitable[None]]
) -> WorkflowHandle[Any, Any]:
    """Act while the first step runs."""
    flows.host.hold("a")
    flow, supervisor = await flows.start(pair())
    await flows.host.begun["a"].wait()
    await act(flow, supervisor)
    flows.host.release("a")
    try:
        await flows.supervisor(flow).result()
    except WorkflowFailureError:
        return flows.supervisor(flow)
    return flows.supervisor(flow)


async def _cancelled(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    async def cancel(flow: Any, supervisor: WorkflowHandle[Any, Any]) -> None:
        stopping = _asking(flows)
        await door(flow.cancel)
        await flows.nudge(flow)
        await asyncio.to_thread(stopping.wait, PATIENCE)

    return await _held(flows, cancel)


async def _cancelled_by_temporal(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    async def cancel(flow: Any, supervisor: WorkflowHandle[Any, Any]) -> None:
        stopping = _asking(flows)
        await supervisor.cancel()
        await asyncio.to_thread(stopping.wait, PATIENCE)

    return await _held(flows, cancel)


def _asking(flows: FlowStage) -> threading.Event:
    """Return an event that is set when the supervisor asks the attempts under way to stop."""
    stopping = threading.Event()
    flows.ledger.after["crawls_to_stop"] = lambda *_: stopping.set()
    return stopping


async def _rewired(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    async def rewire(flow: Any, supervisor: WorkflowHandle[Any, Any]) -> None:
        changed = Workflow(id=flow.id, check_deps=False).add("c", plain).add("b", plain, deps=["a", "c"])
        await door(flow.push, changed)
        await flows.nudge(flow)
        await shown_as(flow, "c", "completed")

    return await _held(flows, rewire)


async def _taken_over(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    async def terminate(flow: Any, supervisor: WorkflowHandle[Any, Any]) -> None:
        await supervisor.terminate()
        await flows.nudge(flow)
        while len(flows.host.calls) < 2:
            await asyncio.sleep(0.02)

    return await _held(flows, terminate)


async def _approved(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    flow = flows.push(Workflow().add_approval("ok").add("a", plain, deps="ok"))
    await door(flow.approve, "ok")
    await flows.nudge(flow)
    await flows.supervisor(flow).result()
    return flows.supervisor(flow)


async def _tried_again(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    async def fail(step: Any) -> dict[str, Any]:
        flows.host.plays.clear()
        return {"kind": FAILED}

    flows.host.plays["a"] = fail
    workflow = Workflow().add("a", plain, retry=RetryPolicy(max_attempts=2, pause_seconds=1))
    return flows.supervisor(await flows.run(workflow))


async def _bad_input(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    handle = await flows.client.start_workflow("FlowWorkflow", {"flow_uid": 7}, id="bad", task_queue=flows.queue)
    try:
        await handle.result()
    except WorkflowFailureError:
        return handle
    raise AssertionError("a bad input is refused")


async def _announced_later(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    send, tries = flows.receivers.send, [TemporaryError("no answer")]

    def fail_once(notice: Any) -> None:
        if tries:
            raise tries.pop()
        send(notice)

    flows.receivers.send = fail_once  # type: ignore[method-assign]
    return flows.supervisor(await flows.run(pair()))


async def _occurs(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    occurrence = FlowOccurrence(schedule_id="nightly", definition=pair().definition())
    return await flows.client.start_workflow(
        SCHEDULED_FLOW_WORKFLOW, occurrence, id=f"crawl-nightly-{flows.queue}", task_queue=flows.queue
    )


async def _supervisor_of_occurrence(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    """Return the supervisor, the child of the occurrence, as soon as the flow's step runs."""
    await flows.host.begun["a"].wait()
    (flow,) = flows.store.flow_records.page(limit=2)
    return flows.client.get_workflow_handle(flow_workflow_id(flow.uid))


async def _scheduled(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    handle = await _occurs(flows)
    await handle.result()
    return handle


async def _scheduled_again(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    """The supervisor is terminated, and the occurrence starts another child after a pause."""
    flows.host.hold("a")
    with patch.object(scheduled_flow, "PAUSE", SOON):
        handle = await _occurs(flows)
        await (await _supervisor_of_occurrence(flows)).terminate()
        flows.host.release("a")
        await handle.result()
    return handle


async def _scheduled_cancelled(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    flows.host.hold("a")
    handle = await _occurs(flows)
    await _supervisor_of_occurrence(flows)
    stopping = _asking(flows)
    await handle.cancel()
    await asyncio.to_thread(stopping.wait, PATIENCE)
    flows.host.release("a")
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    return handle


async def _followed(flows: FlowStage) -> WorkflowHandle[Any, Any]:
    """The host starts the steps by itself, and a crawl comes after them."""
    flows.host.follows = True
    _ends_of_itself(flows, RunStatus.COMPLETED)
    return flows.supervisor(await flows.run(chain(3).add("shop", crawl("books"), deps="j2")))


FLOW_PATHS = {
    "flow_diamond": FlowPath(_runs(diamond)),
    "flow_announced_at_once": FlowPath(_runs(pair), receivers_are_files=True),
    "flow_followed": FlowPath(_followed),
    "flow_in_slices": FlowPath(_runs(lambda: Workflow().add_many("many", [plain] * 20))),
    "flow_with_a_failure": FlowPath(_runs(lambda: Workflow().add("a", crawl("unknown")).add("b", plain, deps="a"))),
    "flow_crawl": FlowPath(_crawl),
    "flow_grown_by_tasks": FlowPath(_grown, has_one_order=False),
    "flow_with_an_outdated_start": FlowPath(_outdated),
    "flow_with_other_needs": FlowPath(_rewired),
    "flow_cancelled": FlowPath(_cancelled),
    "flow_cancelled_by_temporal": FlowPath(_cancelled_by_temporal),
    "flow_taken_over": FlowPath(_taken_over),
    "flow_approved": FlowPath(_approved),
    "flow_tried_again": FlowPath(_tried_again),
    "flow_announced_later": FlowPath(_announced_later),
    "flow_scheduled": FlowPath(_scheduled),
    "flow_scheduled_again": FlowPath(_scheduled_again),
    "flow_scheduled_cancelled": FlowPath(_scheduled_cancelled),
    "flow_bad_input": FlowPath(_bad_input),
    "flow_continued": FlowPath(_runs(lambda: chain(30)), continues=True),
}
