"""What explains a run cannot be had: does the run wait, end and leave all the same, and say what is missing?"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.naming import job_name
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import LOG_NOT_READ
from tests.kubernetes import rights
from tests.kubernetes.admission import without_events
from tests.kubernetes.faulty import Faulty
from tests.kubernetes.harm import finish, full_quota
from tests.kubernetes.replies import Reply, refusal
from tests.kubernetes.service import Service
from tests.kubernetes.touching import SETTLED, until

pytestmark = pytest.mark.timeout(600)

STATUSES = (400, 404, 500)
ENDLESS = 0  # no status at all: the log does not end
SAID = "what it said\n"


async def test_without_events_a_run_says_less_of_why_it_waits_and_ends_when_it_is_stopped(faulty: Faulty) -> None:
    service, bed = faulty.service, faulty.service.bed
    with without_events(bed, service.namespace):
        mounting = await service.run("no-volume")
        await service.until_waiting(mounting, "container_creating")
        quota = await asyncio.to_thread(full_quota, bed, service.namespace, "pods")
        try:
            without_pod = await service.run("books", tasks=2)
            await service.until_waiting(without_pod, "pod_not_created")
            for run, cause in ((mounting, "container_creating"), (without_pod, "pod_not_created")):
                details = service.details(run)
                assert (details.run.status, details.tasks[0].status) == (RunStatus.INITIALIZING, TaskStatus.PENDING)
                assert cause in service.crawlctl("show", str(run.run_id))
                await service.stop_run(run)
            for run in (mounting, without_pod):
                assert_stopped(await service.until_over(run))
        finally:
            bed.admin.delete(quota)


async def test_events_that_may_not_be_read_are_missed_and_change_no_end(faulty: Faulty) -> None:
    service, missing = faulty.service, "its events cannot be read"
    with not_reading_events(service):
        mounting, failing = await service.run("no-volume"), await service.run("breaks")
        details = await service.until_waiting(mounting, "container_creating")
        assert missing in (details.run.waiting_message or "")
        assert missing in service.crawlctl("show", str(mounting.run_id))
        details = await service.until_over(failing)
    assert_failed(details)
    assert any(event.startswith("events not read: ") for event in details.tasks[0].events)
    await service.until_waiting(mounting, "volume")
    await service.stop_run(mounting)
    assert_stopped(await service.until_over(mounting))


@contextmanager
def not_reading_events(service: Service) -> Iterator[None]:
    rights.set_rules(service.bed.admin, "actor", service.namespace, without="events")
    try:
        yield
    finally:
        rights.set_rules(service.bed.admin, "actor", service.namespace)


async def test_an_end_is_known_without_its_log_which_is_there_once_its_node_answers(faulty: Faulty) -> None:
    service, kubelet = faulty.service, faulty.service.bed.kubelet
    runs = {status: await service.run("breaks") for status in (*STATUSES, ENDLESS)}
    for status, run in runs.items():
        withhold(service, run, status)
    for status, run in runs.items():
        await until(service, run, lambda details: details.tasks[0].status.is_over)
        details = service.details(run)
        task = details.tasks[0]
        assert (task.status, task.reason, task.exit_code, task.log_tail) == (TaskStatus.FAILED, "exit_3", 3, None)
        assert any(event.startswith(LOG_NOT_READ) for event in task.events), status
        assert LOG_NOT_READ in service.crawlctl("show", str(run.run_id))
    for status in (500, ENDLESS):
        kubelet.answer(job_of(runs[status]))
    for status, run in runs.items():
        assert_failed(await service.until_over(run, SETTLED))
        assert (SAID in service.crawlctl("logs", str(run.run_id))) == (status in (500, ENDLESS)), status


async def test_a_busy_cluster_delays_no_status_and_jobs_without_evidence_stay_for_the_audit(faulty: Faulty) -> None:
    service, bed = faulty.service, faulty.service.bed
    run = await service.run("obeys", tasks=2)
    await service.until(run, TaskStatus.RUNNING, 2)
    first, second = sorted(service.paths("pods", run))
    with faulty.proxy.answering(asked_for_evidence(run)) as given:
        finish(bed, first)
        details = await until(service, run, lambda details: TaskStatus.SUCCEEDED in details.run.tasks)
        assert given, "it was asked for"
        assert [task.node for task in details.tasks] == [None, None]
        finish(bed, second)
        details = await until(service, run, lambda details: details.run.status.is_over)
        assert (details.run.status, details.run.tasks) == (RunStatus.COMPLETED, {TaskStatus.SUCCEEDED: 2})
    await until(service, run, lambda details: details.run.export_state is ExportState.DONE, touching=False)
    assert len(service.paths("jobs", run)) == 2
    assert [task.node for task in service.details(run).tasks] == [None, None]


def asked_for_evidence(run: Started) -> Reply:
    """Looks at a run that has begun list its jobs whole."""
    return refusal(500, "InternalError", "etcdserver: request timed out", rf"GET \S*/jobs\?\S*{run.run_uid}\S*task")


async def test_a_stop_needs_no_log(faulty: Faulty) -> None:
    service = faulty.service
    runs = {status: await service.run("obeys") for status in (*STATUSES, ENDLESS)}
    for status, run in runs.items():
        withhold(service, run, status)
    for run in runs.values():
        await service.until(run, TaskStatus.RUNNING, 1)
        await service.stop_run(run)
    for run in runs.values():
        details = await service.until_over(run, SETTLED)
        assert_stopped(details)
        assert details.tasks[0].log_tail is None
        assert "stopped" in service.crawlctl("show", str(run.run_id))
    for run in runs.values():
        service.bed.kubelet.answer(job_of(run))


def withhold(service: Service, run: Started, status: int) -> None:
    """Long before its pod is there."""
    kubelet, job = service.bed.kubelet, job_of(run)
    kubelet.print(job, SAID)
    if status == ENDLESS:
        kubelet.never_end(job)
    else:
        kubelet.refuse(job, status)


def job_of(run: Started) -> str:
    return job_name(run.run_uid, 0, 1)


def assert_failed(details: RunDetails) -> None:
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "main_job_failed")
    task = details.tasks[0]
    assert (task.status, task.reason, task.exit_code) == (TaskStatus.FAILED, "exit_3", 3)


def assert_stopped(details: RunDetails) -> None:
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "stopped")
    assert {task.status for task in details.tasks} == {TaskStatus.STOPPED}
