"""A Job that is being deleted still holds its name: a deployment waits for it, and no look takes it for the new one."""

from datetime import UTC, datetime

import pytest

from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import TaskRow
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.verdict import verdict
from tests.kit.clusters.kube import OURS, RUN, UID, Shelf, deleted, job, pod, running

pytestmark = pytest.mark.regression("A Job that was being deleted, and still held its name, was taken for the new Job")


def after_a_look(intent: Intent, uid: str | None = None) -> TaskChange | None:
    """The change of a task whose Job is being deleted, while its pod runs."""
    row = TaskRow(0, TaskStatus.DEPLOYING, attempt=1, version=1, job_uid=uid)
    there = Shelf().put(jobs=[deleted(job(active=1, ready=1))], pods=[pod("Running", running())])
    return verdict(row, Observer(there, OURS).look(RUN, [(0, 1)]), intent, datetime.now(UTC))


def test_it_is_not_taken_for_the_new_one() -> None:
    assert after_a_look(Intent.RUN) is None


@pytest.mark.parametrize("intent", [Intent.STOP, Intent.FORCE])
def test_a_stop_waits_until_it_is_gone(intent: Intent) -> None:
    change = after_a_look(intent)

    assert change is not None
    assert (change.status, change.job_uid) == (TaskStatus.STOPPING, UID)


def test_the_one_on_record_is_seen_ending() -> None:
    change = after_a_look(Intent.RUN, UID)

    assert change is not None
    assert change.status is TaskStatus.STOPPING
