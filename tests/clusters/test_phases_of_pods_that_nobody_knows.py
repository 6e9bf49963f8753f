"""Pods in a phase that does not exist, whose main container had ended with 0.

Such a pod counted as alive when its Job was deleted: a task that had succeeded a moment before the stop became STOPPED.
If the Job had failed because the kubelet ended a sidecar later, the task became FAILED, with the exit code 0 as reason.
"""

import pytest

from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import Look
from crawler_lifecycle.model.states import Intent, TaskStatus
from tests.kit.clusters.kube import LATER, OURS, RUN, UID, Json, Shelf, condition, deleted, ended, job, pod, running
from tests.kit.data.rows import after, row
from tests.worlds.looks import IN_TIME

pytestmark = pytest.mark.regression(
    "A pod in an unknown phase counted as alive: a task that had succeeded before a stop became STOPPED"
)

TOO_LATE = "2026-11-20T09:00:01Z"


def look(there: Json, *pods: Json) -> Look:
    return Observer(Shelf().put(jobs=[there], pods=list(pods)), OURS, IN_TIME).look(RUN, [(0, 1)])


@pytest.mark.parametrize(
    ("there", "end"),
    [
        (pod("Banana", ended(0)), TaskStatus.SUCCEEDED),
        (pod("Running", ended(0), running("proxy")), TaskStatus.SUCCEEDED),  # its main container had ended
        (pod("Running", running()), TaskStatus.STOPPED),
    ],
)
def test_what_had_succeeded_before_the_stop_is_not_stopped(there: Json, end: TaskStatus) -> None:
    leaving = look(deleted(job(active=1, ready=1), TOO_LATE), there)
    now = after(row(TaskStatus.RUNNING, UID), leaving, intent=Intent.STOP)
    assert now.status is TaskStatus.STOPPING
    complete = deleted(job(0, 1, condition("Complete", at=LATER), succeeded=1, completionTime=LATER), TOO_LATE)
    assert after(now, look(complete), intent=Intent.STOP).status is end


@pytest.mark.parametrize("phase", ["Banana", "Failed"])
def test_a_main_container_that_ended_before_its_sidecar_was_ended_has_succeeded(phase: str) -> None:
    by_kubelet = condition("DisruptionTarget", "TerminationByKubelet", at=TOO_LATE)
    there = pod(phase, ended(0), ended(137, name="proxy"), conditions=[by_kubelet], reason="Preempting")
    there["spec"]["containers"] = [{"name": "crawl"}, {"name": "proxy"}]
    failed = look(job(0, 1, condition("Failed", "PodFailurePolicy", at=TOO_LATE), failed=1), there)
    now = after(row(TaskStatus.RUNNING, UID), failed)
    assert (now.status, now.reason, now.exit_code) == (TaskStatus.SUCCEEDED, None, 0)
