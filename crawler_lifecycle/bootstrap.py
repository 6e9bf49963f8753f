"""Which adapters does this process use? The composition root: settings in, ready parts out."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from crawler_lifecycle.activities.deployment import DeploymentActivities
from crawler_lifecycle.activities.exports import ExportActivities
from crawler_lifecycle.activities.histories import HistoryActivities
from crawler_lifecycle.activities.notices import NoticeActivities
from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.activities.stopping import StoppingActivities
from crawler_lifecycle.activities.supervision import SupervisionActivities
from crawler_lifecycle.adapters.folder import FolderExporter
from crawler_lifecycle.adapters.local.cluster import LocalCluster
from crawler_lifecycle.adapters.notices import FilePusher
from crawler_lifecycle.adapters.scheduler_client import SchedulerClient
from crawler_lifecycle.adapters.sql import migrate
from crawler_lifecycle.adapters.sql.claims import SqlClaims
from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.exports import SqlExports
from crawler_lifecycle.adapters.sql.histories import SqlHistories
from crawler_lifecycle.adapters.sql.nudges import SqlNudges
from crawler_lifecycle.adapters.sql.records import SqlRecords
from crawler_lifecycle.adapters.sql.stops import SqlStops
from crawler_lifecycle.adapters.sql.supervision import SqlSupervision
from crawler_lifecycle.adapters.sql.tasks import SqlTasks
from crawler_lifecycle.domain.plan import RunLimits
from crawler_lifecycle.ports import Supervisors
from crawler_lifecycle.settings import Settings


@dataclass(frozen=True)
class Parts:
    """Everything is made on first use, so that a process connects only to what it needs."""

    settings: Settings

    @cached_property
    def database(self) -> Database:
        database = Database(self.settings.database_url, pool_size=self.settings.database.pool_size)
        migrate.check(database)
        return database

    @cached_property
    def records(self) -> SqlRecords:
        return SqlRecords(self.database)

    @cached_property
    def histories(self) -> SqlHistories:
        return SqlHistories(self.database)

    @cached_property
    def tasks(self) -> SqlTasks:
        return SqlTasks(self.database)

    @cached_property
    def claims(self) -> SqlClaims:
        return SqlClaims(self.database)

    @cached_property
    def nudges(self) -> SqlNudges:
        return SqlNudges(self.database)

    @cached_property
    def cluster(self) -> LocalCluster:
        settings = self.settings
        return LocalCluster(
            settings.jobs_folder, settings.files_folder, self.records.installation(), settings.cluster.capacity
        )

    @cached_property
    def deployer(self) -> SchedulerClient:
        scheduler = self.settings.scheduler
        return SchedulerClient(scheduler.url, scheduler.token.get_secret_value(), scheduler.timeout_seconds)

    @cached_property
    def exporter(self) -> FolderExporter:
        return FolderExporter(self.settings.files_folder, self.settings.exports_folder)

    @cached_property
    def pusher(self) -> FilePusher:
        return FilePusher(self.settings.exports_folder / "notices.jsonl")

    @cached_property
    def limits(self) -> RunLimits:
        return RunLimits(**self.settings.limits.model_dump())

    @cached_property
    def claim_for(self) -> timedelta:
        return timedelta(seconds=self.settings.dispatcher.claim_seconds)

    def activities(self, supervisors: Supervisors, *, search_attributes: bool) -> Sequence[Callable[..., Any]]:
        return steps_of(
            HistoryActivities(self.histories, self.tasks, self.deployer, self.limits, search_attributes),
            DeploymentActivities(self.histories, self.tasks, self.claims, self.cluster, self.deployer, self.claim_for),
            ReconciliationActivities(self.histories, self.tasks, self.cluster),
            SupervisionActivities(
                self.histories,
                SqlSupervision(self.database),
                self.cluster,
                supervisors,
                self.limits,
                search_attributes,
            ),
            StoppingActivities(SqlStops(self.database), self.tasks, self.cluster),
            NoticeActivities(self.histories, self.pusher),
            ExportActivities(self.histories, SqlExports(self.database), self.exporter),
        )

    def dispatcher_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.settings.dispatcher.threads, thread_name_prefix="deploy")


def steps_of(*holders: object) -> list[Callable[..., Any]]:
    """The activities among the methods of these objects."""
    methods = (getattr(holder, name) for holder in holders for name in vars(type(holder)))
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]
