"""A process's parts: its adapters, and the objects made from adapters. `Parts` makes the parts from the settings.

The first use imports and makes a part. So a process connects only to the services in use,
and a command for the database alone loads no library for the cluster.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import Settings

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.store import SqlStore
    from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
    from crawler_lifecycle.clusters.ports import Cluster
    from crawler_lifecycle.database.database import Database
    from crawler_lifecycle.delivery.ports.outside import Announcer, Archiver, Pusher
    from crawler_lifecycle.model.supervision import AuditPatience
    from crawler_lifecycle.runs.activities.deploying import ClaimDeployer
    from crawler_lifecycle.runs.rules.plan import RunLimits

NO_SERVICE = (
    "no scheduler service is known and no stack runs on this state folder: start one with `crawlctl up`, "
    "or set CRAWLER_SCHEDULER__URL and CRAWLER_SCHEDULER__TOKEN to those of a service"
)


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
        from crawler_lifecycle.assembly.outside import announcer

        return announcer(self.settings)

    @cached_property
    def archiver(self) -> "Archiver":
        from crawler_lifecycle.assembly.outside import archiver

        return archiver(self.settings)

    @cached_property
    def pusher(self) -> "Pusher":
        from crawler_lifecycle.assembly.outside import pusher

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
        from crawler_lifecycle.runs.activities.deploying import ClaimDeployer

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
