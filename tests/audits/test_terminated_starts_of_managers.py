"""A workflow that was ended before it made its run kept the audit busy for ever: no start repeats a closed workflow."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.audits.activities.flows import MANAGERS
from crawler_lifecycle.model.audits import AuditPart
from crawler_lifecycle.model.manager_items import ItemState, JobState
from crawler_lifecycle.model.supervision import WorkflowInfo
from tests.audits.auditing import audit
from tests.kit.data.managers import Managed, managed
from tests.kit.service.rig import AT_ONCE, Rig

pytestmark = pytest.mark.regression("A workflow that ended before it made its run kept the audit busy forever")

AN_HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def flow(rig: Rig) -> Managed:
    impatient = replace(rig.flow_audit.managers, patience=replace(AT_ONCE, stuck=timedelta(seconds=-5)))
    rig.flow_audit = replace(rig.flow_audit, managers=impatient)
    flow = managed(rig.database)
    flow.offer("a")
    return flow


@pytest.mark.parametrize(
    ("end", "outcome", "problem"),
    [
        ("terminated", "terminated", "its workflow was terminated"),
        ("canceled", "cancelled", "its workflow was cancelled"),
        ("timed_out", "timed_out", "its workflow was ended by a time limit"),
        ("completed", "unknown", "its workflow has completed, and the database has lost its run"),
        ("failed", "refused", "its workflow was ended by a failure"),
    ],
)
def test_every_closed_workflow_without_a_run_refuses_its_attempt(
    rig: Rig, flow: Managed, end: str, outcome: str, problem: str
) -> None:
    key = flow.started().job.key
    rig.supervisors.described[key] = WorkflowInfo(is_open=False, end=end, ended_at=AN_HOUR_AGO)
    assert audit(rig, AuditPart.FLOWS, after=MANAGERS).acted == 1
    (record,) = flow.store.manager_doors.items(flow.id, limit=9)
    assert (record.state, record.problem) == (ItemState.REFUSED, problem)
    (job,) = flow.managers.jobs(flow.mine, JobState.FINISHED, limit=9)
    assert job.outcome == outcome
    assert audit(rig, AuditPart.FLOWS, after=MANAGERS).found == {}


def test_a_run_that_was_made_meanwhile_counts(rig: Rig, flow: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    start = flow.started()

    async def describe(workflow_id: str) -> WorkflowInfo:
        flow.run_of(start)
        return WorkflowInfo(is_open=False, end="terminated", ended_at=AN_HOUR_AGO)

    monkeypatch.setattr(rig.supervisors, "describe", describe)
    assert audit(rig, AuditPart.FLOWS, after=MANAGERS).acted == 0
    (job,) = flow.managers.running(flow.mine)
    assert job.run_id is not None
