"""Worker process: runs workflows and activities for Temporal. After SIGTERM, work under way may still finish."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import PollerBehaviorAutoscaling, Worker

from crawler_lifecycle.assembly import process
from crawler_lifecycle.assembly.failing_workflows import FailingWorkflows
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.plugin import Activity, LifecyclePlugin, activities, by_queue
from crawler_lifecycle.audits.commands import AuditSchedule
from crawler_lifecycle.audits.processes import AuditKeeper, AuditMetrics
from crawler_lifecycle.base.background import in_background
from crawler_lifecycle.flows.processes.starts import FlowStarts
from crawler_lifecycle.http import health
from crawler_lifecycle.model.naming import archive_queue
from crawler_lifecycle.retention.keeper import RetentionKeeper, RetentionMetrics, retention_of
from crawler_lifecycle.settings.processes import MetricsSettings, WorkerSettings
from crawler_lifecycle.temporal.connection import identity_for
from crawler_lifecycle.temporal.engine import Engine

log = logging.getLogger("crawler_lifecycle.lifecycle")
# The SDK holds back a heartbeat for at most this time. With a longer time, a busy machine could send a heartbeat too
# late, and Temporal would take the activity for dead.
HEARTBEAT_THROTTLE = timedelta(seconds=3)


def main() -> None:
    process.run(serve)


async def serve(parts: Parts, stopped: asyncio.Event) -> None:
    """Work until a signal sets `stopped`. The audit's schedule and metrics are kept in the background."""
    parts.settings.database.refuse_few_connections()
    settings = parts.settings.worker
    installation = parts.store.records.installation()  # raises NotReady for a database with an unknown schema
    engine = Engine(os.environ, settings.task_queue, runtime=_runtime(parts.settings.metrics))
    steps = activities(parts, engine, search_attributes=await _has_search_attributes(engine))
    client = await engine.client()
    identity = identity_for(installation)
    async with (
        health.served(parts.settings.health, process.needs_of(parts, temporal=engine.ping)) as health_server,
        in_background(await _audit_schedule_keeping(parts, engine, installation, health_server)),
        in_background(_retention(parts, identity, health_server).run()),
        in_background(_failing_workflows(parts, engine, health_server).run()),
        in_background(FlowStarts(parts.store.flow_records, engine, settings.flow_search_seconds).run()),
        working(client, steps, settings, identity),
    ):
        log.info("works for installation %s on task queue %s", installation, settings.task_queue)
        await stopped.wait()
        log.info("finishes what is under way")


@asynccontextmanager
async def working(
    client: Client, steps: Sequence[Activity], settings: WorkerSettings, identity: str | None = None
) -> AsyncIterator[None]:
    """Work for Temporal during the block, then finish the tasks under way.

    Archives have a task queue and slots of their own: archives of any number delay no look and no stop.
    """
    general, archiving = by_queue(steps)
    with (
        # a step inside a workflow task must not wait until another activity has asked a cluster
        ThreadPoolExecutor(2 * settings.activity_slots, thread_name_prefix="activity") as threads,
        ThreadPoolExecutor(settings.archive_slots, thread_name_prefix="archive") as archive_threads,
    ):
        worker = make_worker(client, LifecyclePlugin(general), settings, threads, identity)
        archive_worker = _archive_worker(client, archiving, settings, archive_threads)
        async with worker, archive_worker:
            yield
            # both at the same time, since each may take `drain_seconds`
            await asyncio.gather(worker.shutdown(), archive_worker.shutdown())


async def _audit_schedule_keeping(
    parts: Parts, engine: Engine, installation: str, health_server: health.HealthServer | None
) -> Coroutine[Any, Any, None]:
    """Try to create the audit's schedule in Temporal, and return a coroutine to keep the schedule up to date."""
    every = parts.settings.audit.every_seconds
    keeper = AuditKeeper(
        AuditSchedule(engine, installation, every).keep,
        lambda: parts.store.findings.overview(audits=1, findings=0),
        AuditMetrics(every),
    )
    if health_server is not None:
        health_server.metrics.register(keeper.metrics)
    return keeper.run(has_schedule=await keeper.try_to_keep())


def _retention(parts: Parts, identity: str, health_server: health.HealthServer | None) -> RetentionKeeper:
    """Return the loop for retention."""
    metrics = RetentionMetrics(parts.settings.retention.every_seconds)
    if health_server is not None:
        health_server.metrics.register(metrics)
    return RetentionKeeper(retention_of(parts, identity), metrics)


def _failing_workflows(parts: Parts, engine: Engine, health_server: health.HealthServer | None) -> FailingWorkflows:
    """Return the search for workflows with repeated failures at the same task."""
    metrics = health_server.metrics if health_server is not None else None
    return FailingWorkflows(parts.store.records, parts.store.findings, engine, metrics)


def make_worker(
    client: Client,
    plugin: SimplePlugin,
    settings: WorkerSettings,
    threads: ThreadPoolExecutor,
    identity: str | None = None,
) -> Worker:
    """Return a worker with our options for the plugin's workflows and activities."""
    return Worker(
        client,
        task_queue=settings.task_queue,
        identity=identity,
        plugins=[plugin],
        activity_executor=threads,
        max_concurrent_workflow_tasks=settings.workflow_slots,
        max_concurrent_activities=settings.activity_slots,
        max_concurrent_local_activities=settings.activity_slots,
        max_cached_workflows=settings.cached_workflows,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.sticky_seconds),
        graceful_shutdown_timeout=timedelta(seconds=settings.drain_seconds),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
    )


def _archive_worker(
    client: Client, steps: Sequence[Activity], settings: WorkerSettings, threads: ThreadPoolExecutor
) -> Worker:
    """Return the worker for archives."""
    return Worker(
        client,
        task_queue=archive_queue(settings.task_queue),
        plugins=[LifecyclePlugin(steps, workflows=())],
        activity_executor=threads,
        max_concurrent_activities=settings.archive_slots,
        graceful_shutdown_timeout=timedelta(seconds=settings.drain_seconds),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
    )


async def _has_search_attributes(engine: Engine) -> bool:
    """Return whether the Temporal server has all our search attributes; log a warning if not."""
    missing = await engine.missing_search_attributes()
    if missing:
        log.warning("runs are not listed by search attributes: not registered are %s", ", ".join(sorted(missing)))
    return not missing


def _runtime(metrics: MetricsSettings) -> Runtime:
    """Return the SDK's runtime. With a port in the settings, the runtime serves Temporal's metrics."""
    if metrics.port is None:
        return Runtime.default()
    return Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=f"{metrics.host}:{metrics.port}")))


if __name__ == "__main__":
    main()
