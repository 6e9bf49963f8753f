"""What does a look at Kubernetes cost in calls, and what becomes of answers that are not as they should be?"""

from collections import Counter
from typing import Any

import pytest

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.http.decoding import JOBS, PODS, Unreadable
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import JobPhase, Look
from tests.kit.clusters.kube import (
    OURS,
    RUN,
    SCHEDULED,
    Json,
    Shelf,
    condition,
    event,
    job,
    labels,
    pod,
    running,
    waiting,
)
from tests.kit.data.rows import HALF_AN_HOUR

COMPLETE, FAILED = condition("Complete"), condition("Failed", "BackoffLimitExceeded")
WAITS: Json = {"active": 1, "ready": 0}
RUNS: Json = {"active": 1, "ready": 1}


def look(shelf: Shelf, watched: int) -> Look:
    return Observer(shelf, OURS).look(RUN, [(task, 1) for task in range(watched)])


def calls(shelf: Shelf) -> dict[str, int]:
    return dict(Counter(shelf.calls))


def many(count: int, *conditions: Json, **status: Any) -> list[Json]:
    return [job(task, 1, *conditions, uid=f"uid-{task}", **status) for task in range(count)]


def their_pods(tasks: Any, phase: str = "Running") -> list[Json]:
    return [pod(phase, running(), task=task, uid=f"uid-{task}") for task in tasks]


def being_created(count: int) -> list[Json]:
    pods = [pod("Pending", waiting("ContainerCreating"), task=task, uid=f"uid-{task}") for task in range(count)]
    for each in pods:
        each["status"]["conditions"] = [SCHEDULED]
    return pods


def test_jobs_that_speak_for_themselves_cost_one_list() -> None:
    for jobs in (many(1000, **RUNS), many(1000, started=None)):
        shelf = Shelf().put(jobs=jobs)
        assert look(shelf, 1000).complete
        assert calls(shelf) == {"jobs": 1}


def test_jobs_that_have_ended_are_asked_for_their_pods_once() -> None:
    for ended in (COMPLETE, FAILED):
        shelf = Shelf().put(jobs=many(1000, ended))
        assert look(shelf, 1000).complete
        assert calls(shelf) == {"jobs": 1, "pods": 1}
        shelf.calls.clear()
        look(shelf, 0)
        assert calls(shelf) == {"jobs": 1}, "once their end is on record"


@pytest.mark.parametrize("status", [WAITS, {"succeeded": 1, "conditions": [COMPLETE]}, RUNS])
@pytest.mark.system
def test_ten_thousand_jobs_cost_at_most_21_lists_whatever_they_do(status: Json) -> None:
    jobs = many(10_000, **status)
    shelf = Shelf().put(jobs=jobs, pods=their_pods(range(10_000)))
    seen = look(shelf, 10_000)
    assert seen.complete
    assert not any(job.phase is JobPhase.UNCLEAR for job in seen.jobs.values())
    assert len(seen.jobs) == 10_000
    assert len(shelf.calls) <= 21


@pytest.mark.system
def test_ten_thousand_jobs_cost_at_most_21_lists_also_where_events_would_say_more_or_many_are_missing() -> None:
    creating = being_created(10_000)
    events = [event("pod-of-uid-0-0", "FailedMount"), event("pod-of-uid-1-1", "FailedMount")]
    shelf = Shelf().put(jobs=many(10_000, **WAITS), pods=creating, events=events)
    seen = look(shelf, 10_000)
    assert [seen.jobs[task, 1].cause for task in (0, 1)] == ["volume", "container_creating"], (
        "the main job's come first"
    )
    assert calls(shelf) == {"jobs": 10, "pods": 10, "events": 1}
    shelf = Shelf().put(jobs=many(10_000, **WAITS)[100:], pods=creating[100:], events=events)
    seen = look(shelf, 10_000)
    assert (seen.complete, len(seen.jobs)) == (True, 9_900)
    assert calls(shelf) == {"jobs": 10, "namespace": 1, "names": 1, "pods": 10}


@pytest.mark.system
def test_pods_of_a_few_of_many_jobs_cost_one_list() -> None:
    jobs = [*many(500, **WAITS), *many(10_000, **RUNS)[500:]]
    shelf = Shelf().put(jobs=jobs, pods=their_pods(range(10_000)))
    seen = look(shelf, 10_000)
    assert calls(shelf) == {"jobs": 10, "pods": 1}
    assert Counter(job.phase for job in seen.jobs.values()) == {JobPhase.RUNNING: 10_000}


def test_what_nobody_watches_is_not_looked_at_closely() -> None:
    shelf = Shelf().put(jobs=[*many(3, **WAITS), *many(5, FAILED)[3:]])
    seen = look(shelf, 0)
    assert calls(shelf) == {"jobs": 1}
    assert [job.phase for job in seen.jobs.values()] == [JobPhase.UNCLEAR] * 3 + [JobPhase.FAILED] * 2
    assert [job.gone for job in seen.jobs.values()] == [False] * 3 + [True] * 2


def test_pods_are_asked_by_task_or_all_at_once_whichever_takes_fewer_lists() -> None:
    shelf = Shelf().put(jobs=many(1200, **WAITS), pods=their_pods(range(1200)))
    assert {job.phase for job in look(shelf, 1200).jobs.values()} == {JobPhase.RUNNING}
    assert calls(shelf) == {"jobs": 2, "pods": 2}
    few = Shelf().put(jobs=many(10, **RUNS), pods=their_pods(range(10)))
    look(few, 5000)
    assert calls(few) == {"jobs": 1, "namespace": 1, "names": 1, "pods": 1}


def test_a_look_at_some_tasks_lists_only_their_jobs() -> None:
    shelf = Shelf(page=100).put(jobs=[job(0, 2, uid="older", **RUNS), *many(1200, **RUNS)])
    seen = Observer(shelf, OURS).look(RUN, [(0, 1), (5000, 1)], tasks=[0, 3, 5000])
    assert (seen.complete, sorted(seen.jobs)) == (True, [(0, 1), (0, 2), (3, 1)])
    assert calls(shelf) == {"jobs": 1, "namespace": 1, "job": 1, "pods": 1}


def test_events_of_pods_are_asked_for_a_few_only_the_main_job_first() -> None:
    creating = being_created(50)
    volumes = [event(f"pod-of-uid-{task}-{task}", "FailedMount", "no such volume") for task in range(50)]
    shelf = Shelf().put(jobs=many(50, **WAITS), pods=creating, events=volumes)
    seen = look(shelf, 50)
    assert calls(shelf) == {"jobs": 1, "pods": 1, "events": 10}
    assert [seen.jobs[task, 1].message for task in (0, 9, 10)] == ["no such volume", "no such volume", None]


def test_events_of_many_jobs_without_pods_come_by_one_list() -> None:
    """Only the first ten could be given up in one look."""
    denied = [event(f"uid-{task}", "FailedCreate", "admission webhook denied it") for task in range(1000)]
    shelf = Shelf().put(jobs=many(1000), events=denied)
    seen = look(shelf, 1000)
    assert calls(shelf) == {"jobs": 1, "pods": 1, "events": 1}
    assert {job.cause for job in seen.jobs.values()} == {"pod_create_rejected"}
    assert {job.give_up_after for job in seen.jobs.values()} == {HALF_AN_HOUR}


def test_a_list_of_events_that_fails_leaves_the_first_few_to_single_requests() -> None:
    denied = [event(f"uid-{task}", "FailedCreate", "admission webhook denied it") for task in range(50)]
    shelf = Shelf().put(jobs=many(50), events=denied)

    def fail(call: str) -> None:
        if call == "events" and shelf.calls.count("events") == 1:
            raise ApiFailed("events: no answer", 500)

    shelf.fault = fail
    seen = look(shelf, 50)
    assert seen.complete
    assert calls(shelf) == {"jobs": 1, "pods": 1, "events": 11}
    assert Counter(job.cause for job in seen.jobs.values()) == {"pod_create_rejected": 10, "pod_not_created": 40}


def test_a_quota_is_that_of_all_jobs_without_a_pod() -> None:
    """Most of a run's tasks said that they wait for no reason."""
    jobs, creating = [*many(40, **WAITS), *many(60)[40:]], being_created(40)

    def causes(message: str, told: range) -> list[str | None]:
        events = [event(f"uid-{task}", "FailedCreate", message) for task in told]
        seen = look(Shelf().put(jobs=jobs, pods=creating, events=events), 60)
        assert {seen.jobs[task, 1].cause for task in range(40)} == {"container_creating"}
        return [seen.jobs[task, 1].cause for task in range(40, 60)]

    assert causes("exceeded quota", range(40, 60)) == ["quota"] * 20
    assert causes("exceeded quota", range(41, 60))[:2] == ["pod_not_created", "quota"], "its own events are known"
    assert causes("admission webhook denied it", range(40, 60)) == ["pod_create_rejected"] * 20


@pytest.mark.parametrize(("missing", "asked"), [(20, {"job": 20}), (21, {"names": 1})])
def test_few_missing_jobs_are_asked_by_name_and_many_by_a_list_of_names(missing: int, asked: dict[str, int]) -> None:
    shelf = Shelf()
    seen = look(shelf, missing)
    assert (seen.complete, dict(seen.jobs)) == (True, {})
    assert calls(shelf) == {"jobs": 1, "namespace": 1, "pods": 1, **asked}


@pytest.mark.parametrize("missing", [1, 30])
def test_a_missing_job_that_is_there_after_all_is_not_absent(missing: int) -> None:
    shelf = Shelf()
    shelf.hidden = [job(0, 1, **RUNS)]
    seen = look(shelf, missing)
    assert seen.jobs[0, 1].phase in (JobPhase.RUNNING, JobPhase.UNCLEAR)
    assert len(seen.jobs) == 1


def test_other_installations_and_runs_are_not_seen() -> None:
    theirs = job(0, 1, COMPLETE)
    theirs["metadata"]["labels"] = labels(installation="another")
    anothers = job(0, 1, COMPLETE)
    anothers["metadata"]["labels"] = labels(run_uid="another")
    shelf = Shelf().put(jobs=[theirs, anothers])
    assert not look(shelf, 0).jobs


BROKEN: list[Any] = [
    {**job(1), "status": "sleeping"},
    {**job(1), "status": {"active": "one"}},
    {**job(1), "status": {"startTime": "yesterday"}},
    {**job(1), "status": {"conditions": [None]}},
    {**job(1), "metadata": {"labels": labels(1), "name": None, "uid": 7}},
    {"metadata": {"labels": labels(1)}},
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_job_is_unclear_and_hides_no_other(broken: Any) -> None:
    seen = look(Shelf().put(jobs=[job(0, 1, **RUNS), broken, job(2, 1, COMPLETE)]), 3)
    assert seen.complete
    phases = [seen.jobs[task, 1].phase for task in range(3)]
    assert phases == [JobPhase.RUNNING, JobPhase.UNCLEAR, JobPhase.SUCCEEDED]


NAMELESS: list[Any] = [None, 7, [], "job", {"metadata": {"labels": {**labels(), "crawler-lifecycle/task": "first"}}}]


@pytest.mark.parametrize("nameless", NAMELESS)
def test_with_a_job_that_tells_nothing_no_job_is_absent(nameless: Any) -> None:
    seen = look(Shelf().put(jobs=[job(0, 1, **RUNS), nameless]), 2)
    assert not seen.complete
    assert list(seen.jobs) == [(0, 1)]


def test_a_broken_pod_makes_its_job_unclear_but_a_failure_stays_one() -> None:
    broken = [{**pod(task=task, uid=f"uid-{task}"), "status": []} for task in (0, 1)]
    jobs = [job(0, 1, uid="uid-0", **WAITS), job(1, 1, FAILED, uid="uid-1"), job(2, 1, uid="uid-2", **WAITS)]
    seen = look(Shelf().put(jobs=jobs, pods=[*broken, *their_pods([2])]), 3)
    assert [seen.jobs[task, 1].phase for task in range(3)] == [JobPhase.UNCLEAR, JobPhase.FAILED, JobPhase.RUNNING]
    absent = look(Shelf().put(pods=broken), 2)
    assert [job.phase for job in absent.jobs.values()] == [JobPhase.UNCLEAR] * 2
    assert not look(Shelf().put(jobs=jobs, pods=[None]), 3).complete


def test_of_two_jobs_for_one_attempt_the_one_with_the_right_name_is_meant() -> None:
    right, copy = job(0, 1, **RUNS), job(0, 1, COMPLETE, uid="copy")
    copy["metadata"]["name"] = "copy"
    for jobs in ([right, copy], [copy, right]):
        assert look(Shelf().put(jobs=jobs), 1).jobs[0, 1].phase is JobPhase.RUNNING
    other = {**copy, "metadata": {**copy["metadata"], "name": "other"}}
    assert look(Shelf().put(jobs=[copy, other]), 1).jobs[0, 1].phase is JobPhase.UNCLEAR


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"<html>", b"\xff", b"null", b'{"kind":"Status"}', b'{"kind":"PodList","items":[]}',
     b'{"kind":"JobList"}', b'{"kind":"JobList","items":{}}', b'{"kind":"JobList","items":[' , b"[" * 100_000],
)  # fmt: skip
def test_an_answer_that_is_no_list_of_jobs_is_not_an_empty_one(body: bytes) -> None:
    with pytest.raises(Unreadable):
        JOBS.page(body)


def test_an_item_that_is_too_deep_to_read_makes_the_look_incomplete() -> None:
    deep = b'{"metadata":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    with pytest.raises(Unreadable):
        JOBS.page(b'{"kind":"JobList","items":[' + deep + b"]}")


def test_null_lists_are_empty_and_null_fields_unknown() -> None:
    assert JOBS.page(b'{"kind":"JobList","items":null}').whole == []
    nulls = b'{"metadata":{"name":"a","uid":"u","labels":null},"spec":null,"status":{"phase":null,"conditions":null}}'
    assert PODS.page(b'{"kind":"PodList","items":[' + nulls + b"]}").broken == []


def named(obj: Json, name: str, **changed: str) -> Json:
    changed_labels = {f"crawler-lifecycle/{label}": text for label, text in changed.items()}
    metadata = {**obj["metadata"], "name": name, "labels": {**obj["metadata"]["labels"], **changed_labels}}
    return {**obj, "metadata": metadata}


def test_a_job_with_our_labels_that_the_run_has_not_made_is_named() -> None:
    """A stop of the run waits for it, and nothing said for what."""
    copy = named(job(uid="copy", **RUNS), "debug-crawl", task="77")
    seen = look(Shelf().put(jobs=[*many(1, **RUNS), copy]), 1)
    assert (seen.complete, set(seen.jobs)) == (True, {(0, 1), (77, 1)})
    assert "job debug-crawl has the labels of this run (task 77, attempt 1)" in (seen.problem or "")
    ended = named(job(0, 1, FAILED, uid="copy"), "debug-crawl", task="77")
    assert look(Shelf().put(jobs=[*many(1, **RUNS), ended]), 1).problem is None


@pytest.mark.parametrize("is_first", [True, False])
def test_a_copy_of_a_job_is_told_and_the_job_itself_counts(*, is_first: bool) -> None:
    ours, copy = many(1, **RUNS), named(job(0, 1, FAILED, uid="copy"), "debug-crawl")
    seen = look(Shelf().put(jobs=[copy, *ours] if is_first else [*ours, copy]), 1)
    assert (seen.complete, seen.jobs[0, 1].phase) == (True, JobPhase.RUNNING)
    assert "debug-crawl" in (seen.problem or "")
    assert "both claim task 0, attempt 1: delete the copy" in (seen.problem or "")


def test_a_job_that_is_listed_twice_is_no_copy() -> None:
    seen = look(Shelf().put(jobs=many(1, **RUNS) * 2), 1)
    assert (seen.complete, seen.problem, seen.jobs[0, 1].phase) == (True, None, JobPhase.RUNNING)


def test_two_pods_of_a_job_that_may_run_at_once_are_told() -> None:
    """The Job of another service, or a changed one, starts a pod while the earlier pod is still ending."""
    seen = look(Shelf().put(jobs=many(1, **RUNS, terminating=1)), 1)
    assert (seen.complete, seen.jobs[0, 1].phase, seen.jobs[0, 1].cause) == (True, JobPhase.RUNNING, None)
    assert "has 2 pods that may run at once" in (seen.problem or "")
    for counts in ({"active": 0, "terminating": 1}, {"active": 1, "ready": 1, "terminating": 0}):
        assert look(Shelf().put(jobs=many(1, **counts)), 1).problem is None


def test_a_pod_that_has_left_its_job_is_told_where_the_pods_are_read() -> None:
    own = pod("Pending", waiting("ContainerCreating"), uid="uid-0")
    own["status"]["conditions"] = [SCHEDULED]
    released = pod("Running", running(), uid="uid-0")
    released["metadata"] |= {"name": "left", "uid": "left", "ownerReferences": [], "labels": labels()}
    seen = look(Shelf().put(jobs=many(1, **WAITS), pods=[own, released]), 1)
    assert (seen.complete, seen.jobs[0, 1].cause) == (True, "container_creating")
    assert "further pods run without a job: left" in (seen.problem or "")
    released["status"]["phase"] = "Failed"
    assert look(Shelf().put(jobs=many(1, **WAITS), pods=[own, released]), 1).problem is None
