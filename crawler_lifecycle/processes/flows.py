"""Host process for steps: runs the functions in authors' modules for flows.

After SIGTERM, functions under way may still end. The host withdraws all further begins for a later host.
"""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

from temporalio.client import Client
from temporalio.worker import (
    FixedSizeSlotSupplier,
    PollerBehavior,
    PollerBehaviorAutoscaling,
    PollerBehaviorSimpleMaximum,
    Worker,
    WorkerTuner,
)

from crawler_lifecycle.assembly import process
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.plugin import LifecyclePlugin, activities_of
from crawler_lifecycle.flows.activities.steps import StepActivities
from crawler_lifecycle.flows.authors.files import with_files
from crawler_lifecycle.flows.authors.modules import Modules, load
from crawler_lifecycle.hosts.contexts import StepClients
from crawler_lifecycle.hosts.host import StepHost
from crawler_lifecycle.hosts.managers.crawls import ManagerCatalogue
from crawler_lifecycle.hosts.managers.hosting import managers_of
from crawler_lifecycle.hosts.slots import SlotGate
from crawler_lifecycle.http import health
from crawler_lifecycle.model.naming import managers_queue, own_queue, steps_queue
from crawler_lifecycle.settings.installation import environment_for_child, keep_installation
from crawler_lifecycle.temporal.engine import Engine

log = logging.getLogger("crawler_lifecycle.host")
OWN_HOST = "CRAWLER_FLOWS__OWN_HOST"
WAITING_MANAGERS = 10  # managers waiting for a slot in a host
IMPORT_PAUSE = 5.0  # seconds between imports of a broken module
END_SECONDS = 20.0  # more than a host takes after its drain


class ActivityConfig(TypedDict):
    """A task queue's slots and polls."""

    supplier: FixedSizeSlotSupplier | SlotGate
    poller: PollerBehavior


def run(
    targets: Sequence[str], queues: Sequence[str], folder: Path | None, flow: str | None, state: Path | None
) -> None:
    """Import the modules and run their steps until a signal. `folder`: further place for modules."""
    take_stack(state)
    if flow:
        os.environ[OWN_HOST] = flow  # also for flows pushed by its steps
    settings = keep_installation()  # programs started by authors' modules inherit the environment
    modules = load(targets, folder or (None if sys.flags.safe_path else Path.cwd()))
    for problem in modules.broken.values():
        print(f"{problem}; the host runs the other modules", file=sys.stderr)  # noqa: T201 (a broken module is a line for people)
    process.run_until_signal(partial(serve, modules, queues), settings)


def take_stack(state: Path | None = None) -> None:
    """Complete the environment with variables from the embedded stack, found by the state folder."""
    environment = environment_for_child(state)
    os.environ.clear()
    os.environ.update(environment)


async def serve(modules: Modules, queues: Sequence[str], parts: Parts, stopped: asyncio.Event) -> None:
    """Run steps until a signal sets `stopped`, or until all slots are lost."""
    installation = parts.store.records.installation()  # raises NotReady for a database with an unknown schema
    settings = parts.settings
    engine = Engine(os.environ, settings.worker.task_queue)
    client = await engine.client()
    await engine.refuse_other_installation(installation)
    name = f"{os.getpid()}@{socket.gethostname()}"
    ledger = with_files(parts.store.step_ledger, settings.files_folder)
    managing = partial(managers_of, parts.store.managers, engine, _catalogue(parts))
    host = StepHost(ledger, parts.store.flow_doors, modules, settings.flows, name, StepClients().around, managing)
    needs = process.needs_of(parts, writes=False, temporal=engine.ping, slots=host.slots.check)
    task_queues = {
        steps_queue(settings.worker.task_queue, f"{name}|{module}|"): suppliers
        for queue in (own_queue(queue, settings.flows.own_host) for queue in queues)
        for module in modules.names
        for name, suppliers in ((queue, for_steps(host)), (managers_queue(queue), for_managers(host)))
    }
    async with (
        health.served(settings.health, needs) as health_server,
        working(client, host, task_queues, settings.flows.drain_seconds),
    ):
        if health_server is not None:
            health_server.metrics.register(host.slots)
            health_server.metrics.register(host.manager_slots)
        log.info("runs the steps in %s for queues %s", ", ".join(modules.modules), ", ".join(queues))
        await _until(stopped, host, modules)
        log.info("finishes what is under way")
    if host.slots.lost:
        _end_at_once(host)


def _catalogue(parts: Parts) -> ManagerCatalogue:
    """Return the catalogue for the managers' requests. A host may know no scheduler service."""
    has_service = bool(parts.settings.scheduler.token.get_secret_value())
    return ManagerCatalogue(parts.deployer if has_service else None, parts.limits)


def for_steps(host: StepHost) -> ActivityConfig:
    """Return the supplier for steps: the host takes a step only while a slot is free."""
    return {"supplier": SlotGate(host.slots), "poller": PollerBehaviorAutoscaling()}


def for_managers(host: StepHost) -> ActivityConfig:
    """Return the supplier for managers. The host also takes some managers without a slot, to report why they wait."""
    supplier = FixedSizeSlotSupplier(host.manager_slots.number + WAITING_MANAGERS)
    return {"supplier": supplier, "poller": PollerBehaviorSimpleMaximum(1)}


@asynccontextmanager
async def working(
    client: Client, host: StepHost, task_queues: Mapping[str, ActivityConfig], drain_seconds: float
) -> AsyncIterator[None]:
    """Take steps from Temporal during the block, and then drain. The workers wait for their activities' ends."""
    workers = [_worker(client, host, name, config, drain_seconds) for name, config in task_queues.items()]
    async with host.running(), AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        try:
            yield
        finally:
            await asyncio.gather(host.drain(), *(worker.shutdown() for worker in workers))


def _worker(client: Client, host: StepHost, task_queue: str, config: ActivityConfig, drain_seconds: float) -> Worker:
    fixed = FixedSizeSlotSupplier(1)  # for kinds of tasks without a part here
    return Worker(
        client,
        task_queue=task_queue,
        plugins=[LifecyclePlugin(activities_of(StepActivities(host)), workflows=())],
        tuner=WorkerTuner.create_composite(
            workflow_supplier=fixed,
            activity_supplier=config["supplier"],
            local_activity_supplier=fixed,
            nexus_supplier=fixed,
        ),
        activity_task_poller_behavior=config["poller"],
        graceful_shutdown_timeout=timedelta(seconds=drain_seconds + END_SECONDS),
    )


async def _until(stopped: asyncio.Event, host: StepHost, modules: Modules) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (stopped, host.slots.all_lost)]
    if modules.broken:
        waits.append(asyncio.create_task(_until_mended(modules)))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _until_mended(modules: Modules) -> Literal[True]:
    """Wait until a broken module can be imported: a new host also runs the module's steps."""
    while (target := await asyncio.to_thread(modules.mended)) is None:
        await asyncio.sleep(IMPORT_PAUSE)  # a repair of a file makes no event
    log.info("%s can be imported now: the host ends, to be started anew", target)
    return True


def _end_at_once(host: StepHost) -> None:
    """End the process although functions do not end: their threads would be waited for."""
    has_no_slot = host.slots.all_lost.is_set()
    log.error("ends with %d functions that do not end", host.slots.lost)
    logging.shutdown()
    os._exit(1 if has_no_slot else 0)
