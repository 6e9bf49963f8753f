"""A notice that cannot be delivered holds up neither a run nor a stop, and is not forgotten."""

import asyncio
import itertools
from datetime import timedelta

import pytest
from pydantic import ValidationError
from temporalio.workflow import ActivityConfig

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import Intent, Report, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.settings.outside import NoticeSettings
from crawler_lifecycle.temporal.options import BRIEF, ONCE
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script
from tests.runs.stops import Held, until_asked

BOOKS = RunRequest(crawler="books")
TEN_SECONDS = timedelta(seconds=10)
STARTED, STOPPED = "signal_pusher_started", "signal_pusher_stopped"
PROGRESS, FINISHED = "signal_pusher_progress", "signal_pusher_finished"


def hang(script: Script, notice: str, until: str) -> None:
    """Whoever is told answers nothing until the run has come to this step."""
    there = asyncio.Event()

    async def arrive() -> None:
        there.set()

    async def never() -> None:
        await there.wait()

    script.before |= {notice: never, until: arrive}


@pytest.mark.parametrize("patience", [BRIEF, ONCE])
def test_a_run_waits_longer_than_for_one_receiver_and_for_ten_seconds_at_most(patience: ActivityConfig) -> None:
    limits = [patience["schedule_to_close_timeout"], patience["start_to_close_timeout"]]
    assert limits == [TEN_SECONDS] * 2
    with pytest.raises(ValidationError, match="timeout_seconds"):
        NoticeSettings(timeout_seconds=TEN_SECONDS.total_seconds())


async def test_a_start_that_could_not_be_told_is_told_after_the_next_looks(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 5 else 0).refusing(STARTED, looks=2)
    async with play(script) as stage:
        assert (await (await stage.start(BOOKS)).result())["status"] == "COMPLETED"
    look = "get_active_running_tasks"
    seen = [name for name in script.names if name in (STARTED, look)]
    tries = [name for name, _ in itertools.groupby(seen)]  # of several at once
    assert (tries[:6], seen[-3:]) == ([STARTED, look] * 3, [look] * 3)
    assert len({step.model_dump_json() for step in script.inputs(STARTED)}) == 1, "it is one notice"


@pytest.mark.system
async def test_a_stop_waits_for_nobody_who_is_told_of_it_or_of_the_start(play: Play) -> None:
    script = Script(intent=lambda look: Intent.STOP)
    hang(script, STARTED, until="k8_stop_task")
    async with asyncio.timeout(60):
        await stopped(play, script)
    names = script.names
    assert names[: names.index("get_active_running_tasks")].count(STARTED) == 1, "the database knew of that stop"
    assert names.index("update_run_status") < names.index(STOPPED), "it tells the end that is on record"


async def stopped(play: Play, script: Script, **options: object) -> None:
    script.alive = until_asked(script)
    async with play(script) as stage:
        assert (await (await stage.start(BOOKS, **options)).result())["reason"] == "stopped"


async def test_a_start_that_could_not_be_told_is_told_at_the_end_of_a_short_run(play: Play) -> None:
    script = Script(alive=lambda look: 0).refusing(STARTED, looks=1)
    async with play(script) as stage:
        await (await stage.start(BOOKS)).result()
    after_the_look = script.names[script.names.index("count_alive_tasks") :]
    assert after_the_look.index(STARTED) < after_the_look.index("signal_pusher_finished")


async def test_progress_that_cannot_be_told_is_of_its_own_look_only(play: Play) -> None:
    script = Script(
        changes=lambda look: [TaskChange(task=0, attempt=1, version=1, status=TaskStatus.RUNNING)] if look == 1 else [],
        alive=lambda look: 1 if look < 3 else 0,
    ).refusing("signal_pusher_progress", looks=9)
    async with play(script) as stage:
        await (await stage.start(BOOKS)).result()
    looks = [number for number, name in enumerate(script.names) if name == "get_active_running_tasks"]
    assert "signal_pusher_progress" in script.names[looks[0] : looks[1]]
    assert "signal_pusher_progress" not in script.names[looks[1] :]


def change(status: TaskStatus) -> TaskChange:
    return TaskChange(task=0, attempt=1, version=1, status=status)


REPORTED = {
    Report.ALL: [STARTED, PROGRESS, FINISHED],
    Report.END: [FINISHED],
    Report.NONE: [],
}


@pytest.mark.parametrize("report", Report)
async def test_a_run_reports_what_its_request_says(play: Play, report: Report) -> None:
    script = Script(changes=lambda look: [change(TaskStatus.RUNNING)], alive=lambda look: 1 if look < 2 else 0)
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books", report=report))).result()
    assert [name for name in script.names if name.startswith("signal_pusher")] == REPORTED[report]
    assert {"initiate_export_signal", "export_supporting_files"} <= set(script.names), "events do not depend on it"


@pytest.mark.parametrize("report", Report)
async def test_a_stop_is_reported_as_an_end(play: Play, report: Report) -> None:
    script = Script(intent=lambda look: Intent.STOP)
    script.alive = until_asked(script)
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books", report=report))).result()
    assert (STOPPED in script.names) == (report is not Report.NONE)


async def test_a_look_that_proves_the_end_reports_no_progress(play: Play) -> None:
    script = Script(changes=lambda look: [change(TaskStatus.SUCCEEDED)])
    async with play(script) as stage:
        await (await stage.start(BOOKS)).result()
    assert PROGRESS not in script.names
    assert script.names.count(FINISHED) == 1


async def test_a_first_look_does_not_wait_for_the_start_notice(play: Play) -> None:
    script = Script()
    hang(script, STARTED, until="count_alive_tasks")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await handle.signal("nudge")
        await handle.result()
    assert script.names.count(STARTED) == 1
    assert script.names.index("count_alive_tasks") < script.names.index("update_run_status")


async def test_the_closing_notice_waits_for_the_start_notice(play: Play) -> None:
    """The start notice is under way when the first look proves the end."""
    script = Script()
    held = Held(script, STARTED)
    looked = asyncio.Event()

    async def look() -> None:
        looked.set()

    script.before["count_alive_tasks"] = look
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await handle.signal("nudge")
        await looked.wait()
        await held.reached.wait()
        assert FINISHED not in script.names
        assert "update_run_status" not in script.names
        held.go_on.set()
        await handle.result()
    assert script.names.index(STARTED) < script.names.index(FINISHED)


async def test_an_end_is_exported_while_its_notice_is_refused(play: Play) -> None:
    script = Script()
    exported = asyncio.Event()

    async def archive() -> None:
        exported.set()

    async def refused() -> None:
        await exported.wait()

    script.before |= {FINISHED: refused, "export_supporting_files": archive}
    async with play(script) as stage, asyncio.timeout(30):
        await (await stage.start(BOOKS)).result()
    assert script.names.count(FINISHED) == 1
