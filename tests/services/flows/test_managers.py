"""Hosts of crawl managers: real processes of authors' objects, on the real ledger, with faked runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.contract.flows.definition import FlowDefinition, MemberDefinition
from crawler_lifecycle.contract.flows.requests import PushFlow
from crawler_lifecycle.contract.flows.work import CallForm, StepWork
from crawler_lifecycle.contract.managers.turns import Counts
from crawler_lifecycle.contract.requests import RunRequest, StopRequest
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.domain.flows.messages import RunSteps
from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.ports import NewRun
from crawler_lifecycle.services.flows.host import StepHost
from crawler_lifecycle.services.flows.managers.hosting import managers_of
from crawler_lifecycle.services.flows.modules import load
from crawler_lifecycle.settings.processes import FlowSettings
from tests.contracts.flows import BOOKS, Flow
from tests.databases import copy_of
from tests.services.flows import managing
from tests.services.flows.supervised import Hosted

MODULE = managing.__name__
PATIENCE = 30.0


@dataclass
class FakeTemporal:
    """Starts runs as rows alone, and remembers how often."""

    flow: Flow
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    problems: list[Exception] = field(default_factory=list)

    async def start_crawl(self, workflow_id: str, request: RunRequest) -> None:
        if self.problems:
            raise self.problems.pop(0)
        new = NewRun(request, BOOKS, 1, workflow_id, str(uuid4()))
        with suppress(Exception):  # a second start of the same attempt
            await asyncio.to_thread(self.flow.store.runs.create, new)
        self.started.append(workflow_id)

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        self.stopped.append(workflow_id)
        return "signal"


@dataclass
class Stage:
    """A flow with a manager, and hosts for it."""

    database: Database
    flow: Flow
    temporal: FakeTemporal
    folder: Path
    steps: RunSteps | None = None  # the supervisor's activity, which the next host gets again

    @asynccontextmanager
    async def hosted(self, **settings: object) -> AsyncIterator[asyncio.Task[object]]:
        """Let a host bring the manager on during the block."""
        options = FlowSettings.model_validate({"claim_seconds": 2, "drain_seconds": 30, **settings})
        making = partial(managers_of, self.flow.store.managers, self.temporal)  # type: ignore[arg-type]
        host = StepHost(
            self.flow.store.step_claims,
            self.flow.store.flow_doors,
            load([MODULE]),
            options,
            "host of the test",
            managing=making,
        )
        async with host.running():
            self.steps = self.steps or await Hosted(self.database, host).starting(self.flow)
            running: asyncio.Task[object] = asyncio.create_task(host.run(self.steps))
            yield running
        running.cancel()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.05)  # no event tells that a row has changed

    @property
    def counts(self) -> Counts:
        return self.flow.store.manager_doors.item_counts(self.flow.id)

    async def started(self, number: int) -> None:
        await self.until(lambda: len(set(self.temporal.started)) >= number)

    def end_runs(self, status: RunStatus = RunStatus.COMPLETED) -> None:
        for run_id in self.flow.store.manager_doors.runs_under_way(self.flow.id):
            self.flow.close(self.flow.store.runs.get(run_id), status)

    @property
    def lines(self) -> list[str]:
        return [line.message for line in self.flow.store.flow_records.lines(self.flow.id, after=0, limit=100)]

    async def result(self) -> object:
        results = self.flow.store.flow_records.results
        return (await asyncio.to_thread(results, self.flow.id, [0])).get(0)


@pytest.fixture
def database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """SQLite alone: tests/contracts show that the ledger is the same on MariaDB."""
    database = Database(copy_of(sqlite_template, tmp_path))
    yield database
    database.close()


@pytest.fixture
def staged(database: Database, tmp_path: Path) -> Callable[[str], Stage]:
    def stage(name: str, *arguments: str) -> Stage:
        given = [*arguments, "--folder", str(tmp_path)] if name != "Refused" else list(arguments)
        work = StepWork(function=f"{MODULE}:{name}", form=CallForm.MANAGER, arguments=given)
        member = MemberDefinition(path="manager", work=work)
        definition = FlowDefinition(id="shops/nightly", name="nightly", family="shops", members=(member,))
        store = SqlStore(database)
        answer = store.flow_doors.push(PushFlow(definition=definition))
        flow = Flow(store, answer.flow_id, answer.flow_uid)
        return Stage(database, flow, FakeTemporal(flow), tmp_path)

    return stage


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


async def test_a_start_without_an_answer_is_repeated(staged: Callable[..., Stage]) -> None:
    stage = staged("Shops")
    stage.temporal.problems = [TemporaryError("away"), TemporaryError("away")]
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


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


@pytest.mark.parametrize("failure", [TemporaryError("away"), RuntimeError("a fault of our own")])
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
