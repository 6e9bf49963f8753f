"""A request that goes wrong between us and the cluster: is there one job for each task, and one end for each run?"""

import asyncio

import pytest

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.waiting import eventually
from tests.kubernetes.admission import denying
from tests.kubernetes.bed import condition
from tests.kubernetes.client import until as until_is_so
from tests.kubernetes.faulty import Faulty
from tests.kubernetes.harm import hold, release
from tests.kubernetes.service import Service, assert_completed
from tests.kubernetes.touching import SETTLED, until

pytestmark = pytest.mark.timeout(600)

FEW_AT_ONCE = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=1",
    "--max-mutating-requests-inflight=1",
)
LATE_SECONDS = 3.0


async def test_what_was_asked_for_and_not_answered_is_done_once(faulty: Faulty) -> None:
    service, proxy = faulty.service, faulty.proxy
    dropped = proxy.dropped
    proxy.drop_answer("POST", "/jobs")
    run = await service.run("obeys", grace_seconds=600)
    await service.until(run, TaskStatus.RUNNING, 1)
    assert uids(service, run) == {service.details(run).tasks[0].job_uid}
    (job,) = service.paths("jobs", run)
    proxy.drop_answer("DELETE", job)
    await service.stop_run(run)
    assert_stopped(await service.until_over(run), "stopped")
    assert proxy.dropped == dropped + 2


async def test_what_was_made_when_its_deployers_died_is_adopted(faulty: Faulty) -> None:
    """The scheduler service and the worker: nobody has written down that there is a job."""
    service, proxy = faulty.service, faulty.proxy
    proxy.delay = LATE_SECONDS
    try:
        run = await service.run("slow-books")
        await eventually(lambda: service.objects("jobs", run), patience=SETTLED)
        assert service.details(run).tasks[0].job_uid is None
        for part in ("scheduler", "lifecycle"):
            service.kill(part)
    finally:
        proxy.delay = 0.0
    made = uids(service, run)
    service.start("scheduler", "lifecycle")
    details = await service.until_over(run, SETTLED)
    assert_completed(details, 1)
    assert {details.tasks[0].job_uid} == made >= uids(service, run)


async def test_two_dispatchers_deploy_each_task_once(faulty: Faulty) -> None:
    service = faulty.service
    service.start("dispatcher-2")
    try:
        run = await service.run("books", tasks=12)
        assert_completed(await service.until_over(run), 12)
    finally:
        service.kill("dispatcher-2")
    assert uids(service, run) <= {task.job_uid for task in service.details(run).tasks}


async def test_what_the_cluster_does_not_take_is_refused_with_its_words(faulty: Faulty) -> None:
    service, message = faulty.service, "no images from there"
    with denying(service.bed, service.namespace, "denied/", message):
        denied = await service.run("denied", tasks=2)
        unacceptable = await service.run("unacceptable", tasks=2)
        ends = [await service.until_over(run) for run in (denied, unacceptable)]
    for details in ends:
        assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "deployment_refused")
        assert [task.status for task in details.tasks] == [TaskStatus.FAILED, TaskStatus.STOPPED]
    assert (ends[0].tasks[0].reason, message in str(ends[0].tasks[0].message)) == ("admission_denied", True)
    assert "spec.podReplacementPolicy" in str(ends[1].tasks[0].message)
    assert service.objects("jobs", denied) == service.objects("jobs", unacceptable) == []


@pytest.mark.parametrize("held", ["jobs", "pods"])
async def test_a_stop_is_proved_although_something_holds_what_it_ended(faulty: Faulty, held: str) -> None:
    """Nothing of it runs: over and gone are two facts. What leaves is waited for, and what does not is told."""
    service = faulty.service
    run = await service.run("obeys", grace_seconds=2)
    await service.until(run, TaskStatus.RUNNING, 1)
    (path,) = service.paths(held, run)
    hold(service.bed, path)
    await service.stop_run(run)
    waiting = await until(service, run, lambda details: details.tasks[0].status is TaskStatus.STOPPED)
    assert waiting.run.status is RunStatus.STOPPING
    service.kill("lifecycle")  # whoever goes on with it still waits, and still does not for ever
    service.start("lifecycle")
    details = await until(service, run, lambda details: details.run.status.is_over)
    assert_stopped(details, "stopped", "stopped_forced")
    assert service.bed.admin.get(path)["metadata"]["deletionTimestamp"]
    assert "still listed, ended and deleted: 1 job" in service.crawlctl("show", str(run.run_id))
    release(service.bed, path)
    await service.until_gone(run)


async def test_a_busy_api_server_sends_requests_away_and_every_task_is_done(faulty: Faulty) -> None:
    service = faulty.service
    with service.bed.api_server_with(*FEW_AT_ONCE):
        run = await service.run("books", tasks=12)
        assert_completed(await service.until_over(run, SETTLED), 12)
        refused = [line for line in service.bed.admin.text("/metrics").splitlines() if 'code="429"' in line]
    assert refused, "nothing was sent away"
    assert uids(service, run) <= {task.job_uid for task in service.details(run).tasks}


async def test_an_end_behind_half_open_connections_and_an_expired_watch_is_told_by_the_watcher(faulty: Faulty) -> None:
    service, bed, proxy = faulty.service, faulty.service.bed, faulty.proxy
    run = await service.run("slow-books")
    await service.until(run, TaskStatus.RUNNING, 1)
    (job,), nudges = service.paths("jobs", run), service.details(run).run.nudge_sent
    proxy.fall_silent()
    try:
        await asyncio.to_thread(until_is_so, lambda: condition(bed.admin.get(job), "Complete"), "the job to end")
        assert service.counts(run) == {TaskStatus.RUNNING: 1}
        service.kill("lifecycle")  # whose own look may be due as soon
        bed.compact()
        with bed.api_server_with():  # a new one, which remembers nothing that could still be followed
            proxy.cut()
            proxy.speak_again()
            await eventually(lambda: service.details(run).run.nudge_sent > nudges, patience=SETTLED)
            service.start("lifecycle")
            assert_completed(await service.until_over(run, SETTLED), 1)
    finally:
        proxy.speak_again()


def uids(service: Service, run: Started) -> set[str]:
    """Of all jobs that there are for it."""
    return {job["metadata"]["uid"] for job in service.objects("jobs", run)}


def assert_stopped(details: RunDetails, *reasons: str) -> None:
    assert details.run.status is RunStatus.FAILED
    assert details.run.reason in reasons
    assert {task.status for task in details.tasks} == {TaskStatus.STOPPED}
