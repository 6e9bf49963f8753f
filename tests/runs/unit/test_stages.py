"""The four stages: what is done, in which order, and what is not undone by trouble."""

from datetime import datetime, timedelta

import pytest
from temporalio.activity import info
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import TaskStatus, Trigger
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.model import DeploymentOutcome, MainJobStatus
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import DEPLOYED, STARTED, UNAVAILABLE, Script, in_turn
from tests.runs.stages import END, LOOK

BEGINNING = ["create_history_id", "add_workflow_id"]
STARTING = ["update_run_started", "signal_pusher_started"]


def over(task: int, status: TaskStatus = TaskStatus.SUCCEEDED) -> TaskChange:
    return TaskChange(task=task, attempt=1, version=1, status=status)


async def test_all_four_stages_in_order(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 2 else 0)
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books"))).result()
    assert script.names == [*BEGINNING, "run_onetime_crawler", "get_main_job_status", *STARTING, *LOOK, *LOOK, *END]
    assert result["status"] == "COMPLETED"
    assert script.request is not None
    assert script.request.model_dump() == RunRequest(crawler="books").model_dump()


async def test_time_has_its_own_way_to_deploy(play: Play) -> None:
    script = Script()
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books", trigger=Trigger.SCHEDULED))).result()
    assert "run_scheduled_crawler" in script.names
    assert "run_onetime_crawler" not in script.names


async def test_what_differs_is_kept_with_its_evidence_before_the_status_says_so(play: Play) -> None:
    script = Script(
        changes=lambda look: [over(0), over(1, TaskStatus.FAILED)] if look == 1 else [],
        alive=lambda look: 1 if look < 2 else 0,
    )
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    first = script.names.index("get_history_statuses_to_sync")
    assert script.names[first : first + 8] == [
        "get_history_statuses_to_sync",
        "get_bulk_task_history_data", "reconcile_tasks", "get_bulk_task_history_data", "reconcile_tasks",
        "sync_statuses", "count_alive_tasks", "signal_pusher_progress",
    ]  # fmt: skip


async def test_a_failed_deployment_is_tried_again_on_the_same_history(play: Play) -> None:
    script = Script(deployments=in_turn(UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, DEPLOYED))
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    assert script.names.count("run_onetime_crawler") == 4
    assert script.names.count("create_history_id") == 1
    assert {step.run for step in script.inputs("run_onetime_crawler")} == {script.run}


async def test_a_refused_deployment_ends_the_run_with_its_reason(play: Play) -> None:
    script = Script(deployments=in_turn(DeploymentOutcome(cause="deployment_refused", refused=True)))
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books"))).result()
    assert result["reason"] == "deployment_refused"
    assert script.names == [*BEGINNING, "run_onetime_crawler", "cancel_queued_tasks", *END]


async def test_a_main_job_that_is_over_before_the_first_look_is_a_started_run(play: Play) -> None:
    script = Script(statuses=in_turn(STARTED), alive=lambda look: 0)
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books"))).result()
    assert script.names.count("count_alive_tasks") == 1
    assert result["status"] == "COMPLETED"


async def test_a_main_job_that_waits_is_asked_for_again(play: Play) -> None:
    waits = MainJobStatus(cause="unschedulable")
    script = Script(statuses=in_turn(waits, waits, MainJobStatus(known=False), waits, STARTED))
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    assert script.names.count("get_main_job_status") == 5


async def test_a_main_job_that_vanished_is_left_to_the_looks(play: Play) -> None:
    script = Script(statuses=in_turn(MainJobStatus(vanished=True)))
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    assert script.names.count("get_main_job_status") == 2
    assert script.names[-len(END) :] == END


@pytest.mark.parametrize("never", ["starts", "is deployed"])
async def test_a_run_that_never_starts_is_ended_cleanly(play: Play, never: str) -> None:
    script = Script(
        statuses=in_turn(MainJobStatus(cause="unschedulable")),
        deployments=in_turn(DEPLOYED if never == "starts" else UNAVAILABLE),
        alive=lambda look: 1 if look < 3 else 0,
    )
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=60))).result()
    assert result["reason"] == "never_started"
    stop = script.names.index("add_cancellation_log_to_db")
    assert script.names[stop:] == [
        "add_cancellation_log_to_db", "cancel_queued_tasks", "note_stop_phase",
        "k8_stop_task", "k8_stop_task", "note_stop_phase", *LOOK,
        "k8_stop_task", "k8_stop_task", *LOOK,
        "k8_stop_task", "k8_stop_task", *LOOK,
        "note_stop_phase", *END,
    ]  # fmt: skip
    assert "update_run_started" not in script.names


async def test_a_main_job_that_started_while_nobody_looked_has_started_in_time(play: Play) -> None:
    """Its last look before the limit is minutes away from it."""
    asked = list[datetime]()

    def statuses() -> MainJobStatus:
        asked.append(info().scheduled_time)
        late = asked[-1] - asked[0] >= timedelta(seconds=330)
        return STARTED if late else MainJobStatus(cause="unschedulable")

    script = Script(statuses=statuses)
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=600))).result()
    assert result["status"] == "COMPLETED"
    assert "update_run_started" in script.names


async def test_a_main_job_that_cannot_be_seen_at_the_limit_is_waited_for(play: Play) -> None:
    """All answers of its deployment were lost, and so is the cluster's; only a look can say that it does not run."""
    unseen = MainJobStatus(known=False, message="the API server does not answer")
    script = Script(deployments=in_turn(UNAVAILABLE), statuses=in_turn(unseen, unseen, unseen, STARTED))
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=60))).result()
    assert result["status"] == "COMPLETED"
    assert script.names.count("get_main_job_status") == 4


async def test_a_main_job_that_was_never_made_is_known_as_soon_as_it_is_seen(play: Play) -> None:
    unseen, seen = MainJobStatus(known=False), MainJobStatus(vanished=True)
    script = Script(deployments=in_turn(UNAVAILABLE), statuses=in_turn(unseen, seen))
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=60))).result()
    assert result["reason"] == "never_started"


@pytest.mark.long
async def test_jobs_that_do_not_listen_are_ended_after_the_grace_period(play: Play) -> None:
    script = Script(statuses=in_turn(MainJobStatus(cause="capacity")))
    script.alive = lambda look: 0 if "k8_stop_pod" in script.names else 1
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books", start_limit_seconds=10, grace_seconds=20))).result()
    assert script.names.count("k8_stop_pod") == 1


async def test_neither_notices_nor_exports_change_how_a_run_ended(play: Play) -> None:
    notices = ["signal_pusher_started", "signal_pusher_progress", "signal_pusher_finished"]
    changes, alive = (lambda look: [over(0)]), (lambda look: 1 if look < 2 else 0)
    script = Script(failing=[*notices, "initiate_export_signal"], changes=changes, alive=alive)
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books"))).result()
    assert result["status"] == "COMPLETED"
    assert set(notices) <= set(script.names)


async def test_evidence_that_cannot_be_had_changes_no_status(play: Play) -> None:
    script = Script(failing=["get_bulk_task_history_data"], changes=lambda look: [over(0)])
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    assert len(script.inputs("sync_statuses")[0].changes) == 1


async def test_a_run_is_found_by_its_search_attributes(play: Play) -> None:
    script = Script(search_attributes=True)
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books"))
        await handle.result()
        attributes = (await handle.describe()).typed_search_attributes
    found = {pair.key.name: pair.value for pair in attributes.search_attributes}
    assert found["CrawlerName"] == "books"
    assert found["CrawlRunId"] == 7
    assert found["CrawlRunStatus"] == "COMPLETED"
    assert found["CrawlTrigger"] == "api"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (None, "request:"),
        ("books", "request:"),
        (["books"], "request:"),
        ({}, "crawler: is missing"),
        ({"crawler": ""}, "crawler:"),
        ({"crawler": "x" * 129}, "crawler:"),
        ({"crawler": "a\nb"}, "crawler: must not contain control characters"),
        ({"crawler": 5}, "crawler: expected a text"),
        ({"crawler": "books", "tasks": 0}, "tasks:"),
        ({"crawler": "books", "tasks": -4}, "tasks:"),
        ({"crawler": "books", "tasks": "4"}, "tasks: expected a whole number"),
        ({"crawler": "books", "tasks": 10**9}, "tasks:"),
        ({"crawler": "books", "arguments": {"depth": 3}}, "arguments.depth: expected a text"),
        ({"crawler": "books", "arguments": ["a"]}, "arguments:"),
        ({"crawler": "books", "grace_seconds": -1}, "grace_seconds:"),
        ({"crawler": "books", "max_duration_seconds": 1e300}, "max_duration_seconds:"),
        ({"crawler": "books", "allowed_failures": 1.5}, "allowed_failures:"),
        ({"crawler": "books", "trigger": "magic"}, "trigger:"),
        ({"crawler": "books", "taks": 4}, "taks: is not a known field"),
        (b"\x00\xff not json", "request:"),
    ],
)
async def test_bad_input_fails_at_once_and_names_the_field(play: Play, request_: object, said: str) -> None:
    script = Script()
    async with play(script) as stage:
        handle = await stage.start(request_)
        with pytest.raises(WorkflowFailureError) as failure:
            await handle.result()
    cause = failure.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "BadInput"
    assert cause.message.startswith(said)
    assert script.calls == []
