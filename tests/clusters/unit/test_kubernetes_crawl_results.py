"""On Kubernetes a crawl's account is the main container's termination message, and belongs to one job."""

import json

import msgspec
import pytest

from crawler_lifecycle.clusters.kubernetes.logs.evidence import _evidence_from_objects, _lines_about_result
from crawler_lifecycle.clusters.kubernetes.objects import Pod
from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience, Observer
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.looks import Look, TaskRow
from crawler_lifecycle.model.states import TaskStatus
from tests.kit.clusters.kube import OURS, RUN, Json, Shelf, condition, container, deleted, ended, job, pod, running
from tests.kit.data.rows import after, row

KEY = (0, 1)
ACCOUNT = json.dumps({"crawl_result": 1, "outcome": "banned", "stats": {"items": 3}})
RESULT = CrawlResult(outcome="banned", stats={"items": 3})
NOTHING = Look(complete=True)


def look(there: Json | None, *pods: Json) -> Look:
    return Observer(Shelf().put(jobs=[there] if there else [], pods=pods), OURS, JobPatience()).look(RUN, [KEY])


def result_of(task: TaskRow) -> CrawlResult | None:
    return task.facts.result if task.facts else None


def decoded(there: Json) -> Pod:
    return msgspec.convert(there, Pod)


@pytest.mark.parametrize(("code", "status"), [(0, TaskStatus.SUCCEEDED), (3, TaskStatus.FAILED)])
def test_an_account_is_written_when_first_seen_and_outlives_pod_and_job(code: int, status: TaskStatus) -> None:
    over = pod("Failed" if code else "Succeeded", ended(code, message=ACCOUNT))
    seen = after(row(), look(job(active=1), over))
    assert (seen.status, result_of(seen)) == (TaskStatus.RUNNING, RESULT)
    gone = after(seen, NOTHING, NOTHING)
    assert (gone.status, result_of(gone)) == (status, RESULT)


def test_an_account_beside_a_running_sidecar_counts() -> None:
    there = pod("Running", ended(0, message=ACCOUNT), running("sidecar"))
    assert result_of(after(row(), look(job(active=1), there))) == RESULT


def test_an_account_of_another_job_does_not_count() -> None:
    seen = after(row(), look(job(active=1), pod("Succeeded", ended(0, message=ACCOUNT), uid="another-uid")))
    assert result_of(seen) is None


def test_an_account_never_replaces_the_message_of_a_failure() -> None:
    failed = condition("Failed", "PodFailurePolicy", message="Container crawl failed with exit code 3")
    seen = look(job(0, 1, failed), pod("Failed", ended(3, message=ACCOUNT))).jobs[KEY]
    assert seen.message == "Container crawl failed with exit code 3"
    assert seen.facts
    assert (seen.facts.message, seen.facts.result) == (None, RESULT)
    logged = look(job(0, 1, failed), pod("Failed", ended(3, message="no such page"))).jobs[KEY]
    assert logged.facts
    assert (logged.message, logged.facts.message, logged.facts.result) == ("no such page", "no such page", None)


@pytest.mark.parametrize(
    ("code", "message", "is_a_problem"),
    [
        (0, ACCOUNT, False),
        (3, ACCOUNT, False),
        (0, None, False),
        (3, "Traceback (most recent call last)", False),
        (0, "all went well", True),
        (3, '{"crawl_result": 1, "stats": {"it', True),
        (0, '{"crawl_result": 2}', True),
        (0, ACCOUNT.ljust(4001), True),
    ],
)
def test_an_account_that_cannot_be_used_is_a_line_among_the_events(
    code: int, message: str | None, is_a_problem: bool
) -> None:
    lines = _lines_about_result(decoded(pod("Succeeded", ended(code, message=message))))
    assert [line.startswith("CRAWL_RESULT not used: ") for line in lines] == [True] * is_a_problem


def test_a_pod_that_runs_or_is_deleted_has_no_account_yet() -> None:
    assert _lines_about_result(decoded(pod("Running", running()))) == []
    assert _lines_about_result(decoded(deleted(pod("Pending", container())))) == []
    assert _lines_about_result(None) == []


def test_a_container_whose_status_has_no_state_gives_no_message() -> None:
    without_state = decoded(pod("Pending", {"name": "crawl", "restartCount": 0}))
    assert _evidence_from_objects(KEY, None, without_state).message is None
