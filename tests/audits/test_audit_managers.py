"""The audit of crawl managers: attempts without runs start, rows are mended, and what nobody mends is told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, update

from crawler_lifecycle.audits.activities.flows import MANAGERS
from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.model.audits import AuditPage, AuditPart, FindingKind
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.supervision import WorkflowInfo
from tests.audits.auditing import audit, findings
from tests.kit.data.managers import Managed, managed
from tests.kit.service.rig import AT_ONCE, Rig

AN_HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)
SHORT = timedelta(microseconds=-5_000_000)  # rows from this moment count as old


@pytest.fixture
def flow(rig: Rig) -> Managed:
    impatient = replace(rig.flow_audit.managers, patience=replace(AT_ONCE, stuck=SHORT))
    rig.flow_audit = replace(rig.flow_audit, managers=impatient)
    flow = managed(rig.database)
    flow.offer("a")
    return flow


def audited(rig: Rig, *, repair: bool = True) -> AuditPage:
    return audit(rig, AuditPart.FLOWS, after=MANAGERS, repair=repair)


def test_the_managers_come_behind_the_flows(rig: Rig, flow: Managed) -> None:
    assert audit(rig, AuditPart.FLOWS).rest == MANAGERS
    assert audited(rig).rest is None
    assert flow.id


def test_an_attempt_without_a_run_is_started(rig: Rig, flow: Managed) -> None:
    """The host died between the attempt and its start, and no host has the manager's module any more."""
    start = flow.started()
    assert audited(rig, repair=False).found == {FindingKind.MANAGED_RUN_MISSING: 1}
    assert rig.supervisors.started == []
    assert audited(rig).acted == 1
    assert rig.supervisors.started == [(start.job.key, start.request)]
    (finding,) = findings(rig)
    assert "item 1 of flow shops/nightly (attempt 1)" in finding.message
    assert finding.message.endswith("its workflow is not there")


def test_an_open_workflow_without_a_run_is_only_told(rig: Rig, flow: Managed) -> None:
    rig.supervisors.listed.add(flow.started().job.key)
    page = audited(rig)
    assert (page.found, page.acted) == ({FindingKind.MANAGED_RUN_MISSING: 1}, 0)
    assert rig.supervisors.started == []


def test_a_workflow_that_failed_before_its_run_refuses_the_item(rig: Rig, flow: Managed) -> None:
    key = flow.started().job.key
    rig.supervisors.described[key] = WorkflowInfo(is_open=False, end="failed", ended_at=AN_HOUR_AGO)
    rig.supervisors.failures[key] = "crawler: there is no crawler books"
    assert audited(rig).acted == 1
    (record,) = flow.store.manager_doors.items(flow.id, limit=9)
    assert (record.state, record.problem) == (ItemState.REFUSED, "crawler: there is no crawler books")
    assert audited(rig).found == {}


def test_an_attempt_that_missed_the_end_of_its_run_is_told(rig: Rig, flow: Managed) -> None:
    flow.ended_run(flow.started())
    with rig.database.transaction() as tx:
        tx.execute(update(manager_attempts).values(ended_at=None, outcome=None))
    page = audited(rig)
    assert (page.found, page.acted) == ({FindingKind.MANAGED_RUN_UNTOLD: 1}, 1)
    assert [job.number for job in flow.ended()] == [1]


def test_an_end_without_a_reaction_is_told(rig: Rig, flow: Managed) -> None:
    flow.ended_run(flow.started())
    page = audited(rig)
    assert (page.found, page.acted) == ({FindingKind.MANAGED_END_UNANSWERED: 1}, 0)
    assert "no host runs the manager" in str(findings(rig)[0].problem)


def test_a_run_without_an_attempt_is_told(rig: Rig, flow: Managed) -> None:
    run = flow.run_of(flow.started())
    with rig.database.transaction() as tx:
        tx.execute(delete(manager_attempts))
    page = audited(rig)
    assert (page.found, page.acted) == ({FindingKind.FLOW_RUN_UNKNOWN: 1}, 0)
    (finding,) = findings(rig)
    assert f"crawlctl stop {run.run_id}" in str(finding.problem)
