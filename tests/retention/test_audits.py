"""Leftovers of removed runs: an audit ends their jobs, and nothing makes the runs again."""

import pytest
from sqlalchemy import func, select, update

from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.errors import NotFound, Removed
from crawler_lifecycle.model.audits import AuditPart, FindingKind
from crawler_lifecycle.model.looks import JobPhase
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.states import ExportState, RunStatus
from crawler_lifecycle.retention.store import RetentionStore
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.audits.auditing import audit, ended, findings
from tests.kit.service.rig import Rig
from tests.kit.waiting import until
from tests.retention.old_runs import CUTOFF, LONG_AGO, NOW


@pytest.fixture
def gone(rig: Rig) -> RunPlan:
    """A removed run, whose job continues although the cluster's list did not have it at the removal."""
    plan = ended(rig, rig.started("sleepy"))
    until(lambda: phase(rig, plan) is JobPhase.RUNNING, "the job to run")
    with rig.database.transaction() as tx:
        tx.execute(update(histories).values(finished_at=LONG_AGO, export_state=ExportState.DONE))
    assert RetentionStore(rig.database).remove([plan.run.run_id], CUTOFF) == [plan.run.run_uid]
    return plan


def phase(rig: Rig, plan: RunPlan) -> JobPhase | None:
    job = rig.bench.cluster.look(plan.run.run_uid).jobs.get((0, 1))
    return job.phase if job else None


def runs(rig: Rig) -> int:
    with rig.database.read() as connection:
        return connection.scalar(select(func.count()).select_from(histories)) or 0


def test_a_job_of_a_removed_run_is_ended_as_a_leftover(rig: Rig, gone: RunPlan) -> None:
    page = audit(rig, AuditPart.JOBS)
    assert (page.found, page.acted) == ({FindingKind.LEFTOVER_JOB: 1}, 1)
    (finding,) = findings(rig)
    assert (finding.subject, finding.problem) == (gone.run.run_uid, None)
    assert "was removed by retention on" in finding.message
    until(lambda: not audit(rig, AuditPart.JOBS).found, "the job to be ended and removed")
    assert phase(rig, gone) is not JobPhase.RUNNING
    assert runs(rig) == 0


def test_a_workflow_of_a_removed_run_makes_no_run(rig: Rig, gone: RunPlan) -> None:
    """Someone resumes the run, or a late execution continues: it learns of the removal, and writes nothing."""
    execution = SupervisorExecution("crawl-late", "late", NOW)
    for act in (rig.store.runs.take_over, rig.store.runs.reopen):
        with pytest.raises(Removed, match="removed by retention on"):
            act(gone.run.run_id, execution)
    with pytest.raises(NotFound):
        rig.store.runs.close(gone.run, RunStatus.COMPLETED, "all_succeeded")
    for part in (AuditPart.RUNS, AuditPart.HANDOVERS):
        page = audit(rig, part)
        assert (page.found, page.acted, page.problem) == ({}, 0, None)
    assert runs(rig) == 0
