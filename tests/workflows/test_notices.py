"""A notice that cannot be delivered holds up neither a run nor a stop, and is not forgotten."""

import asyncio
import itertools
from datetime import timedelta

import pytest
from pydantic import ValidationError
from temporalio.workflow import ActivityConfig

from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.contract.steps.looks import TaskChange
from crawler_lifecycle.settings.outside import NoticeSettings
from crawler_lifecycle.workflows.options import BRIEF, ONCE
from tests.plays import Play
from tests.workflows.script import Script
from tests.workflows.stops import until_asked

BOOKS = RunRequest(crawler="books")
TEN_SECONDS = timedelta(seconds=10)
STARTED, STOPPED = "signal_pusher_started", "signal_pusher_stopped"


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
