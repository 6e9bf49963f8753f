"""Runs from start to finish on a real control plane, with nothing but the rights of the project's own accounts."""

import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.data.databases import create_database
from tests.kit.waiting import eventually
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed, condition
from tests.kubernetes.harm import drain
from tests.kubernetes.service import Service, assert_completed, served

pytestmark = pytest.mark.timeout(600)

ENDS = {
    "memory": (fates.OUT_OF_MEMORY, "oom_killed", 137),
    "evicted": (fates.EVICTED, "evicted", None),
    "exits": (fates.exits(3), "exit_3", 3),
    "shutdown": (fates.NODE_SHUTDOWN, "node_shutdown", None),
    "unstartable": (fates.CANNOT_RUN, "cannot_start", None),
}
IMAGES = {
    "books": fates.after(fates.SUCCEEDS, "1s"),
    "obeys": fates.RUNS,
    "tidies": fates.ORDERLY,
    "careful": fates.after(fates.ORDERLY, "10s"),
    "ignores": fates.IGNORES,
    "stuck": fates.STUCK,
    **{name: fates.after(fate, "300ms") for name, (fate, _, _) in ENDS.items()},
}
LAST_WORDS = "page 87 of 300"
SHOWN = {
    "memory": ("exit 137", "crawl ended with exit code 137 (OOMKilled)", f"| {LAST_WORDS}", "all of it: crawlctl logs"),
    "evicted": ("| pod Evicted: The node was low on resource: memory.",),
}
HUGE = '[crawlers.huge]\ncommand = ["crawl"]\nimage = "fate/succeeds"\nresources = { memory = "100Ti" }\n'


@asynccontextmanager
async def a_service(
    bed: Bed, folder: Path, temporal: WorkflowEnvironment, mariadb: int, namespace: str
) -> AsyncIterator[Service]:
    address = temporal.client.service_client.config.target_host
    url = create_database(mariadb, f"{namespace}_{folder.name}".replace("-", "_"))
    service = Service(bed, namespace, folder, address, url)
    service.crawlers(IMAGES, HUGE)
    async with served(service):
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service(
    bed: Bed, tmp_path_factory: pytest.TempPathFactory, real_time: WorkflowEnvironment, mariadb_server: int
) -> AsyncIterator[Service]:
    """One for all of these tests; in the end nothing of any run may be left in the cluster."""
    namespace = bed.namespace()
    async with a_service(bed, tmp_path_factory.mktemp("ours"), real_time, mariadb_server, namespace) as service:
        yield service
        await service.assert_clean()
    bed.remove_namespace(namespace)


async def test_four_tasks_from_start_to_finish(service: Service) -> None:
    run = await service.run("books", tasks=4)
    say(service, run, "60 items")
    details = await service.until_over(run)
    assert_completed(details, 4)
    assert [task.exit_code for task in details.tasks] == [0] * 4
    assert all(task.node for task in details.tasks)
    with zipfile.ZipFile(archive_of(details)) as archive:
        assert archive.read("files/logs/0-1.log") == b"60 items\n"
    assert "60 items" in service.crawlctl("logs", str(run.run_id), "--task", "0")


async def test_every_end_has_its_reason_and_its_evidence(service: Service) -> None:
    runs = {name: await service.run(name) for name in ENDS}
    say(service, runs["memory"], LAST_WORDS)
    for name, (_, reason, code) in ENDS.items():
        details = await service.until_over(runs[name])
        task = details.tasks[0]
        assert (details.run.status, task.status, task.reason) == (RunStatus.FAILED, TaskStatus.FAILED, reason)
        assert code is None or task.exit_code == code
        assert task.node
        shown = service.crawlctl("show", str(runs[name].run_id))
        missing = [each for each in (reason, f"on {task.node}", *SHOWN.get(name, ())) if each not in shown]
        assert missing == [], shown


async def test_a_drained_task_says_so_with_its_pod_or_without(service: Service) -> None:
    run = await service.run("obeys")
    await service.until(run, TaskStatus.RUNNING, 1)
    drain(service.bed, service.pod(run))
    details = await service.until_over(run)
    task = details.tasks[0]
    assert (details.run.status, task.status) == (RunStatus.FAILED, TaskStatus.FAILED)
    assert task.reason in ("drained", "disrupted")
    shown = service.crawlctl("show", str(run.run_id))
    assert task.reason in shown
    assert "DisruptionTarget" in shown


async def test_a_drained_task_that_ends_in_order_has_failed_and_runs_again(service: Service) -> None:
    """With exit code 0: its run was COMPLETED, with half of its data."""
    run = await service.run("careful", grace_seconds=60)
    await service.until(run, TaskStatus.RUNNING, 1)
    drain(service.bed, service.pod(run))
    details = await service.until_over(run)
    task = details.tasks[0]
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "main_job_failed")
    assert (task.status, task.reason, task.exit_code) == (TaskStatus.FAILED, "drained", 0)
    assert "it was asked to end (drained) before it was done" in service.crawlctl("show", str(run.run_id))


async def test_an_end_by_force_on_a_lost_node_says_that_nobody_confirms_it(service: Service) -> None:
    run = await service.run("obeys", grace_seconds=60)
    await service.until(run, TaskStatus.RUNNING, 1)
    (pod,) = service.objects("pods", run)
    node = pod["spec"]["nodeName"]
    service.bed.lose_node(node)
    try:
        await eventually(
            lambda: condition(service.bed.admin.get(f"/api/v1/nodes/{node}"), "Ready") == "Unknown", patience=120
        )
        await service.stop_run(run, force=True)
        details = await service.until_over(run)
    finally:
        service.bed.return_node(node)
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "stopped_forced")
    shown = service.crawlctl("show", str(run.run_id))
    assert f"not confirmed: tasks 0 are killed on nodes that do not answer ({node})" in shown


async def test_what_cannot_be_scheduled_says_so_until_it_is_stopped(service: Service) -> None:
    run = await service.run("huge")
    details = await service.until_waiting(run, "unschedulable")
    assert details.run.status is RunStatus.INITIALIZING
    shown = service.crawlctl("show", str(run.run_id))
    assert "unschedulable" in shown
    assert "Insufficient memory" in shown
    await service.stop_run(run)
    details = await service.until_over(run)
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "stopped")


@pytest.mark.parametrize(
    ("crawler", "stop", "reason"),
    [
        ("obeys", {}, "stopped"),
        ("tidies", {}, "stopped"),
        ("ignores", {"force": True}, "stopped_forced"),
        ("stuck", {"force": True}, "stopped_forced"),
    ],
)
async def test_a_stop_is_proved(service: Service, crawler: str, stop: dict[str, object], reason: str) -> None:
    run = await service.run(crawler, tasks=4, grace_seconds=60)
    await service.until(run, TaskStatus.RUNNING, 4)
    say(service, run, LAST_WORDS)
    await service.stop_run(run, reason="enough", **stop)
    details = await service.until_over(run)
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, reason)
    assert {task.status for task in details.tasks} == {TaskStatus.STOPPED}
    assert all(task.node for task in details.tasks), "what was known is kept, although all of it is gone"
    assert service.left(run) == []
    shown = service.crawlctl("show", str(run.run_id))
    asked = ("force stop asked", "jobs killed after") if stop else ("stop asked", "jobs asked to end after")
    told = (
        *asked,
        "by ann, test: enough",
        "confirmed stopped after",
        reason,
        f"| {LAST_WORDS}",
        "all of it: crawlctl logs",
    )
    assert [each for each in told if each not in shown] == [], shown
    assert service.crawlctl("logs", str(run.run_id), "--task", "0") == f"{LAST_WORDS}\n", "its pod is gone"
    with zipfile.ZipFile(archive_of(details)) as archive:
        assert archive.read("files/logs/0-1.log").decode() == f"{LAST_WORDS}\n"


async def test_what_a_worker_that_died_in_a_stop_had_heard_the_next_one_hears_again(service: Service) -> None:
    run = await service.run("stuck", grace_seconds=120)
    await service.until(run, TaskStatus.RUNNING, 1)
    say(service, run, "page 1")
    await service.stop_run(run)
    await service.until(run, TaskStatus.STOPPING, 1)
    service.kill("lifecycle")
    say(service, run, LAST_WORDS)
    service.start("lifecycle")
    await service.stop_run(run, force=True)
    details = await service.until_over(run)
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "stopped_forced")
    assert service.crawlctl("logs", str(run.run_id), "--task", "0") == f"page 1\n{LAST_WORDS}\n"


async def test_two_workers_share_the_work_and_one_may_die(service: Service) -> None:
    service.start("lifecycle-2")
    runs = [await service.run("books", tasks=3) for _ in range(6)]
    service.kill("lifecycle")
    for run in runs:
        assert_completed(await service.until_over(run), 3)


async def test_two_installations_in_one_namespace_leave_each_other_alone(
    service: Service, tmp_path: Path, real_time: WorkflowEnvironment, mariadb_server: int
) -> None:
    async with a_service(service.bed, tmp_path, real_time, mariadb_server, service.namespace) as other:
        mine, theirs = await service.run("obeys", tasks=3), await other.run("obeys", tasks=3)
        await service.until(mine, TaskStatus.RUNNING, 3)
        await other.until(theirs, TaskStatus.RUNNING, 3)
        await service.stop_run(mine, force=True)
        await service.until_over(mine)
        assert other.counts(theirs) == {TaskStatus.RUNNING: 3}
        assert len(other.objects("pods", theirs)) == 3
        await other.stop_run(theirs)
        await other.until_over(theirs)
        await other.assert_clean()


def say(service: Service, run: Started, words: str) -> None:
    """As the first task's job."""
    service.bed.kubelet.print(f"crawl-{UUID(run.run_uid).hex}-0-1", f"{words}\n")


def archive_of(details: RunDetails) -> str:
    return next(str(each.location) for each in details.exports if each.kind == "files_ready")
