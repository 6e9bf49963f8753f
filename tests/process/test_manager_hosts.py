"""Hosts of crawl managers as processes: a frozen host, and a host that ends in order."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
import pytest_asyncio
from sqlalchemy import select
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts, managers
from crawler_lifecycle.flows.model.definition import CallForm, StepWork
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.rules.managers import manager_explained
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.model.flow_states import FlowIntent
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.databases import copy_of
from tests.kit.data.flows import BOOKS, Flow
from tests.kit.data.managers import pushed_manager
from tests.kit.waiting import eventually
from tests.process.step_hosts import StepHosts, step_hosts

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
MODULE = Path(__file__).with_name("hosted_managers.py")


@pytest_asyncio.fixture(loop_scope="session")
async def hosts(real_time: WorkflowEnvironment, sqlite_template: Path, tmp_path: Path) -> AsyncIterator[StepHosts]:
    url = copy_of(sqlite_template, tmp_path)
    database = Database(url)
    async with step_hosts(real_time, database, url, tmp_path) as running:
        running.module = str(MODULE)
        yield running
    database.close()


@pytest.fixture
def flow(hosts: StepHosts) -> Flow:
    work = StepWork(function=f"{MODULE.stem}:Shops", form=CallForm.MANAGER, arguments=[])
    return pushed_manager(hosts.database, work)


def counts(flow: Flow) -> Counts:
    return flow.store.manager_doors.statuses(flow.id)[0].counts


def objects(hosts: StepHosts) -> list[int]:
    return [int(word.split()[1]) for word in hosts.calls if word.startswith("object")]


def end_crawls(hosts: StepHosts, flow: Flow) -> None:
    """Make runs for the attempts on record, as their workflows would, and end the runs."""
    with hosts.database.read() as connection:
        of_flow = select(managers.c.token, managers.c.attempt).join(flows, flows.c.id == managers.c.flow)
        row: Any = connection.execute(of_flow.where(flows.c.uid == flow.uid)).one()
    ref = ManagerRef(flow.uid, 0, row.attempt, row.token)
    for start in flow.store.managers.unstarted(ref):
        flow.store.runs.create(NewRun(start.request, BOOKS, 1, start.job.key, str(uuid4())))
    for run_id in flow.store.manager_doors.runs_under_way(flow.id):
        flow.close(flow.store.runs.get(run_id))


async def to_the_end(hosts: StepHosts, flow: Flow) -> None:
    await asyncio.to_thread(end_crawls, hosts, flow)
    await eventually(lambda: counts(flow) == Counts(completed=2, running=2))
    await asyncio.to_thread(end_crawls, hosts, flow)
    await eventually(lambda: counts(flow) == Counts(completed=4))


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def attempts(hosts: StepHosts) -> int:
    with hosts.database.read() as connection:
        return len(connection.execute(select(manager_attempts.c.attempt)).all())


@pytest.mark.long
async def test_a_frozen_host_loses_its_manager_and_writes_nothing_more(hosts: StepHosts, flow: Flow) -> None:
    frozen = await hosts.start()
    going = asyncio.create_task(hosts.go_on(flow))
    await eventually(lambda: counts(flow).running == 2)
    frozen.send_signal(signal.SIGSTOP)
    await hosts.start()
    await eventually(lambda: len(objects(hosts)) == 2)
    await asyncio.to_thread(end_crawls, hosts, flow)  # both hosts would react
    frozen.send_signal(signal.SIGCONT)
    await eventually(lambda: counts(flow) == Counts(completed=2, running=2))
    await eventually(lambda: not is_alive(objects(hosts)[0]))
    assert is_alive(objects(hosts)[1])
    await asyncio.to_thread(end_crawls, hosts, flow)
    await asyncio.wait_for(going, 60)
    assert counts(flow) == Counts(completed=4)
    assert attempts(hosts) == 4
    assert len(objects(hosts)) == 2
    assert flow.row("manager").outcome == "finished"


@pytest.mark.long
async def test_a_host_that_ends_hands_its_manager_over_at_once(hosts: StepHosts, flow: Flow) -> None:
    """The claims would last for minutes: the next host has the manager because the first released its claim."""
    hosts.settings["CRAWLER_FLOWS__LEASE_SECONDS"] = "200"
    ending = await hosts.start()
    going = asyncio.create_task(hosts.go_on(flow))
    await eventually(lambda: counts(flow).running == 2)
    await hosts.start()
    ending.send_signal(signal.SIGTERM)
    await eventually(lambda: len(objects(hosts)) == 2)
    assert not is_alive(objects(hosts)[0])
    await to_the_end(hosts, flow)
    await asyncio.wait_for(going, 60)
    assert await asyncio.wait_for(ending.wait(), 60) == 0
    hooks = [word for word in hosts.calls if word.startswith("hook")]
    assert len(hooks) == len(set(hooks)) == 4


@pytest.mark.long
async def test_an_object_ends_with_its_host(hosts: StepHosts, flow: Flow) -> None:
    killed = await hosts.start()
    going = asyncio.create_task(hosts.go_on(flow))
    await eventually(lambda: counts(flow).running == 2)
    killed.send_signal(signal.SIGKILL)
    await eventually(lambda: not is_alive(objects(hosts)[0]))
    await hosts.start()
    await to_the_end(hosts, flow)
    await asyncio.wait_for(going, 60)
    assert attempts(hosts) == 4


@pytest.mark.long
async def test_a_broken_file_pauses_only_its_own_managers(hosts: StepHosts, flow: Flow, tmp_path: Path) -> None:
    broken = tmp_path / "broken_managers.py"
    broken.write_text("x = 1\ny = (\n")
    work = StepWork(function="broken_managers:Shops", form=CallForm.MANAGER)
    paused = pushed_manager(hosts.database, work, "broken/nightly")
    hosts.settings["CRAWLER_FLOWS__MANAGER_TRIES"] = "1"
    host = await hosts.start(str(MODULE), str(broken))
    going = [asyncio.create_task(hosts.go_on(hosted)) for hosted in (flow, paused)]
    await eventually(lambda: counts(flow).running == 2)
    await to_the_end(hosts, flow)
    await eventually(lambda: paused.store.manager_doors.statuses(paused.id)[0].problem is not None)
    (status,) = paused.store.manager_doors.statuses(paused.id)
    why = manager_explained(status, Why(path="manager", state="executing"), FlowIntent.RUN).cause
    assert str(why).startswith(f"manager_paused: start failed ({broken} cannot be imported: SyntaxError")
    assert "line 2" in str(why)
    broken.write_text(MODULE.read_text())
    assert await asyncio.wait_for(host.wait(), 60) == 0, "the host ends, to be started anew"
    await hosts.start(str(MODULE), str(broken))
    paused.hold("run")
    await eventually(lambda: counts(paused).running == 2)
    await to_the_end(hosts, paused)
    await asyncio.wait_for(asyncio.gather(*going), 60)
