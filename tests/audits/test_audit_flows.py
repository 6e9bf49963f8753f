"""The audit of flows: an open flow without a workflow gets one, and every other flow is left alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.audits.activities import flows as audit_flows
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.ports.ledger import Delivery
from crawler_lifecycle.model.audits import AuditPart, FindingKind
from crawler_lifecycle.model.naming import flow_workflow_id
from crawler_lifecycle.model.supervision import WorkflowInfo
from tests.audits.auditing import audit, findings
from tests.kit.data.flows import failing
from tests.kit.service.rig import AT_ONCE, Rig

AN_HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)
OPEN = WorkflowInfo(is_open=True)


def pushed(rig: Rig, name: str) -> str:
    definition = Workflow(id=name).add("books", crawl("books")).definition()
    return rig.flow_doors.push(PushFlow(definition=definition)).flow_uid


def test_a_flow_without_a_workflow_gets_one(rig: Rig) -> None:
    uid = pushed(rig, "lost")
    page = audit(rig, AuditPart.FLOWS)
    assert (page.examined, page.found, page.acted) == (1, {FindingKind.FLOW_UNSUPERVISED: 1}, 1)
    assert rig.supervisors.nudged_flows == [(uid, "lost")]
    (finding,) = findings(rig)
    assert (finding.subject, finding.message) == (uid, "flow lost is executing, and its workflow is not there")
    assert finding.action == "its workflow was started again"


def test_a_flow_with_an_open_workflow_is_left_alone(rig: Rig) -> None:
    rig.supervisors.described[flow_workflow_id(pushed(rig, "supervised"))] = OPEN
    assert audit(rig, AuditPart.FLOWS).found == {}
    assert rig.supervisors.nudged_flows == []


def test_a_terminated_workflow_is_told_with_its_time(rig: Rig) -> None:
    uid = pushed(rig, "ended")
    rig.supervisors.described[flow_workflow_id(uid)] = WorkflowInfo(False, "terminated", AN_HOUR_AGO)
    audit(rig, AuditPart.FLOWS)
    assert f"its workflow has terminated at {AN_HOUR_AGO:%Y-%m-%dT%H:%M:%SZ}" in findings(rig)[0].message


def test_a_dry_run_tells_and_starts_nothing(rig: Rig) -> None:
    pushed(rig, "lost")
    assert audit(rig, AuditPart.FLOWS, repair=False).found == {FindingKind.FLOW_UNSUPERVISED: 1}
    assert rig.supervisors.nudged_flows == []
    assert findings(rig) == []


def test_an_end_that_was_never_announced_is_announced_by_a_new_supervisor(rig: Rig) -> None:
    """The supervisor died between the end and its announcement."""
    flow = failing(rig.database)
    page = audit(rig, AuditPart.FLOWS)
    assert (page.examined, page.found, page.acted) == (1, {FindingKind.FLOW_UNANNOUNCED: 1}, 1)
    assert rig.supervisors.nudged_flows == [(flow.uid, "w")]
    assert "and its end is not announced" in findings(rig)[0].message
    flow.store.flow_ends.settle(flow.uid, 1, list(Delivery), {})
    assert audit(rig, AuditPart.FLOWS).found == {}


def test_an_announcement_in_vain_is_repeated_after_growing_pauses(rig: Rig) -> None:
    flow = failing(rig.database)
    flow.store.flow_ends.settle(flow.uid, 1, [Delivery.EVENT], {Delivery.NOTICE: "no answer"})
    patient = replace(rig.flow_audit, patience=replace(AT_ONCE, failed_export=timedelta(hours=1)))
    rig.flow_audit = patient
    assert [audit(rig, AuditPart.FLOWS).acted for _ in range(2)] == [1, 0]
    (finding,) = findings(rig)
    assert "not announced: notice of end 1: no answer" in finding.message
    assert finding.problem is not None
    assert finding.problem.startswith("announced again once in vain, and again at ")


def test_an_announcement_that_is_under_way_is_left_alone(rig: Rig) -> None:
    flow = failing(rig.database)
    rig.supervisors.described[flow_workflow_id(flow.uid)] = OPEN
    page = audit(rig, AuditPart.FLOWS)
    assert (page.examined, page.found) == (1, {})
    assert rig.supervisors.nudged_flows == []


def test_pages_go_through_all_flows(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    uids = sorted(pushed(rig, f"flow-{number}") for number in range(5))
    monkeypatch.setattr(audit_flows, "FLOWS_IN_A_PAGE", 2)
    page = audit(rig, AuditPart.FLOWS)
    examined = page.examined
    while page.rest is not None:
        page = audit(rig, AuditPart.FLOWS, after=page.rest)
        examined += page.examined
    assert examined == 5
    assert sorted(uid for uid, _ in rig.supervisors.nudged_flows) == uids
