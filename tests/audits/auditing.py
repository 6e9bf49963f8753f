"""Audits of a rig, part by part."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

from crawler_lifecycle.database.schema import metadata
from crawler_lifecycle.limits.store.uses import counting
from crawler_lifecycle.model.audits import AuditPage, AuditPart, AuditRef, AuditStep, FindingRecord
from crawler_lifecycle.model.run_plan import CloseRun, RunPlan
from tests.kit.service.rig import Rig


def audit(
    rig: Rig, part: AuditPart, *, repair: bool = True, after: str | None = None, unknown: bool = False
) -> AuditPage:
    ref = AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC), repair=repair, remove_unknown_jobs=unknown)
    step = AuditStep(audit=ref, part=part, after=after)
    activities = {
        AuditPart.RUNS: rig.run_audit.audit_runs,
        AuditPart.JOBS: rig.job_audit.audit_jobs,
        AuditPart.HANDOVERS: rig.handover_audit.audit_handovers,
        AuditPart.FLOWS: rig.flow_audit.audit_flows,
    }
    return asyncio.run(rig.environment.run(activities[part], step))


def findings(rig: Rig) -> Sequence[FindingRecord]:
    return rig.findings.overview(audits=0, findings=100).findings


def ended(rig: Rig, plan: RunPlan) -> RunPlan:
    """Over, while whatever it runs goes on."""
    with rig.database.transaction() as connection, counting(connection, plan.run.run_id):
        tasks = metadata.tables["task_histories"]
        connection.execute(tasks.update().where(tasks.c.history_id == plan.run.run_id).values(status="STOPPED"))
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run, reason="stopped"))
    return plan
