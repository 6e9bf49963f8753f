"""The courses of schedules' occurrences with flows: an occurrence has one flow, and is open as long as its flow."""

import asyncio
from contextlib import suppress

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError

from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import ApproveMember
from crawler_lifecycle.flows.rules.messages import FlowOccurrence
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.naming import SCHEDULED, SCHEDULED_FLOW_WORKFLOW
from tests.crash.flows import nudged, run_of, runs_of, supervisor_of, until_ended, until_started
from tests.crash.graph import deciding, leaving
from tests.crash.stack import PATIENCE, PAUSE, Case, patiently, until
from tests.process.stops import assert_stopped

SCHEDULE = "nightly"


async def occurrence(case: Case) -> None:
    """The supervisor of the flow is terminated, and another child supervises the flow to its end."""
    case.deaths.arm()
    flow_id = case.plan.name
    occurring = await occur(case, deciding("decisions"))
    supervisor = await supervised(case, flow_id)
    await supervisor.terminate("a test")
    for name in ("go", "wait"):
        await nudged(case, "change", ApproveMember(path=name), flow_id)
    await until_ended(case, flow_id, FlowState.COMPLETED)
    async with asyncio.timeout(PATIENCE):
        end = await occurring.result()
    (record,) = case.site.control.flows.list(family=SCHEDULE, ids=[flow_id])
    assert end == {"flow_uid": record.uid, "flow_id": flow_id, "state": FlowState.COMPLETED}
    assert [line.event for line in case.site.control.flows.lines(flow_id)].count("pushed") == 1


async def occurrence_cancelled(case: Case) -> Started:
    """Temporal cancels the occurrence, as for the overlap rule `replace`: its flow is cancelled, and its crawl ends."""
    case.deaths.arm()
    flow_id = case.plan.name
    occurring = await occur(case, leaving("leaving"))
    await until(lambda: is_on_record(case, flow_id))
    run = await run_of(case, flow_id, "late", 1)
    await until_started(case, run, 1)
    await occurring.cancel()
    await until_ended(case, flow_id, FlowState.CANCELLED)
    case.begun.append(run)
    await case.until_handed_over(run)
    await assert_stopped(case.site, run)
    with pytest.raises(WorkflowFailureError) as failure:
        async with asyncio.timeout(PATIENCE):
            await occurring.result()
    assert isinstance(failure.value.cause, CancelledError)
    assert runs_of(case, flow_id) == {("late", 1, ())}
    return run


async def occur(case: Case, workflow: Workflow) -> WorkflowHandle[object, object]:
    """Start an occurrence of the schedule. Its flow has the name of the case as its id."""
    due = FlowOccurrence(schedule_id=SCHEDULE, definition=workflow.definition())
    engine, name = case.site.control.engine, f"{SCHEDULED}{case.plan.name}"
    return await patiently(lambda: engine.start(SCHEDULED_FLOW_WORKFLOW, due, name, "a crash test", join=True))


async def supervised(case: Case, flow_id: str) -> WorkflowHandle[object, object]:
    """Wait for the supervisor, the child of the occurrence."""
    await until(lambda: is_on_record(case, flow_id))
    supervisor = await supervisor_of(case, flow_id)
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(RPCError):  # the child has not begun
                if (await supervisor.describe()).status is WorkflowExecutionStatus.RUNNING:
                    return supervisor
            await asyncio.sleep(PAUSE)


def is_on_record(case: Case, flow_id: str) -> bool:
    with suppress(NotFound):
        return bool(case.site.control.flows.row(flow_id))
    return False
