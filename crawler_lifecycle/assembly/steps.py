"""Makes a worker's activities for the registration with Temporal, from the process's parts."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

from crawler_lifecycle.assembly.outside import limited_pusher, receivers_are_files
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.audits.activities.auditing import AuditActivities
from crawler_lifecycle.audits.activities.flows import FlowAudit
from crawler_lifecycle.audits.activities.handovers import HandoverAudit
from crawler_lifecycle.audits.activities.jobs import JobAudit
from crawler_lifecycle.audits.activities.managers import ManagerAudit
from crawler_lifecycle.audits.activities.runs import RunAudit
from crawler_lifecycle.delivery.activities.exports import ExportActivities
from crawler_lifecycle.delivery.activities.flow_nudges import FlowNudges
from crawler_lifecycle.delivery.activities.notices import NoticeActivities
from crawler_lifecycle.delivery.ports.outside import FlowSupervisors, Supervisors
from crawler_lifecycle.flows.activities.crawls import FlowCrawlActivities
from crawler_lifecycle.flows.activities.flows import FlowActivities, FlowAnnouncements, ScheduledFlows
from crawler_lifecycle.runs.activities.deployment import DeploymentActivities
from crawler_lifecycle.runs.activities.histories import HistoryActivities
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.activities.supervision import SupervisionActivities
from crawler_lifecycle.runs.rules.plan import Abilities

Activity = Callable[..., Any]


class AllSupervisors(Supervisors, FlowSupervisors, Protocol):
    """The workflows of runs and flows."""


def activities(parts: Parts, supervisors: AllSupervisors, *, search_attributes: bool) -> Sequence[Activity]:
    """Return all activities. `search_attributes`: whether the Temporal server knows our search attributes."""
    runs, tasks, cluster, limits = parts.store.runs, parts.store.tasks, parts.cluster, parts.limits
    abilities = Abilities(search_attributes, cluster.records_stay)
    nudges, has_files_alone = FlowNudges(supervisors), receivers_are_files(parts.settings)
    pusher = limited_pusher(parts.pusher, parts.settings.worker.activity_slots)
    return activities_of(
        HistoryActivities(runs, tasks, parts.deployer, limits, abilities, nudges),
        SupervisionActivities(runs, tasks, cluster, supervisors, limits, abilities, nudges),
        DeploymentActivities(runs, tasks, parts.store.claims, cluster, parts.claim_deployer, parts.claim_for),
        ReconciliationActivities(runs, tasks, cluster, nudges),
        StoppingActivities(runs, tasks, cluster),
        NoticeActivities(runs, pusher),
        ExportActivities(runs, parts.announcer, parts.archiver, nudges),
        FlowActivities(parts.store.flow_ledger, parts.store.flow_doors, search_attributes, has_files_alone),
        FlowCrawlActivities(parts.store.flow_ledger, runs, supervisors, parts.deployer, limits),
        ScheduledFlows(parts.store.flow_doors, parts.store.flow_records),
        FlowAnnouncements(parts.store.flow_ends, pusher, parts.announcer, has_files_alone),
        *_audit_activities(parts, supervisors),
    )


def by_queue(steps: Sequence[Activity]) -> tuple[list[Activity], list[Activity]]:
    """Return the activities for the worker's task queue, and the activities for its queue of archives."""
    archiving = ExportActivities.export_supporting_files.__name__
    return [step for step in steps if step.__name__ != archiving], [
        step for step in steps if step.__name__ == archiving
    ]


def _audit_activities(parts: Parts, supervisors: AllSupervisors) -> Sequence[object]:
    settings, patience, store = parts.settings.audit, parts.patience, parts.store
    records, findings, tasks = store.records, store.findings, store.tasks
    managers = ManagerAudit(store.manager_audits, findings, supervisors, patience)
    return (
        AuditActivities(findings, timedelta(days=settings.keep_days), settings.remove_unknown_jobs),
        RunAudit(records, findings, store.limits, supervisors, tasks, parts.cluster, patience),
        JobAudit(records, findings, tasks, parts.cluster, patience, settings.remove_unknown_jobs),
        HandoverAudit(records, findings, supervisors, patience),
        FlowAudit(store.flow_records, store.flow_ends, findings, supervisors, patience, managers),
    )


def activities_of(*objects: object) -> list[Activity]:
    """Return the activities among the objects' methods; Temporal's decorator has marked them."""
    methods = (getattr(instance, name) for instance in objects for name in vars(type(instance)))
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]
