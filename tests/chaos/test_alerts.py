"""Which alert does an outage fire? A real Prometheus watches the stack with the project's rules."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from tests.chaos import graph
from tests.chaos.faults import Fault, faults
from tests.chaos.ground import Ground, ground
from tests.chaos.monitoring import Alert, Prometheus, prometheus, watched_settings
from tests.kit.data.databases import locked, mariadb_is_installed, missing
from tests.kit.waiting import eventually_async

pytestmark = [pytest.mark.outage, pytest.mark.timeout(400)]
CALM_SECONDS = 20.0  # several minutes of the rules' time
CAPACITY = 4
DOCTOR_PATIENCE = 180.0  # in three minutes a person has to know the culprit
DOWN, UNAVAILABLE, DISK = "CrawlerProcessDown", "CrawlerPartUnavailable", "CrawlerDiskLow"
DATABASE: Alert = (UNAVAILABLE, "database")
DISCONNECTED, EXPORTS = "CrawlerDatabaseDisconnected", ("CrawlerExportsFailed", "")
# the alerts that tell the culprit
TELLING: dict[str, Alert] = {
    "database stopped": DATABASE,
    "database frozen": DATABASE,
    "database read-only": DATABASE,
    "database locked": DATABASE,
    "database cut": (DISCONNECTED, "dispatcher"),
    "temporal away": (UNAVAILABLE, "temporal"),
    "scheduler away": (DOWN, "scheduler"),
    "scheduler frozen": (DOWN, "scheduler"),
    "lifecycle away": (DOWN, "worker"),
    "lifecycle frozen": (DOWN, "worker"),
    "dispatcher away": (DOWN, "dispatcher"),
    "watcher frozen": (DOWN, "watcher"),
    "api away": (DOWN, "api"),
    "flows away": ("CrawlerFlowsWithoutHost", ""),
    "cluster away": (UNAVAILABLE, "cluster"),
    "disk full": (DISK, "scheduler"),
    "s3 away": EXPORTS,
    "s3 silent": EXPORTS,
    "events away": EXPORTS,
    "webhook silent": ("CrawlerNoticesFailing", ""),
}
# two at a time: each is told
PAIRS = [
    ("database stopped", "temporal away"),
    ("database read-only", "scheduler away"),
    ("database cut", "cluster away"),
    ("s3 away", "events away"),
    ("api away", "flows away"),
]
# the parts that doctor names; doctor asks no dispatcher, watcher or API
NAMED = {
    "database stopped": "database",
    "database frozen": "database",
    "database read-only": "database",
    "database locked": "database",
    "temporal away": "temporal",
    "scheduler away": "scheduler service",
    "scheduler frozen": "scheduler service",
    "lifecycle away": "worker",
    "lifecycle frozen": "worker",
    "flows away": "hosts",
    "cluster away": "cluster",
    "disk full": "disk",
    "s3 away": "archives",
    "s3 silent": "archives",
    "events away": "events",
    "webhook silent": "notices",
}
# what an outage takes away from other processes, too
MAY_FIRE: dict[str, set[Alert]] = {
    "database": {
        DATABASE,
        (UNAVAILABLE, "passes"),
        *(("CrawlerDatabaseSlow", name) for name in ("worker", "dispatcher")),
        *((DISCONNECTED, name) for name in ("worker", "dispatcher", "watcher", "api")),
    },
    "scheduler": {(UNAVAILABLE, "scheduler service"), (UNAVAILABLE, "passes")},
    "cluster": {(UNAVAILABLE, "passes"), (UNAVAILABLE, "scheduler service")},
    "disk": {
        (UNAVAILABLE, "disk"),
        *((DISK, name) for name in ("worker", "dispatcher", "watcher", "scheduler", "api")),
    },
}
OUTAGES = [
    pytest.param(names, id=name, marks=pytest.mark.shard(f"alerts: {name}"))
    for names in [*((name,) for name in TELLING), *PAIRS]
    for name in (" and ".join(names),)
]


@dataclass
class Watched:
    ground: Ground
    prometheus: Prometheus

    async def end_a_run(self) -> None:
        """Let a run end: its end is announced and archived."""
        self.ground.site.release(await self.ground.site.start("plain"), 0)

    async def use_all(self) -> None:
        """Use what is needed at an end or in a flow: receivers, the store of archives, the host of steps."""
        await self.end_a_run()
        flow = Workflow(id=f"steps-{uuid4()}").add("begin", graph.begin)
        await self.ground.site.control.flows.push(PushFlow(definition=flow.definition(), actor="the test"))

    async def until_doctor_names(self, parts: set[str]) -> float:
        """Wait for these parts, and return the seconds of the wait."""
        began, seen = time.monotonic(), dict[str, str]()

        async def are_named() -> bool:
            seen.clear()
            seen.update({check.part: check.line for check in await self.ground.site.control.doctor() if not check.ok})
            return seen.keys() >= parts

        await eventually_async(are_named, f"doctor to name {parts}", DOCTOR_PATIENCE, pause=1.0, seen=lambda: seen)
        return time.monotonic() - began


@asynccontextmanager
async def _locked(site: Ground, _: Random) -> AsyncIterator[None]:
    assert site.database
    with locked(site.database.port):
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    if not mariadb_is_installed():
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    folder = tmp_path_factory.mktemp("alerts")
    async with (
        ground(folder / "ground", on_mariadb=True, capacity=CAPACITY, **watched_settings()) as site,
        prometheus(site) as server,
    ):
        await site.site.start("plain")  # is under way through all outages
        yield Watched(site, server)


@pytest.mark.shard("alerts: calm")
async def test_no_alert_fires_in_the_calm(watched: Watched) -> None:
    await watched.prometheus.until_calm()
    await watched.end_a_run()
    assert not await watched.prometheus.fired_within(CALM_SECONDS)


@pytest.mark.parametrize("names", OUTAGES)
async def test_an_outage_fires_the_alert_that_names_it(
    watched: Watched, names: tuple[str, ...], record_property: Callable[[str, object], None]
) -> None:
    known = faults(watched.ground) | {"database locked": Fault("database locked", frozenset({"database"}), _locked)}
    if "disk full" in names and "disk full" not in known:
        missing("no file system may be mounted here: this disk cannot be filled")
    alerts = {TELLING[name] for name in names}
    await watched.prometheus.until_calm()
    async with AsyncExitStack() as outage:
        workers = ["second worker killed"] if any("lifecycle" in name for name in names) else []
        for name in [*workers, *names]:
            await outage.enter_async_context(known[name].happens(watched.ground, Random(name)))
        if any(part == "" for _, part in alerts):
            await watched.use_all()
        parts = {NAMED[name] for name in names if name in NAMED}
        firing, seconds = await asyncio.gather(
            watched.prometheus.until_firing(*alerts), watched.until_doctor_names(parts)
        )
        record_property("seconds until doctor named it", round(seconds))
    assert firing <= alerts.union(*(MAY_FIRE.get(name.split(maxsplit=1)[0], set()) for name in names))
    await watched.prometheus.until_calm()


@pytest.mark.shard("alerts: a crawler that fails")
async def test_a_crawler_that_fails_again_and_again_is_named(watched: Watched) -> None:
    site = watched.ground.site
    await watched.prometheus.until_calm()
    for code in (3, 3, 3):
        run = await site.start("plain")
        site.release(run, 0, codes={0: code})
        await site.until_over(run)
    await watched.prometheus.until_firing(("CrawlerCrawlersFailing", ""))
    line = {check.part: check.line for check in await site.control.doctor()}["runs"]
    assert f"the last 3 runs of crawler plain failed: see `crawlctl show {run.run_id}`" in line
    await watched.end_a_run()
    await watched.prometheus.until_calm()
