"""A run whose job ends as it should not, or is taken from it: does the database say what the cluster knows?"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crawler_lifecycle.contract.records import RunDetails
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.control.control import Started
from tests.kubernetes.bed import Bed, condition
from tests.kubernetes.client import until as until_is_so
from tests.kubernetes.faulty import Faulty
from tests.kubernetes.harm import delete, hold, preempt, release, taint
from tests.kubernetes.service import Service, assert_completed
from tests.kubernetes.touching import SETTLED, until

pytestmark = pytest.mark.timeout(600)

BACKGROUND = {"propagationPolicy": "Background"}


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
    ways = {preempt: ("preempted", "disrupted"), delete: ("sigterm",), taint: ("node_tainted", "disrupted")}
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


async def test_what_ends_while_no_worker_is_there_is_known_as_far_as_the_cluster_tells(faulty: Faulty) -> None:
    service, admin = faulty.service, faulty.service.bed.admin
    cleaned = await service.run("slow-books", tasks=2)
    late = await service.run("obeys", max_duration_seconds=20)
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


async def test_nodes_are_lost_and_nobody_stops_anything(faulty: Faulty) -> None:
    """One stays away with its pod, one comes back and tells, one is silent for a while, one is taken out for good."""
    service, bed = faulty.service, faulty.service.bed
    stays, tells, silent, removed = [
        await service.run("obeys", grace_seconds=1),
        await service.run("done-unseen", grace_seconds=600),
        await service.run("lasting", grace_seconds=1),
        await service.run("obeys", grace_seconds=600),
    ]
    nodes = {run.run_id: await node_of(service, run) for run in (stays, tells, silent, removed)}
    assert len(set(nodes.values())) == 4, "the scheduler spreads pods over nodes"
    hold(bed, service.pod(tells))
    with lost(bed, *(nodes[run.run_id] for run in (stays, tells, silent))):
        bed.admin.delete(f"/api/v1/nodes/{nodes[removed.run_id]}")
        await until(service, silent, lambda details: details.tasks[0].cause == "node_unreachable")
        assert "node_unreachable" in service.crawlctl("show", str(silent.run_id))
        await until(service, tells, lambda details: details.tasks[0].cause == "pod_terminating")
        await until(service, stays, lambda details: details.run.status.is_over)
        assert_lost(await service.until_over(stays), "pod_overdue")
        await service.control.resume(stays.run_id, reopen=True)
        await until(service, stays, lambda details: details.tasks[0].attempt == 2 and is_running(details))
    assert_failed(await service.until_over(removed, SETTLED), "node_deleted", "disrupted")
    bed.add_node(nodes[removed.run_id])
    assert_completed(await service.until_over(tells, SETTLED), 1)
    release(bed, service.pod(tells))
    await until(service, silent, lambda details: is_running(details) and not details.tasks[0].cause)
    for run in (silent, stays):
        await service.stop_run(run)
        details = await service.until_over(run)
        assert (details.run.reason, details.tasks[0].status) == ("stopped", TaskStatus.STOPPED)
    assert details.tasks[0].attempt == 2
    bed.until_ready(list(nodes.values()))


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


def is_running(details: RunDetails) -> bool:
    return details.tasks[0].status is TaskStatus.RUNNING


def job_of_task(service: Service, run: Started, task: int) -> str:
    return next(path for path in service.paths("jobs", run) if path.endswith(f"-{task}-1"))


async def node_of(service: Service, run: Started) -> str:
    await service.until(run, TaskStatus.RUNNING, 1)
    node: str = service.bed.admin.get(service.pod(run))["spec"]["nodeName"]
    return node


@contextmanager
def lost(bed: Bed, *nodes: str) -> Iterator[None]:
    for node in nodes:
        bed.lose_node(node)
    try:
        yield
    finally:
        for node in nodes:
            bed.return_node(node)
