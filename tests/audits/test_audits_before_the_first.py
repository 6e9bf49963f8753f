import asyncio
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.audits.commands import AuditSchedule
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "A stack too young for an audit: `crawlctl audit` failed and asked for a worker; `crawlctl doctor` saw no fault"
)

PERIOD = 600


@pytest.fixture
def temporal(real_time: WorkflowEnvironment, crawlctl: Crawlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", real_time.client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", real_time.client.namespace)
    assert crawlctl("db", "upgrade").exit_code == 0


async def make_schedule(state: Path) -> None:
    control = Control.open(state)
    await AuditSchedule(control.engine, control.context.store.records.installation(), PERIOD).keep()


@pytest.mark.usefixtures("temporal")
@pytest.mark.long
async def test_no_audit_was_due(crawlctl: Crawlctl, state: Path) -> None:
    without_schedule = await asyncio.to_thread(crawlctl, "audit")
    assert (without_schedule.exit_code, "there is no schedule" in without_schedule.output) == (4, True)
    await make_schedule(state)
    young = await asyncio.to_thread(crawlctl, "audit")
    assert young.exit_code == 0, young.output
    assert young.output.startswith("last complete audit  never\nnext audit           20")
    for_programs = await asyncio.to_thread(crawlctl, "audit", "--json")
    assert (for_programs.exit_code, len(for_programs.stdout.splitlines())) == (0, 1)
    assert "the first one is due at 20" in await Control.open(state).audits.check()


@pytest.mark.usefixtures("temporal")
async def test_the_first_audit_is_late(crawlctl: Crawlctl, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_schedule(state)
    monkeypatch.setattr("crawler_lifecycle.audits.commands.PERIODS_UNTIL_LATE", 0)
    late = await asyncio.to_thread(crawlctl, "audit")
    assert (late.exit_code, "no audit was complete since 20" in late.output) == (4, True), late.output
