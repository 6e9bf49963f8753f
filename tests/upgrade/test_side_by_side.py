"""An installation is brought to this version while crawls are under way, step by step, and back again.

The version before and this one work on the same runs, on one Temporal server, one database and one task queue.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from crawler_lifecycle.database.schema import REVISION, metadata
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.audits import AuditRequest
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import TaskStatus
from tests.kit.data.databases import BOTH, create_database
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE
from tests.process.stops import assert_stopped, terminate
from tests.upgrade import released as before
from tests.upgrade.sides import Process, Sides, end, sides

CRAWLERS = {"stopped": "polite"}
TASKS = {"children": 2, "on_the_new_schema": 2}
pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(600)]


@dataclass
class Upgrade:
    """Where it stands: the workers, and the runs that were begun on the way."""

    sides: Sides
    old: Process
    new: Process | None = None
    audit: str = ""
    runs: dict[str, Started] = field(default_factory=dict)

    async def begin(self, *names: str) -> None:
        asked = [self.sides.begin(CRAWLERS.get(name, "gated"), tasks=TASKS.get(name, 1)) for name in names]
        self.runs |= dict(zip(names, await asyncio.gather(*asked), strict=True))


@pytest_asyncio.fixture(params=BOTH)
async def upgrade(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Upgrade]:
    """The version before works, with runs that are under way."""
    code = before.released(tmp_path / "released")
    url = None
    if request.param == "mariadb":
        url = create_database(request.getfixturevalue("mariadb_server"), "upgraded")
    async with sides(tmp_path, code, url) as installation:
        status, told = await installation.crawlctl("db", "upgrade", old=True)
        assert status == 0, told
        worker, _ = await asyncio.gather(installation.start_worker(old=True), installation.start_services(old=True))
        under_way = Upgrade(installation, worker)
        await under_way.begin("terminated", "passed_on", "children", "stopped")
        yield under_way
        for each in (under_way.old, under_way.new, *installation.services.values()):
            if each is not None and each.returncode is None:
                await end(each)


async def test_an_installation_is_brought_forward_and_back(upgrade: Upgrade) -> None:
    await _the_version_before_works_on_while_the_schema_is_brought_forward(upgrade)
    await _both_versions_work_on_one_run(upgrade)
    await _what_the_version_before_began_the_new_one_ends(upgrade)
    await _and_back(upgrade)


async def _the_version_before_works_on_while_the_schema_is_brought_forward(upgrade: Upgrade) -> None:
    sides, site, runs = upgrade.sides, upgrade.sides.site, upgrade.runs
    status, told = await sides.crawlctl("db", "upgrade")
    assert status == 0, told
    assert sides.revision() == REVISION
    with sides.database() as database, database.read() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
    site.release(runs["children"], 1, codes={1: 3})
    await eventually(
        lambda: site.statuses(runs["children"]) == [TaskStatus.RUNNING, TaskStatus.FAILED],
        patience=PATIENCE,
    )
    await upgrade.begin("on_the_new_schema")
    for run in runs.values():
        assert set(await sides.workers_of(run)) == {upgrade.old.pid}


async def _both_versions_work_on_one_run(upgrade: Upgrade) -> None:
    sides, site, runs = upgrade.sides, upgrade.sides.site, upgrade.runs
    upgrade.new = await sides.start_worker()
    await asyncio.gather(upgrade.begin("begun_by_either"), terminate(site, runs["terminated"]))
    upgrade.audit = (await site.control.audits.start(AuditRequest())).audit
    both = (upgrade.old, upgrade.new)
    passed = ("passed_on", "begun_by_either", "on_the_new_schema")
    await asyncio.gather(*(sides.until_both_worked(runs[name], *both) for name in passed))
    assert (await site.control.runs.resume(runs["terminated"].run_id)).run.epoch == 2
    await site.control.runs.stop(runs["stopped"].run_id, StopRequest(actor="ann"))
    await assert_stopped(site, runs["stopped"])
    site.release(runs["begun_by_either"], 0)
    await site.assert_true(runs["begun_by_either"], {0: 0})


async def _what_the_version_before_began_the_new_one_ends(upgrade: Upgrade) -> None:
    sides, site, runs = upgrade.sides, upgrade.sides.site, upgrade.runs
    await asyncio.gather(sides.start_services(), end(upgrade.old))
    site.release(runs["children"], 0)
    site.release(runs["on_the_new_schema"], 0, 1)
    for name in ("terminated", "passed_on"):
        site.release(runs[name], 0)
    await eventually_async(lambda: _is_audited(upgrade), patience=PATIENCE)
    await site.assert_true(runs["children"], {0: 0, 1: 3})
    await site.assert_true(runs["on_the_new_schema"], {0: 0, 1: 0})
    await site.assert_true(runs["passed_on"], {0: 0})
    details = await site.assert_true(runs["terminated"], {0: 0})
    assert details.run.epoch == 2
    site.assert_one_history_per_request()


async def _and_back(upgrade: Upgrade) -> None:
    """Runs that the new version began, the version before goes on with as long as both know their generation."""
    sides, site, runs = upgrade.sides, upgrade.sides.site, upgrade.runs
    assert upgrade.new
    await upgrade.begin("gone_back")
    upgrade.old = await sides.start_worker(old=True)
    await end(upgrade.new)
    site.release(runs["gone_back"], 0)
    await site.assert_true(runs["gone_back"], {0: 0})
    assert upgrade.old.pid in await sides.workers_of(runs["gone_back"])
    site.assert_one_history_per_request()


async def _is_audited(upgrade: Upgrade) -> bool:
    """Return whether the audit is over; a worker of either version has each of its steps."""
    report = await upgrade.sides.site.control.audits.result(upgrade.audit)
    assert report is None or report.is_complete, report
    return report is not None
