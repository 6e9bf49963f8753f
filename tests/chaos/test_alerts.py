"""Which alert does an outage fire? A real Prometheus watches the stack with the project's rules."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

import pytest
import pytest_asyncio

from tests.chaos.faults import faults
from tests.chaos.ground import Ground, ground
from tests.chaos.monitoring import Alert, Prometheus, prometheus, watched_settings
from tests.databases import mariadb_is_installed, missing

pytestmark = [pytest.mark.outage, pytest.mark.timeout(400)]
CALM_SECONDS = 20.0  # several minutes of the rules' time
CAPACITY = 4
DOWN, UNAVAILABLE, DISK = "CrawlerProcessDown", "CrawlerPartUnavailable", "CrawlerDiskLow"
DATABASE: Alert = (UNAVAILABLE, "database")
# the alerts that tell the culprit
TELLING: dict[str, Alert] = {
    "database stopped": DATABASE,
    "database frozen": DATABASE,
    "database read-only": DATABASE,
    "temporal away": (UNAVAILABLE, "temporal"),
    "scheduler away": (DOWN, "scheduler"),
    "lifecycle away": (DOWN, "worker"),
    "dispatcher away": (DOWN, "dispatcher"),
    "watcher frozen": (DOWN, "watcher"),
    "api away": (DOWN, "api"),
    "cluster away": (UNAVAILABLE, "cluster"),
    "disk full": (DISK, "scheduler"),
    "events away": ("CrawlerExportsFailed", ""),
    "webhook silent": ("CrawlerNoticesFailing", ""),
}
# the parts that doctor names; doctor asks no dispatcher, watcher or API
NAMED = {
    "database stopped": "database",
    "database frozen": "database",
    "database read-only": "database",
    "temporal away": "temporal",
    "scheduler away": "scheduler service",
    "cluster away": "cluster",
    "disk full": "disk",
    "events away": "events",
    "webhook silent": "notices",
}
# what an outage takes away from other processes, too
MAY_FIRE: dict[str, set[Alert]] = {
    "database": {(UNAVAILABLE, "passes"), ("CrawlerDatabaseSlow", "worker"), ("CrawlerDatabaseSlow", "dispatcher")},
    "scheduler": {(UNAVAILABLE, "scheduler service"), (UNAVAILABLE, "passes")},
    "cluster": {(UNAVAILABLE, "passes"), (UNAVAILABLE, "scheduler service")},
    "disk": {
        (UNAVAILABLE, "disk"),
        *((DISK, name) for name in ("worker", "dispatcher", "watcher", "scheduler", "api")),
    },
}
OUTAGES = [pytest.param(name, id=name, marks=pytest.mark.shard(f"alerts: {name}")) for name in TELLING]


@dataclass
class Watched:
    ground: Ground
    prometheus: Prometheus

    async def end_a_run(self) -> None:
        """Let a run end: its end is announced."""
        self.ground.site.release(await self.ground.site.start("plain"), 0)


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


@pytest.mark.parametrize("name", OUTAGES)
async def test_an_outage_fires_the_alert_that_names_it(watched: Watched, name: str) -> None:
    known = faults(watched.ground)
    if name not in known:
        missing("no file system may be mounted here: this disk cannot be filled")
    await watched.prometheus.until_calm()
    async with known[name].happens(watched.ground, Random(name)):
        if TELLING[name][1] == "":
            await watched.end_a_run()
        firing = await watched.prometheus.until_firing(TELLING[name])
        failing = [check for check in await watched.ground.site.control.doctor() if not check.ok]
    assert firing <= {TELLING[name]} | MAY_FIRE.get(name.split(maxsplit=1)[0], set())
    if name in NAMED:
        assert NAMED[name] in {check.part for check in failing}, failing
    await watched.prometheus.until_calm()
