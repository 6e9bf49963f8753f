"""Objects of crawl managers that die, freeze, hang, fail or send nonsense: real processes, on the real ledger."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

import pytest

from crawler_lifecycle.flows.model.turns import Counts
from tests.hosts.stages import PATIENCE, Stage

Staged = Callable[..., Stage]


async def asleep(stage: Stage, number: int = 1) -> int:
    """Wait until the object sleeps behind its starts. Return its process."""
    await stage.until(lambda: len(stage.pids()) >= number)
    await asyncio.sleep(0.5)  # the object goes on to its sleep
    return (await asyncio.to_thread(stage.pids))[-1]


@pytest.mark.long
async def test_a_death_in_the_sleep_is_noticed_at_once(staged: Staged) -> None:
    stage = staged("Shops", "--loop-mode", "3600")
    async with stage.hosted() as running:
        await stage.started(3)
        os.kill(await asleep(stage), signal.SIGKILL)
        await stage.until(lambda: len(stage.pids()) == 2)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert any("process failed: the process of the manager was killed by SIGKILL" in line for line in stage.lines)


@pytest.mark.long
async def test_a_frozen_object_is_ended(staged: Staged) -> None:
    stage = staged("Shops")
    async with stage.hosted(hook_seconds=1.5) as running:
        await stage.started(3)
        os.kill(await asleep(stage), signal.SIGSTOP)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert any("took longer than 1.5 s" in line for line in stage.lines)


@pytest.mark.long
async def test_a_sleep_longer_than_a_hook_is_no_hang(staged: Staged) -> None:
    stage = staged("Shops", "--loop-mode", "3600")
    async with stage.hosted(hook_seconds=1) as running:
        await stage.started(3)
        await asyncio.sleep(2.5)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert len(stage.pids()) == 1


@pytest.mark.parametrize(
    "fault",
    [
        "hangs after a call",
        "writes garbage",
        "writes no JSON",
        "calls nonsense",
        "calls with nonsense",
        "claims its end",
    ],
)
@pytest.mark.long
async def test_nonsense_and_hangs_count_as_failures_of_their_hook(staged: Staged, fault: str) -> None:
    stage = staged("Faulty")
    (stage.folder / fault).touch()
    async with stage.hosted(hook_seconds=3) as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert any(line.startswith("finished_ok_hook failed") for line in stage.lines)
    assert len(stage.pids()) == 2


@pytest.mark.long
async def test_a_failing_job_holds_up_no_other(staged: Staged) -> None:
    stage = staged("Faulty")
    (stage.folder / "always a").touch()
    async with stage.hosted(manager_tries=3) as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await stage.until(lambda: stage.counts == Counts(completed=2, running=1))
        assert "failing" not in stage.flow.events
        await stage.until(lambda: "failing" in stage.flow.events)
        (stage.folder / "always a").unlink()
        await asyncio.to_thread(stage.flow.hold, "run")
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_a_failing_job_is_tried_again_while_the_object_sleeps(staged: Staged) -> None:
    stage = staged("Faulty", "--loop-mode", "3600")
    (stage.folder / "always a").touch()
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await stage.until(lambda: stage.counts == Counts(completed=2, running=1))
        (stage.folder / "always a").unlink()
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_news_cut_no_pause_after_a_failure_short(staged: Staged) -> None:
    stage = staged("FaultyCycle")
    async with stage.hosted(manager_tries=3):
        await stage.started(3)
        (stage.folder / "always").touch()
        begun = time.monotonic()
        await asyncio.to_thread(stage.end_runs)  # each look has news from now on
        await stage.until(lambda: "failing" in stage.flow.events)
    assert time.monotonic() - begun >= 3, "the pauses take one and two seconds"
    assert sum("base_loop_tasks failed" in line for line in stage.lines) == 3


@pytest.mark.long
async def test_a_failing_generator_pauses_the_manager_although_jobs_go_on(staged: Staged) -> None:
    stage = staged("FaultyGenerator")
    (stage.folder / "always").touch()
    async with stage.hosted(manager_tries=2) as running:
        for number in (1, 2):
            await stage.started(number)
            await asyncio.to_thread(stage.end_runs)
        await stage.until(lambda: "failing" in stage.flow.events)
        assert stage.counts.completed == 2
        (stage.folder / "always").unlink()
        await asyncio.to_thread(stage.flow.hold, "run")
        for number in (3, 4):
            await stage.started(number)
            await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts.completed == 4
    assert any("no third set" in line for line in stage.lines)


async def test_author_s_code_has_no_access_of_ours_and_its_lines_reach_the_log(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CRAWLER_DATABASE__PASSWORD", "secret")
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    caplog.set_level("INFO")
    stage = staged("Shops")
    async with stage.hosted():
        await stage.started(3)
    assert "sees 0 of our variables and 1 socket" in stage.lines
    messages = [record.getMessage() for record in caplog.records]
    assert "says hello" in messages
    assert "INFO shops: logs hello" in messages


@pytest.mark.long
async def test_the_lines_of_an_object_are_on_record(staged: Staged) -> None:
    """The lines are there while the manager waits, and the last ones after its end."""
    stage = staged("Shops")

    def lines() -> list[str]:
        return [line.text for line in stage.flow.store.manager_doors.output(stage.flow.id)]

    async with stage.hosted() as running:
        await stage.started(3)
        await stage.until(lambda: "INFO shops: logs hello" in lines())
        assert "says goodbye" not in lines()
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert [line for line in lines() if "hello" in line or "goodbye" in line] == [
        "says hello",
        "INFO shops: logs hello",
        "says goodbye",
    ]
