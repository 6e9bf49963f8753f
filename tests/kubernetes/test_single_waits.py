"""A run whose job waits: does it say why, show in each list that the cluster is full, and go on or end as it should?"""

import asyncio
import re
from contextlib import closing
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import update
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly import checks
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.rules import verdict
from crawler_lifecycle.runs.rules.limits import HELD, RELEASED
from tests.kubernetes.faulty import Faulty
from tests.kubernetes.harm import full_quota
from tests.kubernetes.service import Service, assert_completed
from tests.kubernetes.touching import SETTLED, touch, until

pytestmark = pytest.mark.timeout(600)

CAUSES = {
    "no-image": "image_pull",
    "no-config": "container_config",
    "no-volume": "volume",
    "no-sandbox": "pod_sandbox",
    "gated": "scheduling_gated",
    "suspended": "suspended",
    "huge": "unschedulable",
    "misspelt": "pod_create_rejected",
}
START_LIMIT_SECONDS = 40


async def test_a_run_says_what_it_waits_for_and_goes_on_or_ends(faulty: Faulty, real_time: WorkflowEnvironment) -> None:
    service, runs = faulty.service, {}
    for name in CAUSES:
        limits = {"start_limit_seconds": START_LIMIT_SECONDS} if name in ("no-volume", "suspended") else {}
        runs[name] = await service.run(name, **limits)
    waiting = await asyncio.gather(*(service.until_waiting(runs[name], cause) for name, cause in CAUSES.items()))
    assert {details.run.status for details in waiting} == {RunStatus.INITIALIZING}
    for name, cause in CAUSES.items():
        assert cause in service.crawlctl("show", str(runs[name].run_id))
    doctor_names_the_missing_image(service, runs["no-image"])

    service.bed.admin.merge(service.pod(runs["gated"]), {"spec": {"schedulingGates": None}})
    assert_completed(await service.until_over(runs["gated"]), 1)

    for name in ("no-image", "no-config", "misspelt"):
        details = await service.until_over(runs[name])
        task = details.tasks[0]
        assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "main_job_failed")
        assert (task.status, task.reason) == (TaskStatus.FAILED, CAUSES[name])

    details = await service.until_over(runs["no-volume"])
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "never_started")
    assert details.tasks[0].status is TaskStatus.STOPPED

    assert service.details(runs["suspended"]).run.status is RunStatus.INITIALIZING, "its limit stands still"
    service.bed.admin.merge(job_of(service, runs["suspended"]), {"spec": {"suspend": False}})
    details = await service.until_over(runs["suspended"])
    assert_completed(details, 1)
    assert {HELD, RELEASED} <= {each.event for each in details.log}

    await service.stop_run(runs["no-sandbox"])
    details = await service.until_over(runs["no-sandbox"])
    assert (details.run.reason, details.tasks[0].status) == ("stopped", TaskStatus.STOPPED)

    await it_is_seen_by_everybody_that_the_cluster_is_full(faulty, real_time, runs["huge"])


def doctor_names_the_missing_image(service: Service, run: Started) -> None:
    let_time_pass(service, run, verdict.OBSTACLE_PATIENCE)
    with closing(Database(service.database_url, pool_size=2)) as database:
        (line,) = checks._waiting("with a job that cannot start", SqlStore(database).records.obstructed(9))
    assert f"The first, run {run.run_id} of crawler no-image: image_pull: " in line
    assert "not found" in line


async def it_is_seen_by_everybody_that_the_cluster_is_full(
    faulty: Faulty, real_time: WorkflowEnvironment, run: Started
) -> None:
    """On the run, in Temporal's lists and where the worker is measured; and no more once it is over."""
    service = faulty.service
    assert not await is_listed_as_full(real_time, run)
    let_time_pass(service, run, verdict.PATIENCE)
    counted = re.compile(r'^crawler_saturated_looks\{[^}]*cause="unschedulable"', re.MULTILINE)

    async def seen() -> bool:
        touch(service, run)
        await asyncio.sleep(0.5)
        is_counted = counted.search(httpx.get(faulty.metrics, trust_env=False).text)
        return bool(is_counted) and await is_listed_as_full(real_time, run)

    async with asyncio.timeout(SETTLED):
        while not await seen():
            pass
    assert "unschedulable: no node takes its pods: " in service.crawlctl("show", str(run.run_id))
    await service.stop_run(run)
    details = await service.until_over(run)
    assert (details.run.status, details.run.reason, details.run.waiting_cause) == (RunStatus.FAILED, "stopped", None)
    async with asyncio.timeout(SETTLED):
        while await is_listed_as_full(real_time, run):
            await asyncio.sleep(0.2)


def let_time_pass(service: Service, run: Started, time: timedelta) -> None:
    """It has waited for that much longer."""
    chosen = update(histories).where(histories.c.id == run.run_id)
    since = service.summary(run).waiting_since
    assert since
    database = Database(service.database_url, pool_size=2)
    with database.transaction() as connection:
        connection.execute(chosen.values(waiting_since=since - time))
    database.close()


async def is_listed_as_full(temporal: WorkflowEnvironment, run: Started) -> bool:
    query = f'CrawlSaturated = "unschedulable" AND CrawlRunId = {run.run_id}'
    return (await temporal.client.count_workflows(query)).count > 0


async def test_a_priority_class_that_is_not_there_is_told_while_the_run_waits(faulty: Faulty) -> None:
    service, words = faulty.service, "no PriorityClass with name nowhere was found"
    run = await service.run("unranked")
    waiting = await until(service, run, lambda details: words in str(details.run.waiting_message))
    assert (waiting.run.status, waiting.run.waiting_cause) == (RunStatus.INITIALIZING, "pod_create_rejected")
    assert words in service.crawlctl("show", str(run.run_id))
    await service.stop_run(run)
    details = await service.until_over(run)
    assert (details.run.reason, details.tasks[0].status) == ("stopped", TaskStatus.STOPPED)


async def test_quotas_of_pods_and_of_jobs_are_waited_for(faulty: Faulty) -> None:
    service, bed = faulty.service, faulty.service.bed
    address = await asyncio.to_thread(full_quota, bed, service.namespace, "pods")
    without_pod = await service.run("books", tasks=2)
    await service.until_waiting(without_pod, "quota")
    assert len(service.objects("jobs", without_pod)) == 1
    assert "exceeded quota" in service.crawlctl("show", str(without_pod.run_id))
    other = await asyncio.to_thread(full_quota, bed, service.namespace, "count/jobs.batch")
    without_job = await service.run("books", tasks=2)
    details = await service.until_waiting(without_job, "quota")
    assert service.objects("jobs", without_job) == []
    assert details.run.status is RunStatus.INITIALIZING
    for each in (address, other):
        bed.admin.delete(each)
    for run in (without_pod, without_job):
        assert_completed(await service.until_over(run, SETTLED), 2)


async def test_a_run_that_is_suspended_in_the_middle_goes_on_afterwards(faulty: Faulty) -> None:
    """As a queue takes the room of a job back for a while."""
    service = faulty.service
    run = await service.run("obeys", grace_seconds=600)
    await service.until(run, TaskStatus.RUNNING, 1)
    job = job_of(service, run)
    service.bed.admin.merge(job, {"spec": {"suspend": True}})
    details = await until(service, run, lambda details: details.tasks[0].cause == "suspended")
    assert (details.run.status, details.tasks[0].status) == (RunStatus.PROCESSING, TaskStatus.RUNNING)
    assert "suspended" in service.crawlctl("show", str(run.run_id))
    service.bed.admin.merge(job, {"spec": {"suspend": False}})
    await until(service, run, is_running_without_a_cause)
    await service.stop_run(run)
    details = await service.until_over(run)
    assert (details.run.reason, details.tasks[0].status) == ("stopped", TaskStatus.STOPPED)


def is_running_without_a_cause(details: RunDetails) -> bool:
    return (details.tasks[0].status, details.tasks[0].cause) == (TaskStatus.RUNNING, None)


def job_of(service: Service, run: Started) -> str:
    (path,) = service.paths("jobs", run)
    return path
