"""Who asked a scheduler service that hangs, or a node that is slow with logs, did so in the threads that all requests
share: some fifty starts, lists of crawlers or logs held up every stop, every list and the readiness."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from crawler_lifecycle import context
from crawler_lifecycle.base.bulkhead import Bulkhead
from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.http import state
from crawler_lifecycle.model.records import RunCounts, RunFilter, RunRecord
from crawler_lifecycle.runs.commands.reading import RunReader
from tests.kit.data.databases import MakeRun, copy_of
from tests.kit.service.apis import Api, problem, served

pytestmark = pytest.mark.regression(
    "Requests to a hanging scheduler service or a slow node held up every stop, every list and the readiness"
)

CALLERS = 60  # more than all threads that requests share
PATIENCE = 20.0


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def run(make_run: MakeRun) -> RunRecord:
    return make_run()


@pytest.fixture
def silent_scheduler() -> Iterator[str]:
    """Takes connections, and answers none."""
    with socket.create_server(("127.0.0.1", 0), backlog=CALLERS) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def api(database_url: str, tmp_path: Path, silent_scheduler: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(context, "SCHEDULER_PATIENCE", 1.0)
    monkeypatch.setattr(state, "PATIENCE", 1.0)
    variables = {"CRAWLER_SCHEDULER__URL": silent_scheduler, "CRAWLER_SCHEDULER__TOKEN": "a-token"}
    limits = {"CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "50", "CRAWLER_API__REQUESTS_PER_SECOND": "1000"}
    with served(tmp_path, database_url, **variables, **limits) as api:
        yield api


@pytest.fixture
def slow_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster that answers every request for a log when the test is over."""
    over = threading.Event()

    def slow(*_: object) -> LogChunk:
        over.wait(100)
        return LogChunk(text="", offset=0, ended=False)

    monkeypatch.setattr(RunReader, "task_log", slow)
    yield
    over.set()


@pytest.fixture
def slow_searches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database that reads all runs until the test is over, unless a list has no filter."""
    yield from slowed(monkeypatch, lambda chosen: chosen != RunFilter())


@pytest.fixture
def slow_lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database that answers no list until the test is over."""
    yield from slowed(monkeypatch, lambda _: True)


def slowed(monkeypatch: pytest.MonkeyPatch, is_slow: Callable[[RunFilter], bool]) -> Iterator[None]:
    over = threading.Event()
    find = RunReader.find

    def slow(reader: RunReader, chosen: RunFilter, **page: Any) -> Any:
        if is_slow(chosen):
            over.wait(100)
        return find(reader, chosen, **page)

    def slow_counts(*_: object) -> RunCounts:
        over.wait(100)
        return RunCounts(counts={})

    monkeypatch.setattr(RunReader, "find", slow)
    monkeypatch.setattr(RunReader, "counts", slow_counts)
    yield
    over.set()


@asynccontextmanager
async def many_requests(
    api: Api, method: str, path: str, body: object = None
) -> AsyncIterator[tuple[httpx.AsyncClient, list["asyncio.Task[httpx.Response]"]]]:
    """Send many equal requests at once."""
    headers = {"Authorization": f"Bearer {api.client().headers['Authorization'].partition(' ')[2]}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=api.url, headers=headers, timeout=100, trust_env=False, limits=limits
    ) as http:
        callers = [asyncio.create_task(http.request(method, path, json=body)) for _ in range(CALLERS)]
        try:
            yield http, callers
        finally:
            for each in callers:
                each.cancel()
            await asyncio.gather(*callers, return_exceptions=True)


@asynccontextmanager
async def crowd(api: Api, method: str, path: str, body: object = None) -> AsyncIterator[httpx.AsyncClient]:
    """Requests without room are refused, and the others wait."""
    async with many_requests(api, method, path, body) as (http, callers):
        answered, _ = await asyncio.wait(callers, timeout=PATIENCE / 2, return_when=asyncio.FIRST_COMPLETED)
        yield http
        assert problem(answered.pop().result(), 503).detail.endswith("try again later")
        assert any(not each.done() for each in callers), "nobody waits any more"


@pytest.mark.long
async def test_slow_logs_hold_up_no_other_request(api: Api, run: RunRecord, slow_logs: None) -> None:
    async with crowd(api, "GET", f"/v1/runs/{run.run_id}/logs") as http, asyncio.timeout(PATIENCE):
        assert (await http.get("/v1/runs")).json()["runs"][0]["run_id"] == run.run_id


@pytest.mark.parametrize("path", ["/v1/runs?search=nowhere", "/v1/runs?reason=no_such", "/v1/run-counts"])
@pytest.mark.long
async def test_a_search_among_all_runs_holds_up_no_other_list(
    api: Api, run: RunRecord, slow_searches: None, path: str
) -> None:
    async with crowd(api, "GET", path) as http, asyncio.timeout(PATIENCE):
        assert (await http.get("/v1/runs")).json()["runs"][0]["run_id"] == run.run_id
        assert (await http.get(f"/v1/runs/{run.run_id}")).json()["run"]["run_id"] == run.run_id


@pytest.mark.parametrize(
    ("method", "path", "body"), [("POST", "/v1/runs", {"crawler": "c"}), ("GET", "/v1/crawlers", None)]
)
@pytest.mark.long
async def test_a_scheduler_service_that_hangs_holds_up_no_stop(
    api: Api, run: RunRecord, method: str, path: str, body: object
) -> None:
    async with crowd(api, method, path, body) as http, asyncio.timeout(PATIENCE):
        assert (await http.post(f"/v1/runs/{run.run_id}/stop", json={})).json()["intent"] == "STOP"
        assert (await http.get("/v1/runs")).json()["runs"][0]["intent"] == "STOP"


@pytest.mark.long
async def test_slow_lists_hold_up_no_stop(api: Api, run: RunRecord, slow_lists: None) -> None:
    """Each request's dependencies ran in the threads that the lists had filled."""
    async with many_requests(api, "GET", "/v1/runs") as (http, callers):
        await asyncio.wait(callers, timeout=PATIENCE / 10)  # until all threads have a list: no event shows it
        async with asyncio.timeout(PATIENCE):
            assert (await http.post(f"/v1/runs/{run.run_id}/stop", json={})).json()["intent"] == "STOP"
        assert not any(caller.done() for caller in callers)


async def test_a_crowd_that_is_answered_soon_is_answered_all() -> None:
    calls = Bulkhead("quick", 2, patience=1.0)
    answers = await asyncio.gather(*(calls.run(int, number) for number in range(1000)))
    assert answers == list(range(1000))
