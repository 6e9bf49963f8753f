import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.audits import AuditRequest
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.temporal.boundary import Boundary
from tests.kit.service.rig import Rig
from tests.kit.temporal.plays import Play, played, working
from tests.kit.temporal.script import Script
from tests.runs.stops import Held, until_asked

pytestmark = pytest.mark.regression(
    'Temporal\'s tools showed "Activity task failed", a result of null and a cancel without a person'
)

BOOKS = RunRequest(crawler="books")
PATIENCE = 60


async def failure_of(handle: WorkflowHandle[Any, Any]) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    return failed.value.cause


async def test_a_refused_request_fails_with_the_sentence_of_the_refusal(play: Play) -> None:
    script = Script()

    async def refuse() -> None:
        raise ApplicationError("crawler: there is no crawler named books", type="BadInput", non_retryable=True)

    script.before["create_history_id"] = refuse
    async with play(script) as stage:
        failure = await failure_of(await stage.start(BOOKS))
    assert (failure.message, failure.type) == ("crawler: there is no crawler named books", "BadInput")
    assert failure.__cause__ is not None, "the activity and its worker stay named"


async def test_a_refused_audit_fails_with_the_sentence_of_the_refusal(play: Play) -> None:
    script = Script()

    async def refuse() -> None:
        raise ApplicationError("another installation", type="Conflict", non_retryable=True)

    script.before["begin_audit"] = refuse
    async with play(script) as stage:
        handle = await stage.client.start_workflow(
            "AuditWorkflow", AuditRequest(), id=f"audit-{uuid4()}", task_queue=stage.task_queue
        )
        assert (await failure_of(handle)).message == "another installation"


async def reset(client: Client, handle: WorkflowHandle[Any, Any]) -> WorkflowHandle[Any, Any]:
    history = await handle.fetch_history()
    first_task = next(e.event_id for e in history.events if e.HasField("workflow_task_completed_event_attributes"))
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=str(handle.first_execution_run_id)),
            workflow_task_finish_event_id=first_task,
            request_id=str(uuid4()),
            reason="by hand",
        )
    )
    return client.get_workflow_handle(handle.id, run_id=answer.run_id)


def as_scripted(script: Script, rig: Rig) -> list[Any]:
    """The activities of the script, but for the one that makes the run's row."""
    scripted = [
        step
        for step in script.activities()
        if activity._Definition.must_from_callable(step).name != "create_history_id"
    ]
    return [rig.histories.create_history_id, *scripted]


@pytest.mark.parametrize(
    ("status", "again"),
    [
        (RunStatus.COMPLETED, "use a start of its own"),
        (RunStatus.FAILED, "use `crawlctl resume {run} --reopen`"),
    ],
)
@pytest.mark.long
async def test_a_reset_of_a_run_that_is_over_says_why_it_makes_no_run(
    real_time: WorkflowEnvironment, rig: Rig, status: RunStatus, again: str
) -> None:
    script, queue, client = Script(), f"queue-{uuid4()}", real_time.client
    with ThreadPoolExecutor(2) as threads:
        steps = as_scripted(script, rig)
        worker = working(client, queue, steps, activity_executor=threads, interceptors=[Boundary()])
        async with worker, asyncio.timeout(PATIENCE):
            handle = await client.start_workflow(
                "CrawlerLifecycleWorkflow", BOOKS, id=f"crawl-{uuid4()}", task_queue=queue, start_signal="nudge"
            )
            await handle.result()
            run = script.inputs("update_run_status")[0].run
            await asyncio.to_thread(rig.tasks.cancel_queued, run, "stopped")
            await asyncio.to_thread(rig.store.runs.close, run, status, "some reason")
            failure = await failure_of(await reset(client, handle))
    refusal, _, advice = failure.message.partition(": a reset, retry or cron of Temporal makes no second run. ")
    assert refusal == f"workflow: this chain of executions has made run {run.run_id} already, which is over ({status})"
    assert advice == f"To crawl again, {again.format(run=run.run_id)}"


@pytest.mark.long
async def test_a_run_that_its_schedule_replaced_names_the_schedule(real_time: WorkflowEnvironment) -> None:
    script, schedule_id = Script(), f"nightly-{uuid4()}"
    script.alive = until_asked(script)
    held, logged = Held(script, "run_onetime_crawler"), asyncio.Event()

    async def log() -> None:
        logged.set()

    script.before["add_cancellation_log_to_db"] = log
    client = real_time.client
    async with played(real_time, script) as stage, asyncio.timeout(PATIENCE):
        action = ScheduleActionStartWorkflow(
            "CrawlerLifecycleWorkflow", BOOKS, id=f"crawl-{schedule_id}", task_queue=stage.task_queue
        )
        replaces = SchedulePolicy(overlap=ScheduleOverlapPolicy.CANCEL_OTHER)
        handle = await client.create_schedule(schedule_id, Schedule(action, ScheduleSpec(), policy=replaces))
        try:
            await handle.trigger()
            await held.reached.wait()
            await asyncio.sleep(1.1)  # the ids of a schedule's workflows end with the second
            await handle.trigger()
            held.go_on.set()
            await logged.wait()
        finally:
            await handle.delete()
    stop = script.inputs("add_cancellation_log_to_db")[0].stop
    assert (stop.actor, stop.door, stop.reason) == (
        f"schedule {schedule_id}",
        "schedule",
        "its next occurrence was due",
    )
