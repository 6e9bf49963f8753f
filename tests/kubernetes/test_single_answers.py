"""An API server, or what stands in its place, answers as it should not: is nothing believed, and everything said?"""

import asyncio
from collections.abc import Mapping

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kubernetes.faulty import Faulty
from tests.kubernetes.harm import finish
from tests.kubernetes.replies import LONG, SOON, Reply, no_namespace, nothing_of, page, refusal
from tests.kubernetes.service import Service, assert_completed
from tests.kubernetes.touching import SETTLED, until_seen

pytestmark = pytest.mark.timeout(600)

REPLIES = {
    "etcdserver: request timed out": refusal(500, "InternalError", "etcdserver: request timed out"),
    "502 Bad Gateway": page(502),
    "please try again later": refusal(503, "ServiceUnavailable", "please try again later", headers=LONG),
    "Timeout: request did not complete": refusal(504, "Timeout", "Timeout: request did not complete"),
    "with a page instead of the Kubernetes API": page(200),
}
MANY = 7  # more than five, of which none may be believed to vanish at once


async def test_an_error_of_the_server_or_a_page_of_a_proxy_changes_nothing_and_is_told(faulty: Faulty) -> None:
    service = faulty.service
    running, late = await a_running(service, 2), []
    for told, reply in REPLIES.items():
        with faulty.proxy.answering(reply):
            late.append(await service.run("books", tasks=2))
            await it_is_told_and_goes_on(service, running, told, tasks=2)
            waiting = await service.until_waiting(late[-1], "cluster_unavailable")
            assert waiting.run.status is RunStatus.INITIALIZING
            assert "cluster_unavailable" in service.crawlctl("show", str(late[-1].run_id))
        await until_seen(service, running, sees_again)
    for run in late:
        assert_completed(await service.until_over(run, SETTLED), 2)
        assert_one_job_for_each_task(service, run)
    await it_completes(service, running, tasks=2)


async def test_a_busy_server_is_asked_again_when_it_says_and_what_waits_for_it_says_so(
    faulty: Faulty, real_time: WorkflowEnvironment
) -> None:
    service, proxy = faulty.service, faulty.proxy
    with proxy.answering(too_many_requests(SOON), times=2) as given:
        run = await service.run("obeys")
        await service.until(run, TaskStatus.RUNNING, 1)
    assert len(given) == 2
    assert given[1] - given[0] >= 1
    assert await deployments(real_time, run) == 1, "its third request was that of the same step"
    with proxy.answering(too_many_requests(LONG)) as given:
        late = await service.run("books", tasks=2)
        details = await service.until_waiting(late, "cluster_unavailable")
        assert details.run.status is RunStatus.INITIALIZING
        told = service.crawlctl("show", str(late.run_id))
        assert "cluster_unavailable" in told
        assert "answers 429" in told
    assert_completed(await service.until_over(late, SETTLED), 2)
    assert await deployments(real_time, late) == len(given) + 1, "nobody asks again before it was told to"
    assert_one_job_for_each_task(service, late)
    await it_completes(service, run, tasks=1)


def too_many_requests(headers: Mapping[str, str]) -> Reply:
    return refusal(429, "TooManyRequests", "too many requests", r"POST \S*/jobs\?", headers=headers)


async def deployments(temporal: WorkflowEnvironment, run: Started) -> int:
    """How often its main job was to be deployed."""
    handle = temporal.client.get_workflow_handle(run.workflow_id)
    begun = [each.activity_task_scheduled_event_attributes async for each in handle.fetch_history_events()]
    return [each.activity_type.name for each in begun].count("run_onetime_crawler")


async def test_lists_of_another_cluster_end_nothing(faulty: Faulty) -> None:
    service, proxy = faulty.service, faulty.proxy
    few, many = await a_running(service, 2), await a_running(service, MANY)
    with proxy.answering(*nothing_of(few.run_uid), *nothing_of(many.run_uid), no_namespace(service.namespace)):
        await it_is_told_and_goes_on(service, few, "is this the right cluster?", tasks=2)
        await it_is_told_and_goes_on(service, many, "is this the right cluster?", tasks=MANY)
    with proxy.answering(*nothing_of(many.run_uid)):
        for _ in range(2):
            await it_is_told_and_goes_on(service, many, f"{MANY} of {MANY} jobs vanished at once", tasks=MANY)
    for run, tasks in ((few, 2), (many, MANY)):
        await until_seen(service, run, sees_again)
        await it_completes(service, run, tasks)


async def test_a_token_that_is_changed_is_read_again_and_until_then_nothing_ends(faulty: Faulty) -> None:
    service, bed = faulty.service, faulty.service.bed
    actor, run = service.kubeconfig("actor"), await a_running(service, 2)
    before = bed.tokens[actor]
    bed.renew(actor)
    await asyncio.to_thread(bed.revoke, before)
    seen = service.details(run).run.last_look_at
    details = await until_seen(
        service, run, lambda found: bool(found.run.look_problem) or found.run.last_look_at != seen
    )
    assert (details.run.look_problem, details.run.tasks) == (None, {TaskStatus.RUNNING: 2})
    await asyncio.to_thread(bed.revoke, bed.tokens[actor])
    try:
        late = await service.run("books", tasks=2)
        await it_is_told_and_goes_on(service, run, "answers 401", tasks=2)
        waiting = await service.until_waiting(late, "cluster_forbids")
        assert waiting.run.status is RunStatus.INITIALIZING
        assert "cluster_forbids" in service.crawlctl("show", str(late.run_id))
    finally:
        bed.renew(actor)
    await until_seen(service, run, sees_again)
    assert_completed(await service.until_over(late, SETTLED), 2)
    await it_completes(service, run, tasks=2)


async def a_running(service: Service, tasks: int) -> Started:
    run = await service.run("obeys", tasks=tasks)
    await service.until(run, TaskStatus.RUNNING, tasks)
    return run


async def it_is_told_and_goes_on(service: Service, run: Started, problem: str, tasks: int) -> None:
    details = await until_seen(service, run, lambda details: problem in (details.run.look_problem or ""))
    assert (details.run.status, details.run.tasks) == (RunStatus.PROCESSING, {TaskStatus.RUNNING: tasks})
    assert problem in service.crawlctl("show", str(run.run_id))


def sees_again(details: RunDetails) -> bool:
    return details.run.look_problem is None


async def it_completes(service: Service, run: Started, tasks: int) -> None:
    for pod in service.paths("pods", run):
        finish(service.bed, pod)
    assert_completed(await service.until_over(run), tasks)
    assert_one_job_for_each_task(service, run)


def assert_one_job_for_each_task(service: Service, run: Started) -> None:
    known = {task.job_uid for task in service.details(run).tasks}
    assert {job["metadata"]["uid"] for job in service.objects("jobs", run)} <= known
