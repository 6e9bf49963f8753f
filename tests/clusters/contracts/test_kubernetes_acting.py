"""Jobs are made, ended and removed exactly once, whatever becomes of the answers; only ours are touched."""

import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from crawler_lifecycle.clusters.kubernetes.act import removal
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings, job_of
from crawler_lifecycle.clusters.kubernetes.act.removal import Removing
from crawler_lifecycle.clusters.kubernetes.act.stopping import JobStopping
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.http.decoding import PODS
from crawler_lifecycle.clusters.kubernetes.logs import evidence, store
from crawler_lifecycle.clusters.kubernetes.logs.evidence import Collecting
from crawler_lifecycle.clusters.kubernetes.logs.files import SHORTEST_MIRRORED, Mirrors
from crawler_lifecycle.clusters.kubernetes.logs.follower import Listening
from crawler_lifecycle.clusters.kubernetes.logs.store import Logs
from crawler_lifecycle.clusters.kubernetes.observe.failure import DELETION_EXIT_CODES
from crawler_lifecycle.clusters.kubernetes.observe.jobs import Jobs
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.errors import BadInput, Conflict, NotReady, Refused, TemporaryError
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase
from crawler_lifecycle.model.reasons import JOB_CHANGED, JOB_LEAVING, LABELS_REMOVED
from tests.clusters.acting import CRAWLER, Acting, ended_with, warn
from tests.kit.clusters.api_servers import Answered, Fault, Json, an_api_server


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    with an_api_server() as server:
        yield Acting(server, tmp_path)


# the Job


def test_a_job_says_whose_it_is_and_runs_once(acting: Acting) -> None:
    request = acting.request(task=2, attempt=3, deadline_seconds=60, grace_seconds=9, arguments={"a": "1 $(x)"})
    job = job_of(request, PodSettings())
    spec, template = job["spec"], job["spec"]["template"]
    assert job["metadata"]["name"] == f"crawl-{acting.run_uid.replace('-', '')}-2-3"
    labels = job["metadata"]["labels"]
    assert labels == template["metadata"]["labels"]
    assert (
        labels.items()
        >= {
            "crawler-lifecycle/installation": acting.installation,
            "crawler-lifecycle/run-uid": acting.run_uid,
            "crawler-lifecycle/task": "2",
            "crawler-lifecycle/attempt": "3",
        }.items()
    )
    assert all(len(value) <= 63 for value in labels.values())
    assert (spec["backoffLimit"], spec["completions"], spec["parallelism"]) == (0, 1, 1)
    assert (spec["podReplacementPolicy"], template["spec"]["restartPolicy"]) == ("Failed", "Never")
    disruption, exit_code = spec["podFailurePolicy"]["rules"]
    assert [disruption["action"], exit_code["action"]] == ["FailJob", "FailJob"]
    assert disruption["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert exit_code["onExitCodes"]["containerName"] == template["spec"]["containers"][0]["name"]
    # a suspension deletes the pod, and the rules are asked about it
    assert {0, *DELETION_EXIT_CODES} == set(exit_code["onExitCodes"]["values"])
    assert (spec["activeDeadlineSeconds"], template["spec"]["terminationGracePeriodSeconds"]) == (60, 9)
    assert spec["ttlSecondsAfterFinished"] == 7 * 24 * 3600
    assert template["spec"]["automountServiceAccountToken"] is False
    [container] = template["spec"]["containers"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "256Mi"}


def test_a_job_without_a_deadline_has_one_all_the_same(acting: Acting) -> None:
    assert (
        job_of(acting.request(), PodSettings(longest=timedelta(days=2)))["spec"]["activeDeadlineSeconds"]
        == 2 * 24 * 3600
    )


def test_nothing_of_a_request_is_expanded_by_kubernetes(acting: Acting) -> None:
    request = acting.request(arguments={"a": "$(CRAWL_TASK) $$(b) $", "empty": ""}, settings={"AGENT": "$(HOME)"})
    [container] = job_of(request, PodSettings())["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["crawl", "$$(HOME)"]
    assert container["args"] == ["-a", "a=$$(CRAWL_TASK) $$$$(b) $$", "-a", "empty=", "-s", "AGENT=$$(HOME)"]
    told = {each["name"]: each.get("value") for each in container["env"]}
    assert len(told) == len(container["env"])
    assert (told["MODE"], told["CRAWL_TASK"]) == ("fast $$(id)", "0")
    assert json.loads((told["CRAWL_ARGUMENTS"] or "").replace("$$", "$")) == request.arguments
    assert json.loads((told["CRAWL_SETTINGS"] or "").replace("$$", "$")) == request.settings
    [uid] = [each for each in container["env"] if each["name"] == "CRAWL_JOB_UID"]
    assert "controller-uid" in uid["valueFrom"]["fieldRef"]["fieldPath"]


def test_a_pod_keeps_to_the_restricted_standard(acting: Acting) -> None:
    pod = job_of(acting.request(), PodSettings(files_claim="files"))["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    [mount] = container["volumeMounts"]
    assert mount["subPath"] == acting.run_uid
    assert pod["securityContext"]["fsGroup"] == 1000
    assert "fsGroup" not in job_of(acting.request(), PodSettings())["spec"]["template"]["spec"]["securityContext"]
    assert pod["volumes"] == [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}]


def test_what_cannot_run_is_refused_before_anybody_is_asked(acting: Acting) -> None:
    for changes in ({"image": None}, {"command": [""]}, {"environment": {"A=B": "1"}}, {"environment": {"A": "\0"}}):
        with pytest.raises(Refused):
            acting.deploying.deploy(acting.request(crawler=CRAWLER.model_copy(update=changes)))
    with pytest.raises(BadInput):
        acting.deploying.deploy(acting.request(run_uid="x" * 36))
    assert acting.server.seen == []


# deploying


def test_the_same_request_is_the_same_job(acting: Acting) -> None:
    first = acting.deploying.deploy(acting.request())
    second = acting.deploying.deploy(acting.request(not_after=datetime.now(UTC) + timedelta(hours=1)))
    assert (first.created, second.created) == (True, False)
    assert first.job_uid == second.job_uid == acting.job()["metadata"]["uid"]


def test_many_deployers_at_once_make_one_job(acting: Acting) -> None:
    barrier = threading.Barrier(8)

    def deploy(_: int) -> tuple[bool, str]:
        barrier.wait(20)
        deployment = acting.deploying.deploy(acting.request())
        return deployment.created, deployment.job_uid

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(deploy, range(8)))
    assert sum(created for created, _ in answers) == 1
    assert len({uid for _, uid in answers}) == 1


def test_an_answer_that_was_lost_is_looked_up(acting: Acting) -> None:
    acting.server.faults = [Fault("POST", "jobs", drop="after")]
    deployment = acting.deploying.deploy(acting.request())
    assert (deployment.created, deployment.job_uid) == (False, acting.job()["metadata"]["uid"])


@pytest.mark.parametrize("status", [200, 409, 429, 500, 504, None])  # 200: a page of something in between
def test_a_request_that_was_not_carried_out_is_temporary(acting: Acting, status: int | None) -> None:
    fault = (
        Fault("POST", "jobs", Answered(status, "Odd", "not now")) if status else Fault("POST", "jobs", drop="before")
    )
    acting.server.faults = [fault]
    with pytest.raises(TemporaryError) as caught:
        acting.deploying.deploy(acting.request())
    assert caught.value.cause == "cluster_unavailable"
    assert acting.server.objects["jobs"] == {}
    assert acting.deploying.deploy(acting.request()).created


@pytest.mark.parametrize("status", [200, 403])
def test_not_knowing_is_temporary(acting: Acting, status: int) -> None:
    acting.server.faults = [Fault("POST", "jobs", drop="after"), Fault("GET", "jobs", Answered(status, "Odd", "no"))]
    with pytest.raises(TemporaryError) as caught:
        acting.deploying.deploy(acting.request())
    assert caught.value.cause == "cluster_unavailable"
    assert acting.deploying.deploy(acting.request()).created is False


@pytest.mark.parametrize(
    ("status", "message", "error", "cause"),
    [
        (403, 'jobs.batch "x" is forbidden: exceeded quota: q, requested: count/jobs.batch=1', TemporaryError, "quota"),
        (403, 'User "u" cannot create resource "jobs" in API group "batch"', TemporaryError, "cluster_forbids"),
        (403, "unable to create new content in namespace x because it is being terminated", TemporaryError, None),
        (403, 'admission webhook "w" denied the request: no images from there', Refused, "admission_denied"),
        (400, 'admission webhook "w" denied the request: no', Refused, "admission_denied"),
        (422, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", Refused, "admission_denied"),
        (422, 'Job.batch "x" is invalid: spec.template.spec.containers[0].image: Required value', Refused, None),
    ],
)
def test_a_refusal_says_whether_it_is_for_good(
    acting: Acting, status: int, message: str, error: type[Exception], cause: str | None
) -> None:
    acting.server.faults = [Fault("POST", "jobs", Answered(status, "Forbidden", message))]
    with pytest.raises(error, match="answers") as caught:
        acting.deploying.deploy(acting.request())
    assert message in str(caught.value)
    if cause:
        assert caught.value.cause == cause  # type: ignore[attr-defined]
    assert len(acting.server.seen) == 1


def test_a_namespace_that_is_not_there_is_to_be_made(acting: Acting) -> None:
    acting.server.faults = [Fault("POST", "jobs", Answered(404, "NotFound", 'namespaces "crawls" not found'))]
    with pytest.raises(NotReady, match="crawls"):
        acting.deploying.deploy(acting.request())


def test_a_name_that_is_taken_is_a_conflict(acting: Acting) -> None:
    acting.deploy()
    with pytest.raises(Conflict):
        acting.deploying.deploy(acting.request(arguments={"depth": "2"}))
    with pytest.raises(Conflict):
        acting.deploying.deploy(acting.request(installation=str(uuid4())))
    named = acting.deploy(1)
    named["metadata"]["labels"] |= {"crawler-lifecycle/task": "2"}
    with pytest.raises(Conflict):
        acting.deploying.deploy(acting.request(task=1))


def test_a_job_that_is_being_deleted_is_waited_for_and_not_taken_as_deployed(acting: Acting) -> None:
    acting.deploy()
    acting.stopping.ask(acting.run_uid, [(0, 1)])

    with pytest.raises(TemporaryError, match="being deleted") as caught:
        acting.deploying.deploy(acting.request())

    assert caught.value.cause == JOB_LEAVING
    del acting.server.objects["jobs"][acting.name()]
    assert acting.deploying.deploy(acting.request()).created


def strips_labels(acting: Acting, *names: str) -> None:
    """A mutating webhook that takes these labels, or all, from each Job that is made."""
    put = acting.server.put

    def stripped(kind: str, value: Json) -> Json:
        if kind == "jobs":
            kept = {name: label for name, label in value["metadata"]["labels"].items() if names and name not in names}
            value = {**value, "metadata": {**value["metadata"], "labels": kept}}
        return put(kind, value)

    acting.server.put = stripped  # type: ignore[method-assign]


@pytest.mark.parametrize("names", [(), ("crawler-lifecycle/run-uid",), ("crawler-lifecycle/spec-hash",)])
def test_a_job_that_came_without_our_labels_is_deleted_and_refused(acting: Acting, names: tuple[str, ...]) -> None:
    strips_labels(acting, *names)

    with pytest.raises(Refused, match="webhook") as caught:
        acting.deploying.deploy(acting.request())

    [deleted] = acting.server.asked("DELETE")
    assert caught.value.cause == LABELS_REMOVED
    assert deleted.body["preconditions"].keys() == {"uid"}
    assert acting.server.objects["jobs"] == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"podReplacementPolicy": None}, "podReplacementPolicy None instead of Failed"),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, "podReplacementPolicy TerminatingOrFailed instead of Failed"),
        ({"backoffLimit": 6}, "backoffLimit 6 instead of 0"),
        ({"completions": None}, "completions None instead of 1"),
        ({"ttlSecondsAfterFinished": 0}, "ttlSecondsAfterFinished 0 instead of 604800"),
        ({"podFailurePolicy": None}, "no podFailurePolicy"),
    ],
)
def test_a_job_that_may_start_a_second_pod_or_lose_its_end_is_deleted_and_refused(
    acting: Acting, changes: Json, words: str
) -> None:
    changes_jobs(acting, changes)

    with pytest.raises(Refused, match=f"with {words}, and is deleted again: something in the cluster") as caught:
        acting.deploying.deploy(acting.request())

    assert caught.value.cause == JOB_CHANGED
    assert acting.server.objects["jobs"] == {}


def test_a_job_that_the_cluster_changes_without_harm_is_deployed(acting: Acting) -> None:
    """Kueue suspends Jobs and names their manager, and a policy may shorten a deadline or a long time to live."""
    changes_jobs(
        acting,
        {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "activeDeadlineSeconds": 60, "parallelism": 0}
        | {"ttlSecondsAfterFinished": 3600},
    )
    assert acting.deploying.deploy(acting.request()).created


def changes_jobs(acting: Acting, changes: Json) -> None:
    """A webhook, a policy or a feature gate changes the specification of each new Job."""
    put = acting.server.put

    def put_changed(kind: str, value: Json) -> Json:
        value["spec"] = {name: given for name, given in (value["spec"] | changes).items() if given is not None}
        return put(kind, value)

    acting.server.put = put_changed  # type: ignore[method-assign]


def test_the_api_server_is_asked_to_refuse_fields_that_it_does_not_know(acting: Acting) -> None:
    acting.deploy()
    [post] = acting.server.asked("POST", "jobs")
    assert post.query["fieldValidation"] == "Strict"


def test_a_job_without_our_labels_is_adopted_when_the_answer_to_its_request_was_lost(acting: Acting) -> None:
    """Nobody can tell whether its labels were removed since, from a job that runs."""
    strips_labels(acting)
    acting.server.faults = [Fault("POST", "jobs", drop="after")]

    deployment = acting.deploying.deploy(acting.request())
    assert deployment.job_uid == acting.server.objects["jobs"][acting.name()]["metadata"]["uid"]


def test_a_job_without_our_labels_that_cannot_be_deleted_now_is_adopted_by_the_next_try(acting: Acting) -> None:
    strips_labels(acting)
    acting.server.faults = [Fault("DELETE", "jobs", Answered(500))]
    with pytest.raises(TemporaryError, match="not deleted yet"):
        acting.deploying.deploy(acting.request())

    assert not acting.deploying.deploy(acting.request()).created
    assert acting.server.asked("DELETE", "jobs")[1:] == []


@pytest.mark.parametrize("names", [(), ("crawler-lifecycle/run-uid",), ("crawler-lifecycle/spec-hash",)])
def test_a_second_request_leaves_a_running_job_whose_labels_a_person_removed(
    acting: Acting, names: tuple[str, ...]
) -> None:
    first = acting.deploying.deploy(acting.request())
    labels = acting.server.objects["jobs"][acting.name()]["metadata"]["labels"]
    for name in names or list(labels):
        del labels[name]

    again = acting.deploying.deploy(acting.request())

    assert (again.job_uid, again.created) == (first.job_uid, False)
    assert acting.server.asked("DELETE") == []


def test_a_late_request_makes_nothing_and_finds_what_is_there(acting: Acting) -> None:
    late = acting.request(not_after=datetime.now(UTC))
    with pytest.raises(TemporaryError, match="run out"):
        acting.deploying.deploy(late)
    assert acting.server.asked("POST") == []
    acting.deploy()
    assert acting.deploying.deploy(late).created is False


# stopping


def test_a_stop_deletes_exactly_what_was_read(acting: Acting) -> None:
    read = acting.deploy()["metadata"]
    acting.deploy(1)
    expected = {"uid": read["uid"], "resourceVersion": read["resourceVersion"]}
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    [deleted] = acting.server.asked("DELETE")
    assert deleted.query["propagationPolicy"] == deleted.body["propagationPolicy"] == "Foreground"
    assert deleted.body["preconditions"] == expected
    assert "deletionTimestamp" in acting.job()["metadata"]
    assert "deletionTimestamp" not in acting.job(1)["metadata"]


@pytest.mark.parametrize("kind", ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"])
def test_a_job_that_ends_is_left_alone(acting: Acting, kind: str) -> None:
    acting.deploy()
    acting.server.end(acting.name(), kind)
    pod = acting.pod(acting.job(), "Succeeded")
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    acting.stopping.kill(acting.run_uid, [(0, 1)])
    assert acting.server.asked("DELETE") == []
    assert pod["metadata"]["name"] in acting.server.objects["pods"]


def test_a_job_that_ends_in_the_same_moment_keeps_its_end(acting: Acting) -> None:
    acting.deploy()
    conflict = Answered(409, "Conflict", "the object has been modified")
    acting.server.faults = [Fault("DELETE", "jobs", conflict)]
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    assert len(acting.server.asked("DELETE")) == 2
    acting.deploy(1)

    ends = threading.Event()
    acting.server.faults = [Fault("DELETE", "jobs", hang=ends)]
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(acting.stopping.ask, acting.run_uid, [(1, 1)])
        while len(acting.server.asked("DELETE")) < 3:
            assert not stopped.done()
        acting.server.end(acting.name(1))
        ends.set()
        stopped.result(60)
    assert "deletionTimestamp" not in acting.job(1)["metadata"]


def test_a_stop_whose_answer_is_lost_is_asked_again_and_changes_nothing(acting: Acting) -> None:
    acting.deploy()
    acting.server.faults = [Fault("DELETE", "jobs", drop="after")]
    with pytest.raises(TemporaryError):
        acting.stopping.ask(acting.run_uid, [(0, 1)])
    version = acting.job()["metadata"]["resourceVersion"]
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    assert acting.job()["metadata"]["resourceVersion"] == version


def test_what_is_gone_is_stopped(acting: Acting) -> None:
    for end in (acting.stopping.ask, acting.stopping.kill):
        end(acting.run_uid, [(0, 1), (5, 2)])
        end(str(uuid4()), [(0, 1)])
        end(acting.run_uid, [])


def test_what_is_in_the_way_of_one_keeps_none_of_the_others(acting: Acting) -> None:
    for task in range(20):
        acting.deploy(task)
    acting.server.faults = [Fault("DELETE", acting.name(3), Answered(500, "InternalError", "etcd is slow"))]
    with pytest.raises(TemporaryError, match="etcd is slow"):
        acting.stopping.ask(acting.run_uid, [(task, 1) for task in range(20)])
    left = [task for task in range(20) if "deletionTimestamp" not in acting.job(task)["metadata"]]
    assert left == [3]


def test_the_jobs_of_another_installation_are_left_alone(acting: Acting) -> None:
    job = acting.deploy()
    acting.pod(job)
    stranger, listening = Jobs(acting.api, str(uuid4())), Listening(acting.logs)
    stopping, removing = JobStopping(stranger, listening), Removing(stranger, acting.logs, listening)
    for end in (stopping.ask, stopping.kill, removing.remove):
        end(acting.run_uid, [(0, 1)])
    acting.server.end(acting.name())
    removing.remove(acting.run_uid, [(0, 1)])
    assert Collecting(stranger, acting.logs, listening).evidence(acting.run_uid, [(0, 1)]) == []
    assert acting.server.asked("DELETE") == []
    assert acting.server.asked("GET", "/log") == []


def test_a_job_that_only_bears_the_name_is_left_alone(acting: Acting) -> None:
    acting.server.put("jobs", {"metadata": {"name": acting.name()}})
    acting.stopping.kill(acting.run_uid, [(0, 1)])
    acting.removing.remove(acting.run_uid, [(0, 1)])
    assert acting.server.asked("DELETE") == []


EDITS: list[Json] = [
    {},
    {"crawler-lifecycle/run-uid": str(uuid4())},
    {"crawler-lifecycle/installation": str(uuid4())},
    {"crawler-lifecycle/task": "3"},
]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("end", ["ask", "kill"])
def test_a_job_whose_labels_were_edited_is_stopped_by_the_uid_on_record(acting: Acting, edit: Json, end: str) -> None:
    metadata = acting.deploy()["metadata"]
    metadata["labels"] = {**metadata["labels"], **edit} if edit else {}

    getattr(acting.stopping, end)(acting.run_uid, [(0, 1)], {(0, 1): metadata["uid"]})

    assert "deletionTimestamp" in acting.job()["metadata"]


def test_a_job_of_our_name_with_another_uid_and_without_our_labels_is_left_alone(acting: Acting) -> None:
    acting.server.put("jobs", {"metadata": {"name": acting.name()}})
    for end in (acting.stopping.ask, acting.stopping.kill, acting.removing.remove):
        end(acting.run_uid, [(0, 1)], {(0, 1): "the uid on record"})
    assert acting.server.asked("DELETE") == []


def test_a_job_that_cannot_be_read_is_stopped_by_its_metadata(acting: Acting) -> None:
    job = acting.deploy()
    job["status"] = {"conditions": [None]}

    acting.stopping.ask(acting.run_uid, [(0, 1)], {(0, 1): job["metadata"]["uid"]})

    [deleted] = acting.server.asked("DELETE")
    assert deleted.body["preconditions"]["uid"] == job["metadata"]["uid"]


def test_a_job_that_came_without_labels_is_stopped_before_its_uid_is_on_record(acting: Acting) -> None:
    """The answer to its request was lost, and the run is stopped: the labels of its pods tell whose it is."""
    acting.deploy()["metadata"]["labels"] = {}

    acting.stopping.ask(acting.run_uid, [(0, 1)])

    assert "deletionTimestamp" in acting.job()["metadata"]


def test_a_job_on_record_whose_labels_were_edited_leaves_the_cluster(acting: Acting) -> None:
    metadata = acting.deploy()["metadata"]
    metadata["labels"] = {"app": "edited"}
    acting.server.end(acting.name())

    acting.removing.remove(acting.run_uid, [(0, 1)], {(0, 1): "another"})
    assert acting.server.asked("DELETE") == []
    acting.removing.remove(acting.run_uid, [(0, 1)], {(0, 1): metadata["uid"]})

    assert acting.server.objects["jobs"] == {}


def put_copy(acting: Acting, job: Json, **labels: str) -> Json:
    """A person reads a job's object and creates it again under another name, for debugging."""
    copied = {**job["metadata"]["labels"], **{f"crawler-lifecycle/{name}": text for name, text in labels.items()}}
    metadata = {"name": f"debug-{len(acting.server.objects['jobs'])}", "labels": copied}
    return acting.server.put("jobs", {"metadata": metadata, "spec": dict(job["spec"])})


@pytest.mark.parametrize("end", ["ask", "kill"])
def test_a_copy_of_a_job_is_ended_once_the_job_is_gone(acting: Acting, end: str) -> None:
    """A look shows what bears the labels of the run, and the stop of the run waited for the copy indefinitely."""
    copy = put_copy(acting, acting.deploy(), task="77")
    acting.pod(copy)["metadata"]["labels"] = {}

    getattr(acting.stopping, end)(acting.run_uid, [(0, 1)])
    assert "deletionTimestamp" not in copy["metadata"], "its task was not asked to end"
    getattr(acting.stopping, end)(acting.run_uid, [(77, 1)])

    deleted = acting.server.asked("DELETE")[-1]
    assert (deleted.path.endswith(copy["metadata"]["name"]), deleted.query["propagationPolicy"]) == (True, "Foreground")
    assert deleted.body["preconditions"].keys() == {"uid", "resourceVersion"}


@pytest.mark.parametrize("jobs", [1, 25])
def test_a_copy_does_not_hide_the_job_from_its_stop(acting: Acting, jobs: int) -> None:
    keys = [(task, 1) for task in range(jobs)]
    for task, _ in keys:
        acting.deploy(task)
    copies = [put_copy(acting, acting.job(0)) for _ in range(2)]

    acting.stopping.ask(acting.run_uid, keys)

    assert all("deletionTimestamp" in acting.job(task)["metadata"] for task, _ in keys)
    assert not any("deletionTimestamp" in copy["metadata"] for copy in copies)


def test_copies_of_others_and_copies_that_have_ended_are_left_alone(acting: Acting) -> None:
    job = acting.deploy()
    for labels in ({"installation": str(uuid4())}, {"run-uid": str(uuid4())}, {"attempt": "2"}):
        put_copy(acting, job, **labels)
    acting.server.end(put_copy(acting, job)["metadata"]["name"], "Failed")
    del acting.server.objects["jobs"][acting.name()]

    acting.stopping.kill(acting.run_uid, [(0, 1)])

    assert acting.server.asked("DELETE") == []


def test_a_stop_names_the_jobs_that_another_controller_runs(acting: Acting) -> None:
    """Kueue runs the Job in another cluster: nothing is left here as soon as the Job is deleted."""
    acting.deploy()["spec"]["managedBy"] = "kubernetes.io/job-controller"
    acting.deploy(1)["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    acting.deploy(2)

    elsewhere = acting.stopping.ask(acting.run_uid, [(0, 1), (1, 1), (2, 1)])

    assert elsewhere == {(1, 1): "kueue.x-k8s.io/multikueue"}


def test_killing_deletes_the_job_first_and_then_its_pods_at_once(acting: Acting) -> None:
    pod = acting.pod(acting.deploy())
    other = acting.pod(acting.deploy(1))
    uid = pod["metadata"]["uid"]
    acting.stopping.kill(acting.run_uid, [(0, 1)])
    job, killed = acting.server.asked("DELETE")
    assert ("/jobs/" in job.path, "/pods/" in killed.path) == (True, True)
    assert killed.query["gracePeriodSeconds"] == "0"
    assert killed.body["gracePeriodSeconds"] == 0
    assert killed.body["preconditions"] == {"uid": uid}
    assert other["metadata"]["name"] in acting.server.objects["pods"]


def test_what_is_in_the_way_of_a_job_keeps_no_pod_alive(acting: Acting) -> None:
    for task in (0, 1):
        acting.pod(acting.deploy(task))
    acting.server.faults = [Fault("DELETE", acting.name(), Answered(500, "InternalError", "etcd is slow"))]
    with pytest.raises(TemporaryError, match="etcd is slow"):
        acting.stopping.kill(acting.run_uid, [(0, 1), (1, 1)])
    assert acting.server.objects["pods"] == {}
    assert "deletionTimestamp" in acting.job(1)["metadata"]


def test_a_kill_tells_its_first_problem(acting: Acting) -> None:
    acting.pod(acting.deploy())
    refused = [Fault("GET", "/pods", Answered(403, "Forbidden", "no pods for you")) for _ in range(20)]
    slow = Fault("DELETE", acting.name(), Answered(500, "InternalError", "etcd is slow"))
    acting.server.faults = [*refused, slow]
    with pytest.raises(TemporaryError, match="etcd is slow"):
        acting.stopping.kill(acting.run_uid, [(0, 1)])


def test_pods_that_lost_their_job_are_asked_to_end(acting: Acting) -> None:
    pod = acting.pod(acting.deploy())
    del acting.server.objects["jobs"][acting.name()]
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    [deleted] = acting.server.asked("DELETE")
    assert deleted.path.endswith(pod["metadata"]["name"])
    assert "gracePeriodSeconds" not in deleted.body


def test_pods_are_asked_to_end_whose_job_was_deleted_long_ago_and_told_them_nothing(acting: Acting) -> None:
    """The garbage collector is away, or somebody deleted the Job and wanted its pods to stay."""
    for task, minutes in ((0, 4), (1, 6)):
        job = acting.deploy(task)
        acting.pod(job)
        job["metadata"]["deletionTimestamp"] = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
    acting.stopping.ask(acting.run_uid, [(0, 1), (1, 1)])
    [deleted] = acting.server.asked("DELETE")
    assert deleted.path.endswith(f"{acting.name(1)}-x")
    assert "gracePeriodSeconds" not in deleted.body


# whether an end by force can be confirmed


def test_what_lives_on_nodes_that_do_not_answer_is_known_before_it_is_ended(acting: Acting) -> None:
    for task in range(6):
        pod = acting.pod(acting.deploy(task), "Failed" if task == 5 else "Running")
        pod["spec"]["nodeName"] = f"node-{task % 5}"
        acting.server.logs[pod["metadata"]["name"]] = b"fine\n"
    given_up = acting.server.objects["pods"]
    given_up[f"{acting.name(1)}-x"]["status"]["conditions"] = [
        {"type": "Ready", "status": "False"},  # by the control plane: its node is silent
        {"type": "ContainersReady", "status": "True"},
    ]
    for task, minutes in ((2, 2), (3, 0)):
        due = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
        given_up[f"{acting.name(task)}-x"]["metadata"]["deletionTimestamp"] = due
    acting.server.faults = [
        Fault("GET", f"{acting.name(4)}-x/log", Answered(500, "InternalError", "dial tcp 10.0.0.4:10250: no route")),
        Fault("GET", f"{acting.name(3)}-x/log", Answered(400, "BadRequest", "the container is waiting to start")),
    ]
    keys = [(task, 1) for task in range(6)]
    assert acting.reaching.unreached(acting.run_uid, keys) == {(1, 1): "node-1", (2, 1): "node-2", (4, 1): "node-4"}
    assert acting.reaching.unreached(acting.run_uid, []) == {}
    assert acting.server.asked("DELETE") == []


def test_a_node_is_asked_once_for_all_that_it_runs(acting: Acting) -> None:
    for task in range(3):
        acting.pod(acting.deploy(task))
    acting.server.faults = [Fault("GET", "/log", Answered(502, "BadGateway", "the tunnel is away"))]
    unreached = acting.reaching.unreached(acting.run_uid, [(task, 1) for task in range(3)])
    assert unreached == {(task, 1): "node-7" for task in range(3)}
    assert len(acting.server.asked("GET", "/log")) == 1


# removing


def test_a_job_on_record_leaves_with_its_earlier_attempts_and_keeps_its_log(acting: Acting) -> None:
    for attempt in (1, 2, 3):
        acting.deploy(attempt=attempt)
    for attempt in (1, 2):
        acting.server.end(acting.name(attempt=attempt), "Failed")
    acting.deploy(1)
    pod = acting.pod(acting.job(attempt=2), "Failed")
    acting.server.logs[pod["metadata"]["name"]] = b"line\n" * 300
    assert acting.removing.remove(acting.run_uid, [(0, 2), (1, 1)]) == 0
    assert set(acting.server.objects["jobs"]) == {acting.name(attempt=3), acting.name(1)}
    kept = acting.logs.kept(acting.run_uid, 0, 2).read_text()
    assert kept == "line\n" * 200 + "\n(the rest of the log is not kept: it is longer than 1000 bytes)\n"
    assert {seen.query["propagationPolicy"] for seen in acting.server.asked("DELETE")} == {"Background"}
    assert acting.removing.remove(acting.run_uid, [(0, 2), (1, 1)]) == 0


def test_a_job_whose_request_may_still_be_on_its_way_has_to_stay(acting: Acting) -> None:
    acting.deploy(not_after=datetime.now(UTC) + timedelta(seconds=90))
    acting.server.end(acting.name())
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 1
    long_ago = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    acting.job()["metadata"]["annotations"]["crawler-lifecycle/not-after"] = long_ago
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert acting.server.objects["jobs"] == {}


@pytest.mark.parametrize(
    "not_after",
    [
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59.999999-12:00",
        "9999-12-31T23:59:59.999999",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_an_absurd_annotation_keeps_no_job_for_ever(acting: Acting, not_after: str) -> None:
    """An OverflowError left the removal, and all jobs of its page stayed."""
    for task in (0, 1):
        acting.deploy(task)
        acting.server.end(acting.name(task))
    acting.job()["metadata"]["annotations"]["crawler-lifecycle/not-after"] = not_after
    assert acting.removing.remove(acting.run_uid, [(0, 1), (1, 1)]) == 0
    assert acting.server.objects["jobs"] == {}


def test_the_log_of_a_job_that_has_to_stay_is_there_for_the_export(acting: Acting) -> None:
    """Fetched once until the job leaves, and then anew."""
    pod = acting.pod(acting.deploy(not_after=datetime.now(UTC) + timedelta(seconds=90)), "Succeeded")
    acting.server.end(acting.name())
    acting.server.logs[pod["metadata"]["name"]] = b"60 items\n"
    for _ in range(3):
        assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 1
    assert acting.logs.kept(acting.run_uid, 0, 1).read_bytes() == b"60 items\n"
    assert sum("/log" in seen.path for seen in acting.server.asked("GET")) == 1


def test_a_job_of_which_something_runs_is_left_alone(acting: Acting) -> None:
    job = acting.deploy()
    acting.server.end(acting.name(), "Failed")
    acting.pod(job)
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert acting.name() in acting.server.objects["jobs"]


@pytest.mark.parametrize("forced", [False, True])
def test_what_a_job_prints_until_it_is_stopped_is_kept(acting: Acting, *, forced: bool) -> None:
    """Its pod takes the log with it: what it printed in its grace was never to be had."""
    name = acting.pod(acting.deploy())["metadata"]["name"]
    acting.server.print(name, b"page 1\n")
    for _ in range(3):  # each round of a stop asks again
        (acting.stopping.kill if forced else acting.stopping.ask)(acting.run_uid, [(0, 1)])
    acting.server.print(name, b"shutting down\n" * 20)
    assert not acting.logs.kept(acting.run_uid, 0, 1).exists(), "what is kept is whole, and its job over"
    acting.server.print(name, None)
    acting.listening.wait(acting.run_uid, [(0, 1)])
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    followed = [seen.query["follow"] for seen in acting.server.asked("GET", "/log")]
    assert followed == ["true", "true"], "and once more, whether there is more"
    acting.server.objects.update(jobs={}, pods={})
    for worker in (acting, acting.another()):
        [evidence] = worker.collecting.evidence(acting.run_uid, [(0, 1)])
        assert evidence.log_tail.splitlines() == ["shutting down"] * 20
    acting.removing.remove(acting.run_uid, [(0, 1)])
    assert acting.logs.kept(acting.run_uid, 0, 1).read_text() == "page 1\n" + "shutting down\n" * 20


def heard(acting: Acting, name: str, *, then: bytes = b"") -> str:
    """What is kept once the log has ended."""
    acting.server.print(name, then)
    acting.server.until_followed(name)
    acting.server.print(name, None)
    acting.listening.wait(acting.run_uid, [(0, 1)])
    return acting.logs.kept(acting.run_uid, 0, 1).read_text()


def test_what_could_not_be_heard_is_listened_to_by_the_next_round_of_a_stop(acting: Acting) -> None:
    name = acting.pod(acting.deploy())["metadata"]["name"]
    acting.server.print(name, b"page 1\n")
    acting.server.faults = [Fault("GET", "/log", Answered(500, "InternalError", "dial tcp: no route to host"))]
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    acting.listening.wait(acting.run_uid, [(0, 1)])
    assert not acting.logs.kept(acting.run_uid, 0, 1).exists()
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    assert heard(acting, name) == "page 1\n"


def test_a_stream_that_ends_too_early_is_not_the_end_of_a_log(acting: Acting) -> None:
    """A kubelet that restarts, a proxy in between: they end it in order."""
    name = acting.pod(acting.deploy())["metadata"]["name"]
    acting.server.print(name, b"page 1\n")
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    acting.server.cut_stream(name)
    assert heard(acting, name, then=b"totals: 300\n") == "page 1\ntotals: 300\n"


def test_what_was_heard_to_its_end_is_not_replaced_by_less(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    name = acting.pod(acting.deploy())["metadata"]["name"]
    acting.server.print(name, b"page 1\n")
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    whole = heard(acting, name, then=b"totals: 300\n")
    other = acting.another()  # a worker that has not heard it
    acting.server.print(name, b"unable to retrieve container logs for containerd://0a1b")
    other.stopping.ask(acting.run_uid, [(0, 1)])
    assert heard(other, name) == whole
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.store.LONGEST_SILENCE_SECONDS", 0.2)
    acting.server.print(name, b"page 1\n")
    other.stopping.ask(acting.run_uid, [(0, 1)])
    other.listening.wait(acting.run_uid, [(0, 1)])
    assert acting.logs.kept(acting.run_uid, 0, 1).read_text() == whole
    acting.logs.kept(acting.run_uid, 0, 1).unlink()
    other.stopping.ask(acting.run_uid, [(0, 1)])
    other.listening.wait(acting.run_uid, [(0, 1)])
    assert not acting.logs.kept(acting.run_uid, 0, 1).exists(), "its pod is there: the next round listens again"
    other.stopping.ask(acting.run_uid, [(0, 1)])
    acting.server.objects["pods"].clear()
    other.listening.wait(acting.run_uid, [(0, 1)])
    assert "\n(the rest of the log could not be read: " in acting.logs.kept(acting.run_uid, 0, 1).read_text()
    acting.server.print(name, None)


def test_the_middle_of_a_log_that_is_not_kept_whole_is_no_evidence(acting: Acting) -> None:
    name = acting.pod(acting.deploy())["metadata"]["name"]
    acting.server.print(name, b"line\n" * 300)
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    assert heard(acting, name).endswith("(the rest of the log is not kept: it is longer than 1000 bytes)\n")
    acting.server.objects.update(jobs={}, pods={})
    assert acting.collecting.evidence(acting.run_uid, [(0, 1)]) == []


def test_a_stop_waits_for_nothing_that_a_job_prints(acting: Acting) -> None:
    acting.server.print(acting.pod(acting.deploy())["metadata"]["name"], b"page 1\n")
    acting.server.faults = [Fault("GET", "/pods?", Answered(500, "InternalError", "no pods today"))]
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    assert "deletionTimestamp" in acting.job()["metadata"]
    assert acting.server.asked("GET", "/log") == []


def test_a_stop_does_not_wait_for_a_list_of_pods_that_does_not_come(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have taken the time that the whole step has."""
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.act.stopping.PODS_SECONDS", 0.5)
    acting.pod(acting.deploy())
    hung = Fault("GET", "/pods?", hang=threading.Event())
    acting.server.faults = [hung]
    began = time.monotonic()
    acting.stopping.ask(acting.run_uid, [(0, 1)])
    assert "deletionTimestamp" in acting.job()["metadata"]
    assert time.monotonic() - began < 15  # the client would wait for 20 s, and once more
    assert hung.hang
    hung.hang.set()


def test_the_evidence_of_many_whose_logs_hang_waits_for_them_once(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for each, and held up that of others."""
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.follower.END_SECONDS", 0.3)
    keys = [(task, 1) for task in range(60)]
    names = [acting.pod(acting.deploy(task))["metadata"]["name"] for task, _ in keys]
    for name in names:
        acting.server.print(name, b"page 1\n")
    acting.stopping.ask(acting.run_uid, keys)
    acting.server.objects.update(jobs={}, pods={})
    waited, wait = [], acting.listening.wait

    def counted(run_uid: str, keys: Collection[JobKey], seconds: float) -> None:
        waited.append(len(keys))
        wait(run_uid, keys, seconds)

    monkeypatch.setattr(acting.listening, "wait", counted)
    assert acting.collecting.evidence(acting.run_uid, keys) == []
    assert waited == [60]
    for name in names:
        acting.server.print(name, None)


def prints(acting: Acting, tasks: int) -> dict[int, str]:
    """The pods of so many tasks, by task."""
    names = {task: str(acting.pod(acting.deploy(task))["metadata"]["name"]) for task in range(tasks)}
    for task, name in names.items():
        acting.server.print(name, f"page of {task}\n".encode())
    return names


def test_of_a_stop_of_many_all_are_listened_to_while_places_become_free(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.follower.MOST_LISTENERS", 2)
    names = prints(acting, 7)
    keys = [(task, 1) for task in names]
    stop = threading.Thread(target=acting.stopping.ask, args=[acting.run_uid, keys])
    stop.start()

    def end(name: str) -> None:
        acting.server.until_followed(name)
        acting.server.print(name, None)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(end, names.values()))
    stop.join()
    acting.listening.wait(acting.run_uid, keys)
    kept = [acting.logs.kept(acting.run_uid, *key).read_text() for key in keys]
    assert kept == [f"page of {task}\n" for task in names]


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.long
def test_a_stop_of_many_does_not_wait_for_those_who_take_their_time(
    acting: Acting, monkeypatch: pytest.MonkeyPatch, *, forced: bool
) -> None:
    """The first are listened to, the main job among them."""
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.follower.MOST_LISTENERS", 2)
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.follower.STALLED_SECONDS", 1.0)
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.act.stopping.LISTEN_SECONDS", 60.0)
    names, began = prints(acting, 12), time.monotonic()
    (acting.stopping.kill if forced else acting.stopping.ask)(acting.run_uid, [(task, 1) for task in reversed(names)])
    assert time.monotonic() - began < 5, "once, and not each for itself"
    assert all("deletionTimestamp" in job["metadata"] for job in acting.server.objects["jobs"].values())
    followed = {name for name in names.values() for seen in acting.server.asked("GET", "/log") if name in seen.path}
    assert followed == {names[0], names[1]}
    for name in names.values():
        acting.server.print(name, None)
    assert heard(acting, names[0]) == "page of 0\n"


@pytest.fixture
def trickle(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, str]]:
    """Jobs of which one can be listened to at a time, and one ends every now and then."""
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.follower.MOST_LISTENERS", 1)
    names, is_over = prints(acting, 60), threading.Event()

    def end() -> None:
        for name in names.values():
            if is_over.wait(0.3):
                break
            acting.server.print(name, None)

    thread = threading.Thread(target=end)
    thread.start()
    yield names
    is_over.set()
    thread.join()


@pytest.mark.parametrize("how", ["asked", "hurried", "killed"])
@pytest.mark.long
def test_a_stop_does_not_wait_for_ever_while_one_after_the_other_ends(
    acting: Acting, monkeypatch: pytest.MonkeyPatch, trickle: dict[int, str], how: str
) -> None:
    patience = "LISTEN_SECONDS" if how == "asked" else "HURRIED_SECONDS"
    monkeypatch.setattr(f"crawler_lifecycle.clusters.kubernetes.act.stopping.{patience}", 1.0)
    ends: dict[str, Callable[..., object]] = {
        "asked": acting.stopping.ask,
        "hurried": partial(acting.stopping.ask, hurried=True),
        "killed": acting.stopping.kill,
    }
    began = time.monotonic()
    ends[how](acting.run_uid, [(task, 1) for task in trickle])
    assert 1 <= time.monotonic() - began < 9, "all of them take 18 seconds"
    assert all("deletionTimestamp" in job["metadata"] for job in acting.server.objects["jobs"].values())


def test_the_next_round_of_a_stop_waits_for_nobody_who_was_told(acting: Acting, trickle: dict[int, str]) -> None:
    for pod in acting.server.objects["pods"].values():
        pod["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    began = time.monotonic()
    acting.stopping.ask(acting.run_uid, [(task, 1) for task in trickle])
    assert time.monotonic() - began < 5


def test_a_job_is_told_to_end_once_its_node_has_answered_who_listens(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its pod might be gone with its log before the first byte of it came."""
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.follower.ANSWER_SECONDS", 60)
    names, answered = prints(acting, 1), threading.Event()
    acting.server.faults = [Fault("GET", "/log", hang=answered)]
    stop = threading.Thread(target=acting.stopping.ask, args=[acting.run_uid, [(0, 1)]])
    stop.start()
    stop.join(0.5)
    assert acting.server.asked("DELETE") == []
    answered.set()
    stop.join()
    assert acting.server.asked("DELETE")
    assert heard(acting, names[0]) == "page of 0\n"


def test_evidence_in_a_hurry_is_what_objects_tell_and_nodes_that_answer_at_once(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.evidence.HURRIED_TAIL_SECONDS", 0.5)
    keys, hung = [(task, 1) for task in [*prints(acting, 3), 3]], threading.Event()
    acting.server.faults = [Fault("GET", f"{acting.name(1)}-x/log", hang=hung)]
    asked = len(acting.server.seen)
    told = acting.collecting.evidence(acting.run_uid, keys, hurried=True)
    hung.set()
    tails = {each.task: each.log_tail for each in told if each.node == "node-7"}
    assert tails == {0: "page of 0", 1: "", 2: "page of 2"}
    paths = Counter(seen.path.rpartition("/")[2] for seen in acting.server.seen[asked:])
    assert paths == {"jobs": 1, "pods": 1, "log": 3}, "and no events"


def test_a_log_that_cannot_be_had_now_keeps_the_job(acting: Acting) -> None:
    job = acting.deploy()
    acting.server.end(acting.name())
    acting.pod(job, "Succeeded")
    acting.server.faults = [Fault("GET", "/log", Answered(403, "Forbidden", "no logs for you"))]
    with pytest.raises(TemporaryError, match="no logs for you"):
        acting.removing.remove(acting.run_uid, [(0, 1)])
    assert acting.name() in acting.server.objects["jobs"]


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_log_of_a_node_that_is_silent_for_a_moment_is_kept_by_the_next_removal(acting: Acting, status: int) -> None:
    """A kubelet that restarts, a tunnel that is away: the logs of all jobs that ended meanwhile were lost."""
    acting.deploy()
    acting.server.end(acting.name(), lastTransitionTime=datetime.now(UTC).isoformat())
    pod = acting.pod(acting.job(), "Succeeded")
    acting.server.logs[pod["metadata"]["name"]] = b"all of it\n"
    acting.server.faults = [Fault("GET", "/log", Answered(status, "InternalError", "dial tcp: connection refused"))]
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 1
    assert acting.name() in acting.server.objects["jobs"]
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert acting.server.objects["jobs"] == {}
    assert acting.logs.kept(acting.run_uid, 0, 1).read_text() == "all of it\n"


def test_a_log_of_a_node_that_is_silent_for_good_is_given_up_and_its_place_says_so(acting: Acting) -> None:
    acting.deploy()
    long_ago = datetime.now(UTC) - timedelta(minutes=11)
    acting.server.end(acting.name(), lastTransitionTime=long_ago.isoformat())
    acting.pod(acting.job(), "Succeeded")
    acting.server.faults = [Fault("GET", "/log", Answered(500, "InternalError", "dial tcp: the node is gone"))]
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert acting.server.objects["jobs"] == {}
    assert "dial tcp: the node is gone" in acting.logs.kept(acting.run_uid, 0, 1).read_text()


@pytest.fixture
def slow_log(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of a job that has ended, byte by byte."""
    monkeypatch.setattr(store, "WHOLE_SECONDS", 1.0)
    acting.deploy()
    pod = acting.pod(acting.job(), "Succeeded")
    acting.server.logs[pod["metadata"]["name"]] = b"a line\n" * 100
    over = threading.Event()
    acting.server.faults = [Fault("GET", "/log", drips=over)]
    yield
    over.set()


@pytest.mark.usefixtures("slow_log")
def test_a_log_that_is_slow_for_a_moment_is_kept_whole_by_the_next_removal(acting: Acting) -> None:
    acting.server.end(acting.name(), lastTransitionTime=datetime.now(UTC).isoformat())
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 1
    assert acting.name() in acting.server.objects["jobs"]
    assert list(acting.logs.kept(acting.run_uid, 0, 1).parent.iterdir()) == []
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert acting.logs.kept(acting.run_uid, 0, 1).read_text() == "a line\n" * 100


@pytest.mark.usefixtures("slow_log")
def test_of_a_log_that_stays_slow_as_much_is_kept_as_came_and_its_last_line_says_so(acting: Acting) -> None:
    """Each try began anew, until the Job's time to live was over; then all was lost, without a word."""
    acting.server.end(acting.name(), lastTransitionTime=(datetime.now(UTC) - timedelta(minutes=11)).isoformat())
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert acting.server.objects["jobs"] == {}
    *lines, last = acting.logs.kept(acting.run_uid, 0, 1).read_text().splitlines()
    assert lines[0] == "a line"
    assert len(lines) < 50
    assert last.startswith("(the rest of the log could not be read: ")
    assert "its answer does not end" in last


def test_no_log_is_begun_that_the_step_of_a_removal_has_no_time_for(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of slow ones took longer than its step, which began again beside it."""
    pod = acting.pod(acting.deploy(), "Succeeded")
    acting.server.logs[pod["metadata"]["name"]] = b"done\n"
    acting.server.end(acting.name())
    with monkeypatch.context() as late:
        late.setattr(removal, "BEGIN_SECONDS", 0.0)
        assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 1
    assert acting.server.asked("GET", "/log") == []
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0


def test_a_job_that_never_started_has_no_log_and_leaves(acting: Acting) -> None:
    acting.deploy()
    acting.server.end(acting.name(), lastTransitionTime=datetime.now(UTC).isoformat())
    acting.pod(acting.job(), "Failed")
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert not acting.logs.kept(acting.run_uid, 0, 1).exists()


def a_folder_made_a_link(logs: Path, elsewhere: Path) -> None:
    logs.symlink_to(elsewhere)


def a_folder_made_a_file(logs: Path, _: Path) -> None:
    logs.write_text("of the crawl")


def a_folder_in_the_place_of_each_log(logs: Path, _: Path) -> None:
    for task in range(2):
        (logs / f"{task}-1.log").mkdir(parents=True)


@pytest.mark.parametrize(
    "put", [a_folder_made_a_link, a_folder_made_a_file, a_folder_in_the_place_of_each_log], ids=lambda put: put.__name__
)
def test_a_job_whose_log_has_no_place_leaves_and_the_runs_files_say_so_once(
    acting: Acting, tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    """It stayed until its time to live was over, after every try to keep its log had failed."""
    for task in range(2):
        pod = acting.pod(acting.deploy(task), "Succeeded")
        acting.server.end(acting.name(task))
        acting.server.logs[pod["metadata"]["name"]] = b"text"
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "files" / acting.run_uid
    elsewhere.mkdir()
    run.mkdir(parents=True)
    put(run / "logs", elsewhere)
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    said = (run / "logs-not-kept.txt").read_text()
    assert "logs/0-1.log cannot be written" in said
    assert acting.removing.remove(acting.run_uid, [(1, 1)]) == 0
    assert acting.server.objects["jobs"] == {}
    assert (run / "logs-not-kept.txt").read_text() == said
    assert list(elsewhere.iterdir()) == []
    assert {path.name for path in run.iterdir()} == {"logs", "logs-not-kept.txt"}
    assert acting.logs.read_kept(acting.run_uid, 0, 1, 0) is None


def test_a_log_that_is_not_kept_for_want_of_room_keeps_the_job(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    pod = acting.pod(acting.deploy(), "Succeeded")
    acting.server.end(acting.name())
    acting.server.logs[pod["metadata"]["name"]] = b"text"
    with pytest.raises(TemporaryError, match="No space left"):
        acting.removing.remove(acting.run_uid, [(0, 1)])
    assert acting.name() in acting.server.objects["jobs"]
    assert list(acting.logs.kept(acting.run_uid, 0, 1).parent.iterdir()) == []


def test_the_log_of_another_run_is_not_read_by_a_link_in_the_place_of_the_folder(acting: Acting) -> None:
    other = acting.logs.kept(str(uuid4()), 0, 1)
    other.parent.mkdir(parents=True)
    other.write_text("of another run")
    mine = acting.logs.kept(acting.run_uid, 0, 1)
    mine.parent.parent.mkdir()
    mine.parent.symlink_to(other.parent)
    assert acting.logs.read_kept(acting.run_uid, 0, 1, 0) is None
    mine.parent.unlink()
    mine.parent.mkdir()
    mine.symlink_to(other)
    assert acting.logs.read_kept(acting.run_uid, 0, 1, 0) is None
    mine.unlink()
    assert acting.logs.read_kept(acting.run_uid, 0, 1, 0) is None
    mine.write_text("of this run")
    assert acting.logs.read_kept(acting.run_uid, 0, 1, 3) == LogChunk("this run", 11, ended=True)


@pytest.mark.parametrize("is_link", [False, True])
def test_what_a_crawl_puts_in_the_place_of_its_log_is_not_its_log(
    acting: Acting, tmp_path: Path, is_link: bool
) -> None:
    pod = acting.pod(acting.deploy(), "Failed")
    acting.server.end(acting.name(), "Failed")
    acting.server.logs[pod["metadata"]["name"]] = b"it failed"
    kept, precious = acting.logs.kept(acting.run_uid, 0, 1), tmp_path / "precious"
    precious.write_text("of somebody")
    kept.parent.mkdir(parents=True)
    kept.symlink_to(precious) if is_link else kept.write_text("all went well")
    assert acting.removing.remove(acting.run_uid, [(0, 1)]) == 0
    assert (kept.is_symlink(), kept.read_text(), precious.read_text()) == (False, "it failed", "of somebody")


# evidence and logs


def test_evidence_says_what_container_pod_and_job_say(acting: Acting) -> None:
    job = acting.deploy()
    pod = acting.pod(job, "Failed", **ended_with(3, "Error", "no space left"))
    acting.server.logs[pod["metadata"]["name"]] = "".join(f"line {number}\n" for number in range(100)).encode()
    acting.server.end(acting.name(), "Failed", reason="BackoffLimitExceeded", message="it has reached the limit")
    warn(acting, job, "one", "the job warns")
    warn(acting, pod, "two", "the pod warns")
    warn(acting, {"metadata": {"uid": "other"}}, "three", "somebody else warns")
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1), (1, 1)])
    for words in ("exit code 3", "no space left", "BackoffLimitExceeded", "it has reached the limit"):
        assert words in (found.message or "")
    assert found.log_tail.splitlines() == [f"line {number}" for number in range(80, 100)]
    assert (found.node, found.restarts) == ("node-7", 0)
    assert [event.split(" ", 1)[1] for event in found.events] == [
        "BackOff: the job warns (3 times)",
        "BackOff: the pod warns (3 times)",
    ]


def test_pods_that_failed_before_the_success_count_as_restarts(acting: Acting) -> None:
    """46: a scheduler service of a company may allow its Jobs retries."""
    acting.pod(acting.deploy(), "Succeeded", **ended_with(0, "Completed"))
    acting.server.end(acting.name())
    acting.job()["status"]["failed"] = 2
    [explained] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert explained.restarts == 2


def test_when_the_pod_is_gone_its_job_and_the_events_are_evidence(acting: Acting) -> None:
    job, sentence = acting.deploy(), "Pod crawls/x has condition DisruptionTarget matching FailJob rule at index 0"
    acting.server.end(acting.name(), "Failed", reason="PodFailurePolicy", message=sentence)
    warn(acting, job, "one", "the job warns")
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert found.message == f"job PodFailurePolicy: {sentence}"
    assert [event.split(" ", 1)[1] for event in found.events] == ["BackOff: the job warns (3 times)"]
    assert (found.node, found.log_tail) == (None, "")


def test_a_log_is_that_of_the_crawl_wherever_its_container_stands(acting: Acting) -> None:
    """A proxy that a webhook had put first was read instead, and the crawl's own log was removed with its Job."""
    pod = acting.pod(acting.deploy(), "Succeeded", **ended_with(0, "Completed"))
    pod["spec"]["containers"] = [{"name": "istio-proxy"}, {"name": "crawl"}]
    acting.server.logs[pod["metadata"]["name"]] = b"of the crawl\n"
    acting.server.end(acting.name())
    acting.collecting.evidence(acting.run_uid, [(0, 1)])
    [read] = acting.jobs.pods(acting.run_uid, [(0, 1)])[0, 1]
    acting.logs.chunk(read, 0, ended=True)
    acting.removing.remove(acting.run_uid, [(0, 1)])
    assert [seen.query["container"] for seen in acting.server.asked("GET", "/log")] == ["crawl"] * 3


@pytest.mark.parametrize(
    ("default", "meant"), [(None, "first"), ("theirs", "theirs"), ("of another pod", "first"), ("crawl", "first")]
)
def test_the_default_or_the_first_container_is_meant_where_none_is_ours(
    acting: Acting, default: str | None, meant: str
) -> None:
    """An injector that puts its proxy first names the container of the service as the default."""
    pod = acting.pod(acting.deploy(), "Succeeded")
    pod["spec"]["containers"] = [{"name": "first"}, {"name": "theirs"}]
    if default:
        pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": default}
    acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert [seen.query["container"] for seen in acting.server.asked("GET", "/log")] == [meant]


def test_an_init_container_that_failed_tells_why_nothing_ran(acting: Acting) -> None:
    """Its message, code and log were deleted with its Job."""
    end = {"exitCode": 2, "reason": "Error", "message": "no credentials"}
    waits = {"name": "crawl", "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    failed = {"name": "fetch", "restartCount": 0, "state": {"terminated": end}}
    pod = acting.pod(acting.deploy(), "Failed", containerStatuses=[waits], initContainerStatuses=[failed])
    pod["spec"]["initContainers"] = [{"name": "fetch"}]
    acting.server.logs[pod["metadata"]["name"]] = b"no credentials for the store\n"
    acting.server.end(acting.name(), "Failed", reason="BackoffLimitExceeded")
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert (found.message or "").startswith("fetch ended with exit code 2 (Error): no credentials; job Backoff")
    assert found.log_tail == "no credentials for the store"
    acting.removing.remove(acting.run_uid, [(0, 1)])
    assert acting.logs.kept(acting.run_uid, 0, 1).read_bytes() == b"no credentials for the store\n"
    assert [seen.query["container"] for seen in acting.server.asked("GET", "/log")] == ["fetch"] * 2


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_sidecar_that_ran_out_of_memory_is_told_with_whatever_end(acting: Acting, phase: str) -> None:
    """A crawl may succeed beside it."""
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    sidecar = {"name": "proxy", "restartCount": 2, "state": {"running": {}}, "lastState": killed}
    ended = ended_with(0 if phase == "Succeeded" else 3, "Completed")
    pod = acting.pod(acting.deploy(), phase, **ended, initContainerStatuses=[sidecar])
    pod["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    acting.server.logs[pod["metadata"]["name"]] = b"fine\n"
    acting.server.end(acting.name(), "Complete" if phase == "Succeeded" else "Failed")
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert (found.events, found.restarts) == (["proxy was OOMKilled (2 restarts)"], 2)
    assert found.log_tail == "fine"


@pytest.mark.parametrize("excuse", ["of the node", "of a proxy"])
def test_what_stands_in_place_of_a_log_is_not_shown_as_the_words_of_the_crawl(acting: Acting, excuse: str) -> None:
    pod = acting.pod(acting.deploy(), "Failed", **ended_with(3, "Error"))
    acting.server.end(acting.name(), "Failed")
    words = {"of the node": "unable to retrieve container logs", "of a proxy": "a proxy answers"}[excuse]
    if excuse == "of the node":
        acting.server.logs[pod["metadata"]["name"]] = b"unable to retrieve container logs for containerd://0a1b"
    else:
        page = Answered(200, headers={"Content-Type": "text/html"})
        acting.server.faults = [Fault("GET", "/log", page) for _ in range(2)]

    [evidence_of_task] = acting.collecting.evidence(acting.run_uid, [(0, 1)])

    assert evidence_of_task.log_tail == ""
    assert words in evidence_of_task.events[0]
    if excuse == "of the node":
        assert acting.logs.chunk(PODS.item(json.dumps(pod).encode()), 0, ended=True).text == ""
    else:
        with pytest.raises(ApiFailed, match=words):
            acting.logs.chunk(PODS.item(json.dumps(pod).encode()), 0, ended=True)


@pytest.mark.parametrize("length", [5_000, 40_000, 100_000])
def test_the_last_lines_of_a_log_end_with_its_end_however_long_they_are(acting: Acting, length: int) -> None:
    """The limit is counted from the first of them: of long ones the last, which is the error, was missing."""
    pod = acting.pod(acting.deploy(), "Failed", **ended_with(1, "Error"))
    acting.server.logs[pod["metadata"]["name"]] = (b"x" * length + b"\n") * 20 + b"y" * length + b"the end\n"
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert found.log_tail.endswith("the end")
    assert len(acting.server.asked("GET", "/log")) <= 3


def test_evidence_is_bounded(acting: Acting) -> None:
    pod = acting.pod(acting.deploy(), "Failed", **ended_with(1, "Error", "m" * 50_000))
    acting.server.logs[pod["metadata"]["name"]] = b"\xff" * 100_000
    for number in range(50):
        warn(acting, pod, f"event-{number}", "e" * 10_000)
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert len(found.model_dump_json()) < 12_000
    assert 0 < len(found.log_tail.encode()) <= 4000
    assert len(found.events) == 10


@pytest.mark.parametrize("slow", ["/log", "events"])
def test_whatever_is_slow_evidence_is_there_in_time(acting: Acting, monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    """A last line that is long is asked for three times. Each had a time of its own, and the step around theirs."""
    monkeypatch.setattr(evidence, "LOGS_AND_EVENTS_SECONDS", 2.0)
    pod = acting.pod(acting.deploy(), "Failed", **ended_with(9, "Error"))
    acting.server.logs[pod["metadata"]["name"]] = b"y" * 100_000
    acting.server.end(acting.name(), "Failed")
    acting.server.faults = [Fault("GET", slow, after=after) for after in (0.3, 5, 5, 5)]
    began = time.monotonic()
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert time.monotonic() - began < 2.5
    assert "exit code 9" in (found.message or "")
    assert any("not read" in line for line in found.events)


@pytest.mark.parametrize("slow", ["jobs", "pods"])
def test_a_list_that_is_slow_is_given_up_before_its_step_is(
    acting: Acting, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    monkeypatch.setattr(evidence, "OBJECTS_SECONDS", 1.0)
    acting.pod(acting.deploy(), "Failed", **ended_with(9, "Error"))
    acting.server.faults = [Fault("GET", slow, after=5)]
    began = time.monotonic()
    with pytest.raises(TemporaryError):
        acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert time.monotonic() - began < 2


def test_a_worker_without_room_for_a_log_has_the_other_evidence(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    acting.pod(acting.deploy(), "Failed", **ended_with(9, "Error"))
    acting.server.end(acting.name(), "Failed")
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert "exit code 9" in (found.message or "")
    assert any("No space left" in line for line in found.events)


def test_a_log_that_goes_on_and_on_is_given_up_in_time(acting: Acting) -> None:
    """Piece by piece, each within the time of its own."""
    pod = acting.pod(acting.deploy())
    name = pod["metadata"]["name"]
    acting.server.logs[name] = b""
    over = threading.Event()

    def prints() -> None:
        while not over.wait(0.1):
            acting.server.print(name, b".")
        acting.server.print(name, None)

    printing = threading.Thread(target=prints)
    printing.start()
    path, began = acting.api.core_path("pods", name, "log"), time.monotonic()
    try:
        with pytest.raises(ApiFailed):
            list(acting.api.chunks(path, {"follow": "true"}, until=began + 1))
    finally:
        over.set()
        printing.join(20)
    assert time.monotonic() - began < 1.5


def test_evidence_that_cannot_be_had_is_said_and_in_nobodys_way(acting: Acting) -> None:
    acting.pod(acting.deploy(), "Failed", **ended_with(9, "Error"))
    acting.server.faults = [
        Fault("GET", "/log", Answered(500, "InternalError", "the node is gone")),
        Fault("GET", "events", Answered(403, "Forbidden", "no events for you")),
    ]
    [found] = acting.collecting.evidence(acting.run_uid, [(0, 1)])
    assert "exit code 9" in (found.message or "")
    assert any("the node is gone" in line for line in found.events)
    assert any("no events for you" in line for line in found.events)


def test_a_long_log_is_followed_without_fetching_all_of_it_again(acting: Acting) -> None:
    """It was, for every line."""
    name = acting.pod(acting.deploy())["metadata"]["name"]
    acting.server.logs[name] = b"x" * 79 + b"\n" + b"ab\n" * SHORTEST_MIRRORED
    [read] = acting.jobs.pods(acting.run_uid, [(0, 1)])[0, 1]
    logs = replace(acting.logs, most_bytes=64 << 20)
    whole = len(acting.server.logs[name])

    def more(offset: int, *, until: int) -> str:
        pieces = ""
        while offset < until:
            chunk = logs.chunk(read, offset, ended=False)
            offset, pieces = chunk.offset, pieces + chunk.text
        return pieces

    before = len(acting.server.asked("GET", "/log"))
    assert logs.chunk(read, whole - 3, ended=False).text == "ab\n"
    offset = whole
    for number in range(5):
        line = f"lïne {number}\n".encode()
        acting.server.print(name, line)
        assert more(offset, until=offset + len(line)) == line.decode()
        offset += len(line)
    asked = acting.server.asked("GET", "/log")[before:]
    assert [seen.query.get("follow") for seen in asked] == [None, "true"]
    assert more(10, until=100).startswith("x" * 69 + "\nab\nab\n"), "what was before is there as well"
    assert logs.chunk(read, -3, ended=False).text == " 4\n"
    assert logs.chunk(read, offset - 2, ended=True).ended
    acting.server.print(name, None)


def test_nothing_of_a_log_is_missed_when_its_node_begins_a_new_file(acting: Acting) -> None:
    """A stream goes on through that; who fetched the log counted the bytes of one file, and met the other's end."""
    name = acting.pod(acting.deploy())["metadata"]["name"]
    acting.server.logs[name] = b"ab\n" * SHORTEST_MIRRORED
    [read] = acting.jobs.pods(acting.run_uid, [(0, 1)])[0, 1]
    mine, elsewhere = (replace(acting.logs, most_bytes=64 << 20, mirrors=Mirrors()) for _ in range(2))
    whole = len(acting.server.logs[name])
    assert mine.chunk(read, whole - 3, ended=False).text == "ab\n"

    def next_of(logs: Logs, offset: int) -> LogChunk:
        while not (chunk := logs.chunk(read, offset, ended=False)).text:
            assert chunk.offset == offset
        return chunk

    acting.server.print(name, b"last of the old\n")
    before = next_of(mine, whole)
    acting.server.begin_file(name, b"first of the new\n" * (SHORTEST_MIRRORED // 8))
    followed = next_of(mine, before.offset)
    assert followed.text.startswith("first of the new\n")
    again = next_of(elsewhere, before.offset)
    assert again.text.startswith("first of the new\n"), "perhaps told before, but not left out"
    end = len(acting.server.logs[name])
    assert mine.chunk(read, end - 17, ended=False).text == "first of the new\n", "another reader, who fetches it"
    acting.server.print(name, b"and more\n")
    assert next_of(mine, end).text == "and more\n", "and not what the stream has there"
    acting.server.print(name, None)


def test_a_log_is_read_from_a_byte_on(acting: Acting) -> None:
    pod = acting.pod(acting.deploy())
    text = "ünï 🕷\n" * 20
    acting.server.logs[pod["metadata"]["name"]] = text.encode()
    [read] = acting.jobs.pods(acting.run_uid, [(0, 1)])[0, 1]
    offset, pieces = 0, ""
    while (chunk := acting.logs.chunk(read, offset, ended=False)).text:
        assert not chunk.ended
        offset, pieces = chunk.offset, pieces + chunk.text
    assert (pieces, offset) == (text, len(text.encode()))
    last = acting.logs.chunk(read, -7, ended=True)
    assert (last.ended, last.offset, text.endswith(last.text)) == (True, offset, True)
    assert last.read == offset  # all of it, for seven bytes
    acting.server.logs.clear()
    assert acting.logs.chunk(read, 0, ended=False).text == ""


# giving up


def waiting_look(acting: Acting) -> JobLook:
    job = Observer(acting.api, acting.installation).look(acting.run_uid, [(0, 1)]).jobs[0, 1]
    assert job.phase is JobPhase.WAITING
    return job


def test_a_job_that_waits_in_vain_is_deleted_as_it_was_seen(acting: Acting) -> None:
    acting.pod(acting.deploy(), "Pending")
    seen = waiting_look(acting)
    assert acting.stopping.give_up(acting.run_uid, [seen]) == {(0, 1)}
    [deleted] = acting.server.asked("DELETE", "jobs")
    assert deleted.body["preconditions"] == {"uid": seen.uid, "resourceVersion": seen.version}
    assert acting.job()["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("sign", ["the Job has a ready pod", "its pod runs", "its pods cannot be read", "it is gone"])
def test_a_job_that_may_have_started_since_the_look_is_left_alone(acting: Acting, sign: str) -> None:
    """A pod that had started since the look was deleted with its Job as hopeless."""
    job = acting.deploy()
    acting.pod(job, "Pending")
    seen = waiting_look(acting)
    if sign == "the Job has a ready pod":
        acting.server.put("jobs", {**job, "status": {"active": 1, "ready": 1}})
    elif sign == "its pod runs":
        acting.pod(job, "Running")
    elif sign == "its pods cannot be read":
        acting.server.faults = [Fault("GET", "pods", Answered(403, "Forbidden", "no"))]
    else:
        del acting.server.objects["jobs"][acting.name()]
    assert acting.stopping.give_up(acting.run_uid, [seen]) == set()
    assert all("deletionTimestamp" not in job["metadata"] for job in acting.server.objects["jobs"].values())
