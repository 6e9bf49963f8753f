"""Every activity's worker dies before it, after it, and in the step that follows it; so do the other parts, at every
call of their loops; and what they speak to fails in every way. One history, one job, one notice, one export each time.

The cases are made from the list of what the worker registers. Many run at once, as most of their time is spent
waiting for the death to be noticed; each test waits for its own.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import EventType

from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.plugin import WORKFLOWS
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.managers.ports import ManagerLedger
from crawler_lifecycle.model.answers import Started
from tests.crash.calls import (
    CALLS,
    CLOSED,
    ELSEWHERE,
    HOLDERS,
    NAMES,
    OF_HOSTS,
    PUT_BACK,
    SAID_OF_FAILURES,
    of_activities,
    points_of_managers,
)
from tests.crash.children import ChildPlan
from tests.crash.courses import COURSES, OF_CHILDREN, STEPS_OF_FLOWS, courses_by_step, courses_of
from tests.crash.faults import OF_PORTS, Fault
from tests.crash.graph import AFTER_THE_FUNCTION, IN_THE_FUNCTION
from tests.crash.hooks import AFTER, BEFORE, MOMENTS, TROUBLES
from tests.crash.ports import methods_of
from tests.crash.stack import OF_THE_CRAWLER, OF_THE_DATABASE, SECRET, SECRETS, Case, Stack, crashing, open_workflows
from tests.crash.steps import STEPS, THEN, kinds, steps, steps_of
from tests.kit.data.databases import create_database, mariadb, mariadb_is_installed, missing
from tests.kit.temporal.activity_events import begun_in, resolved_in

pytestmark = pytest.mark.timeout(900)


SERVICES = [ChildPlan(part, part, "", sorted(calls)) for part, calls in CALLS.items()]
OF_SERVICES = [ChildPlan(f"{course}.parts", "lifecycle", "") for course in ("delisted", "overtaken")]
HOSTILE = ChildPlan("hostile.words", "lifecycle", "")
TAKEN = list(dict(courses_of(NAMES)))  # every activity is met on one of them


def _plan(course: str, what: str, *deaths: str, fault: Fault | None = None, of_host: Fault | None = None) -> ChildPlan:
    """A course with an installation or a host of its own is there for what only it comes to: there, the rest fails for
    nobody."""
    chosen = COURSES[course]
    failing = sorted(chosen.activities | chosen.failing) if (chosen.alone or chosen.hosted) and fault else []
    deaths = (*deaths, *chosen.before)
    return ChildPlan(
        f"{course}.{what}",
        "lifecycle",
        "",
        list(deaths),
        fault,
        failing,
        alone=chosen.alone,
        dispatched=chosen.dispatched,
        hosted=chosen.hosted,
        of_host=of_host,
    )


CASES = [_plan(course, name, name) for course, name in courses_of(NAMES)]
CASES.sort(key=lambda case: not case.alone and "export" not in case.name)  # whose worker is missed last begins first
LED_BY = courses_by_step(
    {step for definition in WORKFLOWS for step in steps_of(definition)} | STEPS_OF_FLOWS | OF_CHILDREN
)
BY_STEP = [_plan(course, STEPS, *(f"{STEPS}.{step}" for step in sorted(steps))) for course, steps in LED_BY.items()]
WHOLE = ("scheduled", "retried", "lost_jobs", "admitted", "paused_installation")  # a worker dies in their every step
EVERY_STEP = [_plan(course, STEPS, STEPS) for course in WHOLE]
# what a host asks of the ledger in no course; tests/hosts and tests/process/test_step_hosts.py are about these
BY_NO_HOST = {
    "claims.withdraw",  # a host that ends in order, or that fails
    "claims.source",  # a function that asks for a result by its path
    "claims.note_cause",  # a function that the host's modules do not have
}
POINTS_OF_A_HOST = {call: {f"{call}.{when}" for when in (BEFORE, AFTER)} for call in sorted(OF_HOSTS - BY_NO_HOST)}
POINTS_OF_A_HOST |= {
    "function": {IN_THE_FUNCTION, AFTER_THE_FUNCTION},
    "run_steps": {"run_steps.before", "run_steps.after"},
}
LONG = {"claims.renew": "flow_cancelled"}  # the function of this course goes on
HOSTED = [_plan(LONG.get(call, "flow"), call, *sorted(points)) for call, points in POINTS_OF_A_HOST.items()]
# calls that no course comes to; tests/hosts/test_managers.py and tests/managers/contracts are about these
BY_NO_MANAGER = {
    **dict.fromkeys(("find", "runs"), "an author's methods that ask for jobs"),
    "wait_for": "an author's method that waits for jobs",
    "pause": "code that keeps failing",
    "refuse": "a request that can never become a run",
    **dict.fromkeys(("describe", "failure"), "a crawl that has no run after a minute"),
    **dict.fromkeys(("nudge_flow", "go_on"), "the supervisor's calls, and none of a host"),
}
POINTS_OF_MANAGERS = {call: points for call, points in points_of_managers().items() if call not in BY_NO_MANAGER}
MANAGED_BY = {"close": "manager_drained", "stop": "manager_stopped"}
TAKEN_OVER = ("jobs", "running")  # calls about a manager that a host has taken over
BEFORE_A_CALL = dict.fromkeys(TAKEN_OVER, ("managers.react.before",))
# the runs' own transactions write the attempts of managers, and the supervisor ends a manager's flow
WORKERS_OF_MANAGERS = {
    "runs": ("create_history_id", "update_run_status"),
    "supervisor": ("begin_flow", "write_flow"),
    "claims": ("claims.begin", "claims.end", "run_steps"),
}
MANAGED = [
    *(_plan("manager", what, *deaths) for what, deaths in WORKERS_OF_MANAGERS.items()),
    *(
        _plan(MANAGED_BY.get(call, "manager"), call, *sorted(points), *BEFORE_A_CALL.get(call, ()))
        for call, points in POINTS_OF_MANAGERS.items()
    ),
    _plan("manager_drained", "closed", CLOSED),
    _plan("manager_stopped", "intents", "managers.intent", "managers.close", "stop_attempts"),
]
MANAGED_BY_FAULTS = [_plan("manager", fault, of_host=fault) for fault in OF_PORTS]
MANAGED_UNDISTURBED = [_plan(course, "undisturbed") for course in ("manager", "manager_drained", "manager_stopped")]
UNDISTURBED = [_plan("flow", "undisturbed"), _plan("flow_doors", "dying")]
FAULTY = [_plan(course, fault, fault=fault) for fault in OF_PORTS for course in TAKEN]
FAULTY.sort(key=lambda case: not case.alone)  # the longest begin first
# a part of the same on the other kind of database, and what only it can do
LOSING = [_plan(course, Fault.LOST_COMMIT, fault=Fault.LOST_COMMIT) for course in TAKEN]
# what these ask for can end the workflow before their answer comes
NEVER_WAITED_FOR = {("cancel_execution", THEN), ("stop_attempts", THEN)}
ON_SQLITE = [
    *EVERY_STEP,
    *MANAGED,
    *MANAGED_BY_FAULTS,
    *MANAGED_UNDISTURBED,
    *HOSTED,
    *CASES,
    *OF_SERVICES,
    *BY_STEP,
    *FAULTY,
    *UNDISTURBED,
    HOSTILE,
]
ALL_ON_MARIADB = "ALL_ON_MARIADB" in os.environ  # by hand: every death on the other kind of database, too
ON_MARIADB = CASES if ALL_ON_MARIADB else CASES[3::4]
MANAGED_ON_MARIADB = [
    case
    for case in MANAGED
    if ALL_ON_MARIADB or case.name.partition(".")[2] in ("react", "offer", "start", "start_crawl", "runs")
]
HOSTED_ON_MARIADB = [case for case in HOSTED if ALL_ON_MARIADB or "claims.end" in case.name or "function" in case.name]
DATABASES = [pytest.param(name, marks=pytest.mark.closing(name)) for name in ("sqlite", "mariadb")]
AT_ONCE = 20  # more cases keep each other from being in time


@dataclass
class Running:
    stack: Stack
    under_way: dict[str, asyncio.Task[Started | None]]

    async def over(self, name: str) -> tuple[Case, Started | None]:
        return self.stack.cases[name], await self.under_way[name]

    async def all_over(self) -> Sequence[Started | None]:
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
    options = ("--innodb-flush-log-at-trx-commit=2", "--skip-log-bin", "--skip-name-resolve")
    with mariadb(*options, "--max-connections=1000") as server:  # the workers and hosts have pools
        yield server.port


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def matrix(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, mariadb_port: int | None
) -> AsyncIterator[Matrix]:
    async with AsyncExitStack() as stacks:
        folder = tmp_path_factory.mktemp("sqlite")
        children = [
            *SERVICES,
            *_chosen(request, "name", ON_SQLITE),
        ]
        places = asyncio.Semaphore(AT_ONCE)
        on_sqlite = _run(places, await stacks.enter_async_context(crashing(folder, children)))
        on_mariadb = None
        chosen = _chosen(request, "again", [*HOSTED_ON_MARIADB, *MANAGED_ON_MARIADB, *ON_MARIADB, *LOSING, HOSTILE])
        if mariadb_port is not None and chosen:
            new_database = partial(create_database, mariadb_port, password=OF_THE_DATABASE)
            folder = tmp_path_factory.mktemp("mariadb")
            children = [*SERVICES, *chosen]
            on_mariadb = _run(places, await stacks.enter_async_context(crashing(folder, children, new_database)))
        try:
            yield Matrix(on_sqlite, on_mariadb)
        finally:
            for running in (on_sqlite, on_mariadb):
                await running.end() if running else None


def _chosen(request: pytest.FixtureRequest, argument: str, cases: Sequence[ChildPlan]) -> list[ChildPlan]:
    """Return the cases that the tests of this session need: all of them, if its tests name none."""
    given = [item.callspec.params if hasattr(item, "callspec") else {} for item in request.session.items]
    whole = not any(each.keys() & {"name", "again", "fault", "part"} for each in given)
    if any("part" in each for each in given):  # the runs that make each part call everything that it can
        given += [{"name": case.name} for case in [*CASES, *OF_SERVICES]]
    names, faults = {each.get(argument) for each in given}, {each["fault"] for each in given if "fault" in each}
    return [case for case in cases if whole or case.name in names or case.fault in faults]


def _run(places: asyncio.Semaphore, stack: Stack) -> Running:
    async def taken(name: str, case: Case) -> Started | None:
        async with places:
            case.be_born()
            started = await COURSES[name.partition(".")[0]].take(case)
        if Fault.LATE not in (case.plan.fault, case.plan.of_host):  # a late request comes when all is over
            await case.retire()
        return started

    return Running(stack, {name: asyncio.create_task(taken(name, case)) for name, case in stack.cases.items()})


def _shard_of(fault: str | None) -> pytest.MarkDecorator:
    return pytest.mark.shard(f"sqlite: {fault}")


def _shard_of_manager(case: ChildPlan) -> pytest.MarkDecorator:
    """Two groups of about the same size."""
    return pytest.mark.shard(f"sqlite: managers, {MANAGED.index(case) % 2}")


@pytest.mark.shard("sqlite: activities")
@pytest.mark.parametrize("name", [case.name for case in CASES])
async def test_a_worker_dies_around_an_activity(matrix: Matrix, name: str) -> None:
    await _assert_died_around(matrix.sqlite, name)


@pytest.mark.shard("mariadb")
@pytest.mark.parametrize("again", [case.name for case in ON_MARIADB])
async def test_and_on_mariadb(matrix: Matrix, again: str) -> None:
    await _assert_died_around(_on_mariadb(matrix), again)


@pytest.mark.parametrize("name", [pytest.param(case.name, marks=_shard_of(case.fault)) for case in FAULTY])
async def test_what_an_activity_speaks_to_fails(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    assert case.noted
    matrix.sqlite.stack.assert_each_is_one(case)


@pytest.mark.shard("mariadb")
@pytest.mark.parametrize("again", [case.name for case in LOSING])
async def test_the_answers_to_commits_are_lost(matrix: Matrix, again: str) -> None:
    running = _on_mariadb(matrix)
    case, _ = await running.over(again)
    assert case.noted
    running.stack.assert_each_is_one(case)


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=_shard_of(fault)) for fault in OF_PORTS])
async def test_all_that_activities_ask_has_failed(matrix: Matrix, fault: Fault) -> None:
    cases = [await matrix.sqlite.over(f"{course}.{fault}") for course in TAKEN]

    def missing() -> set[str]:
        failed = {each.removesuffix(f".{fault}").partition(".") for case, _ in cases for each in case.noted}
        known = {f"{HOLDERS[name].__name__}: {asked}" for name, _, asked in failed if name in HOLDERS}
        return _asked_by_activities(fault) - known

    await _until_late(missing)


@pytest.mark.shard("sqlite: steps")
@pytest.mark.parametrize("name", [case.name for case in BY_STEP])
async def test_a_worker_dies_in_a_step_that_no_activity_leads_to(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    assert kinds(case.noted) == LED_BY[name.partition(".")[0]]
    matrix.sqlite.stack.assert_each_is_one(case)


@pytest.mark.shard("sqlite: steps")
@pytest.mark.parametrize("name", [case.name for case in EVERY_STEP])
async def test_a_worker_dies_in_every_step_of_a_run(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    client = await case.site.control.engine.client()
    inside, resolved, timed_out = Counter[str](), Counter[str](), 0
    for run in case.begun:
        async for each in client.list_workflows(f"WorkflowId = '{run.workflow_id}'"):  # its history may be long
            events = (await client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history()).events
            inside.update(activity.name for activity in begun_in(events) if activity.is_inside)
            resolved += resolved_in(events)
            timed_out += sum(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT for event in events)
    died = Counter(name for step in steps(case.noted) if (name := step.partition(" ")[2]) in NAMES)
    outside = Counter({name: number for name, number in died.items() if name not in inside})
    assert outside == Counter({name: number for name, number in resolved.items() if name not in inside})
    # a task that dies leaves nothing of its local activities, and its next try may come to others of these names; one
    # that is too slow runs again outside
    assert all(died[name] >= number + resolved[name] for name, number in inside.items())
    # the history has the first time-out alone if the worker dies in a task several times
    assert timed_out >= resolved.total()
    matrix.sqlite.stack.assert_each_is_one(case)


@pytest.mark.shard("sqlite: hosts")
@pytest.mark.parametrize("name", [case.name for case in HOSTED])
async def test_a_host_of_steps_dies_around_a_call(matrix: Matrix, name: str) -> None:
    await _assert_host_died(matrix.sqlite, name)


@pytest.mark.shard("mariadb")
@pytest.mark.parametrize("again", [case.name for case in HOSTED_ON_MARIADB])
async def test_a_host_of_steps_dies_on_mariadb(matrix: Matrix, again: str) -> None:
    await _assert_host_died(_on_mariadb(matrix), again)


@pytest.mark.parametrize("name", [pytest.param(case.name, marks=_shard_of_manager(case)) for case in MANAGED])
async def test_a_manager_loses_its_host_object_or_worker(matrix: Matrix, name: str) -> None:
    await _assert_manager_died(matrix.sqlite, name)


@pytest.mark.shard("mariadb")
@pytest.mark.parametrize("again", [case.name for case in MANAGED_ON_MARIADB])
async def test_a_manager_loses_its_host_object_or_worker_on_mariadb(matrix: Matrix, again: str) -> None:
    await _assert_manager_died(_on_mariadb(matrix), again)


@pytest.mark.shard("sqlite: managers, calls that fail")
@pytest.mark.parametrize("name", [case.name for case in MANAGED_BY_FAULTS])
async def test_what_the_host_of_a_manager_speaks_to_fails(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    fault = case.plan.of_host
    known = {f"managers.{method}" for method in methods_of(ManagerLedger)} | {"supervisors.start_crawl"}
    without = {f"managers.{call}" for call in (*BY_NO_MANAGER, *TAKEN_OVER)}
    await _until_late(lambda: {f"{call}.{fault}" for call in known - without} - case.noted)
    matrix.sqlite.stack.assert_each_is_one(case)


@pytest.mark.shard("sqlite: managers, calls that fail")
@pytest.mark.parametrize("name", [case.name for case in MANAGED_UNDISTURBED])
async def test_managers_without_a_death(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    assert not case.noted
    matrix.sqlite.stack.assert_each_is_one(case)


@pytest.mark.shard("sqlite: hosts")
@pytest.mark.parametrize("name", [case.name for case in UNDISTURBED])
async def test_flows_without_a_death_and_behind_doors_that_die(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    assert not case.noted
    matrix.sqlite.stack.assert_each_is_one(case)


@pytest.mark.shard("sqlite: activities")
@pytest.mark.parametrize("part", CALLS)
async def test_everything_happens_at_every_call_of_a_part(matrix: Matrix, part: str) -> None:
    if part == "scheduler":
        await _until_asked(matrix.sqlite.stack)
    await matrix.sqlite.all_over()
    expected = {f"{call}.{trouble}" for call in CALLS[part] - {PUT_BACK} for trouble in TROUBLES}
    await _until_late(lambda: expected - matrix.sqlite.stack.services[part].died())


@pytest.mark.shard("sqlite: activities")
@pytest.mark.parametrize("name", [case.name for case in OF_SERVICES])
async def test_a_part_refuses_and_is_overtaken(matrix: Matrix, name: str) -> None:
    case, _ = await matrix.sqlite.over(name)
    matrix.sqlite.stack.assert_each_is_one(case)


@pytest.mark.shard("sqlite: steps")
@pytest.mark.parametrize("name", [HOSTILE.name])
async def test_hostile_words_are_carried_through(matrix: Matrix, name: str) -> None:
    await matrix.sqlite.over(name)


@pytest.mark.shard("mariadb")
@pytest.mark.parametrize("again", [HOSTILE.name])
async def test_and_through_mariadb(matrix: Matrix, again: str) -> None:
    await _on_mariadb(matrix).over(again)


@pytest.mark.parametrize("database", DATABASES)
async def test_no_secret_is_told(matrix: Matrix, database: str) -> None:
    """Neither where everything goes well nor where everything fails."""
    running = matrix.sqlite if database == "sqlite" else _on_mariadb(matrix)
    await running.all_over()
    secrets = [*SECRETS.values(), SECRET, OF_THE_CRAWLER, OF_THE_DATABASE]
    told = await running.stack.told()
    assert {where for where, content in told.items() for each in secrets if each.encode() in content} == set()
    assert len(told) > len(running.under_way)


@pytest.mark.parametrize("database", DATABASES)
async def test_nothing_is_left(matrix: Matrix, database: str) -> None:
    running = matrix.sqlite if database == "sqlite" else _on_mariadb(matrix)
    await running.all_over()
    for _ in range(600):
        still_open, left = await open_workflows(running.stack.site.control), running.stack.leftovers()
        if not still_open and not left:
            break
        await asyncio.sleep(0.1)
    assert (still_open, left) == ([], [])
    running.stack.site.assert_one_history_per_request()


def _asked_by_activities(fault: Fault) -> set[str]:
    """Calls of ports, as the code of the activities has them, with who has that code."""
    return of_activities() - ELSEWHERE - (SAID_OF_FAILURES if fault is Fault.TWICE else set())


async def _until_late(missing: Callable[[], set[str]]) -> None:
    """A request that is late comes when all is over."""
    for _ in range(300):
        if not missing():
            break
        await asyncio.sleep(0.1)
    assert missing() == set()


async def _until_asked(stack: Stack) -> None:
    """Nobody else asks the scheduler service how it is."""
    deployer, notes = Parts(stack.site.control.installation.settings).deployer, stack.services["scheduler"]
    while len({each for each in notes.died() if each.startswith("cluster.check.")}) < len(TROUBLES):
        with suppress(LifecycleError):
            await asyncio.to_thread(deployer.check)
        await asyncio.sleep(0.2)


async def _assert_died_around(running: Running, name: str) -> None:
    case, _ = await running.over(name)
    activity = name.partition(".")[2]
    assert case.noted >= {f"{activity}.{moment}" for moment in MOMENTS if (activity, moment) not in NEVER_WAITED_FOR}
    running.stack.assert_each_is_one(case)


async def _assert_host_died(running: Running, name: str) -> None:
    case, _ = await running.over(name)
    assert case.noted >= POINTS_OF_A_HOST[name.partition(".")[2]]
    running.stack.assert_each_is_one(case)


async def _assert_manager_died(running: Running, name: str) -> None:
    case, _ = await running.over(name)
    what = name.partition(".")[2]
    assert case.noted >= POINTS_OF_MANAGERS.get(what, set())
    assert case.noted
    running.stack.assert_each_is_one(case)


def _on_mariadb(matrix: Matrix) -> Running:
    if matrix.mariadb is None:
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    assert matrix.mariadb
    return matrix.mariadb
