"""The door of a process: alive while its loop turns, ready while what it needs answers, and open in any case."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.observe import changes
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.http.health import HealthServer, Pulses, served
from crawler_lifecycle.runs.ports import Claim
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from crawler_lifecycle.runs.processes.watcher import Watcher
from crawler_lifecycle.settings.processes import HealthSettings
from crawler_lifecycle.stack.plan import HEALTH, OWN_PORTS, Ports, lifecycle_part, make_plan, service_part
from tests.kit.clusters.api_servers import Answered, an_access, an_api_server
from tests.kit.service.rig import Rig
from tests.kit.waiting import until

SHORT = HealthSettings(port=0, stuck_seconds=2, ready_seconds=2)
SILENT = HealthSettings(port=0, stuck_seconds=600, ready_seconds=0.5)
LONG = HealthSettings(port=0, stuck_seconds=600, ready_seconds=600)


def ask(door: HealthServer | None, path: str) -> httpx.Response:
    assert door is not None
    return httpx.get(f"http://127.0.0.1:{door.server_address[1]}{path}", timeout=60)


def until_it_says(door: HealthServer | None, path: str, status: int) -> dict[str, Any]:
    def answered() -> httpx.Response | None:
        answer = ask(door, path)
        return answer if answer.status_code == status else None

    answer: dict[str, Any] = until(answered, f"{path} says {status}").json()
    return answer


async def fine() -> None:
    """Something that answers."""


async def test_without_a_port_there_is_no_door() -> None:
    async with served(HealthSettings(), {"database": fine}) as door:
        assert door is None


async def test_a_port_in_use_is_one_line() -> None:
    async with served(LONG, {}) as door:
        assert door is not None
        taken = HealthSettings(port=door.server_address[1])
        with pytest.raises(NotReady, match=r"CRAWLER_HEALTH__PORT.*in use"):
            async with served(taken, {}):
                pass


async def test_ready_once_everything_has_answered() -> None:
    answers = asyncio.Event()
    async with served(LONG, {"database": fine, "temporal": answers.wait}) as door:
        told_ = await asyncio.to_thread(until_it_says, door, "/readyz", 503)
        assert "temporal: no_answer" in told_["problems"]
        answers.set()
        assert await asyncio.to_thread(until_it_says, door, "/readyz", 200) == {"status": "ready"}
        assert (await asyncio.to_thread(ask, door, "/healthz")).json() == {"status": "alive"}
        assert (await asyncio.to_thread(ask, door, "/nowhere")).status_code == 404
        metrics = (await asyncio.to_thread(ask, door, "/metrics")).text
    assert 'process_pulse_age_seconds{of="temporal"}' in metrics
    assert "process_resident_memory_bytes" in metrics or "python_info" in metrics


async def test_not_ready_when_something_has_been_silent_for_long() -> None:
    answered, never = asyncio.Event(), asyncio.Event()

    async def once() -> None:
        if answered.is_set():
            await never.wait()
        answered.set()

    async with served(SILENT, {"database": once}) as door:
        await answered.wait()
        silent = await asyncio.to_thread(until_it_says, door, "/readyz", 503)
        assert silent["problems"] == ["database: no_answer"]
        assert (await asyncio.to_thread(ask, door, "/metrics")).status_code == 200


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (TemporaryError("nobody is at db:3306"), "unavailable"),
        (NotReady("the database at mysql://root@db:3306/crawler does not let us in"), "not_ready"),
        (TemporaryError("403 by https://10.0.0.1", cause="cluster_forbids"), "cluster_forbids"),
        (RuntimeError("Client(password=secret)"), "failed"),
    ],
)
async def test_a_stranger_learns_the_part_and_one_word(
    error: Exception, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The port needs no token, and named addresses and accounts. The log names them."""

    async def away() -> None:
        raise error

    async with served(LONG, {"database": away}) as door:
        await asyncio.sleep(0)
        told_ = await asyncio.to_thread(until_it_says, door, "/readyz", 503)
    assert told_ == {"status": "not ready", "problems": [f"database: {word}"]}
    assert str(error) in caplog.text


async def test_a_slow_answer_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("crawler_lifecycle.http.health.SLOW_SECONDS", 0.1)

    async def slow() -> None:
        await asyncio.sleep(0.2)

    async with served(LONG, {"temporal": slow, "cluster": fine}) as door:
        await asyncio.to_thread(until_it_says, door, "/readyz", 200)
    assert caplog.messages == ["slow: temporal: an answer took 0.2 s"]


@pytest.mark.long
async def test_an_event_loop_that_does_not_turn_is_not_alive() -> None:
    async with served(SHORT, {}) as door:
        await asyncio.to_thread(until_it_says, door, "/healthz", 200)
        with ThreadPoolExecutor(1) as others:
            asked = others.submit(until_it_says, door, "/healthz", 503)
            asked.result(60)  # nothing else happens in this loop meanwhile
        assert "has not turned" in asked.result()["problems"][0]
        await asyncio.to_thread(until_it_says, door, "/healthz", 200)


class Claims:
    """As many backlogs as the database shows: none, an error, or no answer at all."""

    def __init__(self) -> None:
        self.error: TemporaryError | None = None
        self.answers = threading.Event()

    def claim_tasks(self, *_: object) -> list[Claim]:
        self.answers.wait(120)
        if self.error:
            raise self.error
        return []


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def claims() -> Claims:
    return Claims()


@pytest.fixture
async def dispatching(rig: Rig, pool: ThreadPoolExecutor, claims: Claims) -> AsyncIterator[Pulses]:
    stopped = threading.Event()
    dispatcher = Dispatcher(claims, rig.claim_deployer, timedelta(seconds=60), 1, pool)  # type: ignore[arg-type]
    claims.answers.set()
    running = asyncio.create_task(asyncio.to_thread(dispatcher.run, stopped, timedelta(seconds=0.01)))
    yield dispatcher.pulses
    stopped.set()
    claims.answers.set()
    await running


@pytest.mark.long
async def test_a_dispatcher_that_fails_is_alive_and_not_ready(dispatching: Pulses, claims: Claims) -> None:
    async with served(SILENT, {}, dispatching) as door:
        await asyncio.to_thread(until_it_says, door, "/readyz", 200)
        claims.error = TemporaryError("the database is away")
        silent = await asyncio.to_thread(until_it_says, door, "/readyz", 503)
        assert silent["problems"] == ["passes: unavailable"]
        assert (await asyncio.to_thread(ask, door, "/healthz")).status_code == 200
        claims.error = None
        await asyncio.to_thread(until_it_says, door, "/readyz", 200)


@pytest.mark.long
async def test_a_dispatcher_that_hangs_is_not_alive(dispatching: Pulses, claims: Claims) -> None:
    async with served(SHORT, {}, dispatching) as door:
        await asyncio.to_thread(until_it_says, door, "/healthz", 200)
        claims.answers.clear()
        stuck = await asyncio.to_thread(until_it_says, door, "/healthz", 503)
    assert "has not turned" in stuck["problems"][0]


class Changes:
    """A cluster whose stream of changes falls silent when told to."""

    def __init__(self) -> None:
        self.flows = threading.Event()
        self.flows.set()

    def changes(self) -> Iterator[set[str]]:
        while True:
            self.flows.wait(120)
            time.sleep(0.01)
            yield set()


@pytest.mark.long
async def test_a_watcher_whose_stream_is_silent_is_not_alive(rig: Rig) -> None:
    cluster = Changes()

    async def send(_: object) -> None: ...

    watcher = Watcher(SqlStore(rig.database).claims, cluster, send, Pulses())  # type: ignore[arg-type]
    async with served(SHORT, {}, watcher.pulses) as door:
        watching = asyncio.create_task(watcher.run())
        await asyncio.to_thread(until_it_says, door, "/readyz", 200)
        cluster.flows.clear()
        await asyncio.to_thread(until_it_says, door, "/healthz", 503)
        cluster.flows.set()
        await asyncio.to_thread(until_it_says, door, "/healthz", 200)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_watcher_whose_stream_is_refused_is_not_ready(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lists the jobs all right, so its cluster answers; and nobody would be nudged."""
    monkeypatch.setattr(changes, "PAUSES", Backoff(timedelta(seconds=0.01), timedelta(seconds=0.1)))
    monkeypatch.setattr(changes, "LONGEST_WAIT", 0.1)

    async def send(_: object) -> None: ...

    with an_api_server() as server:
        server.watching = [Answered(403, "Forbidden", "cannot watch jobs") for _ in range(1000)]
        cluster = KubernetesCluster(an_access(server, tmp_path), str(uuid4()), PodSettings(), LogStorage(tmp_path))
        watcher = Watcher(SqlStore(rig.database).claims, cluster, send)
        async with served(SILENT, {"cluster": partial(asyncio.to_thread, cluster.check)}, watcher.pulses) as door:
            watching = asyncio.create_task(watcher.run())
            await asyncio.to_thread(until, lambda: watcher.pulses.succeeded.problem, "the refusal to be told")
            refused = await asyncio.to_thread(until_it_says, door, "/readyz", 503)
            assert any(problem.startswith("passes: ") for problem in refused["problems"]), refused
            assert "http" not in str(refused), "strangers do not learn the address of the API server"
            assert "cannot watch jobs" in (watcher.pulses.succeeded.problem or "")
            server.watching.clear()
            await asyncio.to_thread(until_it_says, door, "/readyz", 200)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def test_parts_of_a_stack_have_ports_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack's record had the worker's port, and a host of steps took it from there: the stack did not start."""
    monkeypatch.setenv("CRAWLER_HEALTH__PORT", "9100")
    monkeypatch.setenv("CRAWLER_METRICS__PORT", "9200")
    plan = make_plan(tmp_path, Ports.free(), tmp_path / "catalogue.toml")
    assert not OWN_PORTS & plan.environment.keys(), "every process of the stack would listen there"
    worker, dispatcher, watcher = (
        lifecycle_part(plan, 1),
        service_part(plan, "dispatcher"),
        service_part(plan, "watcher"),
    )
    assert [part.own_variables[HEALTH] for part in (worker, dispatcher, watcher)] == ["9100", "9101", "9102"]
    assert worker.own_variables["CRAWLER_METRICS__PORT"] == "9200"
    assert not OWN_PORTS & service_part(plan, "api").own_variables.keys()
