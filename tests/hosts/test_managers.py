"""Hosts of crawl managers: real processes of authors' objects, on the real ledger, with faked runs."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.flows.model.turns import Counts
from tests.hosts.stages import PATIENCE, Stage


async def test_a_manager_runs_to_its_end(staged: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_DATABASE__PASSWORD", "secret")
    stage = staged("Shops", "--max-running-jobs", "2")
    async with stage.hosted() as running:
        await stage.started(2)
        await asyncio.to_thread(stage.end_runs)
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert stage.flow.row("manager").outcome == "finished"
    assert any("sees 0 of our variables" in line for line in stage.lines)
    assert '"close_reason": "finished"' in str(await stage.result()).replace("'", '"')


@pytest.mark.parametrize("fault", ["raises", "dies", "exits", "hangs", "floods"])
@pytest.mark.long
async def test_a_failure_in_a_hook_is_tried_again(staged: Callable[..., Stage], fault: str) -> None:
    stage = staged("Faulty")
    (stage.folder / fault).touch()
    async with stage.hosted(hook_seconds=2) as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert len(stage.temporal.started) == len(set(stage.temporal.started)) == 3
    assert any("finished_ok_hook failed" in line for line in stage.lines) is (fault != "floods")


@pytest.mark.long
async def test_a_manager_that_keeps_failing_is_paused_until_a_resume(staged: Callable[..., Stage]) -> None:
    stage = staged("Faulty")
    (stage.folder / "always").touch()
    async with stage.hosted(manager_tries=2) as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await stage.until(lambda: "failing" in stage.flow.events)
        (stage.folder / "always").unlink()
        await asyncio.to_thread(stage.flow.hold, "run")
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert any("ValueError: no such shop" in line for line in stage.lines)


@pytest.mark.long
async def test_a_manager_that_cannot_be_made_is_paused_with_its_problem(staged: Callable[..., Stage]) -> None:
    stage = staged("Refused")
    async with stage.hosted(manager_tries=1):
        await stage.until(lambda: "failing" in stage.flow.events)
    assert any("start failed" in line for line in stage.lines)


async def test_another_host_goes_on_after_a_drain(staged: Callable[..., Stage]) -> None:
    stage = staged("Shops")
    async with stage.hosted():
        await stage.started(3)
        begun = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun < 10
    async with stage.hosted() as running:
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert len(stage.temporal.started) == 3
    assert [line.rpartition(" ")[2] for line in stage.lines if "resumed" in line] == ["False", "True"]


async def test_35_a_start_without_an_answer_is_repeated(staged: Callable[..., Stage]) -> None:
    stage = staged("Shops")
    stage.temporal.problems = [TemporaryError("away"), TemporaryError("away")]
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_a_refused_start_ends_its_item_alone(staged: Callable[..., Stage]) -> None:
    stage = staged("Shops")
    stage.temporal.problems = [Refused("no such crawler")]
    async with stage.hosted() as running:
        await stage.started(2)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=2, refused=1)
    assert stage.flow.row("manager").outcome == "finished_with_failures"


async def test_a_stop_ends_with_the_last_crawl(staged: Callable[..., Stage]) -> None:
    stage = staged("Shops", "--max-running-jobs", "2")
    async with stage.hosted() as running:
        await stage.started(2)
        await asyncio.to_thread(stage.flow.cancel)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=2, cancelled=0)
    assert len(stage.temporal.started) == 2


@pytest.mark.long
async def test_12_an_end_does_not_wake_a_manager_without_wake_on_end(staged: Callable[..., Stage]) -> None:
    stage = staged("Rhythm")
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.sleep(1)  # the host reads the news several times
        assert stage.counts == Counts(running=3)
        await asyncio.to_thread(stage.flow.cancel)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.parametrize("failure", [TemporaryError("away"), RuntimeError("a fault of our own")])
@pytest.mark.long
async def test_failing_reads_only_delay_a_manager(
    staged: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    stage = staged("Shops")
    ledger: Any = stage.flow.store.managers
    failures: dict[str, list[Exception]] = {
        "news": [failure],
        "problem": [TemporaryError("away")],
        "unstarted": [TemporaryError("away")],
    }

    def failing(name: str) -> Callable[..., Any]:
        read = getattr(ledger, name)

        def once(*arguments: object) -> Any:
            if failures[name]:
                raise failures[name].pop()
            return read(*arguments)

        return once

    for name in failures:
        monkeypatch.setattr(ledger, name, failing(name))
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert not any(failures.values())
