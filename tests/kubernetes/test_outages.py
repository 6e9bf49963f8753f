"""What breaks in the middle of runs: does the whole service wait, say so, go on, and end every run as it ended?"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.reasons import ADMISSION
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.data.databases import create_database
from tests.kubernetes import fates, rights
from tests.kubernetes.bed import Bed
from tests.kubernetes.harm import drain, finish
from tests.kubernetes.service import Service, assert_completed, living_pod, served
from tests.kubernetes.touching import SETTLED, until

pytestmark = pytest.mark.timeout(900)

OUTAGE_SECONDS = 60.0
# as by default: whoever asks the scheduler service waits longer than the service for the API server
SETTINGS = {"CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "20", "CRAWLER_DISPATCHER__CLAIM_SECONDS": "40"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service(
    bed: Bed, tmp_path_factory: pytest.TempPathFactory, real_time: WorkflowEnvironment, mariadb_server: int
) -> AsyncIterator[Service]:
    """One for all of these tests; in the end nothing of any run may be left in the cluster."""
    namespace = bed.namespace()
    address = real_time.client.service_client.config.target_host
    url = create_database(mariadb_server, "outages")
    service = Service(bed, namespace, tmp_path_factory.mktemp("outages"), address, url, more=SETTINGS)
    service.crawlers({"books": fates.after(fates.SUCCEEDS, "1s"), "obeys": fates.RUNS})
    async with served(service):
        yield service
        await service.assert_clean()
    bed.remove_namespace(namespace)


async def test_rights_are_taken_and_given_back(service: Service) -> None:
    running = await a_running(service, tasks=2)
    service.bed.withdraw("actor", service.namespace)
    try:
        late = await service.run("books", tasks=2)
        await until(service, running, lambda details: "forbidden" in (details.run.look_problem or ""))
        assert "forbidden" in service.crawlctl("show", str(running.run_id))
        await service.until_waiting(late, "cluster_forbids")
        assert "cluster_forbids" in service.crawlctl("show", str(late.run_id))
        assert not service.summary(late).status.is_over
    finally:
        rights.grant(service.bed.admin, service.namespace)
    assert_completed(await service.until_over(late, SETTLED), 2)
    await it_goes_on_until_it_is_stopped(service, running, tasks=2)


async def test_an_api_server_hangs_for_a_minute(service: Service) -> None:
    running, stopped = await a_running(service, tasks=2), await a_running(service, tasks=2)
    others = await interrupted(service)
    with service.bed.frozen("kube-apiserver"):
        began = time.monotonic()
        late = await service.run("books", tasks=2)
        await service.stop_run(stopped)
        details = await service.until_waiting(late, "cluster_unavailable")
        assert details.run.status is RunStatus.INITIALIZING
        details = await until(service, running, lambda details: bool(details.run.look_problem), touching=False)
        assert details.run.tasks == {TaskStatus.RUNNING: 2}
        assert "no answer of the Kubernetes API" in service.crawlctl("show", str(running.run_id))
        await asyncio.sleep(max(0.0, began + OUTAGE_SECONDS - time.monotonic()))
        assert service.summary(stopped).status is RunStatus.STOPPING
        assert "not confirmed yet" in service.crawlctl("show", str(stopped.run_id))
    assert_stopped(await service.until_over(stopped, SETTLED), 2)
    assert_completed(await service.until_over(late, SETTLED), 2)
    await assert_they_complete(service, others)
    await it_goes_on_until_it_is_stopped(service, running, tasks=2)


async def test_a_cluster_whose_controllers_stand_still_deletes_nothing(service: Service) -> None:
    stopped = await a_running(service, tasks=2)
    others = await interrupted(service)
    with service.bed.frozen("kube-controller-manager"):
        late = await service.run("books", tasks=2)
        await service.stop_run(stopped)
        await service.until_waiting(late, "not_synced")
        assert "not_synced" in service.crawlctl("show", str(late.run_id))
        await service.until(stopped, TaskStatus.STOPPING, 2)
        assert service.summary(stopped).status is RunStatus.STOPPING
        assert "not confirmed yet" in service.crawlctl("show", str(stopped.run_id))
    assert_stopped(await service.until_over(stopped, SETTLED), 2)
    assert_completed(await service.until_over(late, SETTLED), 2)
    await assert_they_complete(service, others)


async def test_a_cluster_goes_back_in_time(service: Service) -> None:
    """What it never had is not called lost at once: that so many jobs vanish is a matter for people."""
    for run in service.asked:
        await service.until_gone(run)  # otherwise a removal between backup and restore is undone, and nobody repeats it
    kept = await a_running(service, tasks=2)
    backup = service.bed.backup()
    vanished = await a_running(service, tasks=8)
    service.bed.restore(backup)
    # nothing of it is left that could change: its looks are those that time brings
    details = await until(
        service, vanished, lambda details: "vanished" in (details.run.look_problem or ""), touching=False
    )
    assert details.run.tasks == {TaskStatus.RUNNING: 8}
    assert "8 of 8 jobs vanished at once" in service.crawlctl("show", str(vanished.run_id))
    await service.stop_run(vanished)
    assert_stopped(await service.until_over(vanished, SETTLED), 8)
    assert_completed(await service.until_over(await service.run("books", tasks=2), SETTLED), 2)
    await it_goes_on_until_it_is_stopped(service, kept, tasks=2)


async def test_without_the_watcher_looks_find_the_end(service: Service) -> None:
    service.kill("watcher")
    try:
        run = await service.run("books", tasks=2)
        await until(service, run, lambda details: details.run.status is RunStatus.PROCESSING, touching=False)
        assert "next look" in service.crawlctl("show", str(run.run_id))
        assert_completed(await service.until_over(run, SETTLED), 2)
    finally:
        service.start("watcher")


@dataclass(frozen=True)
class Interrupted:
    """`retrying` has lost its pod. `permitted` has the only permit of a label, which `waiting` waits for."""

    retrying: Started
    permitted: Started
    waiting: Started


async def interrupted(service: Service) -> Interrupted:
    label = f"outage:{uuid4()}"
    service.control.parts.store.limits.change(f"label:{label}", {"runs": 1}, "a test")
    permitted = await service.run("obeys", labels=[label])
    retrying = await service.run("obeys", retries={"infrastructure": 1, "pause_seconds": 1})
    for run in (permitted, retrying):
        await service.until(run, TaskStatus.RUNNING, 1)
    waiting = await service.run("obeys", labels=[label])
    await service.until_waiting(waiting, ADMISSION)
    await asyncio.to_thread(drain, service.bed, service.pod(retrying))
    return Interrupted(retrying, permitted, waiting)


async def assert_they_complete(service: Service, runs: Interrupted) -> None:
    """The lost task has one further attempt, and the limit lets one run begin after the other."""
    finish(service.bed, service.pod(runs.permitted))
    await until(service, runs.waiting, lambda details: details.run.tasks == {TaskStatus.RUNNING: 1})
    finish(service.bed, service.pod(runs.waiting))
    await until(service, runs.retrying, lambda details: details.tasks[0].attempt == 2)
    await service.until(runs.retrying, TaskStatus.RUNNING, 1, SETTLED)
    finish(service.bed, living_pod(service, runs.retrying))
    ended, details = [await service.until_over(run, SETTLED) for run in (runs.permitted, runs.waiting)]
    for complete in (ended, details):
        assert_completed(complete, 1)
    assert ended.run.finished_at
    assert details.run.admitted_at
    assert details.run.admitted_at > ended.run.finished_at, "the limit was exceeded"
    retried = await service.until_over(runs.retrying, SETTLED)
    assert_completed(retried, 1)
    (task,) = retried.tasks
    assert (task.attempt, task.infrastructure_failures, len(task.former_attempts)) == (2, 1, 1)


async def a_running(service: Service, tasks: int) -> Started:
    run = await service.run("obeys", tasks=tasks, grace_seconds=600)
    await service.until(run, TaskStatus.RUNNING, tasks)
    return run


async def it_goes_on_until_it_is_stopped(service: Service, run: Started, tasks: int) -> None:
    details = await until(service, run, lambda details: details.run.look_problem is None)
    assert details.run.tasks == {TaskStatus.RUNNING: tasks}
    await service.stop_run(run)
    assert_stopped(await service.until_over(run, SETTLED), tasks)


def assert_stopped(details: RunDetails, tasks: int) -> None:
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "stopped")
    assert details.run.tasks == {TaskStatus.STOPPED: tasks}
