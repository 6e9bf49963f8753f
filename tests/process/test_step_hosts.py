"""Hosts of steps as processes: they die at every moment, end in order, and tell what is wrong with a module."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import StepJob, Workflow
from crawler_lifecycle.flows.model.definition import CallForm
from tests.kit.data.databases import copy_of, empty
from tests.kit.data.flows import Flow, pushed
from tests.kit.waiting import eventually
from tests.process.step_hosts import DOOMED, StepHosts, step_hosts

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
MODULE = DOOMED.stem


@pytest.fixture(params=["sqlite", pytest.param("mariadb", marks=pytest.mark.system)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """SQLite, and in tests of the system MariaDB, too."""
    if request.param == "sqlite":
        return copy_of(request.getfixturevalue("sqlite_template"), tmp_path)
    url: str = request.getfixturevalue("mariadb_url")
    empty(url)
    return url


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
    ("moment", "again"),
    [
        pytest.param("before begin", set(), marks=pytest.mark.system),
        pytest.param("after begin", set(), marks=pytest.mark.system),
        ("in the function", {"items/2"}),
        pytest.param("before end", None, marks=pytest.mark.system),
        pytest.param("after end", set(), marks=pytest.mark.system),
    ],
)
async def test_a_host_that_dies_loses_no_step_and_doubles_no_result(
    hosts: StepHosts, moment: str, again: set[str] | None
) -> None:
    """`again`: functions that are called a second time; None: the first of the items' functions, whose threads begin in
    any order."""
    flow = await push(hosts, with_items())
    async with hosts.kept_running(DOOMED_MOMENT=moment):
        await hosts.go_on(flow)
    assert (hosts.folder / "died").exists()
    assert set(flow.states.values()) == {"completed"}
    [total] = (await asyncio.to_thread(hosts_results, flow, "total")).values()
    assert total == 60
    for path in ("items/0", "items/1", "items/2", "items/3"):
        records = await asyncio.to_thread(flow.store.flow_records.attempts, flow.id, flow.row(path).number)
        assert len(records) == 1
        assert records[0].deaths <= 1
    items = [path for path in hosts.calls if path.startswith("items/")]
    assert set(items[:1] if again is None else again) <= {path for path in items if items.count(path) == 2}
    assert max(map(hosts.calls.count, hosts.calls)) <= 2


def hosts_results(flow: Flow, path: str) -> dict[int, object]:
    return dict(flow.store.flow_records.results(flow.id, [flow.row(path).number]))


@pytest.mark.system
@pytest.mark.parametrize("moment", ["before graft", "after graft", "before end"])
async def test_a_killed_grafter_replaces_its_own_graft(hosts: StepHosts, moment: str) -> None:
    flow = await push(hosts, Workflow("graft").add_graft("graft", job("graft")))
    async with hosts.kept_running(DOOMED_MOMENT=moment):
        await hosts.go_on(flow)
    assert (hosts.folder / "died").exists()
    assert flow.states == {"graft": "completed", "graft/grafted": "completed"}
    assert hosts.calls == ["graft", "graft", "graft/grafted"]


@pytest.mark.long
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
    begun = await asyncio.to_thread(flow.begin_steps, flow.start("loop"), flow.start("thread"), token="next")
    assert [step.deaths for step in begun.mine] == [0, 0], hosts.log.read_text()
    going.cancel()


@pytest.mark.system
async def test_a_frozen_host_loses_its_attempt_and_its_result_is_dropped(hosts: StepHosts) -> None:
    """As with a host behind a broken network: two calls at once, and one commit wins."""
    frozen = await hosts.start()
    flow = await push(hosts, Workflow("frozen").add("step", job("process_and_wait")))
    going = asyncio.create_task(hosts.go_on(flow))
    await eventually(lambda: len(hosts.calls) == 1)
    frozen.send_signal(signal.SIGSTOP)
    await hosts.start()
    await eventually(lambda: len(hosts.calls) == 2)
    frozen.send_signal(signal.SIGCONT)
    await asyncio.sleep(1)
    (hosts.folder / "gate").touch()
    await going
    [result] = (await asyncio.to_thread(hosts_results, flow, "step")).values()
    assert str(result) == hosts.calls[1], "the second host had the attempt"
    [attempt] = await asyncio.to_thread(flow.store.flow_records.attempts, flow.id, 0)
    assert attempt.deaths == 1


@pytest.mark.system
async def test_a_host_whose_slots_are_lost_ends(hosts: StepHosts) -> None:
    hosts.settings["CRAWLER_FLOWS__SLOTS"] = "1"
    process = await hosts.start()
    flow = await push(hosts, Workflow("hang").add("step", job("hang").with_options(timeout=0.5)))
    await hosts.go_on(flow)
    assert flow.states == {"step": "discarded"}
    async with asyncio.timeout(60):
        assert await process.wait() == 1
    assert "its slot is lost" in hosts.log.read_text()
