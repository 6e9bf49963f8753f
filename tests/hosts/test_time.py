"""Time limits, stops, blocked loops, and functions that do not end."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.hosts import attempts as host_attempts
from crawler_lifecycle.hosts import functions, runners
from tests.hosts import authors
from tests.hosts.attempts import attempts, has_begun, until
from tests.hosts.supervised import Hosted, hosted, single
from tests.kit.data.flows import Flow


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_attempts, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(functions, "KILL_SECONDS", 0.3)
    monkeypatch.setattr(runners, "BLOCKED_SECONDS", 0.3)
    monkeypatch.setattr(runners, "CHECK_SECONDS", 0.05)


async def until_written(path: Path) -> str:
    async with asyncio.timeout(20):
        while not (path.exists() and path.read_text()):
            await asyncio.sleep(0.02)
    return path.read_text()


def stop(flow: Flow) -> None:
    """Cancel the whole flow, and ask its attempts to end, as a supervisor does."""
    flow.cancel()
    _, plan = flow.plan()
    flow.store.flow_ledger.crawls_to_stop(flow.flow, plan.stops)


async def test_an_async_function_is_cancelled_at_its_timeout(host: Hosted) -> None:
    flow = await host.play(single(authors.async_wait, timeout=0.3))
    [attempt] = await attempts(flow)
    assert (attempt.kind, attempt.outcome) == ("failed", "timeout")
    assert attempt.error == "the function did not end within 0.3 s"
    assert authors.calls == ["step", "finally"]
    assert host.host.slots.busy == 0


async def test_a_function_in_a_thread_keeps_its_slot_until_it_ends(host: Hosted) -> None:
    flow = await host.play(single(authors.wait, timeout=0.3))
    [attempt] = await attempts(flow)
    assert attempt.outcome == "timeout"
    assert (host.host.slots.busy, host.host.slots.lost) == (1, 1)
    with pytest.raises(NotReady, match="1 of 20 slots are lost"):
        await host.host.slots.check()
    authors.gate.set()
    await until(lambda: host.host.slots.lost == 0)
    assert host.host.slots.busy == 0
    assert flow.row("step").state == "discarded", "a late end changes nothing"


async def test_an_async_function_that_ignores_its_cancel_keeps_its_slot(host: Hosted) -> None:
    flow = await host.play(single(authors.ignore_cancel, timeout=0.3))
    assert (await attempts(flow))[0].outcome == "timeout"
    assert host.host.slots.lost == 1


@pytest_asyncio.fixture(loop_scope="session")
async def single_slot(flows_database: Database) -> AsyncIterator[Hosted]:
    authors.reset()
    async with hosted(flows_database, slots=1) as running:
        yield running
    authors.gate.set()


async def test_a_host_without_slots_has_to_end(single_slot: Hosted) -> None:
    await single_slot.play(single(authors.wait, timeout=0.3))
    assert single_slot.host.slots.all_lost.is_set()


async def test_a_cancel_reaches_functions_on_the_loop_and_in_threads(host: Hosted) -> None:
    flow = await host.push(
        Workflow("both").add_cascade("loop", authors.async_wait).add_cascade("thread", authors.wait_for_cancel)
    )
    playing = asyncio.create_task(host.go_on(flow))
    await until(lambda: len(authors.calls) == 1)
    await has_begun()
    await asyncio.to_thread(stop, flow)
    async with asyncio.timeout(20):
        await playing
    assert flow.states == {"loop": "cancelled", "thread": "cancelled"}
    assert sorted(authors.calls) == ["cancelled", "finally", "loop"]
    [attempt] = await attempts(flow, "loop")
    assert (attempt.kind, attempt.reason) == ("cancelled", "cancel_requested")


@pytest.mark.long
async def test_a_blocked_loop_keeps_its_attempt_and_stops_nobody_else(host: Hosted) -> None:
    blocked = await host.push(single(authors.block))
    blocking = asyncio.create_task(host.go_on(blocked))
    await has_begun()
    await asyncio.sleep(0.5)
    began = time.monotonic()
    other = await host.play(single(authors.async_nothing))
    assert other.row("step").state == "completed"
    assert time.monotonic() - began < 5
    await asyncio.sleep(2.5)  # the lease lasts 2 s
    begun = await asyncio.to_thread(blocked.begin_steps, blocked.last("step"), token="other")
    assert begun.held == [0], "a renewal thread keeps the lease"
    authors.gate.set()
    await blocking
    assert await host.result(blocked, "step") == "through the gate"
    [attempt] = await attempts(blocked)
    assert attempt.deaths == 0


# isolation


def isolated(function: Any, folder: Path, **options: Any) -> Workflow:
    workflow = Workflow("isolated").add_context({"folder": str(folder), "factor": 7})
    return workflow.add_cascade("step", function, isolate=True, **options)


@pytest.mark.long
async def test_an_isolated_function_has_its_own_process_and_its_inputs(
    host: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        flow = await host.play(
            Workflow("isolated")
            .add_context({"factor": 7})
            .add_cascade("items", ([1, 2], authors.number))
            .add_cascade("step", authors.alone, deps="items", isolate=True)
            .add_cascade("async", authors.async_alone)
        )
    assert "progress: 1 of 2" in caplog.text
    result = await host.result(flow, "step")
    assert result == {"pid": result["pid"], "factor": 7, "items": [1, 2]}
    assert len({result["pid"], await host.result(flow, "async"), os.getpid()}) == 3
    await until(lambda: not psutil.pid_exists(result["pid"]))


async def test_an_isolated_function_is_killed_at_its_timeout(host: Hosted, tmp_path: Path) -> None:
    flow = await host.play(isolated(authors.hang_alone, tmp_path, timeout=1))
    assert (await attempts(flow))[0].outcome == "timeout"
    assert (host.host.slots.busy, host.host.slots.lost) == (0, 0)


async def test_an_isolated_function_is_killed_by_a_cancel_with_its_children(host: Hosted, tmp_path: Path) -> None:
    flow = await host.push(isolated(authors.fork_and_hang, tmp_path))
    playing = asyncio.create_task(host.go_on(flow))
    pids = [int(pid) for pid in (await until_written(tmp_path / "begun")).split()]
    await asyncio.to_thread(stop, flow)
    async with asyncio.timeout(20):
        await playing
    await until(lambda: not any(map(is_running, pids)))
    assert flow.row("step").state == "cancelled"


@pytest.mark.parametrize(
    ("function", "end"),
    [
        (authors.die, "ended with status 7"),
        (authors.kill_itself, "was killed by SIGKILL"),  # as by a lack of memory
        (authors.crash, "was killed by SIGSEGV"),
    ],
)
@pytest.mark.long
async def test_an_isolated_function_that_kills_its_process_fails(
    host: Hosted, tmp_path: Path, function: Any, end: str
) -> None:
    flow = await host.play(isolated(function, tmp_path))
    [attempt] = await attempts(flow)
    assert (attempt.outcome, attempt.deaths) == ("process_died", 0)
    assert attempt.reason == attempt.error == f"the process with the function {end}"


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_the_slots_are_a_metric(host: Hosted) -> None:
    await host.play(single(authors.wait, timeout=0.3))
    [metric] = host.host.slots.collect()
    assert {sample.labels["state"]: sample.value for sample in metric.samples} == {"all": 20, "busy": 1, "lost": 1}
