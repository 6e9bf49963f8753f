"""A process's parts, made by `Parts` from the settings, and the adapters for notices, events and archives.

The first use imports and makes a part. So a process connects only to the services in use, and a command for the
database alone loads no library for the cluster.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import Settings
from crawler_lifecycle.settings.outside import NoticeSettings

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.store import SqlStore
    from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
    from crawler_lifecycle.clusters.ports import Cluster
    from crawler_lifecycle.database.database import Database
    from crawler_lifecycle.delivery.adapters.folder import FolderExporter
    from crawler_lifecycle.delivery.ports import Announcer, Archiver, Pusher
    from crawler_lifecycle.delivery.pushers.fan_out import NamedPusher
    from crawler_lifecycle.model.supervision import AuditPatience
    from crawler_lifecycle.runs.activities.deployment import ClaimDeployer
    from crawler_lifecycle.runs.rules.plan import RunLimits

SLOTS_PER_NOTICE = 4  # slots per notice sent at a time: notices take a quarter of a worker's slots at most
NO_SERVICE = (
    "no scheduler service is known and no stack runs on this state folder: start one with `crawlctl up`, "
    "or set CRAWLER_SCHEDULER__URL and CRAWLER_SCHEDULER__TOKEN to those of a service"
)


def announcer(settings: Settings) -> "Announcer":
    """Return the receiver for events: EventBridge if a bus is set, else the folder for exports."""
    export = settings.export
    if export.event_bus is None:
        return _exports_folder(settings)
    from crawler_lifecycle.delivery.aws.events import EventBridge

    return EventBridge(export.event_bus, export)


def archiver(settings: Settings) -> "Archiver":
    """Return the place for archives: S3 if a bucket is set, else the folder for exports."""
    export = settings.export
    if export.bucket is None:
        return _exports_folder(settings)
    from crawler_lifecycle.delivery.aws.archives import S3Archiver

    return S3Archiver(settings.files_folder, export.bucket, export)


def _exports_folder(settings: Settings) -> "FolderExporter":
    from crawler_lifecycle.delivery.adapters.archive import ArchiveLimits
    from crawler_lifecycle.delivery.adapters.folder import FolderExporter

    limits = ArchiveLimits.from_settings(settings.export)
    return FolderExporter(settings.files_folder, settings.exports_folder, limits, with_events=settings.export.file)


def pusher(settings: Settings) -> "Pusher":
    """Return the pusher to all receivers in the settings: file, Pusher Channels, webhooks."""
    from crawler_lifecycle.delivery.pushers.fan_out import FanOut

    return FanOut([*_notice_file(settings), *_channels(settings.notices), *_webhooks(settings.notices)])


def receivers_are_files(settings: Settings) -> bool:
    """Return whether all notices and events go to files alone: files are never slow."""
    return settings.export.event_bus is None and settings.notices.is_file_alone


def limited_pusher(pusher: "Pusher", slots: int) -> "Pusher":
    """Limit the worker's slots for notices, since a slow receiver must not delay further activities."""
    from crawler_lifecycle.delivery.pushers.fan_out import LimitedPusher

    return LimitedPusher(pusher, max(1, slots // SLOTS_PER_NOTICE))


def _notice_file(settings: Settings) -> "Iterator[NamedPusher]":
    if settings.notices.file:
        from crawler_lifecycle.delivery.adapters.json_lines import FilePusher

        yield FilePusher(settings.exports_folder / "notices.jsonl")


def _channels(notices: NoticeSettings) -> "Iterator[NamedPusher]":
    if notices.pusher_app_id is not None:
        from crawler_lifecycle.delivery.pushers.pusher_channels import PusherChannels

        yield PusherChannels(notices.pusher_app_id, notices)


def _webhooks(notices: NoticeSettings) -> "Iterator[NamedPusher]":
    if notices.webhooks is not None:
        from crawler_lifecycle.delivery.pushers.webhooks import Webhook, endpoints

        for endpoint in endpoints(notices.webhooks.get_secret_value()):
            yield Webhook(endpoint, notices.timeout_seconds)


@dataclass(frozen=True)
class Parts:
    settings: Settings

    # the database

    @cached_property
    def database(self) -> "Database":
        """The database. Raises NotReady if its schema is missing or has another version."""
        from crawler_lifecycle.database.database import Database
        from crawler_lifecycle.database.migrate import check

        database = Database(self.settings.database_url, pool_size=self.settings.database.pool_size)
        check(database)
        return database

    def close(self) -> None:
        """Close the connections to the database, if there are any."""
        if "database" in vars(self):
            self.database.close()

    @cached_property
    def store(self) -> "SqlStore":
        from crawler_lifecycle.assembly.store import SqlStore

        return SqlStore(self.database, self.settings.limits.tasks_in_cluster)

    # the cluster

    @cached_property
    def cluster(self) -> "Cluster":
        from crawler_lifecycle.assembly.clusters import cluster_of

        return cluster_of(self.settings, self.store.records.installation(), self.store.places)

    @cached_property
    def deployer(self) -> "SchedulerClient":
        from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient

        scheduler = self.settings.scheduler
        if not scheduler.token.get_secret_value():
            raise NotReady(NO_SERVICE)
        return SchedulerClient(scheduler.url, scheduler.token.get_secret_value(), scheduler.timeout_seconds)

    # services outside

    @cached_property
    def announcer(self) -> "Announcer":
        return announcer(self.settings)

    @cached_property
    def archiver(self) -> "Archiver":
        return archiver(self.settings)

    @cached_property
    def pusher(self) -> "Pusher":
        return pusher(self.settings)

    # objects for activities and the dispatcher

    @cached_property
    def limits(self) -> "RunLimits":
        from crawler_lifecycle.runs.rules.plan import RunLimits

        return RunLimits(**self.settings.limits.model_dump(exclude={"tasks_in_cluster"}))

    @cached_property
    def claim_for(self) -> timedelta:
        """The time until a claim expires."""
        return timedelta(seconds=self.settings.dispatcher.claim_seconds)

    @cached_property
    def claim_deployer(self) -> "ClaimDeployer":
        from crawler_lifecycle.runs.activities.deployment import ClaimDeployer

        return ClaimDeployer(self.store.claims, self.cluster, self.deployer)

    @cached_property
    def patience(self) -> "AuditPatience":
        from crawler_lifecycle.model.supervision import AuditPatience

        audit = self.settings.audit
        return AuditPatience(
            workflow=timedelta(seconds=audit.workflow_seconds),
            job=timedelta(seconds=audit.job_seconds),
            handover=timedelta(seconds=audit.handover_seconds),
            failed_export=timedelta(seconds=audit.failed_export_seconds),
            stuck=timedelta(seconds=audit.stuck_seconds),
            replay=timedelta(days=audit.replay_days),
        )

    def dispatcher_pool(self) -> ThreadPoolExecutor:
        """Return a new pool of threads for the dispatcher's requests for jobs."""
        return ThreadPoolExecutor(self.settings.dispatcher.threads, thread_name_prefix="deploy")
