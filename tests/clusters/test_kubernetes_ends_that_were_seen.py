"""Ends that a look has seen are never forgotten: tasks were STOPPED, LOST or FAILED although evidence told more."""

from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience, Observer
from crawler_lifecycle.model.looks import Look, TaskRow
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import lingering
from tests.kit.clusters.kube import (
    LATER,
    OURS,
    RUN,
    SCHEDULED,
    Json,
    Shelf,
    condition,
    deleted,
    ended,
    job,
    pod,
    running,
    waiting,
)
from tests.kit.data.rows import HALF_AN_HOUR, after, row

pytestmark = pytest.mark.regression(
    "Ends that a look had seen were forgotten: tasks were STOPPED, LOST or FAILED although evidence told more"
)

KEY = (0, 1)
AT_ONCE = JobPatience(sidecars=timedelta())
DRAINED = condition("DisruptionTarget", "EvictionByEvictionAPI")
BY_DISRUPTION = "Pod crawls/crawl-1-x has condition DisruptionTarget matching FailJob rule at index 0"


def look(there: Json | None, *pods: Json, patience: JobPatience = AT_ONCE) -> Look:
    return Observer(Shelf().put(jobs=[there] if there else [], pods=pods), OURS, patience).look(RUN, [KEY])


def told_to_end(there: Json, grace: int = 30) -> Json:
    """Return the pod as deleted just now, so that nothing is overdue."""
    seen_look = deleted(there, (datetime.now(UTC) + timedelta(seconds=grace)).isoformat())
    seen_look["metadata"]["deletionGracePeriodSeconds"] = grace
    return seen_look


DONE, FAILED = pod("Succeeded", ended(0, "Completed")), pod("Failed", ended(3, message="no such page"))
NOTHING = look(None)


@pytest.mark.parametrize("intent", Intent)
@pytest.mark.parametrize(
    ("last_pod", "status", "reason", "code"),
    [(DONE, TaskStatus.SUCCEEDED, None, 0), (FAILED, TaskStatus.FAILED, "exit_3", 3)],
)
def test_a_pod_that_was_seen_over_decides_when_all_is_gone(
    last_pod: Json, status: TaskStatus, reason: str | None, code: int, intent: Intent
) -> None:
    """63 and 47: the controller was late, and a stop or a person deleted the Job before it noticed."""
    seen = after(row(), look(job(active=1), last_pod))
    assert (seen.status, seen.exit_code) == (TaskStatus.RUNNING, code), "the exit code is written when it is seen"
    gone = after(seen, NOTHING, NOTHING, intent=intent)
    assert (gone.status, gone.reason, gone.exit_code) == (status, reason, code)
    deleted_since = deleted(job(active=1), datetime.now(UTC).isoformat())
    also_gone = after(seen, look(deleted_since, deleted(last_pod)), NOTHING, NOTHING, intent=intent)
    assert also_gone.status is status


def test_a_pod_that_a_stop_ended_is_stopped_when_all_is_gone() -> None:
    ending = told_to_end(pod("Running", running()))
    over = told_to_end(pod("Failed", ended(143)))
    seen = [look(job(terminating=1), ending), look(job(terminating=1), over), NOTHING]
    assert after(row(), *seen, intent=Intent.STOP).status is TaskStatus.STOPPED
    in_order = [look(job(terminating=1), ending), look(job(terminating=1), told_to_end(DONE)), NOTHING, NOTHING]
    assert after(row(), *in_order, intent=Intent.STOP).status is TaskStatus.STOPPED
    drained = after(row(), *in_order)
    assert (drained.status, drained.exit_code) == (TaskStatus.FAILED, 0), "half a crawl is none"


def test_facts_of_another_job_decide_nothing() -> None:
    seen = after(row(), look(job(active=1), DONE))
    other = TaskRow(0, TaskStatus.RUNNING, 1, 5, "another-uid", facts=seen.facts)
    assert after(other, NOTHING, NOTHING).status is TaskStatus.LOST


def test_facts_of_a_pod_decide_nothing_once_another_pod_runs() -> None:
    """Its Job was suspended and goes on, or its policy allows another try."""
    for again in (look(job(active=1, ready=1)), look(job(0, 1, condition("Suspended"), started=None))):
        lost = after(row(), look(job(active=1), FAILED), again, NOTHING, NOTHING)
        assert lost.status is TaskStatus.LOST


def test_who_drained_a_task_is_not_overwritten_by_the_word_of_its_job() -> None:
    """33: at the end the pod is gone, and the Job remembers only that it was disrupted."""
    ending = told_to_end(pod("Running", running(), conditions=[DRAINED]))
    failed = job(0, 1, condition("Failed", "PodFailurePolicy", message=BY_DISRUPTION))
    drained = after(row(), look(job(terminating=1), ending), look(failed))
    assert (drained.status, drained.reason) == (TaskStatus.FAILED, "drained")


@pytest.mark.parametrize(
    ("code", "status"), [(0, TaskStatus.SUCCEEDED), (3, TaskStatus.FAILED), (137, TaskStatus.FAILED)]
)
def test_a_sidecar_that_runs_on_ends_no_task_in_another_way(code: int, status: TaskStatus) -> None:
    """48: it hung until the Job's deadline, and was FAILED with exit code 0."""
    hanging = look(job(active=1), pod("Running", ended(code), running("proxy")), patience=JobPatience())
    seen = after(row(), hanging, hanging)
    assert (seen.status, seen.cause, seen.exit_code) == (TaskStatus.RUNNING, "sidecar_hanging", code)
    given_up = look(job(active=1), pod("Running", ended(code), running("proxy")))
    over = after(seen, given_up)
    assert (over.status, over.exit_code) == (status, code)
    assert lingering(given_up, [over], Intent.RUN) == [KEY], "its Job is ended then"
    deadline = look(job(0, 1, condition("Failed", "DeadlineExceeded")))
    assert after(seen, deadline).status is status
    stopped = look(deleted(job(0, 1, condition("Failed", "BackoffLimitExceeded", at=LATER))))
    assert after(seen, stopped, intent=Intent.STOP).status is status


def test_a_main_container_that_runs_is_not_given_up_for_a_sidecar_that_cannot_be_pulled() -> None:
    """N19: the kubelet calls such a pod Pending. The live crawl was deleted."""
    beside = waiting("ImagePullBackOff", "agent")
    pods = [pod("Pending", running(), beside, conditions=[SCHEDULED])]
    shown = look(job(active=1, ready=0), *pods)
    runs = after(row(TaskStatus.PENDING), shown, shown, shown)
    assert (runs.status, runs.cause) == (TaskStatus.RUNNING, "sidecar_not_started")
    assert shown.jobs[KEY].message == "container agent: ImagePullBackOff"
    done = look(job(active=1, ready=0), pod("Pending", ended(0), beside, conditions=[SCHEDULED]))
    assert after(runs, done, done).status is TaskStatus.SUCCEEDED


def test_a_sidecar_whose_status_is_listed_alone_is_not_the_main_container() -> None:
    """Its exit code was taken for the one of the program."""
    there = pod("Failed", ended(143, name="agent"), reason="Evicted")
    there["spec"]["containers"] = [{"name": "agent"}, {"name": "crawl"}]
    seen = look(job(0, 1, condition("Failed", "BackoffLimitExceeded")), there).jobs[KEY]
    assert (seen.reason, seen.exit_code) == ("evicted", None)
    assert seen.facts is not None
    assert seen.facts.exit_code is None


def test_what_never_started_is_given_up_whichever_container_is_in_the_way() -> None:
    for stuck in (
        [waiting("PodInitializing"), waiting("ImagePullBackOff", "agent")],
        [waiting("ImagePullBackOff"), running("agent")],
    ):
        seen = look(job(active=1, ready=0), pod("Pending", *stuck, conditions=[SCHEDULED]))
        failed = after(row(TaskStatus.PENDING), seen, seen, apart=HALF_AN_HOUR)
        assert (failed.status, failed.reason) == (TaskStatus.FAILED, "image_pull")


@pytest.mark.parametrize(
    "between",
    [
        look(job(started=None)),
        look(job(active=1), pod("Pending")),
        look(job(active=1), pod("Dreaming")),
        look({**job(), "status": {"conditions": 7}}),
    ],
    ids=["not synced", "pending", "unclear", "unreadable"],
)
def test_an_absence_that_was_interrupted_begins_anew(between: Look) -> None:
    """77: absent, there, absent was two times in a row."""
    assert after(row(), NOTHING, between, NOTHING).status is TaskStatus.RUNNING
    assert after(row(), NOTHING, between, NOTHING, NOTHING).status is TaskStatus.LOST


def test_a_job_whose_pod_a_person_deleted_is_disrupted() -> None:
    """The failure policy names no code of a deletion, and the Job said only that it had reached its backoff limit."""
    failed = job(0, 1, condition("Failed", "BackoffLimitExceeded"))
    ours = {**failed, "spec": {"podFailurePolicy": {"rules": []}}}
    assert look(ours).jobs[KEY].reason == "disrupted"
    assert look(failed).jobs[KEY].reason == "backoff_limit_exceeded", "a Job without the policy tells nothing"
    assert look(ours, pod("Failed", ended(137))).jobs[KEY].reason == "sigkill_unknown", "a pod tells more"
