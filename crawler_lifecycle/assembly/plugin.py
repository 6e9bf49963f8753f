"""All workflows and activities, and `LifecyclePlugin`, which gives them to Temporal's client, worker and replayer.

Client, worker and replayer use the same plugin, since they must agree on converter, sandbox and interceptor.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from crawler_lifecycle.assembly.parts import Parts, limited_pusher, receivers_are_files
from crawler_lifecycle.audits.activities.auditing import AuditActivities
from crawler_lifecycle.audits.activities.flows import FlowAudit, ManagerAudit
from crawler_lifecycle.audits.activities.handovers import HandoverAudit
from crawler_lifecycle.audits.activities.jobs import JobAudit
from crawler_lifecycle.audits.activities.runs import RunAudit
from crawler_lifecycle.audits.workflows import AuditWorkflow
from crawler_lifecycle.delivery.activities.exports import ExportActivities
from crawler_lifecycle.delivery.activities.notices import FlowNudges, NoticeActivities
from crawler_lifecycle.delivery.ports import FlowSupervisors, Supervisors
from crawler_lifecycle.delivery.workflows import RunExportWorkflow
from crawler_lifecycle.flows.activities.crawls import FlowCrawlActivities
from crawler_lifecycle.flows.activities.flows import FlowActivities, FlowAnnouncements, ScheduledFlows
from crawler_lifecycle.flows.workflows.flow import FlowWorkflow
from crawler_lifecycle.flows.workflows.scheduled_flow import ScheduledFlowWorkflow
from crawler_lifecycle.runs.activities.deployment import DeploymentActivities
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.activities.supervision import HistoryActivities, SupervisionActivities
from crawler_lifecycle.runs.rules.plan import Abilities
from crawler_lifecycle.runs.workflows.crawler_lifecycle import CrawlerLifecycleWorkflow
from crawler_lifecycle.temporal.boundary import Boundary
from crawler_lifecycle.temporal.converter import lifecycle_data_converter

Activity = Callable[..., Any]
WORKFLOWS: Sequence[type] = (
    CrawlerLifecycleWorkflow,
    RunExportWorkflow,
    AuditWorkflow,
    FlowWorkflow,
    ScheduledFlowWorkflow,
)
# pure modules, and modules for activities only: the sandbox passes these modules through and never reloads them
TRUSTED = (
    *(
        f"crawler_lifecycle.{capability}.{layer}"
        for capability in ("audits", "clusters", "delivery", "flows", "limits", "managers", "runs", "schedules")
        for layer in ("activities", "authors", "model", "ports", "rules")
    ),
    "crawler_lifecycle.base",
    "crawler_lifecycle.errors",
    "crawler_lifecycle.logs",
    "crawler_lifecycle.model",
    "crawler_lifecycle.temporal.boundary",
    "pydantic",
    "pydantic_core",
    "annotated_types",
)


class AllSupervisors(Supervisors, FlowSupervisors, Protocol):
    """Starts, signals and describes the workflows for runs and flows: one adapter to Temporal serves both ports."""


def activities(parts: Parts, supervisors: AllSupervisors, *, search_attributes: bool) -> Sequence[Activity]:
    """Make all activities from the process's parts.

    `search_attributes`: whether the Temporal server knows our search attributes.
    """
    runs, tasks, cluster, limits = parts.store.runs, parts.store.tasks, parts.cluster, parts.limits
    abilities = Abilities(search_attributes, cluster.records_stay)
    nudges, announces_to_files = FlowNudges(supervisors), receivers_are_files(parts.settings)
    pusher = limited_pusher(parts.pusher, parts.settings.worker.activity_slots)
    return activities_of(
        HistoryActivities(runs, tasks, parts.deployer, limits, abilities, nudges),
        SupervisionActivities(runs, tasks, cluster, supervisors, limits, abilities, nudges),
        DeploymentActivities(runs, tasks, parts.store.claims, cluster, parts.claim_deployer, parts.claim_for),
        ReconciliationActivities(runs, tasks, cluster, nudges),
        StoppingActivities(runs, tasks, cluster),
        NoticeActivities(runs, pusher),
        ExportActivities(runs, parts.announcer, parts.archiver, nudges),
        FlowActivities(parts.store.flow_ledger, parts.store.flow_doors, search_attributes, announces_to_files),
        FlowCrawlActivities(parts.store.flow_ledger, runs, supervisors, parts.deployer, limits),
        ScheduledFlows(parts.store.flow_doors, parts.store.flow_records),
        FlowAnnouncements(parts.store.flow_ends, pusher, parts.announcer, announces_to_files),
        *_audit_activities(parts, supervisors),
    )


def by_queue(all_activities: Sequence[Activity]) -> tuple[list[Activity], list[Activity]]:
    """Return the activities for the worker's task queue, and those for its queue of archives."""
    archiving = ExportActivities.export_supporting_files.__name__
    general = [activity for activity in all_activities if activity.__name__ != archiving]
    return general, [activity for activity in all_activities if activity.__name__ == archiving]


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


class LifecyclePlugin(SimplePlugin):
    def __init__(
        self,
        activities: Sequence[Callable[..., Any]] = (),
        *,
        workflows: Sequence[type] = WORKFLOWS,
        isolated: bool = False,
    ) -> None:
        """Make the plugin. `isolated`: workflows run in a sandbox, which notices forbidden calls.

        Such a call is `datetime.now()`. The tests replay every recorded history in the sandbox. A worker has no
        sandbox, because the sandbox runs code for every payload and every start: up to a fifth of a short run's CPU.
        """
        super().__init__(
            "crawler-lifecycle",
            data_converter=lifecycle_data_converter,
            interceptors=[Boundary()],
            workflows=workflows,
            activities=activities,
            workflow_runner=lambda _: _sandbox() if isolated else UnsandboxedWorkflowRunner(),
        )


def _sandbox() -> WorkflowRunner:
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*TRUSTED)
    return SandboxedWorkflowRunner(restrictions=restrictions)
