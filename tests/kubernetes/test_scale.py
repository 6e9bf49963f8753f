"""Runs of a thousand tasks, and of ten thousand, from start to finish and stopped in the middle: does everybody agree?

Ten thousand only when asked for: `make test-cluster-large`.
"""

import zipfile
from collections import Counter
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.data.databases import create_database
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.service import Service, assert_completed, served

PATIENCE = 2 * 3600.0
MANY = 1_000
MOST = pytest.param(10_000, marks=pytest.mark.large)
SETTINGS = {
    "CRAWLER_LIMITS__TASKS_IN_CLUSTER": "10000",
    "CRAWLER_DISPATCHER__THREADS": "32",
    "CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "20",
    "CRAWLER_DISPATCHER__CLAIM_SECONDS": "40",
}

pytestmark = [pytest.mark.timeout(3 * PATIENCE), pytest.mark.parametrize("tasks", [MANY, MOST])]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service(
    bed: Bed, tmp_path_factory: pytest.TempPathFactory, real_time: WorkflowEnvironment, mariadb_server: int
) -> AsyncIterator[Service]:
    namespace = bed.namespace()
    address = real_time.client.service_client.config.target_host
    url = create_database(mariadb_server, "scale")
    service = Service(bed, namespace, tmp_path_factory.mktemp("scale"), address, url, more=SETTINGS)
    service.crawlers({"books": fates.after(fates.SUCCEEDS, "1s"), "obeys": fates.RUNS})
    async with served(service):
        yield service
    bed.remove_namespace(namespace)


async def test_many_tasks_from_start_to_finish(service: Service, tasks: int) -> None:
    run = await service.run("books", tasks=tasks)
    for task in (1, tasks - 1):
        service.bed.kubelet.print(f"crawl-{UUID(run.run_uid).hex}-{task}-1", f"{task} items\n")
    details = await service.until_over(run, PATIENCE)
    assert_completed(details, tasks)
    assert not [task for task in details.tasks if task.exit_code != 0 or not task.node or not task.started_at]
    with zipfile.ZipFile(location(details)) as archive:
        assert archive.read(f"files/logs/{tasks - 1}-1.log") == f"{tasks - 1} items\n".encode()
    assert_all_agree(service, run, details, "finished")
    await service.until_gone(run, PATIENCE)


async def test_many_tasks_are_stopped_in_the_middle(service: Service, tasks: int) -> None:
    # however late the middle is seen: no more than that are deployed before the stop
    run = await service.run("obeys", tasks=tasks, max_parallel=tasks * 3 // 4, grace_seconds=int(PATIENCE))
    await service.until_in_cluster(run, tasks // 2, PATIENCE)
    await service.stop_run(run, reason="enough")
    details = await service.until_over(run, PATIENCE)
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "stopped")
    assert details.run.tasks == {TaskStatus.STOPPED: tasks}
    deployed = [task for task in details.tasks if task.job_uid]
    assert tasks // 2 <= len(deployed) < tasks, "it was not stopped in the middle"
    assert all(task.finished_at for task in details.tasks)
    assert len(service.left(run)) == 0, "it is over, and not all of it is gone"
    assert_all_agree(service, run, details, "stopped")


def assert_all_agree(service: Service, run: Started, details: RunDetails, closing: str) -> None:
    """Database, notices and exports; each was told once."""
    counts = Counter(task.status for task in details.tasks)
    assert details.run.tasks == counts
    notices = service.told("notices", run)
    assert [each["kind"] for each in notices if each["kind"] != "progress"] == ["started", closing]
    events = service.told("events", run)
    assert sorted(each["kind"] for each in events) == ["files_ready", "run_ended"], "each by itself, each once"
    assert notices[-1]["tasks"] == counts
    for each in events:
        assert (each["status"], each["reason"], each["tasks"]) == (details.run.status, details.run.reason, counts)
    assert not any(export.problem for export in details.exports)


def location(details: RunDetails) -> str:
    return next(str(each.location) for each in details.exports if each.kind == "files_ready")
