"""A stop in every stage: asked for, recorded, insisted on, proved; nothing runs afterwards."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowFailureError, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import CancelledError
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import Intent
from tests.kit.temporal.activity_events import times_of
from tests.kit.temporal.plays import Play, played, skipped_until
from tests.kit.temporal.script import STARTED, UNAVAILABLE, Script, in_turn, moments
from tests.runs.stops import CLOSING, WAITS, Held, assert_in_order, on_record, until_asked, until_forced

BOOKS = RunRequest(crawler="books", grace_seconds=30)


STAGES = [
    "create_history_id", "add_workflow_id", "run_onetime_crawler", "get_main_job_status", "update_run_started",
    "signal_pusher_started", "get_active_running_tasks", "get_history_statuses_to_sync", "count_alive_tasks",
]  # fmt: skip


INSIDE = ("create_history_id", "add_workflow_id", "update_run_started", "get_active_running_tasks", "count_alive_tasks")


@pytest.mark.parametrize("activity", STAGES)
@pytest.mark.parametrize("door", ["signal", "update", "cancel"])
async def test_a_stop_in_the_middle_of_every_step(play: Play, activity: str, door: str) -> None:
    script = Script()
    script.alive = until_asked(script)
    held = Held(script, activity)
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        asking = asyncio.create_task(asked(handle, door))
        if door != "update" or activity not in INSIDE:  # an update is answered after the workflow task
            await asking
        held.go_on.set()
        await asking
        outcome = await ended(handle, door)
    assert outcome is None or (outcome["status"], outcome["reason"]) == ("FAILED", "stopped")
    assert script.names.count("create_history_id") == 1
    assert_in_order(script.names, ["add_cancellation_log_to_db", "cancel_queued_tasks", "k8_stop_task", *CLOSING])
    assert script.names[-len(CLOSING) :] == CLOSING
    assert [step.phase for step in script.inputs("note_stop_phase")] == ["queued_cancelled", "jobs_asked", "proved"]
    assert "signal_pusher_finished" not in script.names
    later = script.names[script.names.index("cancel_queued_tasks") :]
    assert not {"run_onetime_crawler", "update_run_started"} & set(later)


async def test_a_stop_beside_the_first_deployment_lets_the_registration_end(play: Play) -> None:
    """The stop cancels the deployment. The workflow's id is written down all the same, before the stop goes on."""
    script = Script(failures={"add_workflow_id": 2})
    script.alive = until_asked(script)
    held = Held(script, "run_onetime_crawler")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await asked(handle, "signal")
        outcome = await ended(handle, "signal")
        held.go_on.set()
    assert outcome is not None
    assert outcome["reason"] == "stopped"
    names = [name for name, _ in script.calls]
    assert names.count("add_workflow_id") == 3
    last = len(names) - names[::-1].index("add_workflow_id") - 1
    assert last < names.index("add_cancellation_log_to_db")


async def asked(handle: WorkflowHandle[Any, Any], door: str) -> None:
    stop = {"actor": "ann", "reason": "too slow"}
    if door == "signal":
        await handle.signal("stop", stop)
    elif door == "update":
        answer = await handle.execute_update("stop", stop)
        assert (answer["forced"], answer["again"]) == (False, False)
    else:
        await handle.cancel()


async def ended(handle: WorkflowHandle[Any, Any], door: str) -> dict[str, Any] | None:
    if door != "cancel":
        outcome: dict[str, Any] = await handle.result()
        return outcome
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert isinstance(failure.value.cause, CancelledError)
    return None


async def test_a_stop_that_comes_with_the_start(play: Play) -> None:
    script = Script()
    script.alive = until_asked(script)
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"actor": "ann"}])
        assert (await handle.result())["reason"] == "stopped"
    assert "run_onetime_crawler" not in script.names
    assert script.inputs("add_cancellation_log_to_db")[0].stop.actor == "ann"


@pytest.mark.parametrize("door", ["signal", "update"])
@pytest.mark.parametrize("waiting", ["deployment", "first status", "main job", "next look"])
@pytest.mark.long
async def test_a_stop_while_the_run_waits(play: Play, skipping: WorkflowEnvironment, waiting: str, door: str) -> None:
    script = Script(
        deployments=in_turn(UNAVAILABLE) if waiting == "deployment" else Script().deployments,
        statuses=in_turn(WAITS if waiting == "main job" else STARTED),
    )
    script.alive = until_asked(script)
    last = {
        "deployment": "run_onetime_crawler",
        "first status": "run_onetime_crawler",
        "main job": "get_main_job_status",
        "next look": "signal_pusher_started",
    }
    async with play(script) as stage, asyncio.timeout(30):
        with skipping.with_time_skipping_disabled():
            handle = await stage.start(BOOKS)
        await skipped_until(skipping, handle, lambda: last[waiting] in script.names)
        await asked(handle, door)
        assert (await handle.result())["reason"] == "stopped"
    assert ("get_main_job_status" in script.names) is (waiting in ("main job", "next look"))
    assert script.names.count(last[waiting]) == 1, "it stopped in that very wait"


async def test_jobs_that_do_not_listen_are_forced_after_the_grace_period(play: Play) -> None:
    script = Script()
    script.alive = until_forced(script)
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop")
        await handle.result()
        history = await handle.fetch_history()
    stops = [step.stop for step in script.inputs("add_cancellation_log_to_db")]
    assert [(stop.force, stop.actor, stop.door) for stop in stops[1:]] == [(True, "crawler-lifecycle", "grace_period")]
    phases = [step.phase for step in script.inputs("note_stop_phase")]
    assert phases == ["queued_cancelled", "jobs_asked", "forced", "proved"]
    asked_at = history.events[0].event_time.ToDatetime(UTC)  # the stop comes with the start
    assert 30 <= (times_of(history.events, "k8_stop_pod")[-1] - asked_at).total_seconds() < 90


@pytest.mark.system
async def test_after_a_force_the_looks_begin_anew(play: Play) -> None:
    """A stop's pauses grow to minutes; but killed jobs are gone within moments."""
    script, killed, looks = Script(), list[datetime](), list[datetime]()
    script.before["k8_stop_pod"] = moments(killed)
    script.before["get_history_statuses_to_sync"] = moments(looks)
    script.alive = lambda look: 0 if killed and looks[-1] - killed[0] > timedelta(seconds=3) else 1
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books", grace_seconds=600), start_signal="stop")
        assert (await handle.result())["reason"] == "stopped"
    assert looks[-1] - killed[0] < timedelta(seconds=10)


@pytest.mark.parametrize("activity", ["cancel_queued_tasks", "k8_stop_task", "get_history_statuses_to_sync"])
async def test_a_force_is_on_record_before_it_is_used(play: Play, activity: str) -> None:
    script = Script()
    script.alive = until_forced(script)
    held = Held(script, activity)
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"actor": "ann"}])
        await held.reached.wait()
        await handle.signal("stop", {"actor": "bob", "force": True})
        held.go_on.set()
        await handle.result()
    assert on_record(script) == ["ann", "bob"]
    second = [number for number, name in enumerate(script.names) if name == "add_cancellation_log_to_db"][1]
    assert second < script.names.index("k8_stop_pod")


async def test_a_force_that_only_the_database_knows_of_waits_for_no_pause(play: Play) -> None:
    script, looks, killed = Script(), list[datetime](), list[datetime]()
    script.intent = lambda look: Intent.FORCE if look == 5 else Intent.STOP
    script.before["get_history_statuses_to_sync"] = moments(looks)
    script.before["k8_stop_pod"] = moments(killed)
    script.alive = until_forced(script)
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books", grace_seconds=600), start_signal="stop")
        await handle.result()
    assert killed[0] - looks[4] < timedelta(seconds=2), "the pause after the fifth look would be 16 s"


@pytest.mark.system
async def test_who_could_not_be_asked_at_first_is_noted_when_it_is(play: Play) -> None:
    script = Script(failures={"k8_stop_task": 50})
    script.alive = lambda look: 0 if script.failures["k8_stop_task"] == 0 else 1
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books", grace_seconds=3000), start_signal="stop")
        await handle.result()
    phases = [step.phase for step in script.inputs("note_stop_phase")]
    assert phases == ["queued_cancelled", "jobs_asked", "proved"]


async def test_force_does_not_wait(play: Play) -> None:
    script = Script()
    script.alive = until_forced(script)
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"force": True}])
        await handle.result()
    assert script.looks == 1
    (logged,) = script.inputs("add_cancellation_log_to_db")
    (looked,) = script.inputs("get_history_statuses_to_sync")
    assert looked.stopped_at == logged.asked_at


async def test_force_after_a_stop_escalates(play: Play, skipping: WorkflowEnvironment) -> None:
    script = Script()
    script.alive = until_forced(script)
    async with play(script) as stage, asyncio.timeout(30):
        with skipping.with_time_skipping_disabled():
            handle = await stage.start(RunRequest(crawler="books", grace_seconds=3600), start_signal="stop")
        while "count_alive_tasks" not in script.names:
            await asyncio.sleep(0.02)
        answer = await handle.execute_update("stop", {"force": True, "actor": "bob"})
        assert (answer["forced"], answer["again"]) == (True, True)
        await handle.result()
    assert [step.stop.actor for step in script.inputs("add_cancellation_log_to_db")] == [None, "bob"]


async def test_every_stop_is_on_record_and_one_is_enough(play: Play) -> None:
    script = Script()
    script.alive = until_asked(script)
    held = Held(script, "cancel_queued_tasks")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"actor": "ann"}])
        await held.reached.wait()
        for actor in ("bob", "ann"):
            await handle.signal("stop", {"actor": actor, "asked_at": "2026-01-01T00:00:00Z"})
        held.go_on.set()
        await handle.result()
    assert on_record(script) == ["ann", "bob", "ann"]
    assert script.names.count("cancel_queued_tasks") == 1
    assert script.names.count("signal_pusher_stopped") == 1


@pytest.mark.parametrize("activity", ["count_alive_tasks", "note_stop_phase"])
@pytest.mark.long
async def test_a_stop_that_comes_after_the_last_look_is_on_record(play: Play, activity: str) -> None:
    script = Script()
    script.alive = until_asked(script)
    held = Held(script, activity)
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"actor": "ann"}])
        await held.reached.wait()
        answer = await handle.execute_update("stop", {"actor": "carol", "force": True})
        held.go_on.set()
        assert (await handle.result())["reason"] == "stopped"
    assert (answer["forced"], answer["again"]) == (True, True)
    assert on_record(script) == ["ann", "carol"]


@pytest.mark.long
async def test_a_stop_while_the_end_is_written_down_is_on_record_and_changes_nothing(play: Play) -> None:
    script = Script()
    held = Held(script, "update_run_status")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await handle.execute_update("stop", {"actor": "ann"})
        await handle.signal("stop", {"actor": "bob", "force": True})
        held.go_on.set()
        assert (await handle.result())["status"] == "COMPLETED"
    assert on_record(script) == ["ann", "bob"]
    assert not {"k8_stop_task", "signal_pusher_stopped"} & set(script.names)


@pytest.mark.parametrize(
    "data",
    [b"\xff\x00", b"[1, 2]", b'"stop!"', b'{"force": "perhaps", "actor": 7, "colour": "red"}', b"{" * 1000, b""],
)
@pytest.mark.system
async def test_a_stop_that_does_not_decode_is_a_stop(play: Play, data: bytes) -> None:
    script = Script()
    script.alive = until_asked(script)
    garbage = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[garbage])
        assert (await handle.result())["reason"] == "stopped"


@pytest.mark.system
async def test_a_megabyte_of_words_is_cut_by_the_signal_and_refused_by_the_update(play: Play) -> None:
    script = Script()
    script.alive = until_asked(script)
    held = Held(script, "run_onetime_crawler")
    endless = {"actor": "a" * 1_000_000, "reason": "b" * 500_000}
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("stop", endless)
        assert str(refused.value.cause).startswith("BadInput: actor: expected at most 400 characters")
        await handle.signal("stop", endless)
        held.go_on.set()
        await handle.result()
    (logged,) = script.inputs("add_cancellation_log_to_db")
    assert (len(logged.stop.actor), len(logged.stop.reason)) == (400, 1024)


async def test_a_stop_for_a_run_that_is_over_changes_nothing(play: Play) -> None:
    script = Script()
    held = Held(script, "initiate_export_signal")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await handle.signal("stop")
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("stop", {})
        assert "run 7 is over (COMPLETED)" in str(refused.value.cause)
        held.go_on.set()
        assert (await handle.result())["status"] == "COMPLETED"
    assert "add_cancellation_log_to_db" not in script.names


async def test_jobs_that_all_succeeded_before_the_stop_reached_them_make_a_complete_run(play: Play) -> None:
    script = Script(stopped=0)
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop")
        assert (await handle.result())["status"] == "COMPLETED"
    assert "signal_pusher_stopped" not in script.names
    assert "signal_pusher_finished" in script.names


async def test_a_cancel_that_came_too_late_closes_the_workflow_as_completed(play: Play) -> None:
    script = Script(stopped=0)
    held = Held(script, "update_run_status")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await handle.cancel()
        held.go_on.set()
        assert (await handle.result())["status"] == "COMPLETED"


async def test_a_stop_that_only_the_database_knows_of(play: Play) -> None:
    """The door wrote the intent; its signal never came."""
    script = Script(intent=lambda look: Intent.STOP if look >= 2 else Intent.RUN)
    script.alive = until_asked(script)
    async with play(script) as stage:
        assert (await (await stage.start(BOOKS)).result())["reason"] == "stopped"
    assert "add_cancellation_log_to_db" not in script.names


@pytest.mark.system
async def test_over_is_not_gone(play: Play) -> None:
    """The row says over, processes still live: the stop is not proved until they are gone."""
    script = Script(unwanted=lambda look: "0" if look < 4 else "", alive=lambda look: 0)
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop")
        await handle.result()
    assert script.looks == 4
    assert [step.tasks for step in script.inputs("k8_stop_unwanted")] == ["0", "0", "0"]


async def test_what_is_unknown_proves_nothing(play: Play) -> None:
    script = Script(alive=lambda look: 0, known=lambda look: look >= 5)
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop")
        await handle.result()
    assert script.looks == 5


async def test_the_maximum_duration_ends_the_run_with_its_reason(play: Play) -> None:
    script = Script()
    script.alive = until_asked(script)
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books", max_duration_seconds=600))
        result = await handle.result()
    assert (result["status"], result["reason"]) == ("FAILED", "max_duration")
    assert "signal_pusher_finished" in script.names
    (logged,) = script.inputs("add_cancellation_log_to_db")
    assert (logged.stop.actor, logged.stop.reason, logged.stop.door) == ("crawler-lifecycle", "max_duration", "limit")


async def test_a_cancel_in_a_stop_that_a_limit_began_closes_the_workflow_as_cancelled(play: Play) -> None:
    script = Script()
    script.alive = until_forced(script)
    held = Held(script, "cancel_queued_tasks")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(RunRequest(crawler="books", max_duration_seconds=60, grace_seconds=5))
        await held.reached.wait()
        await handle.cancel()
        held.go_on.set()
        await ended(handle, "cancel")
    assert next(step.ends_as for step in script.inputs("add_cancellation_log_to_db")) == "max_duration"


@pytest.mark.system
async def test_a_long_stop_continues_as_new(short_histories: WorkflowEnvironment) -> None:
    script = Script(alive=lambda look: 1 if look < 30 else 0)
    async with played(short_histories, script) as stage, asyncio.timeout(60):
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"actor": "ann"}])
        assert (await handle.result())["reason"] == "stopped"
        listed = short_histories.client.list_workflows(f'WorkflowId="{handle.id}"')
        assert len([execution async for execution in listed]) > 1
    assert script.names.count("create_history_id") == 1
    by = [step.stop.door for step in script.inputs("add_cancellation_log_to_db")]
    assert by == ["temporal", "grace_period"]
    assert script.names.count("signal_pusher_stopped") == 1


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.system
async def test_a_cancel_that_cannot_be_proved_for_long_continues_as_new(
    short_histories: WorkflowEnvironment, silent: bool
) -> None:
    """Else its history would grow until the server terminates it; and it closes as cancelled all the same."""
    script = Script(alive=lambda look: 1 if look < 30 else 0, failing=["cancel_execution"] if silent else [])
    held = Held(script, "get_main_job_status")
    async with played(short_histories, script) as stage, asyncio.timeout(60):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await handle.cancel()
        held.go_on.set()
        if silent:  # Temporal does not hear that it is to be cancelled: what happened to the run is told all the same
            assert (await handle.result())["reason"] == "stopped"
        else:
            await ended(handle, "cancel")
        listed = short_histories.client.list_workflows(f'WorkflowId="{handle.id}"')
        assert len([execution async for execution in listed]) > 1
    assert [step.stop.door for step in script.inputs("add_cancellation_log_to_db")] == ["cancel", "grace_period"]
    assert script.names.count("signal_pusher_stopped") == script.names.count("update_run_status") == 1
    assert script.names[-1] == "cancel_execution"


@pytest.mark.system
@pytest.mark.parametrize("door", ["signal", "update"])
@pytest.mark.parametrize("pause", [0.2, 0.35, 0.5, 0.65, 0.8])
async def test_a_stop_while_the_run_continues_as_new_is_not_lost(
    short_histories: WorkflowEnvironment, pause: float, door: str
) -> None:
    """Looks without end, so that the run continues as new often; the stop comes at any moment of it."""
    script = Script()
    script.alive = until_asked(script)
    async with played(short_histories, script) as stage, asyncio.timeout(60):
        handle = await stage.start(BOOKS)
        await asyncio.sleep(pause)
        await asked(stage.client.get_workflow_handle(handle.id), door)
        assert (await handle.result())["reason"] == "stopped"
    assert on_record(script) == ["ann"]
