"""Hosts of steps as processes: they die at every moment, end in order, and tell what is wrong with a module."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.contract.flows.work import CallForm
from crawler_lifecycle.flows import StepJob, Workflow
from tests.contracts.flows import Flow, pushed
from tests.process.step_hosts import MORTAL, StepHosts, step_hosts
from tests.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
MODULE = MORTAL.stem


@pytest_asyncio.fixture(loop_scope="session")
async def hosts(
    real_time: WorkflowEnvironment, database: Database, database_url: str, tmp_path: Path
) -> AsyncIterator[StepHosts]:
    async with step_hosts(real_time, database, database_url, tmp_path) as running:
        yield running


def job(name: str, form: CallForm = CallForm.CONTEXT) -> StepJob:
    return StepJob(function=f"{MODULE}:{name}", form=form)


async def push(hosts: StepHosts, workflow: Workflow) -> Flow:
    return await asyncio.to_thread(pushed, hosts.database, workflow)


def with_items() -> Workflow:
    items = [job("item", CallForm.ITEM).with_arguments(number) for number in range(4)]
    return Workflow("items").add_many("items", items).add("total", job("total"), deps="items")


@pytest.mark.parametrize(
    ("moment", "again", "dead"),
    [
        ("before claim", set(), 0),
        ("after claim", set(), 4),  # a claim counts as the beginning
        ("in the function", {"items/2"}, 4),
        ("before end", {"items/0", "items/1", "items/2", "items/3"}, 4),
        ("after end", set(), 0),
    ],
)
async def test_a_host_that_dies_loses_no_step_and_doubles_no_result(
    hosts: StepHosts, moment: str, again: set[str], dead: int
) -> None:
    flow = await push(hosts, with_items())
    async with hosts.kept_running(MORTAL_MOMENT=moment):
        await hosts.go_on(flow)
    assert (hosts.folder / "died").exists()
    assert set(flow.states.values()) == {"completed"}
    [total] = (await asyncio.to_thread(hosts_results, flow, "total")).values()
    assert total == 60
    for path in ("items/0", "items/1", "items/2", "items/3"):
        records = await asyncio.to_thread(flow.store.flow_records.attempts, flow.id, flow.row(path).number)
        assert len(records) == 1
        assert records[0].deaths <= 1
    assert again <= {path for path in hosts.calls if hosts.calls.count(path) == 2}
    assert max(map(hosts.calls.count, hosts.calls)) <= 2


def hosts_results(flow: Flow, path: str) -> dict[int, object]:
    return dict(flow.store.flow_records.results(flow.id, [flow.row(path).number]))


@pytest.mark.parametrize("moment", ["before graft", "after graft", "before end"])
async def test_a_killed_grafter_replaces_its_own_graft(hosts: StepHosts, moment: str) -> None:
    flow = await push(hosts, Workflow("graft").add_graft("graft", job("graft")))
    async with hosts.kept_running(MORTAL_MOMENT=moment):
        await hosts.go_on(flow)
    assert (hosts.folder / "died").exists()
    assert flow.states == {"graft": "completed", "graft/grafted": "completed"}
    assert hosts.calls == ["graft", "graft", "graft/grafted"]


async def test_a_host_ends_in_order(hosts: StepHosts) -> None:
    """A function on the loop is cancelled, and a thread that hangs keeps the process from nothing."""
    hosts.settings["CRAWLER_FLOWS__DRAIN_SECONDS"] = "1"
    process = await hosts.start()
    flow = await push(hosts, Workflow("hang").add("loop", job("hang_on_loop")).add("thread", job("hang")))
    going = asyncio.create_task(hosts.go_on(flow))
    await eventually(lambda: hosts.calls == ["hangs", "hangs"])
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(40):
        assert await process.wait() == 0
    claimed = await asyncio.to_thread(flow.claim, flow.last("loop"), flow.last("thread"), token="next")
    assert [step.deaths for step in claimed.mine] == [0, 0], hosts.log.read_text()
    going.cancel()


async def test_a_host_whose_slots_are_lost_ends(hosts: StepHosts) -> None:
    hosts.settings["CRAWLER_FLOWS__SLOTS"] = "1"
    process = await hosts.start()
    flow = await push(hosts, Workflow("hang").add("step", job("hang").with_options(timeout=0.5)))
    await hosts.go_on(flow)
    assert flow.states == {"step": "discarded"}
    async with asyncio.timeout(60):
        assert await process.wait() == 1
    assert "its slot is lost" in hosts.log.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file"),
        ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:\n", "cannot be imported: SyntaxError"),
        ("raise SystemExit(0)", "cannot be imported: SystemExit: 0"),
        ("x = 1\n\nraise ValueError('two\\nlines')", "ValueError: two lines"),
    ],
)
def test_a_module_that_does_not_import_gives_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    import subprocess

    path = tmp_path / "broken_module.py"
    if text is not None:
        path.write_text(text)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "workers.flows", str(path)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert words in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "Traceback" not in ended.stderr
