"""Makes a worker's activities from its parts."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.bootstrap.parts import Parts

if TYPE_CHECKING:
    from crawler_lifecycle.ports import Supervisors


def activities(parts: Parts, supervisors: "Supervisors", *, search_attributes: bool) -> Sequence[Callable[..., Any]]:
    from crawler_lifecycle.activities.deployment import DeploymentActivities
    from crawler_lifecycle.activities.exports import ExportActivities
    from crawler_lifecycle.activities.histories import HistoryActivities
    from crawler_lifecycle.activities.notices import NoticeActivities
    from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
    from crawler_lifecycle.activities.stopping import StoppingActivities
    from crawler_lifecycle.activities.supervision import SupervisionActivities
    from crawler_lifecycle.bootstrap.outside import limited

    runs, tasks, cluster, limits = parts.store.runs, parts.store.tasks, parts.cluster, parts.limits
    return steps_of(
        HistoryActivities(runs, tasks, parts.deployer, limits, search_attributes),
        SupervisionActivities(runs, tasks, cluster, supervisors, limits, search_attributes),
        DeploymentActivities(runs, tasks, parts.store.claims, cluster, parts.claim_deployer, parts.claim_for),
        ReconciliationActivities(runs, tasks, cluster),
        StoppingActivities(runs, tasks, cluster),
        NoticeActivities(runs, limited(parts.pusher, parts.settings.worker.activity_slots)),
        ExportActivities(runs, parts.announcer, parts.archiver),
        *_audits(parts, supervisors),
    )


def _audits(parts: Parts, supervisors: "Supervisors") -> Sequence[object]:
    from crawler_lifecycle.activities.audit_handovers import HandoverAudit
    from crawler_lifecycle.activities.audit_jobs import JobAudit
    from crawler_lifecycle.activities.audit_runs import RunAudit
    from crawler_lifecycle.activities.auditing import AuditActivities

    chosen, patience, store = parts.settings.audit, parts.patience, parts.store
    records, findings, tasks = store.records, store.findings, store.tasks
    return (
        AuditActivities(findings, timedelta(days=chosen.keep_days), chosen.remove_unknown_jobs),
        RunAudit(records, findings, supervisors, tasks, parts.cluster, patience),
        JobAudit(records, findings, tasks, parts.cluster, patience),
        HandoverAudit(records, findings, supervisors, patience),
    )


def steps_of(*holders: object) -> list[Callable[..., Any]]:
    """Return the activities among the objects' methods."""
    methods = (getattr(holder, name) for holder in holders for name in vars(type(holder)))
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]
