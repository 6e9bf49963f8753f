"""Which adapters does this process use? The composition root: settings in, ready parts out.

Every part is imported and made when it is first used: a process connects only to what it needs, and a command
that only reads the database loads nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.settings import Settings

if TYPE_CHECKING:
    from crawler_lifecycle.activities.deploying import Deploying
    from crawler_lifecycle.adapters.pushers.several import NamedPusher
    from crawler_lifecycle.adapters.scheduler_client import SchedulerClient
    from crawler_lifecycle.adapters.sql.database import Database
    from crawler_lifecycle.domain.audit import Patience
    from crawler_lifecycle.domain.plan import RunLimits
    from crawler_lifecycle.ports import (
        Additions,
        Announcer,
        Archiver,
        AuditedRuns,
        Changes,
        Claims,
        Cluster,
        Exporter,
        Exports,
        Findings,
        Histories,
        Notices,
        Nudges,
        Pusher,
        Records,
        Stops,
        Supervision,
        Supervisors,
        Tasks,
    )

SLOTS_FOR_EACH_NOTICE = 4  # of a worker, so that receivers who do not answer hold up nothing else


@dataclass(frozen=True)
class Parts:
    settings: Settings

    # the database

    @cached_property
    def database(self) -> "Database":
        """NotReady if its schema is missing or of another version."""
        from crawler_lifecycle.adapters.sql.database import Database
        from crawler_lifecycle.adapters.sql.migrate import check

        database = Database(self.settings.database_url, pool_size=self.settings.database.pool_size)
        check(database)
        return database

    @cached_property
    def records(self) -> "Records":
        from crawler_lifecycle.adapters.sql.records import SqlRecords

        return SqlRecords(self.database)

    @cached_property
    def histories(self) -> "Histories":
        from crawler_lifecycle.adapters.sql.histories import SqlHistories

        return SqlHistories(self.database)

    @cached_property
    def tasks(self) -> "Tasks":
        from crawler_lifecycle.adapters.sql.tasks import SqlTasks

        return SqlTasks(self.database)

    @cached_property
    def claims(self) -> "Claims":
        from crawler_lifecycle.adapters.sql.claims import SqlClaims

        return SqlClaims(self.database)

    @cached_property
    def stops(self) -> "Stops":
        from crawler_lifecycle.adapters.sql.stops import SqlStops

        return SqlStops(self.database)

    @cached_property
    def supervision(self) -> "Supervision":
        from crawler_lifecycle.adapters.sql.supervision import SqlSupervision

        return SqlSupervision(self.database)

    @cached_property
    def nudges(self) -> "Nudges":
        from crawler_lifecycle.adapters.sql.nudges import SqlNudges

        return SqlNudges(self.database)

    @cached_property
    def additions(self) -> "Additions":
        from crawler_lifecycle.adapters.sql.additions import SqlAdditions

        return SqlAdditions(self.database)

    @cached_property
    def changes(self) -> "Changes":
        from crawler_lifecycle.adapters.sql.changes import SqlChanges

        return SqlChanges(self.database)

    @cached_property
    def notices(self) -> "Notices":
        from crawler_lifecycle.adapters.sql.notices import SqlNotices

        return SqlNotices(self.database)

    @cached_property
    def exports(self) -> "Exports":
        from crawler_lifecycle.adapters.sql.exports import SqlExports

        return SqlExports(self.database)

    @cached_property
    def audited_runs(self) -> "AuditedRuns":
        from crawler_lifecycle.adapters.sql.auditing import SqlAuditedRuns

        return SqlAuditedRuns(self.database)

    @cached_property
    def findings(self) -> "Findings":
        from crawler_lifecycle.adapters.sql.findings import SqlFindings

        return SqlFindings(self.database)

    # the cluster

    @cached_property
    def cluster(self) -> "Cluster":
        return self.cluster_of(self.records.installation())

    def cluster_of(self, installation: str | None) -> "Cluster":
        if self.settings.cluster.kind == "kubernetes":
            return self._kubernetes(installation)
        from crawler_lifecycle.adapters.local.cluster import LocalCluster

        settings = self.settings
        return LocalCluster(settings.jobs_folder, settings.files_folder, installation, settings.cluster.capacity)

    def _kubernetes(self, installation: str | None) -> "Cluster":
        from crawler_lifecycle.adapters.kubernetes.cluster import Keeping, KubernetesCluster
        from crawler_lifecycle.adapters.kubernetes.connection import Access
        from crawler_lifecycle.adapters.kubernetes.job_spec import Pods
        from crawler_lifecycle.adapters.kubernetes.looking import Patience

        chosen = self.settings.kubernetes
        access = Access(
            namespace=chosen.namespace,
            kubeconfig=chosen.kubeconfig,
            context=chosen.context,
            connections=self.settings.worker.activity_slots,
            connect_seconds=chosen.connect_seconds,
            read_seconds=chosen.read_seconds,
        )
        pods = Pods(
            service_account=chosen.service_account,
            image_pull_secrets=tuple(name.strip() for name in chosen.image_pull_secrets.split(",") if name.strip()),
            files_claim=chosen.files_claim,
            files_group=chosen.files_group,
            longest=timedelta(days=chosen.longest_days),
            keep=timedelta(days=chosen.keep_days),
        )
        keeping = Keeping(self.settings.files_folder, chosen.log_mebibytes << 20)
        patience = Patience(timedelta(seconds=chosen.give_up_seconds), timedelta(seconds=chosen.overdue_seconds))
        return KubernetesCluster(access, installation, pods, keeping, patience)

    @cached_property
    def deployer(self) -> "SchedulerClient":
        from crawler_lifecycle.adapters.scheduler_client import SchedulerClient

        scheduler = self.settings.scheduler
        return SchedulerClient(scheduler.url, scheduler.token.get_secret_value(), scheduler.timeout_seconds)

    # the outside

    @cached_property
    def exporter(self) -> "Exporter":
        from crawler_lifecycle.adapters.exporter import ChosenExporter
        from crawler_lifecycle.adapters.folder import FolderExporter

        folder = FolderExporter(self.settings.files_folder, self.settings.exports_folder)
        return ChosenExporter(self._event_bus() or folder, self._bucket() or folder)

    def _event_bus(self) -> "Announcer | None":
        chosen = self.settings.export
        if chosen.event_bus is None:
            return None
        from crawler_lifecycle.adapters.aws.events import EventBridge

        return EventBridge(chosen.event_bus, chosen)

    def _bucket(self) -> "Archiver | None":
        chosen = self.settings.export
        if chosen.bucket is None:
            return None
        from crawler_lifecycle.adapters.aws.archives import S3Archiver

        return S3Archiver(self.settings.files_folder, chosen.bucket, chosen)

    @cached_property
    def pusher(self) -> "Pusher":
        from crawler_lifecycle.adapters.pushers.several import Several

        return Several([*self._notice_file(), *self._channels(), *self._webhooks()])

    def _shared_pusher(self) -> "Pusher":
        from crawler_lifecycle.adapters.pushers.share import Share

        return Share(self.pusher, max(1, self.settings.worker.activity_slots // SLOTS_FOR_EACH_NOTICE))

    def _notice_file(self) -> "Iterator[NamedPusher]":
        if self.settings.notices.file:
            from crawler_lifecycle.adapters.notices import FilePusher

            yield FilePusher(self.settings.exports_folder / "notices.jsonl")

    def _channels(self) -> "Iterator[NamedPusher]":
        chosen = self.settings.notices
        if chosen.pusher_app_id is not None:
            from crawler_lifecycle.adapters.pushers.channels import PusherChannels

            yield PusherChannels(chosen.pusher_app_id, chosen)

    def _webhooks(self) -> "Iterator[NamedPusher]":
        chosen = self.settings.notices
        if chosen.webhooks is not None:
            from crawler_lifecycle.adapters.pushers.webhooks import Webhook, endpoints

            for endpoint in endpoints(chosen.webhooks.get_secret_value()):
                yield Webhook(endpoint, chosen.timeout_seconds)

    # what is made of them

    @cached_property
    def limits(self) -> "RunLimits":
        from crawler_lifecycle.domain.plan import RunLimits

        return RunLimits(**self.settings.limits.model_dump())

    @cached_property
    def claim_for(self) -> timedelta:
        return timedelta(seconds=self.settings.dispatcher.claim_seconds)

    @cached_property
    def deploying(self) -> "Deploying":
        from crawler_lifecycle.activities.deploying import Deploying

        return Deploying(self.claims, self.cluster, self.deployer)

    @cached_property
    def patience(self) -> "Patience":
        from crawler_lifecycle.domain.audit import Patience

        chosen = self.settings.audit
        return Patience(
            workflow=timedelta(seconds=chosen.workflow_seconds),
            job=timedelta(seconds=chosen.job_seconds),
            handover=timedelta(seconds=chosen.handover_seconds),
            failed_export=timedelta(seconds=chosen.failed_export_seconds),
            stuck=timedelta(seconds=chosen.stuck_seconds),
            replay=timedelta(days=chosen.replay_days),
        )

    def dispatcher_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.settings.dispatcher.threads, thread_name_prefix="deploy")

    def activities(self, supervisors: "Supervisors", *, search_attributes: bool) -> Sequence[Callable[..., Any]]:
        from crawler_lifecycle.activities.deployment import DeploymentActivities
        from crawler_lifecycle.activities.exports import ExportActivities
        from crawler_lifecycle.activities.histories import HistoryActivities
        from crawler_lifecycle.activities.notices import NoticeActivities
        from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
        from crawler_lifecycle.activities.stopping import StoppingActivities
        from crawler_lifecycle.activities.supervision import SupervisionActivities

        histories, tasks, cluster, limits = self.histories, self.tasks, self.cluster, self.limits
        return steps_of(
            HistoryActivities(histories, tasks, self.deployer, limits, search_attributes),
            SupervisionActivities(
                self.supervision, tasks, cluster, supervisors, self.exports, limits, search_attributes
            ),
            DeploymentActivities(histories, tasks, self.claims, cluster, self.deploying, self.claim_for),
            ReconciliationActivities(histories, tasks, cluster),
            StoppingActivities(histories, self.stops, tasks, cluster),
            NoticeActivities(histories, self.notices, self._shared_pusher()),
            ExportActivities(histories, self.exports, self.exporter),
            *self._audits(supervisors),
        )

    def _audits(self, supervisors: "Supervisors") -> Sequence[object]:
        from crawler_lifecycle.activities.audit_handovers import HandoverAudit
        from crawler_lifecycle.activities.audit_jobs import JobAudit
        from crawler_lifecycle.activities.audit_runs import RunAudit
        from crawler_lifecycle.activities.audits import AuditActivities

        chosen, runs, findings, patience = self.settings.audit, self.audited_runs, self.findings, self.patience
        return (
            AuditActivities(findings, timedelta(days=chosen.keep_days), chosen.remove_unknown_jobs),
            RunAudit(runs, findings, supervisors, self.tasks, self.cluster, patience),
            JobAudit(runs, findings, self.cluster, patience),
            HandoverAudit(runs, findings, supervisors, patience),
        )


def steps_of(*holders: object) -> list[Callable[..., Any]]:
    """The activities among the methods of these objects."""
    methods = (getattr(holder, name) for holder in holders for name in vars(type(holder)))
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]
