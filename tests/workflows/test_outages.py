"""No outage of any length ends a run: it waits, and goes on where it was."""

from datetime import timedelta

import pytest

from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.contract.steps import TaskChange
from tests.plays import Play
from tests.workflows.script import Script
from tests.workflows.test_stopping import until_asked

BOOKS = RunRequest(crawler="books")
LONG = 50  # tries up to 15 seconds apart: ten minutes and more, longer than any time-out of a step
WITHOUT = {"signal_pusher_started", "signal_pusher_progress",
           "get_bulk_task_history_data", "reconcile_tasks", "remove_jobs"}  # fmt: skip
STEPS = [
    "create_history_id", "add_workflow_id", "run_onetime_crawler", "get_main_job_status", "update_run_started",
    "signal_pusher_started", "get_active_running_tasks", "get_history_statuses_to_sync", "get_bulk_task_history_data",
    "reconcile_tasks", "sync_statuses", "signal_pusher_progress", "count_alive_tasks", "update_run_status",
    "signal_pusher_finished", "remove_jobs",
]  # fmt: skip
STOP_STEPS = ["add_cancellation_log_to_db", "cancel_queued_tasks", "note_stop_phase", "k8_stop_task", "k8_stop_pod",
              "signal_pusher_stopped"]  # fmt: skip


def over(look: int) -> list[TaskChange]:
    return [TaskChange(task=0, attempt=1, version=1, status=TaskStatus.SUCCEEDED)] if look == 1 else []


@pytest.mark.parametrize("step", STEPS)
async def test_ten_minutes_without_an_answer_in_every_step(play: Play, step: str) -> None:
    script = Script(changes=over, failures={step: LONG})
    async with play(script) as stage:
        handle = await stage.start(BOOKS)
        assert (await handle.result())["status"] == "COMPLETED"
        history = await handle.fetch_history()
    took = history.events[-1].event_time.ToDatetime() - history.events[0].event_time.ToDatetime()
    if step in WITHOUT:
        assert took < timedelta(minutes=7), "the run goes on without"
    else:
        assert took > timedelta(minutes=10)
    assert script.names.count("create_history_id") == (1 if step != "create_history_id" else LONG + 1)
    assert len(history.events) < 140 + LONG, "waiting costs no history but the marks of skipped time"


@pytest.mark.parametrize("step", STOP_STEPS)
async def test_ten_minutes_without_an_answer_in_a_stop(play: Play, step: str) -> None:
    script = Script(failures={step: LONG})
    asked = until_asked(script)
    unheard = step.startswith("k8_stop")  # what was not heard ends nothing
    script.alive = lambda look: 1 if unheard and script.failures[step] else asked(look)
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"force": True}])
        assert (await handle.result())["reason"] == "stopped"
    assert script.failures[step] == 0 or step in WITHOUT


async def test_a_cluster_that_cannot_be_told_to_stop_is_looked_at_all_the_same(play: Play) -> None:
    script = Script(failures={"k8_stop_task": LONG})
    script.alive = lambda look: 0 if script.failures["k8_stop_task"] == 0 else 1
    script.known = lambda look: script.failures["k8_stop_task"] == 0
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{}])
        assert (await handle.result())["reason"] == "stopped"
    closed = script.inputs("count_alive_tasks")
    assert [step.known for step in closed][:2] == [False, False], "the run says that the cluster is not seen"
    assert closed[-1].known


async def test_a_day_in_which_the_cluster_cannot_be_seen(play: Play) -> None:
    script = Script(known=lambda look: look > 100, alive=lambda look: 1 if look <= 101 else 0)
    async with play(script) as stage:
        assert (await (await stage.start(BOOKS)).result())["status"] == "COMPLETED"
    closed = script.inputs("count_alive_tasks")
    assert [step.known for step in closed[:100]] == [False] * 100
    assert closed[99].next_look_at - closed[0].next_look_at > timedelta(hours=23)
