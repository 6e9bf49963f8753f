"""Fifty runs in every stage live through every outage, and through two at a time: they wait, go on, and end right."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.chaos.comparison import left_over
from tests.chaos.crowd import PLACES, Crowd
from tests.chaos.ground import ground
from tests.chaos.people import People
from tests.kit.data.databases import mariadb_is_installed, missing
from tests.kit.waiting import InVain, eventually_async

pytestmark = pytest.mark.timeout(400)
ON_MARIADB = [
    ("database stopped",),
    ("temporal killed",),
    ("database cut",),
    ("scheduler away",),
    ("database read-only",),
    ("s3 killed",),
    ("events failing",),
    ("database killed",),
    ("cluster away",),
    ("lifecycle away",),
    ("flows killed",),
    ("flows away",),
    ("dispatcher killed",),
    ("watcher away",),
    ("api killed",),
    ("temporal away",),
    ("webhook silent",),
    ("events away",),
    ("s3 silent",),
    ("everything killed",),
    ("database killed", "temporal away"),
    ("s3 killed", "events away"),
    ("database cut", "cluster away"),
    ("database read-only", "scheduler away"),
    ("database cut", "flows killed"),
    ("database stopped", "everything killed"),
]
ON_SQLITE = [
    ("disk full",),
    ("everything killed",),
    ("disk full", "temporal killed"),
    ("disk full", "everything killed"),
    ("cluster away", "s3 silent"),
]
# no outage needs another before it, so each may be in any shard
ALONE_ON_MARIADB = [
    pytest.param(names, id=name, marks=pytest.mark.shard(f"outages on mariadb: {name}"))
    for names, name in zip(ON_MARIADB, map(" and ".join, ON_MARIADB), strict=True)
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on_mariadb(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Crowd]:
    if not mariadb_is_installed():
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    async with ground(tmp_path_factory.mktemp("outages") / "mariadb", on_mariadb=True, capacity=PLACES) as made:
        crowd = Crowd(made, People(made))
        await crowd.gather()
        async with crowd.watched():
            yield crowd


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Crowd]:
    async with ground(tmp_path_factory.mktemp("outages") / "sqlite", on_mariadb=False, capacity=PLACES) as made:
        crowd = Crowd(made, People(made))
        await crowd.gather()
        async with crowd.watched():
            yield crowd


@pytest.mark.parametrize("names", ALONE_ON_MARIADB)
async def test_the_crowd_lives_through_it(on_mariadb: Crowd, names: tuple[str, ...]) -> None:
    await on_mariadb.live_through(*names)


@pytest.mark.closing("outages on mariadb")
async def test_and_all_of_them_end(on_mariadb: Crowd) -> None:
    await _assert_all_end(on_mariadb)


@pytest.mark.shard("outages on sqlite")
@pytest.mark.parametrize("names", ON_SQLITE, ids=" and ".join)
async def test_it_does_so_on_sqlite(on_sqlite: Crowd, names: tuple[str, ...]) -> None:
    if "disk full" in names and not on_sqlite.ground.disk.is_small:
        missing("no file system may be mounted here: this disk cannot be filled")
    await on_sqlite.live_through(*names)


@pytest.mark.closing("outages on sqlite")
async def test_and_all_of_them_end_there(on_sqlite: Crowd) -> None:
    await _assert_all_end(on_sqlite)


async def _assert_all_end(crowd: Crowd) -> None:
    assert await crowd.end() == []

    async def nothing_left() -> bool:
        return not await left_over(crowd.ground, [run.run_id for run in crowd.over])

    try:
        await eventually_async(nothing_left, "nothing to be left", pause=0.2)
    except InVain:
        assert await left_over(crowd.ground, [run.run_id for run in crowd.over]) == []
