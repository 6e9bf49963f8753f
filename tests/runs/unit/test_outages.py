"""No outage of any length ends a run: it waits, and goes on where it was."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.model import TakenOver
from tests.kit.temporal.plays import Play, Stage, played
from tests.kit.temporal.script import Script
from tests.runs.stops import until_asked

pytestmark = pytest.mark.system

BOOKS = RunRequest(crawler="books")
LONG = 50  # tries up to 15 seconds apart: ten minutes and more, longer than any time-out of a step
HASTE, SILENT = timedelta(seconds=0.25), 2
WITHOUT = {"signal_pusher_started", "signal_pusher_progress",
           "get_bulk_task_history_data", "reconcile_tasks", "remove_jobs"}  # fmt: skip
ASKED_AGAIN = {"get_bulk_task_history_data", "reconcile_tasks"}  # by each look and at the end, and the jobs stay
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
        assert took < timedelta(minutes=9 if step in ASKED_AGAIN else 7), "the run goes on without"
    else:
        assert took > timedelta(minutes=10)
    assert script.names.count("create_history_id") == (1 if step != "create_history_id" else LONG + 1)
    most = 140 + LONG + (100 if step in ASKED_AGAIN else 0)
    assert len(history.events) < most, "waiting costs no history but the marks of skipped time"


class Hasty(Interceptor):
    """No server skips time while an activity is under way: so their time-outs are as short as a test may last."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 (the SDK's name)
    ) -> type[WorkflowInboundInterceptor]:
        return HastyWorkflows


class HastyWorkflows(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(HastySteps(outbound))


class HastySteps(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> "workflow.ActivityHandle[Any]":  # noqa: A002 (the SDK's name)
        return super().start_activity(replace(input, start_to_close_timeout=HASTE))


@asynccontextmanager
async def hanging(environment: WorkflowEnvironment, script: Script, step: str) -> AsyncIterator[Stage]:
    """The first tries of this step never answer."""
    silent, never = itertools.chain([True] * SILENT, itertools.repeat(False)), asyncio.Event()

    async def hang() -> None:
        if next(silent):
            await never.wait()

    script.before[step] = hang
    async with played(environment, script, Hasty()) as stage, asyncio.timeout(60):
        yield stage
    assert script.names.count(step) > SILENT or step in WITHOUT


@pytest.mark.parametrize("step", [*STEPS, "initiate_export_signal", "export_supporting_files"])
async def test_a_step_that_never_answers_is_given_up_and_tried_again(skipping: WorkflowEnvironment, step: str) -> None:
    """Whoever is asked hangs, instead of saying that something is wrong."""
    script = Script(changes=over)
    async with hanging(skipping, script, step) as stage:
        assert (await (await stage.start(BOOKS)).result())["status"] == "COMPLETED"


@pytest.mark.parametrize("step", STOP_STEPS)
async def test_a_step_of_a_stop_that_never_answers_is_given_up_and_tried_again(
    skipping: WorkflowEnvironment, step: str
) -> None:
    script = Script()
    script.alive = until_asked(script)
    async with hanging(skipping, script, step) as stage:
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"force": True}])
        assert (await handle.result())["reason"] == "stopped"


@pytest.mark.parametrize("reopen", [False, True])
async def test_a_take_over_that_never_answers_is_given_up_and_tried_again(
    skipping: WorkflowEnvironment, reopen: bool
) -> None:
    script = Script(taken=lambda step: TakenOver(status=RunStatus.PROCESSING, supervised_by="another"))
    async with hanging(skipping, script, "hand_over_run" if reopen else "take_over_run") as stage:
        request = RunRequest(crawler="books", run_id=7, reopen=reopen)
        assert await (await stage.start(request)).result() == {"run_id": 7, "workflow_id": "another"}
    assert script.names[-1] == "hand_over_run"


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
    script = Script(known=lambda look: look > 120, alive=lambda look: 1 if look <= 121 else 0)
    async with play(script) as stage:
        assert (await (await stage.start(BOOKS)).result())["status"] == "COMPLETED"
    closed = script.inputs("count_alive_tasks")
    assert [step.known for step in closed[:120]] == [False] * 120
    assert closed[119].next_look_at - closed[0].next_look_at > timedelta(hours=23)
