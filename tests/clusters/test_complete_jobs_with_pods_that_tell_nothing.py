"""A complete Job is no proof that its program was done: its pod may have been told to end and not show how it ended.

Such a task was SUCCEEDED by what else was known, and half a crawl was announced as a whole one.
"""

from typing import Any

import pytest

from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import JobPhase, Look, TaskRow
from crawler_lifecycle.model.states import Intent, TaskStatus
from tests.kit.clusters.kube import LATER, OURS, RUN, Json, Shelf, condition, deleted, ended, job, pod
from tests.kit.data.rows import after, row

pytestmark = pytest.mark.regression("A task whose pod did not show its end was SUCCEEDED because its Job was complete")

KEY = (0, 1)
COMPLETE = job(0, 1, condition("Complete", at=LATER), succeeded=1, completionTime=LATER)
BY_KUBELET = condition("DisruptionTarget", "TerminationByKubelet")
PARTS: list[tuple[str, Any]] = [
    ("containerStatuses", 7),
    ("containerStatuses", [{"name": "crawl", "state": {"terminated": {"exitCode": "0"}}}]),
    ("conditions", "banana"),
    ("phase", 7),
]


def look(*pods: Json, there: Json | None = COMPLETE) -> Look:
    return Observer(Shelf().put(jobs=[there] if there else [], pods=pods), OURS).look(RUN, [KEY])


def deleted_at_its_end(there: Json, grace: int | None = 0) -> Json:
    """Return the pod as deleted in the second of its end. A node that has cleaned up leaves no grace."""
    there = deleted(there, LATER)
    there["metadata"]["deletionGracePeriodSeconds"] = grace
    return there


def with_status(there: Json, **status: Any) -> Json:
    return {**there, "status": {**there["status"], **status}}


@pytest.mark.parametrize(("part", "nonsense"), PARTS)
def test_a_complete_job_with_a_broken_pod_is_unclear_until_the_pod_is_gone(part: str, nonsense: object) -> None:
    broken = with_status(deleted_at_its_end(pod("Succeeded", ended(0))), **{part: nonsense})
    seen = look(broken)
    assert seen.jobs[KEY].phase is JobPhase.UNCLEAR
    assert "cannot be read" in (seen.problem or ""), "a person learns which pod is in the way"
    before = row()
    assert after(before, seen, look(broken)) == before
    assert after(before, seen, look()).status is TaskStatus.SUCCEEDED, "the pod that could tell more is gone"


def test_two_broken_pods_are_as_unclear_as_a_single_pod() -> None:
    broken = with_status(deleted_at_its_end(pod("Succeeded", ended(0))), containerStatuses=7)
    twin = {**broken, "metadata": {**broken["metadata"], "name": "twin", "uid": "twin"}}
    for pods in ([broken, twin], [twin, pod("Succeeded", ended(0)), broken]):
        [seen] = look(*pods).jobs.values()
        assert (seen.phase, seen.gone) == (JobPhase.UNCLEAR, True)


def test_an_end_on_record_outlives_a_pod_that_breaks() -> None:
    over = pod("Succeeded", ended(0))
    seen = after(row(), look(over, there=job(active=1)))
    assert seen.facts is not None
    done = after(seen, look(with_status(deleted_at_its_end(over), containerStatuses=7)), look())
    assert (done.status, done.exit_code) == (TaskStatus.SUCCEEDED, 0)


def test_a_stop_is_not_kept_waiting_by_a_broken_pod_and_its_job_is_removed() -> None:
    broken = with_status(deleted_at_its_end(pod("Succeeded", ended(0))), containerStatuses=7)
    seen = look(broken)
    assert (seen.jobs[KEY].gone, seen.jobs[KEY].removable) == (True, True), "the Job proves that nothing of it runs"
    assert after(row(), seen, intent=Intent.STOP).status is TaskStatus.STOPPED


@pytest.mark.parametrize("intent", Intent)
@pytest.mark.parametrize("statuses", [None, [], [ended(143, name="proxy")], [ended(None)]])
def test_a_pod_without_its_main_containers_end_does_not_leave_the_order_to_the_row(
    statuses: list[Json] | None, intent: Intent
) -> None:
    remaining = with_status(deleted_at_its_end(pod("Succeeded")), containerStatuses=statuses)
    remaining["spec"]["containers"] = [{"name": "crawl"}, {"name": "proxy"}]
    over = after(row(), look(remaining), intent=intent)
    assert over.status is (TaskStatus.FAILED if intent is Intent.RUN else TaskStatus.STOPPED)
    assert over.exit_code == 0
    gone = after(row(), look(remaining), look(), intent=intent)
    assert gone.status is over.status


def test_who_told_it_is_said_and_that_the_order_is_not_known() -> None:
    drained = condition("DisruptionTarget", "EvictionByEvictionAPI")
    remaining = with_status(deleted_at_its_end(pod("Succeeded")), containerStatuses=None, conditions=[drained])
    over = after(row(), look(remaining))
    assert (over.status, over.reason, over.exit_code) == (TaskStatus.FAILED, "drained", 0)
    assert over.facts is not None
    assert (over.facts.has_ended, over.facts.told_to_end) == (True, None)


@pytest.mark.parametrize("at", [LATER, None, "9999-12-31T23:59:59Z"])
def test_a_pod_that_its_kubelet_ended_was_told_unless_two_dates_say_otherwise(at: str | None) -> None:
    """A kubelet deletes no pod: without its date, the pod looked as if nobody had told it."""
    by_kubelet = {**BY_KUBELET, "lastTransitionTime": at}
    for remaining in (pod("Succeeded", ended(0)), with_status(pod("Succeeded"), containerStatuses=None)):
        over = after(row(), look(with_status(remaining, conditions=[by_kubelet])))
        assert (over.status, over.reason) == (TaskStatus.FAILED, "evicted")


@pytest.mark.parametrize("phase", ["Unknown", "Dreaming", None])
def test_a_pod_in_an_unknown_phase_that_was_told_is_not_done(phase: str | None) -> None:
    assert after(row(), look(deleted_at_its_end(pod(phase, ended(0))))).status is TaskStatus.FAILED


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [pod("Succeeded", ended(0))],
        [with_status(pod("Succeeded"), containerStatuses=None)],
        [pod("Unknown", ended(0))],
    ],
    ids=["no pod", "not told", "not told, without a status", "not told, in no phase"],
)
def test_a_complete_job_of_which_no_pod_was_told_succeeds(pods: list[Json]) -> None:
    over: TaskRow = after(row(), look(*pods))
    assert (over.status, over.exit_code) == (TaskStatus.SUCCEEDED, 0)
