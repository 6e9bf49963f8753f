"""Every activity's worker dies before it, after it, and in the step that follows it; so do the other parts, at every
call of their loops; and what they speak to fails in every way. One history, one job, one notice, one export each time.

The cases are made from the list of what the worker registers. They all run at once, as most of their time is spent
waiting for the death to be noticed; each test waits for its own.
"""

import asyncio
import inspect
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import pytest_asyncio

from crawler_lifecycle.activities.deploying import Deploying
from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.bootstrap.steps import activities
from crawler_lifecycle.control.control import Started
from crawler_lifecycle.ports import Claims, Nudges
from crawler_lifecycle.settings import Settings
from tests.crash.courses import AUDIT, COURSES, courses_of
from tests.crash.faults import Fault
from tests.crash.hooks import AFTER, BEFORE, MOMENTS, THEN
from tests.crash.nursery import ChildPlan
from tests.crash.ports import methods_of, ports_of
from tests.crash.stack import OF_THE_CRAWLER, OF_THE_DATABASE, SECRET, SECRETS, Case, Stack, crashing
from tests.databases import create_database, mariadb, mariadb_is_installed, missing

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


def _registered() -> list[object]:
    """As the worker has them; nothing is connected to."""
    parts = Parts(Settings(state=Path("nowhere")))
    vars(parts).update(database=Mock(), cluster=Mock(), deployer=Mock())
    return list(activities(parts, Mock(), search_attributes=False))


REGISTERED = _registered()
NAMES = [each.__temporal_activity_definition.name for each in REGISTERED]  # type: ignore[attr-defined]
LOOPS = {
    "dispatcher": [f"claims.{name}" for name in methods_of(Claims) if name not in ("claim_main", "failed")]
    + ["deployer.deploy"],
    "watcher": [f"nudges.{name}" for name in methods_of(Nudges)] + ["engine.nudge"],
    "scheduler": ["cluster.deploy", "cluster.place_waiting"],
}
SERVICES = [ChildPlan(part, part, "", points) for part, points in LOOPS.items()]
CASES = [
    ChildPlan(f"{course}.{name}", "lifecycle", "", [name, *COURSES[course].before], alone=COURSES[course].alone)
    for course, name in courses_of(NAMES)
]
HOSTILE = ChildPlan("hostile.words", "lifecycle", "")
CASES.sort(key=lambda case: "export" not in case.name)  # whose worker is missed last begins first
FAULTY_COURSES = ("forced", "resumed", "reopened", "stop_resumed", "cancelled")
NEVER_WAITED_FOR = ("cancel_execution", THEN)  # what it asks for ends the workflow, before its answer can come
SAID_OF_FAILURES = {"claims.failed", "histories.note"}
FAULTS = [fault for fault in Fault if fault is not Fault.LOST_COMMIT]
FAULTY = [ChildPlan(f"{course}.{fault}", "lifecycle", "", fault=fault) for fault in FAULTS for course in FAULTY_COURSES]
# a part of the same on the other kind of database, and what only it can do
LOSING = [
    ChildPlan(f"{course}.{Fault.LOST_COMMIT}", "lifecycle", "", fault=Fault.LOST_COMMIT) for course in FAULTY_COURSES
]
ON_MARIADB = CASES[3::4]


@dataclass
class Running:
    stack: Stack
    under_way: dict[str, asyncio.Task[Started]]

    async def over(self, name: str) -> tuple[Case, Started]:
        return self.stack.cases[name], await self.under_way[name]

    async def all_over(self) -> Sequence[Started]:
        await asyncio.wait(self.under_way.values())
        return [each.result() for each in self.under_way.values()]

    async def end(self) -> None:
        for each in self.under_way.values():
            each.cancel()
        await asyncio.gather(*self.under_way.values(), return_exceptions=True)


@dataclass
class Matrix:
    sqlite: Running
    mariadb: Running | None


@pytest.fixture(scope="module")
def mariadb_port() -> Iterator[int | None]:
    if not mariadb_is_installed():
        yield None
        return
    with mariadb("--innodb-flush-log-at-trx-commit=2", "--skip-log-bin", "--skip-name-resolve") as server:
        yield server.port


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def matrix(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, mariadb_port: int | None
) -> AsyncIterator[Matrix]:
    async with AsyncExitStack() as stacks:
        folder = tmp_path_factory.mktemp("sqlite")
        children = [*SERVICES, *_chosen(request, "name", [*CASES, *FAULTY, HOSTILE])]
        on_sqlite = _run(await stacks.enter_async_context(crashing(folder, children)))
        on_mariadb = None
        chosen = _chosen(request, "again", [*ON_MARIADB, *LOSING, HOSTILE])
        if mariadb_port is not None and chosen:
            new_database = partial(create_database, mariadb_port, password=OF_THE_DATABASE)
            folder = tmp_path_factory.mktemp("mariadb")
            children = [*SERVICES, *chosen]
            on_mariadb = _run(await stacks.enter_async_context(crashing(folder, children, new_database)))
        try:
            yield Matrix(on_sqlite, on_mariadb)
        finally:
            for running in (on_sqlite, on_mariadb):
                await running.end() if running else None


def _chosen(request: pytest.FixtureRequest, argument: str, cases: Sequence[ChildPlan]) -> list[ChildPlan]:
    """Those that a test of this session is about: all of them, if one is about the whole."""
    given = [item.callspec.params if hasattr(item, "callspec") else {} for item in request.session.items]
    names = {each.get(argument) for each in given}
    whole = any("name" not in each and "again" not in each for each in given)
    return [case for case in cases if whole or case.name in names]


def _run(stack: Stack) -> Running:
    def begun(name: str, case: Case) -> asyncio.Task[Started]:
        return asyncio.create_task(COURSES[name.partition(".")[0]].take(case))  # type: ignore[arg-type]

    return Running(stack, {name: begun(name, case) for name, case in stack.cases.items()})


@pytest.mark.parametrize("name", [case.name for case in CASES])
async def test_a_worker_dies_around_an_activity(matrix: Matrix, name: str) -> None:
    await _assert_died_around(matrix.sqlite, name)


@pytest.mark.parametrize("again", [case.name for case in ON_MARIADB])
async def test_and_on_mariadb(matrix: Matrix, again: str) -> None:
    await _assert_died_around(_on_mariadb(matrix), again)


@pytest.mark.parametrize("name", [case.name for case in FAULTY])
async def test_what_an_activity_speaks_to_fails(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    assert case.noted
    matrix.sqlite.stack.assert_each_notice_is_one(case)


@pytest.mark.parametrize("again", [case.name for case in LOSING])
async def test_the_answers_to_commits_are_lost(matrix: Matrix, again: str) -> None:
    running = _on_mariadb(matrix)
    case, _ = await running.over(again)
    assert case.noted
    running.stack.assert_each_notice_is_one(case)


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_method_of_every_port_has_failed(matrix: Matrix, fault: Fault) -> None:
    failed = set[str]()
    for course in FAULTY_COURSES:
        case, _ = await matrix.sqlite.over(f"{course}.{fault}")
        failed |= case.noted
    asked = _asked_by_activities()
    # the audit of every ten minutes may have come by
    assert failed & asked == asked - (SAID_OF_FAILURES if fault is Fault.TWICE else set())


@pytest.mark.parametrize("part", LOOPS)
async def test_a_part_dies_at_every_call_of_its_loop(matrix: Matrix, part: str) -> None:
    await matrix.sqlite.all_over()
    expected = {f"{point}.{moment}" for point in LOOPS[part] for moment in (BEFORE, AFTER)}
    assert matrix.sqlite.stack.services[part].died() == expected


@pytest.mark.parametrize("name", [HOSTILE.name])
async def test_hostile_words_are_carried_through(matrix: Matrix, name: str) -> None:
    await matrix.sqlite.over(name)


@pytest.mark.parametrize("again", [HOSTILE.name])
async def test_and_through_mariadb(matrix: Matrix, again: str) -> None:
    await _on_mariadb(matrix).over(again)


@pytest.mark.parametrize("database", ["sqlite", "mariadb"])
async def test_no_secret_is_told(matrix: Matrix, database: str) -> None:
    """Neither where everything goes well nor where everything fails."""
    running = matrix.sqlite if database == "sqlite" else _on_mariadb(matrix)
    await running.all_over()
    secrets = [*SECRETS.values(), SECRET, OF_THE_CRAWLER, OF_THE_DATABASE]
    told = await running.stack.told()
    assert {where for where, content in told.items() for each in secrets if each.encode() in content} == set()
    assert len(told) > len(running.under_way)


@pytest.mark.parametrize("database", ["sqlite", "mariadb"])
async def test_nothing_is_left(matrix: Matrix, database: str) -> None:
    running = matrix.sqlite if database == "sqlite" else _on_mariadb(matrix)
    await running.all_over()
    for _ in range(600):
        still_open, left = await running.stack.open_workflows(), running.stack.leftovers()
        if not still_open and not left:
            break
        await asyncio.sleep(0.1)
    assert (still_open, left) == ([], [])
    running.stack.site.assert_one_history_per_request()


def _asked_by_activities() -> set[str]:
    """Calls of ports, as the code of the activities of a run has them."""
    registered = zip(NAMES, REGISTERED, strict=True)
    holders = {type(each.__self__) for name, each in registered if name not in AUDIT}  # type: ignore[attr-defined]
    ports = {name: port for each in holders for name, port in ports_of(each).items()}
    code = "".join(inspect.getsource(sys.modules[each.__module__]) for each in (*holders, Deploying))
    called = re.findall(r"self\.(\w+)\.(\w+)", code)
    asked = {f"{name}.{method}" for name, method in called if name in ports and method in methods_of(ports[name])}
    # of a run that is over, which only the audit goes on with; and of a removal that has failed three times
    return asked - {"exports.owed", "cluster.check"}


async def _assert_died_around(running: Running, name: str) -> None:
    case, _ = await running.over(name)
    activity = name.partition(".")[2]
    assert case.noted >= {f"{activity}.{moment}" for moment in MOMENTS if (activity, moment) != NEVER_WAITED_FOR}
    running.stack.assert_each_notice_is_one(case)


def _on_mariadb(matrix: Matrix) -> Running:
    if matrix.mariadb is None:
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    assert matrix.mariadb
    return matrix.mariadb
