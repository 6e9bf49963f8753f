"""Crawls of a hosted manager while Temporal is away, without a run, against the catalogue, and after a stop."""

import asyncio
import threading
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.model.requests import ItemFilter
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.hosts.managers import crawls
from crawler_lifecycle.hosts.managers.crawls import ManagerCatalogue
from crawler_lifecycle.managers.ports import ManagerRef, ManagerStart
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.rules.plan import RunLimits
from tests.hosts.stages import PATIENCE, FakeCatalogue, Stage

Staged = Callable[..., Stage]


def problems(stage: Stage) -> list[str | None]:
    items = stage.flow.store.manager_doors.items(stage.flow.id, ItemFilter(states=(ItemState.REFUSED,)), limit=10)
    return [item.problem for item in items]


@pytest.mark.long
async def test_ends_are_reacted_to_while_starts_wait_for_temporal(staged: Staged) -> None:
    stage = staged("Shops", "--max-running-jobs", "2")
    async with stage.hosted() as running:
        await stage.started(2)
        stage.temporal.is_away = True
        first, *_ = await asyncio.to_thread(stage.flow.store.manager_doors.runs_under_way, stage.flow.id)
        await asyncio.to_thread(lambda: stage.flow.close(stage.flow.store.runs.get(first)))
        await stage.until(lambda: stage.counts == Counts(completed=1, running=2))
        await asyncio.to_thread(stage.end_runs)
        await stage.until(lambda: stage.counts.completed == 2)
        assert len(stage.temporal.started) == 2
        stage.temporal.is_away = False
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_a_manager_is_left_within_a_second_while_temporal_is_away(staged: Staged) -> None:
    stage = staged("Shops")
    stage.temporal.is_away = True
    async with stage.hosted():
        await stage.until(lambda: stage.counts.running == 3)
        leaves_at = time.monotonic()
    assert time.monotonic() - leaves_at < 3, "a second, on a slow machine"
    stage.temporal.is_away = False
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert len(stage.temporal.started) == 3


@pytest.mark.parametrize(
    ("end", "problem"), [("failed", "no such entry"), ("terminated", "its workflow was terminated")]
)
@pytest.mark.long
async def test_a_workflow_that_closes_without_a_run_refuses_its_attempt(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, end: str, problem: str
) -> None:
    monkeypatch.setattr(crawls, "CHECK_SECONDS", 0.5)
    stage = staged("Shops", "--loop-mode", "3600")
    stage.temporal.closes = {2: end}
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=2, refused=1)
    assert problems(stage) == [problem]


async def test_a_start_survives_a_fault_of_the_host(staged: Staged) -> None:
    stage = staged("Shops")
    stage.temporal.problems = [RuntimeError("a fault of our own")]
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_a_start_that_temporal_has_lost_is_repeated(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawls, "CHECK_SECONDS", 0.5)
    stage = staged("Shops")
    stage.temporal.loses = {2}
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_a_request_against_the_catalogue_is_refused_before_its_start(staged: Staged) -> None:
    stage = staged("Mixed")
    async with stage.hosted() as running:
        await stage.started(2)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=2, refused=1)
    assert len(stage.temporal.started) == 2
    assert problems(stage) == ["crawler: there is no crawler named unknown"]
    assert any("unknown is refused" in line for line in stage.lines)


@pytest.mark.long
async def test_an_absent_catalogue_refuses_no_request(staged: Staged) -> None:
    stage = staged("Mixed")
    stage.catalogue = None
    async with stage.hosted():
        await stage.started(3)
    assert stage.counts.refused == 0


@pytest.mark.long
async def test_a_manager_whose_time_is_over_stops_its_crawls(staged: Staged) -> None:
    stage = staged("Limited", "--max-running-jobs", "2")
    async with stage.hosted() as running:
        await stage.started(2)
        (stage.folder / "over").touch()
        await stage.until(lambda: set(stage.temporal.stopped) == set(stage.temporal.started))
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=2, cancelled=0)
    assert (await stage.result())["close_reason"] == "max_running_time"


@pytest.mark.long
async def test_a_job_that_its_manager_finishes_is_stopped_alone_until_temporal_knows(staged: Staged) -> None:
    stage = staged("Stalls", "--loop-mode", "0.2")
    async with stage.hosted() as running:
        stage.temporal.problems = [RuntimeError("a fault of our own")]  # the first job starts later
        await stage.started(3)
        await stage.until(lambda: bool(stage.temporal.stopped))
        assert set(stage.temporal.reasons.values()) == {"stalled"}
        (key,) = set(stage.temporal.stopped)
        await asyncio.to_thread(stage.end_runs, RunStatus.FAILED, "stopped")
        await asyncio.wait_for(running, PATIENCE)
    result = await stage.result()
    assert {name: text for name, text in result["stats"].items() if name.startswith("outcome")} == {
        "outcome 1": "stalled",
        "outcome 2": "cancelled",
        "outcome 3": "cancelled",
    }
    items = stage.flow.store.manager_doors.items(stage.flow.id, limit=10)
    assert [item.outcome for item in items] == ["stalled", "cancelled", "cancelled"]
    assert all("SEEN" in item.tags for item in items)
    assert key == stage.temporal.stopped[0]


async def test_a_stop_outlasts_another_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawls, "START_SECONDS", 0.01)
    is_asking, may_ask, is_reading, may_read = asyncio.Event(), asyncio.Event(), threading.Event(), threading.Event()
    may_read.set()
    ledger, temporal = Mock(), Mock()
    requests: list[str] = []

    def running(_: object) -> list[Mock]:
        is_reading.set()
        assert may_read.wait(PATIENCE)
        return [Mock(key="first"), Mock(key="second")]

    async def stop(key: str, request: StopRequest) -> None:
        if key == "first":
            is_asking.set()
            await may_ask.wait()
        requests.append(f"{key}: {request.reason}")

    ledger.running, temporal.stop = running, stop
    present = crawls.Crawls(ledger, temporal, ManagerRef("uid", 0, 1, "token"), "shops", Mock(), Mock())
    await asyncio.wrap_future(present.finish({"first": "slow"}))
    await asyncio.wait_for(is_asking.wait(), PATIENCE)
    may_read.clear()
    is_reading.clear()
    second = asyncio.wrap_future(present.finish({"second": "late"}))
    assert await asyncio.to_thread(is_reading.wait, PATIENCE)
    may_ask.set()
    async with asyncio.timeout(PATIENCE):
        while not requests or present._reasons.get("first"):
            await asyncio.sleep(0)
    may_read.set()
    await second
    async with asyncio.timeout(PATIENCE):
        while "second: late" not in requests:
            await asyncio.sleep(0.01)  # no event: the repetition is a task
    present.close()


async def test_starts_of_projects_that_wait_for_the_scheduler_service_hold_up_no_other_start() -> None:
    """Starts of projects had all places, and nothing was started, although Temporal was there."""

    def start_of(number: int, *labels: str) -> ManagerStart:
        job = Mock(key=f"flow-uid-{number}-1", number=number)
        return Mock(job=job, request=RunRequest(crawler="books", labels=list(labels)))

    is_away = threading.Event()
    is_away.set()

    def crawler(name: str) -> Crawler:
        if is_away.is_set():
            raise TemporaryError("the scheduler service is away")
        return Crawler(name=name, command=["true"], project=7)

    started: dict[str, str] = {}

    async def start_crawl(key: str, request: RunRequest) -> None:
        started[key] = request.crawler

    temporal, catalogue = Mock(start_crawl=start_crawl), ManagerCatalogue(Mock(crawler=crawler), RunLimits())
    present = crawls.Crawls(Mock(), temporal, ManagerRef("uid", 0, 1, "token"), "shops", Mock(), catalogue)
    waiting = [present._start_in_task(start_of(number, "project:7")) for number in range(2 * crawls.REQUESTS_AT_ONCE)]
    await asyncio.wait_for(present._start_in_task(start_of(99)), PATIENCE)
    assert started == {"flow-uid-99-1": "books"}
    is_away.clear()
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
    assert set(started.values()) == {"books", "books@7"}
    assert len(started) == 2 * crawls.REQUESTS_AT_ONCE + 1
    present.close()


@pytest.mark.long
async def test_a_run_prefers_the_catalogue_entry_of_its_project(staged: Staged) -> None:
    stage = staged("Projects")
    stage.catalogue = FakeCatalogue(("books", "books@7", "books@8"), {"books@7": 7, "books@8": 9})
    async with stage.hosted() as running:
        await stage.started(3)
        requests = {run.request.arguments["shop"]: run.request for run in stage.temporal.made}
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert {shop: request.crawler for shop, request in requests.items()} == {"a": "books@7", "b": "books", "c": "books"}
    assert requests["a"].labels == ["project:7"]
    assert (await stage.result())["stats"]["ends of books"] == 3


async def test_a_stopped_manager_keeps_its_numbers(staged: Staged) -> None:
    stage = staged("Shops", "--max-running-jobs", "2")
    async with stage.hosted() as running:
        await stage.started(2)
        await asyncio.to_thread(stage.flow.cancel)
        await stage.until(lambda: len(stage.temporal.stopped) == 2)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.flow.row("manager").state is MemberState.CANCELLED
    result = await stage.result()
    assert (result["close_reason"], result["counts"]["completed"]) == ("cancelled", 2)
    assert result["stats"]["crawlmanager/scheduled_jobs"] == 2


@pytest.mark.long
async def test_a_manager_that_a_failure_pauses_can_be_stopped(staged: Staged) -> None:
    stage = staged("FaultyCycle")
    async with stage.hosted(manager_tries=1) as running:
        await stage.started(3)
        (stage.folder / "always").touch()
        await asyncio.to_thread(stage.end_one)
        await stage.until(lambda: "failing" in stage.flow.events)
        await asyncio.to_thread(stage.flow.cancel)
        await stage.until(lambda: len(stage.temporal.stopped) == 2)
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert (await stage.result())["close_reason"] == "cancelled"
