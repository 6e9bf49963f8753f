"""A Job whose labels somebody edited is found by its name, and the uid on record decides whether it is ours."""

from typing import Any

import pytest

from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import JobPhase, Look
from tests.kit.clusters.kube import OURS, UID, Json, Shelf, condition, ended, job, pod, running

pytestmark = pytest.mark.regression(
    "A Job whose labels somebody had edited was not found, or taken for another task's Job"
)

KEY = (0, 1)
ON_RECORD = {KEY: UID}
RUN = "6b1f0f5e-0000-4000-8000-0000000000aa"
MANY = range(40)  # more than are read one by one without a list of names


def edited(there: Json, **labels: str) -> Json:
    metadata = there["metadata"]
    changed = {**metadata["labels"], **{f"crawler-lifecycle/{name}": value for name, value in labels.items()}}
    return {**there, "metadata": {**metadata, "labels": changed if labels else {}}}


def look(shelf: Shelf, uids: Any = ON_RECORD, watched: Any = (KEY,)) -> Look:
    return Observer(shelf, OURS).look(RUN, watched, uids=uids)


EDITS: list[dict[str, str]] = [{}, {"run-uid": "another"}, {"installation": "another"}, {"task": "1"}, {"task": "x"}]


@pytest.mark.parametrize("labels", EDITS)
def test_its_end_is_seen(labels: dict[str, str]) -> None:
    there = edited(job(0, 1, condition("Complete")), **labels)
    seen = look(Shelf().put(jobs=[there], pods=[pod("Succeeded", ended(0))]))

    assert (seen.complete, seen.problem) == (True, None)
    assert seen.jobs[KEY].phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize("labels", EDITS)
def test_its_life_is_seen(labels: dict[str, str]) -> None:
    seen = look(Shelf().put(jobs=[edited(job(active=1, ready=1), **labels)], pods=[pod("Running", running())]))

    assert seen.jobs[KEY].phase is JobPhase.RUNNING


def test_a_task_label_that_names_another_task_takes_no_jobs_place() -> None:
    both = [edited(job(0, active=1, ready=1), task="1"), job(1, 1, condition("Complete"), uid="of-1")]
    seen = look(Shelf().put(jobs=both), {KEY: UID, (1, 1): "of-1"}, [KEY, (1, 1)])

    assert seen.jobs[KEY].phase is JobPhase.RUNNING
    assert seen.jobs[1, 1].phase is JobPhase.SUCCEEDED


def test_a_job_of_another_uid_that_only_has_the_name_is_not_ours() -> None:
    seen = look(Shelf().put(jobs=[edited(job(active=1, ready=1, uid="another"))]))

    assert (seen.complete, seen.jobs) == (True, {})


def test_of_many_each_is_read_by_its_name_and_one_of_another_uid_is_not_ours() -> None:
    there = [edited(job(n, active=1, ready=1, uid=f"uid-{n}")) for n in MANY]
    uids = {(n, 1): f"uid-{n}" if n else "another" for n in MANY}
    seen = look(Shelf().put(jobs=there), uids, list(uids))

    assert seen.jobs.keys() == uids.keys() - {(0, 1)}
    assert {look.phase for look in seen.jobs.values()} == {JobPhase.RUNNING}


def test_a_job_without_labels_and_without_a_uid_on_record_is_named() -> None:
    """The answer to its request was lost: the next try of the deployment deletes it."""
    seen = look(Shelf().put(jobs=[edited(job(active=1, ready=1))]), {})

    assert seen.jobs[KEY].phase is JobPhase.UNCLEAR
    assert seen.problem is not None
    assert "without our labels" in seen.problem


def test_a_job_that_cannot_be_read_is_named() -> None:
    there = job(active=1)
    there["status"]["conditions"] = [None]
    seen = look(Shelf().put(jobs=[there]))

    assert seen.jobs[KEY].phase is JobPhase.UNCLEAR
    assert seen.problem is not None
    assert "cannot be read" in seen.problem
