"""When looks are made: paced by Fibonacci, woken by nudges, without end over eight hours or by continuing as new."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from temporalio.client import WorkflowHandle, WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from tests.kit.temporal.activity_events import times_of
from tests.kit.temporal.plays import Play, played
from tests.kit.temporal.script import Script

REQUEST = RunRequest(crawler="books")
EXACT = timedelta(seconds=15)  # virtual seconds that real activities may take


def minutes_of_looks(history: WorkflowHistory) -> list[float]:
    """Minutes from the start of reconciliation to each look, by the workflow's clock."""
    times = _scheduled(history, "get_active_running_tasks")
    anchor = _scheduled(history, "signal_pusher_started")[0]
    return [(time - anchor) / timedelta(minutes=1) for time in times]


def _scheduled(history: WorkflowHistory, activity: str) -> list[datetime]:
    return times_of(history.events, activity)


def assert_close(found: Sequence[float], expected: Sequence[float]) -> None:
    assert [round(minute) for minute in found] == list(expected)
    assert all(abs(a - b) < EXACT / timedelta(minutes=1) for a, b in zip(found, expected, strict=True))


@pytest.mark.system
async def test_eight_hours_of_looks_at_exactly_the_right_minutes(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 36 else 0)
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        await handle.result()
        history = await handle.fetch_history()
    assert_close(minutes_of_looks(history), [1, 3, 6, 11, 19, *range(34, 34 + 15 * 31, 15)])
    assert len(history.events) < 2_000


async def test_a_look_may_ask_for_an_earlier_next_one_and_moves_no_other(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 7 else 0, recheck={2: 60.0, 4: 300.0, 5: 3600.0}.get)
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        await handle.result()
        history = await handle.fetch_history()
    assert_close(minutes_of_looks(history), [1, 3, 4, 6, 11, 11 + 8, 34])


async def test_looks_that_cannot_observe_the_cluster_are_repeated_soon_and_then_ever_later(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 12 else 0, known=lambda look: look == 1 or look >= 10)
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        await handle.result()
        minutes = minutes_of_looks(await handle.fetch_history())
    seconds = [60 * (minute - minutes[1]) for minute in minutes[1:]]
    outage = [0, 15, 30, 45, 60, 75, 93.75, 117.19, 146.48]  # from 60 seconds on, each pause is a quarter of the outage
    assert seconds == pytest.approx([*outage, 180, 480], abs=3), "no paced look moves"


async def test_the_database_knows_when_the_next_look_is_due(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 4 else 0)
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        await handle.result()
        anchor = _scheduled(await handle.fetch_history(), "signal_pusher_started")[0]
    due = [step.next_look_at - anchor for step in script.inputs("count_alive_tasks")]
    assert [round(time / timedelta(minutes=1)) for time in due] == [3, 6, 11, 19]


async def looked(script: Script, times: int) -> None:
    """Real time may pass while the workflow is at it; virtual time does not."""
    async with asyncio.timeout(20):
        while script.names.count("count_alive_tasks") < times:
            await asyncio.sleep(0.01)


async def asleep(handle: WorkflowHandle[Any, Any]) -> None:
    """Until the workflow has nothing to do but to wait for its timer."""
    async with asyncio.timeout(20):
        while not (await handle.query("state"))["waiting_for"].startswith("the next look"):
            await asyncio.sleep(0.01)


async def test_a_nudge_is_an_extra_look_and_moves_none(play: Play, skipping: WorkflowEnvironment) -> None:
    script = Script(alive=lambda look: 1 if look < 5 else 0)
    async with play(script) as stage:
        with skipping.with_time_skipping_disabled():
            handle = await stage.start(REQUEST)
        await skipping.fast_forward(handle, timedelta(minutes=4))  # looks at 1 and 3 are over
        await looked(script, 2)
        await handle.signal("nudge", 1)
        await looked(script, 3)
        await asleep(handle)
        await skipping.fast_forward(handle, timedelta(minutes=30))
        async with asyncio.timeout(20):
            await handle.result()
        minutes = minutes_of_looks(await handle.fetch_history())
    assert [round(minute) for minute in minutes] == [1, 3, 4, 6, 11]


@pytest.mark.system
async def test_nudges_do_not_make_a_run_look_all_the_time(play: Play) -> None:
    """Ten thousand endings at once are a handful of looks, each at least a second after the last began."""
    script = Script(alive=lambda look: 1 if look < 5 else 0)
    async with play(script) as stage:
        handle = await stage.start(REQUEST)

        async def nudge_for_ever() -> None:
            number = 0
            while True:
                number += 1
                await handle.signal("nudge", number)

        nudging = asyncio.create_task(nudge_for_ever())
        async with asyncio.timeout(30):
            await handle.result()
        nudging.cancel()
        await asyncio.wait([nudging])
        times = _scheduled(await handle.fetch_history(), "get_active_running_tasks")
    assert len(times) == 5
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= timedelta(seconds=1)


@pytest.mark.parametrize("work", [0.05, 2.5])
async def test_what_a_look_waited_for_holds_up_no_other(play: Play, work: float) -> None:
    """A busy machine's looks stand in line. Ten times as long as that, nobody would have looked again."""
    script = Script(alive=lambda look: 1 if look < 2 else 0, work=lambda look: work)
    script.failures["get_history_statuses_to_sync"] = 4  # 15 seconds
    script.before["count_alive_tasks"] = lambda: handle.signal("nudge", 1)
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        await handle.result()
        history = await handle.fetch_history()
    closed, (_, again) = _scheduled(history, "count_alive_tasks")[0], _scheduled(history, "get_active_running_tasks")
    assert (again - closed).total_seconds() == pytest.approx(max(1, 10 * work), abs=0.5)


async def test_a_look_that_saw_more_than_it_could_carry_is_followed_by_another(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 3 else 0, more=lambda look: look == 1)
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        await handle.result()
        minutes = minutes_of_looks(await handle.fetch_history())
    assert [round(minute) for minute in minutes] == [1, 1, 3]


async def test_what_is_unknown_changes_nothing_and_the_next_look_comes(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 4 else 0, known=lambda look: look == 4)
    async with play(script) as stage:
        await (await stage.start(REQUEST)).result()
    assert [step.known for step in script.inputs("count_alive_tasks")] == [False, False, False, True]
    assert "sync_statuses" not in script.names


@pytest.mark.system
async def test_a_long_run_continues_as_new_and_loses_nothing(short_histories: WorkflowEnvironment) -> None:
    change = TaskChange(task=0, attempt=1, version=1, status=TaskStatus.RUNNING)
    script = Script(alive=lambda look: 1 if look < 15 else 0, changes=lambda look: [change])
    async with played(short_histories, script) as stage:
        handle = await stage.start(REQUEST)
        async with asyncio.timeout(60):
            await handle.result()
        executions = [
            execution async for execution in short_histories.client.list_workflows(f'WorkflowId="{handle.id}"')
        ]
    assert len(executions) > 1
    assert script.names.count("create_history_id") == 1
    assert script.names.count("signal_pusher_started") == 1
    assert script.names.count("update_run_started") == 1
    assert script.names.count("update_run_status") == 1
    due = [step.next_look_at for step in script.inputs("count_alive_tasks")]
    gaps = [round((later - earlier) / timedelta(minutes=1)) for earlier, later in pairwise(due)]
    assert gaps == [3, 5, 8, *[15] * 11]
    assert [step.number for step in script.inputs("signal_pusher_progress")] == list(range(1, 15)), (
        "the last look proves the end"
    )


@pytest.mark.system
async def test_an_outage_that_is_longer_than_a_history_keeps_its_pace(short_histories: WorkflowEnvironment) -> None:
    script = Script(alive=lambda look: 1 if look < 40 else 0, known=lambda look: look == 1 or look >= 40)
    async with played(short_histories, script) as stage:
        handle = await stage.start(REQUEST)
        async with asyncio.timeout(60):
            await handle.result()
        query = f'WorkflowId="{handle.id}"'
        runs = [execution.run_id async for execution in short_histories.client.list_workflows(query)]
        handles = [short_histories.client.get_workflow_handle(handle.id, run_id=run_id) for run_id in runs]
        histories = [await execution.fetch_history() for execution in handles]
    assert len(histories) > 1
    times = sorted(time for history in histories for time in _scheduled(history, "get_active_running_tasks"))
    assert len(times) == 40
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times[10:-1])]
    assert min(gaps) > 16, "no pause begins anew"
