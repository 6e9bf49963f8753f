"""Nodes are emptied, shut down, out of disk: the tasks that they end get another attempt, and their runs complete."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.data.databases import create_database
from tests.kit.waiting import eventually
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.harm import drain, finish, lack_disk, shut_down
from tests.kubernetes.service import Service, assert_completed, living_pod, served

pytestmark = pytest.mark.timeout(600)

RUNS = 20
SETTLED = 240.0
SOON = {"infrastructure": 2, "pause_seconds": 1}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service(
    bed: Bed, tmp_path_factory: pytest.TempPathFactory, real_time: WorkflowEnvironment, mariadb_server: int
) -> AsyncIterator[Service]:
    namespace, folder = bed.namespace(), tmp_path_factory.mktemp("retries")
    address = real_time.client.service_client.config.target_host
    url = create_database(mariadb_server, namespace.replace("-", "_"))
    service = Service(bed, namespace, folder, address, url)
    service.crawlers({"obeys": fates.RUNS, "fails": fates.after(fates.exits(3), "300ms")})
    async with served(service):
        yield service
        await service.assert_clean()
    bed.remove_namespace(namespace)


@contextmanager
def only_on(bed: Bed, chosen: str) -> Iterator[None]:
    """New pods come to this node alone."""
    others = [node["metadata"]["name"] for node in bed.admin.items("/api/v1/nodes")]
    others.remove(chosen)
    cordon(bed, others, unschedulable=True)
    try:
        yield
    finally:
        cordon(bed, others, unschedulable=None)
        bed.until_ready(others)


def cordon(bed: Bed, nodes: Sequence[str], *, unschedulable: bool | None) -> None:
    for name in nodes:
        bed.admin.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})


async def until_running(service: Service, runs: Sequence[Started], attempt: int) -> None:
    def running() -> bool:
        tasks = [service.details(run).tasks[0] for run in runs]
        return all((task.status, task.attempt) == (TaskStatus.RUNNING, attempt) for task in tasks)

    await eventually(running, patience=SETTLED, seen=lambda: service.seen(runs[-1]))


def assert_second_attempt_completed(details: RunDetails, *reasons: str) -> None:
    assert_completed(details, 1)
    (task,) = details.tasks
    (former,) = task.former_attempts
    assert (task.attempt, task.infrastructure_failures, former.status) == (2, 1, TaskStatus.FAILED)
    assert former.reason in reasons
    (line,) = [line for line in details.log if line.event == "next attempt"]
    assert f"0 (attempt 2 after {former.reason})" in line.message


async def test_a_node_is_drained_under_twenty_runs_and_all_complete(service: Service) -> None:
    bed, node = service.bed, "node-3"
    with only_on(bed, node):
        runs = [await service.run("obeys", retries=SOON) for _ in range(RUNS)]
        await until_running(service, runs, 1)
    cordon(bed, [node], unschedulable=True)
    try:
        pods = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in service.objects("pods")}
        assert list(pods.values()) == [node] * RUNS
        for name in pods:
            await asyncio.to_thread(drain, bed, f"/api/v1/namespaces/{service.namespace}/pods/{name}")
        await until_running(service, runs, 2)
        for run in runs:
            finish(bed, living_pod(service, run))
        for run in runs:
            assert_second_attempt_completed(await service.until_over(run, SETTLED), "drained", "disrupted")
    finally:
        cordon(bed, [node], unschedulable=None)
        bed.until_ready([node])


@pytest.mark.parametrize(("harm", "reason"), [(shut_down, "node_shutdown"), (lack_disk, "evicted")])
async def test_a_node_ends_a_pod_and_the_run_completes(
    service: Service, harm: Callable[[Bed, str], None], reason: str
) -> None:
    """A spot node shuts down in order; a node without disk evicts."""
    run = await service.run("obeys", retries=SOON)
    await until_running(service, [run], 1)
    await asyncio.to_thread(harm, service.bed, living_pod(service, run))
    await until_running(service, [run], 2)
    finish(service.bed, living_pod(service, run))
    assert_second_attempt_completed(await service.until_over(run), reason)
    shown = service.crawlctl("show", str(run.run_id))
    assert f"attempt 1: FAILED ({reason})" in shown


async def test_a_stop_ends_a_run_in_its_pause(service: Service) -> None:
    run = await service.run("obeys", retries={"pause_seconds": 600})
    await until_running(service, [run], 1)
    drain(service.bed, living_pod(service, run))
    await service.until(run, TaskStatus.QUEUED, 1)
    await service.stop_run(run)
    details = await service.until_over(run)
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "stopped")
    assert (details.tasks[0].status, details.tasks[0].attempt) == (TaskStatus.STOPPED, 2)


async def test_a_program_that_fails_is_tried_again_on_request(service: Service) -> None:
    run = await service.run("fails", retries={"program": 2, "pause_seconds": 0})
    details = await service.until_over(run)
    (task,) = details.tasks
    assert (task.status, task.reason, task.attempt, task.program_failures) == (TaskStatus.FAILED, "exit_3", 3, 2)
    assert [former.exit_code for former in task.former_attempts] == [3, 3]
    once = await service.until_over(await service.run("fails"))
    assert once.tasks[0].attempt == 1
