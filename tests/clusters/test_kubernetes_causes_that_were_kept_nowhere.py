"""Causes, messages and limits of waiting jobs, and the clocks that ages are read from."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from crawler_lifecycle.clusters.kubernetes.http.decoding import JOBS, PODS
from crawler_lifecycle.clusters.kubernetes.observe.failure import message
from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience, Observer
from crawler_lifecycle.model.looks import Look, TaskRow
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import overdue, saturation, verdict
from tests.kit.clusters.kube import (
    OURS,
    RUN,
    SCHEDULED,
    UID,
    Json,
    Shelf,
    condition,
    deleted,
    ended,
    event,
    job,
    pod,
    running,
    waiting,
)
from tests.kit.data.rows import HALF_AN_HOUR, NOW, after, row

pytestmark = pytest.mark.regression(
    "Causes and messages of waiting jobs were lost, and ages were read from the wrong clock"
)

KEY = (0, 1)
NO_ACCOUNT = 'Error creating: pods "x" is forbidden: error looking up service account crawls/crawls: not found'
PATIENT = JobPatience(no_progress=timedelta(days=10_000))


def look(there: Json, *pods: Json, events: tuple[Json, ...] = (), patience: JobPatience = PATIENT) -> Look:
    return Observer(Shelf().put(jobs=[there], pods=pods, events=events), OURS, patience).look(RUN, [KEY])


def pending() -> TaskRow:
    return row(TaskStatus.PENDING)


def test_pods_that_are_rejected_for_ever_end_the_task_with_the_message() -> None:
    """13: such a task waited until the deadline of its Job, 30 days, and its message was in no row."""
    rejected = (event(UID, "FailedCreate", NO_ACCOUNT),)
    first = verdict(pending(), look(job(), events=rejected), Intent.RUN, NOW)
    assert first
    assert (first.status, first.cause, first.message) == (TaskStatus.PENDING, "pod_create_rejected", NO_ACCOUNT)
    late = look(job(), events=rejected, patience=JobPatience())
    waits = after(pending(), late)
    assert waits.status is TaskStatus.PENDING, "no first look ends it"
    assert after(waits, late).status is TaskStatus.PENDING, "its patience begins with the first rejection"
    last = verdict(waits, late, Intent.RUN, NOW + HALF_AN_HOUR)
    assert last
    assert (last.status, last.reason, last.message) == (TaskStatus.FAILED, "pod_create_rejected", NO_ACCOUNT)


@pytest.mark.parametrize(
    "said",
    [
        "exceeded quota: compute",
        "status unknown for quota: compute, resources: pods",
        'Operation cannot be fulfilled on resourcequotas "compute": the object has been modified',
    ],
)
def test_a_quota_is_a_quota_in_whichever_words(said: str) -> None:
    seen_look = look(job(), events=(event(UID, "FailedCreate", said),), patience=JobPatience())
    assert (seen_look.jobs[KEY].cause, seen_look.jobs[KEY].give_up_after) == ("quota", None)


@pytest.mark.parametrize("needed_by", ["crawl", "init"])
def test_an_image_name_that_is_none_fails_at_once(needed_by: str) -> None:
    """20: it waited for half an hour."""
    invalid = waiting("InvalidImageName", needed_by, "couldn't parse image name")
    more: Json = {"initContainerStatuses": [invalid]} if needed_by == "init" else {}
    containers = [waiting("PodInitializing")] if needed_by == "init" else [invalid]
    there = look(job(active=1, ready=0), pod("Pending", *containers, conditions=[SCHEDULED], **more))
    failed = verdict(pending(), there, Intent.RUN, NOW)
    assert failed
    assert (failed.status, failed.reason) == (TaskStatus.FAILED, "invalid_image_name")
    assert failed.message == "couldn't parse image name"


def test_an_image_name_that_is_none_of_a_sidecar_ends_no_task_that_may_start() -> None:
    stuck = pod("Pending", waiting("ContainerCreating"), waiting("InvalidImageName", "agent"), conditions=[SCHEDULED])
    assert after(pending(), look(job(active=1, ready=0), stuck)).status is TaskStatus.PENDING


@pytest.mark.parametrize("said", ["401 Unauthorized", "x" * 300_000])
def test_the_words_of_the_kubelet_are_kept_with_the_task(said: str) -> None:
    stuck = pod("Pending", waiting("ImagePullBackOff", message=said), conditions=[SCHEDULED])
    seen = look(job(active=1, ready=0), stuck, patience=JobPatience())
    for change in (
        verdict(pending(), seen, Intent.RUN, NOW),
        verdict(after(pending(), seen), seen, Intent.RUN, NOW + HALF_AN_HOUR),
    ):
        assert change
        assert change.message == said[:300]


def test_a_cause_outlives_the_event_that_told_it() -> None:
    """82: since when it waits, and whether the cluster is full, began anew."""
    quota = look(job(), events=(event(UID, "FailedCreate", "exceeded quota: compute"),))
    assert after(pending(), quota, look(job())).cause == "quota"
    stuck = pod("Pending", waiting("ContainerCreating"), conditions=[SCHEDULED])
    volume = look(job(active=1), stuck, events=(event(stuck["metadata"]["uid"], "FailedMount"),))
    assert after(pending(), volume, look(job(active=1), stuck)).cause == "volume"
    assert after(pending(), quota, look(job(active=1), stuck)).cause == "container_creating"


def test_a_task_that_was_preempted_says_what_its_new_pod_waits_for() -> None:
    """Kueue: it said `suspended` until it ran again."""
    suspended = look(job(0, 1, condition("Suspended"), started=None))
    no_room = pod("Pending", conditions=[condition("PodScheduled", "Unschedulable", "False")])
    no_image = pod("Pending", waiting("ErrImagePull"), conditions=[SCHEDULED])
    waits = after(row(), suspended, look(job(active=1), no_room))
    assert (waits.status, waits.cause) == (TaskStatus.RUNNING, "unschedulable")
    assert saturation([waits], Look(complete=True), NOW + timedelta(minutes=6)) == "unschedulable"
    assert after(waits, look(job(active=1), no_image)).cause == "image_pull"
    assert after(waits, look(job(active=1, ready=1))).cause is None


def test_a_pod_that_replaces_a_failed_pod_says_what_it_waits_for() -> None:
    """N3: the task would say `backoff` until the new pod runs."""
    backoff = look(job(active=0, failed=1), pod("Failed", ended(3)))
    no_room = pod("Pending", conditions=[condition("PodScheduled", "Unschedulable", "False")])
    assert after(row(), backoff).cause == "backoff"
    assert after(row(), backoff, look(job(active=1, failed=1), no_room)).cause == "unschedulable"


@pytest.mark.parametrize(
    "reason",
    [
        "NodePorts",
        "TaintToleration",
        "VolumeAttachmentLimitExceeded",
        "SysctlForbidden",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
    ],
)
def test_every_rejection_by_a_kubelet_is_a_rejection_by_a_node(reason: str) -> None:
    failed = job(0, 1, condition("Failed", "BackoffLimitExceeded"))
    assert look(failed, pod("Failed", reason=reason, containerStatuses=None)).jobs[KEY].reason == "node_rejected"


def test_ages_are_counted_by_the_clock_of_the_api_server() -> None:
    """79: our clock was an hour ahead. A pod was given up 5 seconds after it was scheduled, and another one killed."""
    lately = (datetime.now(UTC) - timedelta(hours=1, seconds=5)).isoformat()
    shelf = Shelf()
    shelf.clock.set((datetime.now(UTC) - timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S GMT"))
    stuck = pod("Pending", waiting("ErrImagePull"), conditions=[condition("PodScheduled", at=lately)])
    shelf.put(jobs=[job(active=1)], pods=[stuck])
    assert Observer(shelf, OURS).look(RUN, [KEY]).jobs[KEY].give_up_after is None
    told_to_end = deleted(pod("Running", running()), lately)
    shelf.put(jobs=[job(terminating=1)], pods=[told_to_end])
    assert not Observer(shelf, OURS).look(RUN, [KEY]).jobs[KEY].overdue


def test_no_first_look_kills_what_is_overdue() -> None:
    long_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    late = look(job(terminating=1), deleted(pod("Running", running()), long_ago))
    assert overdue(late, [row()]) == []
    assert overdue(late, [after(row(), late)]) == [KEY]
    assert overdue(late, []) == [KEY], "a job without a row has no other look to wait for"


ABSURD = ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1969-07-20T20:17:40Z", "2200-01-01T00:00:00Z"]


@pytest.mark.parametrize("time", ABSURD)
def test_an_absurd_time_of_one_object_hides_no_other(time: str) -> None:
    """A single one raised an OverflowError, and no task of its run changed any more."""
    for absurd in (deleted(job(1, 1, active=1), time), {**job(1, 1), "status": {"startTime": time}}):
        shelf = Shelf().put(jobs=[absurd, job(0, 1, condition("Complete"))])
        seen_look = Observer(shelf, OURS).look(RUN, [KEY, (1, 1)])
        assert after(row(), seen_look).status is TaskStatus.SUCCEEDED
    assert JOBS.item(msgspec.json.encode(deleted(job(), time))).metadata.deletion_timestamp is None


@pytest.mark.parametrize("seconds", [10**11, -1, 10**30])
def test_an_absurd_grace_is_unknown(seconds: int) -> None:
    told_to_end = deleted(pod("Running", running()))
    told_to_end["metadata"]["deletionGracePeriodSeconds"] = seconds
    seen_look = look(job(terminating=1), told_to_end)
    assert seen_look.jobs[KEY].cause in ("pod_terminating", "pod_overdue")
    template = {"template": {"spec": {"terminationGracePeriodSeconds": seconds}}}
    assert look({**deleted(job(terminating=1)), "spec": template}).jobs[KEY].due_at


def test_half_a_letter_in_one_pod_hides_no_other() -> None:
    """A lone surrogate made the whole list unreadable."""
    text = msgspec.json.encode({"kind": "PodList", "items": [pod("Failed", ended(3, message="HALF")), pod("Running")]})
    page = PODS.page(text.replace(b"HALF", b"\\ud83d\\ude00 \\ud800 \\\\ud800"))
    assert (len(page.whole), page.broken) == (2, [])
    assert message(None, page.whole[0]) == "\U0001f600 \ufffd \\ud800"
