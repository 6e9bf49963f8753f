"""Which activities does a worker carry out, and with which parts?"""

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
    from crawler_lifecycle.bootstrap.outside import shared

    histories, tasks, cluster, limits = parts.histories, parts.tasks, parts.cluster, parts.limits
    return steps_of(
        HistoryActivities(histories, tasks, parts.deployer, limits, search_attributes),
        SupervisionActivities(parts.supervision, tasks, cluster, supervisors, parts.exports, limits, search_attributes),
        DeploymentActivities(histories, tasks, parts.claims, cluster, parts.deploying, parts.claim_for),
        ReconciliationActivities(histories, tasks, cluster),
        StoppingActivities(histories, parts.stops, tasks, cluster),
        NoticeActivities(histories, parts.notices, shared(parts.pusher, parts.settings.worker.activity_slots)),
        ExportActivities(histories, parts.exports, parts.exporter),
        *_audits(parts, supervisors),
    )


def _audits(parts: Parts, supervisors: "Supervisors") -> Sequence[object]:
    from crawler_lifecycle.activities.audit_handovers import HandoverAudit
    from crawler_lifecycle.activities.audit_jobs import JobAudit
    from crawler_lifecycle.activities.audit_runs import RunAudit
    from crawler_lifecycle.activities.audits import AuditActivities

    chosen, runs, findings, patience = parts.settings.audit, parts.audited_runs, parts.findings, parts.patience
    return (
        AuditActivities(findings, timedelta(days=chosen.keep_days), chosen.remove_unknown_jobs),
        RunAudit(runs, findings, supervisors, parts.tasks, parts.cluster, patience),
        JobAudit(runs, findings, parts.tasks, parts.cluster, patience),
        HandoverAudit(runs, findings, supervisors, patience),
    )


def steps_of(*holders: object) -> list[Callable[..., Any]]:
    """The activities among the methods of these objects."""
    methods = (getattr(holder, name) for holder in holders for name in vars(type(holder)))
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]
