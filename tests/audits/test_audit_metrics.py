"""Does whoever watches hear of what the audit found, and that it has stopped? Does the schedule come by itself?"""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from crawler_lifecycle.audits import processes as audits
from crawler_lifecycle.audits.processes import AuditKeeper, AuditMetrics
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.audits import AuditOverview, FindingKind
from tests.kit.service.apis import problem, served

AN_HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)


def overview(last: datetime | None = None, **found: int) -> AuditOverview:
    counts = {FindingKind(kind): count for kind, count in found.items()}
    since = dict.fromkeys(counts, AN_HOUR_AGO)
    return AuditOverview(audits=[], last_complete_at=last, open=counts, open_since=since, findings=[])


def told(metrics: AuditMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(metrics)
    lines = re.findall(r"^([a-z][^ ]*) (\S+)$", generate_latest(registry).decode(), re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_the_age_grows_from_the_last_complete_audit() -> None:
    metrics = AuditMetrics(600, overview(AN_HOUR_AGO, unsupervised=3))
    seen = told(metrics)
    assert seen["crawler_audit_age_seconds"] >= 3600
    assert seen["crawler_audit_every_seconds"] == 600
    assert seen['crawler_audit_open_findings{kind="unsupervised"}'] == 3
    assert seen['crawler_audit_open_findings{kind="leftover_job"}'] == 0, "an alert needs the zero, too"
    assert seen['crawler_audit_finding_age_seconds{kind="unsupervised"}'] >= 3600
    assert seen['crawler_audit_finding_age_seconds{kind="leftover_job"}'] == 0


@pytest.mark.parametrize("known", [None, overview()])
def test_before_the_first_it_grows_from_the_start_of_the_process(known: AuditOverview | None) -> None:
    assert told(AuditMetrics(600, known, started_at=AN_HOUR_AGO))["crawler_audit_age_seconds"] >= 3600


async def test_the_schedule_is_kept_until_it_is_there_and_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "UPDATE_PAUSE", 0.0)
    monkeypatch.setattr(audits, "UPDATES_PER_KEEP", 5)
    enough, tries, looks = asyncio.Event(), list[bool](), 0

    async def keep() -> None:
        tries.append(looks > 0)
        if len(tries) < 3:
            raise TemporaryError("Temporal does not answer")
        if len(tries) >= 5:
            enough.set()

    def look() -> AuditOverview:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise TemporaryError("the database does not answer")
        return overview(AN_HOUR_AGO)

    metrics = AuditMetrics(600)
    keeping = asyncio.create_task(AuditKeeper(keep, look, metrics).run())
    async with asyncio.timeout(60):
        await enough.wait()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert metrics.overview == overview(AN_HOUR_AGO)
    assert looks >= 10, "it was kept every fifth look once it was there"


def test_reading_findings_needs_no_temporal_and_the_right_to_read(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with served(tmp_path_factory.mktemp("api"), database_url) as api:
        with api.client(Scope.READ) as reader:
            seen = reader.get("/v1/audits")
            assert (seen.status_code, seen.json()["findings"]) == (200, [])
            problem(reader.post("/v1/audits", json={}), 403)
            problem(reader.get("/v1/audits?limit=9999"), 422, "limit")
        with api.client(Scope.OPERATE) as operator:
            problem(operator.post("/v1/audits", json={}), 503)
            problem(operator.post("/v1/audits", json={"dry": True}), 422, "dry")
