"""A run whose job ends as it should not, or is taken from it: does the database say what the cluster knows?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import pytest_asyncio

from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kubernetes.bed import Bed, condition
from tests.kubernetes.client import until as until_is_so
from tests.kubernetes.faulty import Faulty
from tests.kubernetes.harm import delete, hold, preempt, release, taint
from tests.kubernetes.service import Service, assert_completed
from tests.kubernetes.touching import SETTLED, until

# it takes the cluster a minute to miss a node: meanwhile there is all else
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("lost")]

BACKGROUND = {"propagationPolicy": "Background"}


@dataclass(frozen=True)
class Lost:
    """Four runs, each alone on a node that is lost, and how."""

    stays: Started  # away for long, and its pod with it
    tells: Started  # comes back, and its pod had ended before
    silent: Started  # for a while, and nobody takes its pod away
    removed: Started  # for good, by a person
    nodes: dict[int, str]

    def begin(self, bed: Bed) -> None:
        for run in (self.stays, self.tells, self.silent):
            self._cordon(bed, self.nodes[run.run_id], True)  # for a minute more it would be given pods
            bed.lose_node(self.nodes[run.run_id])
        bed.admin.delete(f"/api/v1/nodes/{self.nodes[self.removed.run_id]}")

    def end(self, bed: Bed) -> None:
        removed = self.nodes[self.removed.run_id]
        if not bed.admin.exists(f"/api/v1/nodes/{removed}"):
            bed.add_node(removed)
        for node in self.nodes.values():
            self._cordon(bed, node, None)
            bed.return_node(node)

    def _cordon(self, bed: Bed, node: str, value: bool | None) -> None:
        bed.admin.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": value}})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lost(faulty: Faulty) -> AsyncIterator[Lost]:
    service, bed = faulty.service, faulty.service.bed
    how = {"stays": ("alone", 1), "tells": ("done-unseen", 600), "silent": ("lasting", 1), "removed": ("alone", 600)}
    runs = {name: await service.run(crawler, grace_seconds=grace) for name, (crawler, grace) in how.items()}
    nodes = {}
    for run in runs.values():
        await service.until(run, TaskStatus.RUNNING, 1)
        nodes[run.run_id] = bed.admin.get(service.pod(run))["spec"]["nodeName"]
    hold(bed, service.pod(runs["tells"]))
    lost = Lost(**runs, nodes=nodes)
    lost.begin(bed)
    try:
        yield lost
    finally:
        lost.end(bed)


async def test_what_happens_beside_the_program_is_its_reason_or_among_its_evidence(faulty: Faulty) -> None:
    service = faulty.service
    names = {"unprepared": "init_exit_7", "out-of-time": "pod_deadline"}
    failing = {name: await service.run(name) for name in names}
    succeeding = await service.run("memory-beside")
    for name, reason in names.items():
        assert_failed(await service.until_over(failing[name]), reason)
    details = await service.until_over(succeeding)
    assert_completed(details, 1)
    assert any("proxy was OOMKilled" in event for event in details.tasks[0].events)
    assert "proxy was OOMKilled" in service.crawlctl("show", str(succeeding.run_id))


async def test_a_pod_that_is_taken_away_tells_by_whom_or_that_it_was(faulty: Faulty) -> None:
    """Its pod is gone as soon as its Job has counted it; the Job remembers a little."""
    service = faulty.service
    ways = {preempt: ("preempted", "disrupted"), delete: ("disrupted",), taint: ("node_tainted", "disrupted")}
    runs = [await service.run("small") for _ in ways]
    for run, (act, reasons) in zip(runs, ways.items(), strict=True):
        await service.until(run, TaskStatus.RUNNING, 1)
        await asyncio.to_thread(act, service.bed, service.pod(run))
        assert_failed(await service.until_over(run), *reasons)
    service.bed.admin.delete(f"/api/v1/namespaces/{service.namespace}/pods/vip")


async def test_a_job_that_a_person_deletes_is_lost_and_the_others_go_on(faulty: Faulty) -> None:
    service = faulty.service
    run = await service.run("slow-books", tasks=2)
    await service.until(run, TaskStatus.RUNNING, 2)
    service.bed.admin.delete(job_of_task(service, run, 0), BACKGROUND)
    await until(service, run, lambda details: details.tasks[0].status is TaskStatus.LOST)
    assert_lost(await service.until_over(run), "deleted_externally", "job_disappeared")


async def test_the_pod_that_a_deleted_job_left_behind_is_ended(faulty: Faulty) -> None:
    service = faulty.service
    run = await service.run("obeys", tasks=2)
    await service.until(run, TaskStatus.RUNNING, 2)
    service.bed.admin.delete(job_of_task(service, run, 0), {"propagationPolicy": "Orphan"})
    left = await until(service, run, lambda details: details.tasks[0].status is not TaskStatus.RUNNING)
    assert left.tasks[0].status in (TaskStatus.STOPPING, TaskStatus.FAILED, TaskStatus.LOST)
    ended = await until(service, run, lambda details: details.tasks[0].status.is_over)
    assert ended.tasks[0].status in (TaskStatus.FAILED, TaskStatus.LOST)
    assert ended.tasks[1].status is TaskStatus.RUNNING
    assert len(service.objects("pods", run)) == 1, "only the other task's"
    await service.stop_run(run)
    assert (await service.until_over(run)).run.status is RunStatus.FAILED


async def test_what_ends_while_no_worker_is_there_is_known_as_far_as_the_cluster_tells(faulty: Faulty) -> None:
    service, admin = faulty.service, faulty.service.bed.admin
    cleaned = await service.run("long-books", tasks=2)
    late = await service.run("obeys", max_duration_seconds=30)
    for run, tasks in ((cleaned, 2), (late, 1)):
        await service.until(run, TaskStatus.RUNNING, tasks)
    service.kill("lifecycle")
    job = job_of_task(service, cleaned, 0)
    admin.merge(job, {"spec": {"ttlSecondsAfterFinished": 0}})
    (other,) = service.paths("jobs", late)
    await asyncio.to_thread(until_is_so, lambda: not admin.exists(job), "its time to live to be over")
    await asyncio.to_thread(until_is_so, lambda: condition(admin.get(other), "Failed"), "its deadline to be over")
    service.start("lifecycle")
    await until(service, cleaned, lambda details: details.tasks[0].status is TaskStatus.LOST)
    assert_lost(await service.until_over(cleaned), "job_disappeared")
    details = await service.until_over(late)
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "max_duration")
    assert (details.tasks[0].status, details.tasks[0].reason) == (TaskStatus.FAILED, "deadline_exceeded")


async def test_nodes_are_lost_and_nobody_stops_anything(faulty: Faulty, lost: Lost) -> None:
    service, bed = faulty.service, faulty.service.bed
    await until(service, lost.silent, lambda details: details.tasks[0].cause == "node_unreachable")
    assert "waits: node unreachable" in service.crawlctl("show", str(lost.silent.run_id))
    await until(service, lost.tells, lambda details: details.tasks[0].cause == "pod_terminating")
    await until(service, lost.stays, lambda details: details.run.status.is_over)
    assert_lost(await service.until_over(lost.stays), "pod_overdue")
    await reopen(service, lost.stays)
    await until(service, lost.stays, lambda details: details.tasks[0].attempt == 2 and is_running(details))
    # Kubernetes removes a deleted node's pods after 40 to 80 seconds, and not if a node with its name is back by then.
    assert_failed(await service.until_over(lost.removed, SETTLED), "node_deleted", "disrupted")
    lost.end(bed)
    details = await service.until_over(lost.tells, SETTLED)
    assert_failed(details, "node_tainted")
    assert details.tasks[0].exit_code == 0, "it had ended in order, and nobody can prove that it was not told to"
    release(bed, service.pod(lost.tells))
    await until(service, lost.silent, lambda details: is_running(details) and not details.tasks[0].cause)
    for run, attempts in ((lost.silent, 1), (lost.stays, 2)):
        await service.stop_run(run)
        details = await service.until_over(run)
        assert details.run.reason in BY_A_STOP
        assert (details.tasks[0].status, details.tasks[0].attempt) == (TaskStatus.STOPPED, attempts)


def assert_failed(details: RunDetails, *reasons: str) -> None:
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "main_job_failed")
    assert details.tasks[0].status is TaskStatus.FAILED
    assert details.tasks[0].reason in reasons


def assert_lost(details: RunDetails, *reasons: str) -> None:
    """The main job; all others succeeded."""
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "main_job_lost")
    assert details.tasks[0].status is TaskStatus.LOST
    assert details.tasks[0].reason in reasons
    assert all(task.status is TaskStatus.SUCCEEDED for task in details.tasks[1:])


async def reopen(service: Service, run: Started) -> None:
    """Its workflow may need a moment more than its last word."""
    async with asyncio.timeout(SETTLED):
        while True:
            with suppress(Conflict):
                await service.control.runs.resume(run.run_id, reopen=True)
                return
            await asyncio.sleep(0.2)


def is_running(details: RunDetails) -> bool:
    return details.tasks[0].status is TaskStatus.RUNNING


def job_of_task(service: Service, run: Started, task: int) -> str:
    return next(path for path in service.paths("jobs", run) if path.endswith(f"-{task}-1"))
