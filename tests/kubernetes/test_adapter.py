"""Does the adapter tell and do the right thing when the cluster is as bad as it can be? Each fault is a real one."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3

from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings, job_of
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.http import api as transport
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess, ApiConnection
from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest, Resources
from crawler_lifecycle.model.looks import EndRequest, JobLook, JobPhase, Look
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskEvidence
from tests.kit.clusters.behaviours import RUNS_UNTIL_ASKED, Behaviour
from tests.kit.data.rows import after, row
from tests.kubernetes import fates, rights
from tests.kubernetes.bed import Bed, condition
from tests.kubernetes.bench import KubernetesBench
from tests.kubernetes.client import until
from tests.kubernetes.harm import delete, drain, preempt, taint
from tests.kubernetes.proxy import Proxy

MAIN = [(0, 1)]
SYNCS_SECONDS = 3.0  # in which the Job controller meets an ended pod more than once
LONG = " ".join(str(number) for number in range(30_000))  # 170 kB: shorter answers are not packed


def behaves(image: str) -> Behaviour:
    return Behaviour("", image)


def until_look(
    bench: KubernetesBench, request: DeploymentRequest, is_so: Callable[[JobLook], bool], what: str
) -> JobLook:
    def found() -> JobLook | None:
        job = bench.job(request)
        return job if job and is_so(job) else None

    return until(found, what)


def until_waiting_for(bench: KubernetesBench, request: DeploymentRequest, cause: str) -> JobLook:
    return until_look(bench, request, lambda job: job.cause == cause, f"the job to wait for {cause}")


def deployed(kubernetes: KubernetesBench, image: str, **changes: object) -> DeploymentRequest:
    request = kubernetes.request(behaves(image), **changes)
    kubernetes.cluster.deploy(request)
    return request


def pods(kubernetes: KubernetesBench, request: DeploymentRequest) -> list[dict[str, Any]]:
    return [each for each in kubernetes.objects(request) if "nodeName" in each["spec"]]


# Why it failed


@pytest.mark.parametrize(
    ("image", "reason", "code"),
    [
        (fates.OUT_OF_MEMORY, "oom_killed", 137),
        (fates.EVICTED, "evicted", None),
        (fates.NODE_SHUTDOWN, "node_shutdown", 137),
        (fates.CANNOT_RUN, "cannot_start", 128),
    ],
)
def test_a_failure_tells_who_did_it(kubernetes: KubernetesBench, image: str, reason: str, code: int | None) -> None:
    request = deployed(kubernetes, image)
    job = kubernetes.until_ended(request)
    assert (job.phase, job.reason, job.exit_code, job.gone) == (JobPhase.FAILED, reason, code, True)
    (evidence,) = kubernetes.cluster.evidence(request.run_uid, MAIN)
    assert evidence.node
    assert evidence.message


def test_what_the_node_said_is_among_the_evidence(kubernetes: KubernetesBench) -> None:
    request = deployed(kubernetes, fates.EVICTED)
    kubernetes.until_ended(request)

    def told() -> bool:
        (evidence,) = kubernetes.cluster.evidence(request.run_uid, MAIN)
        return any("low on resource" in event for event in evidence.events)

    until(told, "the event to be there")


def test_of_many_that_fail_entryhas_its_own_warnings(kubernetes: KubernetesBench) -> None:
    """By one list of all that warns in the namespace."""
    first = deployed(kubernetes, fates.EVICTED)
    requests = [first, *(deployed(kubernetes, fates.EVICTED, run_uid=first.run_uid, task=task) for task in range(1, 6))]
    for request in requests:
        kubernetes.until_ended(request)
        warn(kubernetes, request)
    found = kubernetes.cluster.evidence(first.run_uid, [(request.task, 1) for request in requests])
    assert {each.task for each in found} == {request.task for request in requests}
    for each in found:
        assert [event for event in each.events if f"task {each.task} warns" in event] == [each.events[-1]]


def warn(kubernetes: KubernetesBench, request: DeploymentRequest) -> None:
    job = next(each for each in kubernetes.objects(request) if "template" in each["spec"])
    about = {"kind": "Job", "name": job["metadata"]["name"], "namespace": kubernetes.namespace}
    event = {
        "metadata": {"generateName": f"{job['metadata']['name']}.warned-"},
        "involvedObject": {**about, "uid": job["metadata"]["uid"], "apiVersion": "batch/v1"},
        "type": "Warning",
        "reason": "Tested",
        "message": f"task {request.task} warns",
        "lastTimestamp": "2036-01-01T00:00:00Z",  # after all others
    }
    kubernetes.bed.admin.post(f"/api/v1/namespaces/{kubernetes.namespace}/events", event)


# A pod that was deleted: what is left to tell why


def running_pod(
    kubernetes: KubernetesBench, *, held: bool = False, image: str = fates.RUNS
) -> tuple[DeploymentRequest, str]:
    """The path of its pod; one that is held is still there when it has ended."""
    crawler = Crawler(name="small", image=image, resources=Resources(cpu="1"))
    request = deployed(kubernetes, image, crawler=crawler)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    (pod,) = pods(kubernetes, request)
    path = f"/api/v1/namespaces/{kubernetes.namespace}/pods/{pod['metadata']['name']}"
    if held:
        finalizers = [*pod["metadata"]["finalizers"], "example.org/held"]
        kubernetes.bed.admin.merge(path, {"metadata": {"finalizers": finalizers}})
    return request, path


@pytest.mark.parametrize(
    ("act", "reason"), [(drain, "drained"), (preempt, "preempted"), (taint, "node_tainted"), (delete, "disrupted")]
)
def test_a_deleted_pod_that_is_still_there_says_who_did_it(
    kubernetes: KubernetesBench, act: Callable[[Bed, str], None], reason: str
) -> None:
    request, path = running_pod(kubernetes, held=True)
    act(kubernetes.bed, path)
    job = kubernetes.until_ended(request)
    assert (job.phase, job.reason, job.exit_code) == (JobPhase.FAILED, reason, 143)
    kubernetes.bed.admin.merge(path, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("image", [fates.RUNS, fates.ORDERLY])
def test_a_job_that_is_suspended_goes_on_although_its_pod_is_left_for_a_while(
    kubernetes: KubernetesBench, image: str
) -> None:
    """A real node leaves the pod that it ended for a second or more; the Job controller asks the failure policy."""
    request, path = running_pod(kubernetes, held=True, image=image)
    admin = kubernetes.bed.admin
    job = f"/apis/batch/v1/namespaces/{kubernetes.namespace}/jobs/{kubernetes.name(request)}"
    admin.merge(job, {"spec": {"suspend": True}})
    until(lambda: admin.get(path)["status"]["phase"] in ("Failed", "Succeeded"), "the pod to end")
    time.sleep(SYNCS_SECONDS)
    assert {entry["type"] for entry in admin.get(job)["status"]["conditions"]} == {"Suspended"}
    admin.merge(path, {"metadata": {"finalizers": None}})
    admin.merge(job, {"spec": {"suspend": False}})
    kubernetes.until_phase(request, JobPhase.RUNNING)


@pytest.mark.parametrize(("act", "reason"), [(drain, "drained"), (preempt, "preempted"), (taint, "node_tainted")])
def test_a_program_that_was_sent_away_and_ended_in_order_was_not_done(
    kubernetes: KubernetesBench, act: Callable[[Bed, str], None], reason: str
) -> None:
    """Its Job is complete, and its end and its deletion are seconds apart on two clocks."""
    request, path = running_pod(kubernetes, held=True, image=fates.ORDERLY)
    act(kubernetes.bed, path)
    job = kubernetes.until_ended(request)
    assert (job.phase, job.stop_asked, job.reason, job.exit_code) == (JobPhase.SUCCEEDED, None, reason, 0)
    assert job.facts is not None
    assert (job.facts.told_to_end, job.facts.told_by) == (None, reason)
    ended = after(row(job_uid=job.uid), kubernetes.cluster.look(request.run_uid, MAIN))
    assert (ended.status, ended.reason) == (TaskStatus.FAILED, reason)
    kubernetes.bed.admin.merge(path, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("act", [drain, delete])
def test_a_program_that_was_seen_being_told_and_left_no_pod_was_not_done(
    kubernetes: KubernetesBench, act: Callable[[Bed, str], None]
) -> None:
    request, path = running_pod(kubernetes, image=fates.after(fates.ORDERLY, "3s"))
    act(kubernetes.bed, path)
    told = until_look(kubernetes, request, lambda job: job.cause == "pod_terminating", "its pod to be told")
    task = after(row(job_uid=told.uid), Look(complete=True, jobs={(0, 1): told}))
    until(lambda: not kubernetes.bed.admin.exists(path), "the pod to be gone")
    assert kubernetes.until_ended(request).phase is JobPhase.SUCCEEDED
    ended = after(task, kubernetes.cluster.look(request.run_uid, MAIN))
    assert (ended.status, ended.reason) == (TaskStatus.FAILED, "drained" if act is drain else "disrupted")


@pytest.mark.parametrize("by_itself", [True, False], ids=["had ended before", "ended because of it"])
def test_a_stop_that_the_controllers_are_late_for_is_told_by_the_pod(
    kubernetes: KubernetesBench, *, by_itself: bool
) -> None:
    """They count the end of what was told to end, and call its Job complete."""
    image = fates.after(fates.SUCCEEDS, "5s") if by_itself else fates.ORDERLY
    request, path = running_pod(kubernetes, held=True, image=image)
    admin = kubernetes.bed.admin

    def succeeded() -> bool:
        return bool(admin.get(path)["status"]["phase"] == "Succeeded")

    task = row(job_uid=str(getattr(kubernetes.job(request), "uid", None)))
    with kubernetes.bed.without("kube-controller-manager"):
        if by_itself:
            until(succeeded, "it to end by itself")
            until_another_second()
        kubernetes.cluster.stop(request.run_uid, MAIN)
        if not by_itself:
            admin.delete(path)  # as the garbage collector would
            until(succeeded, "it to end as it was told")
        seen = kubernetes.cluster.look(request.run_uid, MAIN)
        facts = seen.jobs[0, 1].facts
        assert facts is not None
        assert (facts.succeeded, facts.told_to_end) == (True, False if by_itself else None), "two clocks tell no order"
        task = after(task, seen, intent=Intent.STOP)
    job = until_look(kubernetes, request, lambda look: look.phase is not JobPhase.ENDING, "its Job to count it")
    assert job.phase is JobPhase.SUCCEEDED
    admin.merge(path, {"metadata": {"finalizers": None}})
    ended = after(task, Look(complete=True, jobs={(0, 1): job}), intent=Intent.STOP)
    assert ended.status is (TaskStatus.SUCCEEDED if by_itself else TaskStatus.STOPPED)


def test_a_stop_of_many_that_end_in_order_stops_them_all_although_the_controllers_are_late(
    kubernetes: KubernetesBench,
) -> None:
    bench, first = kubernetes, deployed(kubernetes, fates.ORDERLY)
    requests = [first, *(deployed(bench, fates.ORDERLY, run_uid=first.run_uid, task=task) for task in range(1, 20))]
    tasks = {(each.task, 1): bench.until_phase(each, JobPhase.RUNNING).uid for each in requests}
    rows = [row(job_uid=uid, task=task) for (task, _), uid in tasks.items()]
    path = f"/api/v1/namespaces/{bench.namespace}/pods"
    chosen = {"labelSelector": f"crawler-lifecycle/run-uid={first.run_uid}"}

    def look() -> None:
        seen = bench.cluster.look(first.run_uid, list(tasks))
        rows[:] = [after(each, seen, intent=Intent.STOP) for each in rows]

    with bench.bed.without("kube-controller-manager"):
        bench.cluster.stop(first.run_uid, list(tasks))
        for pod in bench.bed.admin.items(path, **chosen):
            bench.bed.admin.delete(f"{path}/{pod['metadata']['name']}")  # as the garbage collector would
        until(lambda: ended_in_order(bench.bed.admin.items(path, **chosen), len(tasks)), "all to end as they were told")
        look()

    def are_over() -> bool:
        look()
        return all(each.status.is_over for each in rows)

    until(are_over, "all to be over")
    assert {each.status for each in rows} == {TaskStatus.STOPPED}


def ended_in_order(found: list[dict[str, Any]], count: int) -> bool:
    return [each["status"]["phase"] for each in found] == ["Succeeded"] * count


def until_another_second() -> None:
    """All times of the cluster are whole seconds."""
    began = datetime.now(UTC).replace(microsecond=0)
    until(lambda: datetime.now(UTC) - began > timedelta(seconds=1), "another second")


@pytest.mark.parametrize(
    ("act", "reason", "code"),
    [
        (drain, "disrupted", None),
        (preempt, "disrupted", None),
        (taint, "disrupted", None),
        (delete, "disrupted", None),
    ],
)
def test_of_a_deleted_pod_that_is_gone_the_job_remembers_the_end(
    kubernetes: KubernetesBench, act: Callable[[Bed, str], None], reason: str, code: int | None
) -> None:
    request, path = running_pod(kubernetes)
    act(kubernetes.bed, path)
    until(lambda: not kubernetes.bed.admin.exists(path), "the pod to be gone")
    job = kubernetes.until_ended(request)
    assert (job.phase, job.reason, job.exit_code) == (JobPhase.FAILED, reason, code)
    assert (job.gone, job.end_request) == (True, EndRequest.TO_PODS if act is delete else EndRequest.NONE)

    def evidence() -> TaskEvidence | None:
        (found,) = kubernetes.cluster.evidence(request.run_uid, MAIN)
        return found if found.events else None

    kept = until(evidence, "the event of the Job")
    assert str(job.message) in str(kept.message)
    if act is not delete:  # that ends with a code of a deletion, which is none to remember
        assert any(path.rpartition("/")[2] in event for event in kept.events)


def test_a_job_that_fails_while_it_is_stopped_is_stopped(kubernetes: KubernetesBench) -> None:
    """Its failure policy may see the pod end before the Job is gone."""
    request, path = running_pod(kubernetes, held=True)
    kubernetes.cluster.stop(request.run_uid, MAIN)
    until(lambda: kubernetes.bed.admin.get(path)["status"]["phase"] == "Failed", "the pod to end")
    job = kubernetes.job(request)
    assert job
    assert job.stop_asked
    assert job.phase in (JobPhase.ENDING, JobPhase.FAILED)
    kubernetes.bed.admin.merge(path, {"metadata": {"finalizers": None}})
    kubernetes.until_stopped(request)


# Why it waits


@pytest.mark.parametrize(
    ("image", "cause"),
    [(fates.NO_IMAGE, "image_pull"), (fates.BAD_CONFIG, "container_config"), (fates.NO_START, "container_creating")],
)
def test_a_pod_that_cannot_start_tells_why(kubernetes: KubernetesBench, image: str, cause: str) -> None:
    request = deployed(kubernetes, image)
    assert until_waiting_for(kubernetes, request, cause).phase is JobPhase.WAITING
    kubernetes.cluster.stop(request.run_uid, MAIN)
    kubernetes.until_stopped(request)


def test_what_fits_on_no_node_is_unschedulable(kubernetes: KubernetesBench) -> None:
    crawler = Crawler(name="huge", image=fates.RUNS, resources=Resources(cpu="1000"))
    request = kubernetes.request(RUNS_UNTIL_ASKED, crawler=crawler)
    kubernetes.cluster.deploy(request)
    job = until_waiting_for(kubernetes, request, "unschedulable")
    assert "Insufficient cpu" in str(job.message)
    kubernetes.cluster.stop(request.run_uid, MAIN)
    kubernetes.until_stopped(request)


def quota(kubernetes: KubernetesBench, **hard: str) -> str:
    base = f"/api/v1/namespaces/{kubernetes.namespace}/resourcequotas"
    kubernetes.bed.admin.post(base, {"metadata": {"name": "tight"}, "spec": {"hard": hard}})
    address = f"{base}/tight"
    until(lambda: kubernetes.bed.admin.get(address).get("status", {}).get("hard"), "the quota to be counted")
    return address


def test_without_room_for_pods_it_waits_for_quota_and_then_runs(kubernetes: KubernetesBench) -> None:
    address = quota(kubernetes, pods="0")
    request = deployed(kubernetes, fates.RUNS)
    assert until_waiting_for(kubernetes, request, "quota").phase is JobPhase.WAITING
    kubernetes.bed.admin.delete(address)
    kubernetes.until_phase(request, JobPhase.RUNNING)


# What becomes of it when others act


def test_a_job_that_a_person_deleted_is_provably_gone(kubernetes: KubernetesBench) -> None:
    request = deployed(kubernetes, fates.RUNS)
    job = kubernetes.until_phase(request, JobPhase.RUNNING)
    path = f"/apis/batch/v1/namespaces/{kubernetes.namespace}/jobs/{job.name}"
    kubernetes.bed.admin.delete(path, {"propagationPolicy": "Background"})
    kubernetes.until_stopped(request)


def test_the_pod_of_a_deleted_job_is_shown_and_ended(kubernetes: KubernetesBench) -> None:
    request = deployed(kubernetes, fates.RUNS)
    job = kubernetes.until_phase(request, JobPhase.RUNNING)
    path = f"/apis/batch/v1/namespaces/{kubernetes.namespace}/jobs/{job.name}"
    kubernetes.bed.admin.delete(path, {"propagationPolicy": "Orphan"})
    orphan = until_look(kubernetes, request, lambda look: look.cause == "orphan_pods", "the orphan to be shown")
    assert orphan.phase is JobPhase.ENDING
    kubernetes.cluster.stop(request.run_uid, MAIN)
    kubernetes.until_stopped(request)


# What the cluster itself does not know, or knows no more


def test_what_the_cluster_cleaned_up_before_anybody_looked_is_lost_and_has_not_failed(
    kubernetes: KubernetesBench, tmp_path: Path
) -> None:
    """Its time to live is over, and no worker was there meanwhile."""
    access = ApiAccess(kubernetes.namespace, kubernetes.bed.kubeconfig("actor", kubernetes.namespace))
    hasty = KubernetesCluster(
        access, kubernetes.installation, PodSettings(keep=timedelta(seconds=1)), LogStorage(tmp_path)
    )
    request = kubernetes.request(behaves(fates.SUCCEEDS))
    made = hasty.deploy(request)
    until(lambda: kubernetes.objects(request) == [], "job and pod to be cleaned up")
    absent = kubernetes.cluster.look(request.run_uid, MAIN)
    assert (absent.complete, dict(absent.jobs)) == (True, {})
    lost = after(row(TaskStatus.PENDING, made.job_uid), absent, absent)
    assert (lost.status, lost.reason) == (TaskStatus.LOST, "job_disappeared")


def test_while_its_controllers_stand_still_a_job_waits_and_nothing_has_ended(kubernetes: KubernetesBench) -> None:
    running = deployed(kubernetes, fates.after(fates.SUCCEEDS, "3s"))
    kubernetes.until_phase(running, JobPhase.RUNNING)
    with kubernetes.bed.frozen("kube-controller-manager"):
        request = deployed(kubernetes, fates.SUCCEEDS)
        assert until_waiting_for(kubernetes, request, "not_synced").phase is JobPhase.WAITING
        until(lambda: pods(kubernetes, running)[0]["status"]["phase"] == "Succeeded", "its pod to end")
        job = kubernetes.job(running)
        assert job
        assert job.phase is JobPhase.RUNNING
    for each in (request, running):
        assert kubernetes.until_ended(each).phase is JobPhase.SUCCEEDED


def test_a_job_that_a_restored_cluster_never_had_is_absent(kubernetes: KubernetesBench) -> None:
    kept = deployed(kubernetes, fates.RUNS)
    kubernetes.until_phase(kept, JobPhase.RUNNING)
    backup = kubernetes.bed.backup()
    lost = deployed(kubernetes, fates.RUNS, run_uid=kept.run_uid, task=1)
    kubernetes.until_phase(lost, JobPhase.RUNNING)
    kubernetes.bed.restore(backup)
    assert kubernetes.until_phase(kept, JobPhase.RUNNING)
    look = kubernetes.cluster.look(kept.run_uid, [(0, 1), (1, 1)])
    assert (look.complete, list(look.jobs)) == (True, [(0, 1)])


@pytest.mark.timeout(300)
def test_a_job_on_a_lost_node_goes_on_until_the_node_tells(kubernetes: KubernetesBench) -> None:
    """Its pod is to go and cannot tell that it has: nobody knows, so it is over only when it is ended by force."""
    bed, request = kubernetes.bed, deployed(kubernetes, fates.RUNS)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    node = pods(kubernetes, request)[0]["spec"]["nodeName"]
    bed.lose_node(node)
    try:
        until(lambda: condition(bed.admin.get(f"/api/v1/nodes/{node}"), "Ready") == "Unknown", "it to be noticed", 120)
        until_look(kubernetes, request, lambda job: job.cause == "pod_terminating", "its pod to be sent away")
        kubernetes.cluster.stop(request.run_uid, MAIN)
        kubernetes.until_phase(request, JobPhase.ENDING)
        kubernetes.cluster.kill(request.run_uid, MAIN)
        kubernetes.until_stopped(request)
    finally:
        bed.return_node(node)


def test_a_pod_that_was_drained_and_never_ends_is_overdue_until_it_is_ended_by_force(
    kubernetes: KubernetesBench,
) -> None:
    request = deployed(kubernetes, fates.STUCK, grace_seconds=1)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    (pod,) = pods(kubernetes, request)
    drain(kubernetes.bed, f"/api/v1/namespaces/{kubernetes.namespace}/pods/{pod['metadata']['name']}")
    until_look(kubernetes, request, lambda job: job.cause == "pod_terminating", "its pod to be sent away")
    impatient = kubernetes.client(patience=JobPatience(overdue=timedelta(0)))
    until(lambda: impatient.look(request.run_uid, MAIN).jobs[0, 1].overdue, "its grace to be over")
    job = kubernetes.job(request)
    assert job
    assert not job.overdue
    kubernetes.cluster.kill(request.run_uid, MAIN)
    assert kubernetes.until_stopped(request) is None


# What becomes of what it asks


def test_nothing_is_known_while_the_api_server_is_silent(kubernetes: KubernetesBench, proxy: Proxy) -> None:
    request = deployed(kubernetes, fates.RUNS)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    through = kubernetes.client(server=proxy.url)
    assert through.look(request.run_uid, MAIN).complete
    proxy.fall_silent()
    look = through.look(request.run_uid, MAIN)
    assert (look.complete, dict(look.jobs)) == (False, {})
    assert look.problem
    proxy.speak_again()
    until(lambda: through.look(request.run_uid, MAIN).complete, "a new connection to work")


def test_a_long_list_comes_packed(kubernetes: KubernetesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    request = kubernetes.request(behaves(fates.RUNS))
    job = job_of(request, PodSettings())
    job["metadata"].setdefault("annotations", {})["test/long"] = LONG
    kubernetes.bed.admin.post(f"/apis/batch/v1/namespaces/{kubernetes.namespace}/jobs", job)
    ask, answers = ApiConnection.request, []

    def asked(connection: ApiConnection, *words: Any) -> urllib3.HTTPResponse:
        answers.append(ask(connection, *words))
        return answers[-1]

    monkeypatch.setattr(ApiConnection, "request", asked)
    assert kubernetes.job(request)
    packed, *_ = answers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert 1000 < packed.tell() < len(LONG) / 2


def test_a_list_that_is_too_old_for_its_next_page_is_no_look(
    kubernetes: KubernetesBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd forgets what was before every five minutes; a job that is on no page is not gone."""
    first = deployed(kubernetes, fates.RUNS)
    second = deployed(kubernetes, fates.RUNS, run_uid=first.run_uid, task=1)
    pages = KubernetesApi.pages

    def aged(api: KubernetesApi, *asked: Any, **how: Any) -> Iterator[bytes]:
        for page in pages(api, *asked, **how):
            yield page
            warn(kubernetes, first)
            kubernetes.bed.compact()

    with monkeypatch.context() as patched:
        patched.setattr(transport, "PAGE", 1)
        patched.setattr(KubernetesApi, "pages", aged)
        look = kubernetes.cluster.look(first.run_uid, [(0, 1), (1, 1)])
    assert (look.complete, dict(look.jobs)) == (False, {})
    assert "too old" in (look.problem or "")
    assert kubernetes.job(first)
    assert kubernetes.job(second)


def test_nothing_is_known_without_rights_and_doctor_says_which(kubernetes: KubernetesBench) -> None:
    request = deployed(kubernetes, fates.RUNS)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    assert kubernetes.cluster.check_rights()
    kubernetes.bed.withdraw("actor", kubernetes.namespace)
    until(lambda: not kubernetes.cluster.look(request.run_uid, MAIN).complete, "the rights to be gone")
    assert dict(kubernetes.cluster.look(request.run_uid, MAIN).jobs) == {}
    with pytest.raises(NotReady, match="create jobs"):
        kubernetes.cluster.check_rights()
    rights.grant(kubernetes.bed.admin, kubernetes.namespace)
    until(lambda: kubernetes.cluster.look(request.run_uid, MAIN).complete, "the rights to be back")
    assert kubernetes.until_phase(request, JobPhase.RUNNING)
