"""Deploying, stopping, killing and following on the real control plane, with what goes wrong there done for real."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from kubernetes.config import incluster_config

from crawler_lifecycle.clusters.kubernetes.act import removal
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.http import connection
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
from crawler_lifecycle.clusters.kubernetes.observe import changes
from crawler_lifecycle.errors import NotReady, Refused, TemporaryError
from crawler_lifecycle.model.deployment import DeploymentRequest, Resources
from crawler_lifecycle.model.looks import JobPhase
from tests.kit.clusters.behaviours import RUNS_UNTIL_ASKED, SUCCEEDS, Behaviour
from tests.kit.waiting import until
from tests.kubernetes import fates, rights
from tests.kubernetes.bed import Bed
from tests.kubernetes.bench import KubernetesBench
from tests.kubernetes.proxy import Proxy

QUOTAS = "/api/v1/namespaces/{}/resourcequotas"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
FEW_AT_ONCE = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=1",
    "--max-mutating-requests-inflight=1",
)
SOON = 2.0


@pytest.fixture
def impatient(kubernetes: KubernetesBench) -> KubernetesCluster:
    return client(kubernetes)


def client(bench: KubernetesBench, account: str = "actor", server: str | None = None) -> KubernetesCluster:
    """Gives a silent API server up after a moment."""
    kubeconfig = bench.bed.kubeconfig(account, bench.namespace, server)
    access = ApiAccess(bench.namespace, kubeconfig, connect_seconds=SOON, read_seconds=SOON)
    return KubernetesCluster(access, bench.installation, PodSettings(), LogStorage(bench.folder))


def names_of_jobs(bench: KubernetesBench) -> list[str]:
    items = bench.bed.admin.items(f"/apis/batch/v1/namespaces/{bench.namespace}/jobs")
    return [item["metadata"]["name"] for item in items]


# deploying


def test_a_full_quota_is_waited_for(bed: Bed, kubernetes: KubernetesBench) -> None:
    quotas = QUOTAS.format(kubernetes.namespace)
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/jobs.batch": "0"}}}
    bed.admin.post(quotas, quota)
    until(lambda: "used" in bed.admin.get(f"{quotas}/none").get("status", {}), "the quota to count")
    request = kubernetes.request(SUCCEEDS)
    with pytest.raises(TemporaryError, match="exceeded quota") as caught:
        kubernetes.cluster.deploy(request)
    assert caught.value.cause == "quota"
    bed.admin.delete(f"{quotas}/none")

    def deployed() -> bool:
        try:
            return kubernetes.cluster.deploy(request).created
        except TemporaryError:
            return False

    until(deployed, "the quota to be forgotten")


def test_what_admission_denies_is_refused_with_its_words(bed: Bed, kubernetes: KubernetesBench) -> None:
    name = f"images-{uuid4().hex[:8]}"
    image = f"denied/{name}"
    rules = [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}]
    checked = f"object.spec.template.spec.containers[0].image != '{image}'"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": checked, "message": "no images from there"}],
    }
    bed.admin.post(POLICIES, {"metadata": {"name": name}, "spec": spec})
    bed.admin.post(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})
    try:

        def denied() -> Refused | None:
            try:
                kubernetes.cluster.deploy(kubernetes.request(Behaviour("exit 0", image)))
            except Refused as error:
                return error
            return None

        error = until(denied, "the policy to be in force")
        assert "no images from there" in error.message
        assert error.cause == "admission_denied"
    finally:
        bed.admin.delete(f"{BINDINGS}/{name}")
        bed.admin.delete(f"{POLICIES}/{name}")


def test_what_the_api_server_cannot_accept_is_refused_and_named(kubernetes: KubernetesBench) -> None:
    request = kubernetes.request(SUCCEEDS)
    unchecked = Resources.model_construct(memory="-1")
    crawler = request.crawler.model_copy(update={"resources": unchecked})
    with pytest.raises(Refused, match=r"resources.limits\[memory\]"):
        kubernetes.cluster.deploy(request.model_copy(update={"crawler": crawler}))
    assert names_of_jobs(kubernetes) == []


def test_a_deployment_whose_answer_was_lost_is_adopted(kubernetes: KubernetesBench, proxy: Proxy) -> None:
    behind = kubernetes.client(server=proxy.url)
    proxy.drop_answer("POST", "/jobs")
    request = kubernetes.request(RUNS_UNTIL_ASKED)
    deployment = behind.deploy(request)
    assert (deployment.created, proxy.dropped) == (False, 1)
    [job] = kubernetes.objects(request)[:1]
    assert job["metadata"]["uid"] == deployment.job_uid
    assert names_of_jobs(kubernetes) == [deployment.job_name]


def test_a_frozen_api_server_is_given_up_and_makes_no_second_job(
    bed: Bed, kubernetes: KubernetesBench, impatient: KubernetesCluster
) -> None:
    request = kubernetes.request(RUNS_UNTIL_ASKED)
    assert impatient.look(request.run_uid).complete
    with bed.frozen("kube-apiserver"):
        with pytest.raises(TemporaryError) as caught:
            impatient.deploy(request)
        assert caught.value.cause == "cluster_unavailable"
        assert not impatient.look(request.run_uid).complete
        for act in (impatient.stop, impatient.kill):
            with pytest.raises(TemporaryError):
                act(request.run_uid, [(0, 1)])
    deployment = impatient.deploy(request)
    assert names_of_jobs(kubernetes) == [deployment.job_name]


def test_a_right_that_was_withdrawn_is_no_end_of_anything(
    bed: Bed, kubernetes: KubernetesBench, impatient: KubernetesCluster
) -> None:
    request = kubernetes.request(RUNS_UNTIL_ASKED)
    impatient.deploy(request)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    bed.withdraw("actor", kubernetes.namespace)
    until(lambda: not impatient.look(request.run_uid, [(0, 1)]).complete, "the right to be gone")
    with pytest.raises(TemporaryError) as caught:
        impatient.deploy(kubernetes.request(SUCCEEDS))
    assert caught.value.cause == "cluster_forbids"
    with pytest.raises(TemporaryError):
        impatient.stop(request.run_uid, [(0, 1)])
    with pytest.raises(NotReady, match="delete pods"):
        impatient.check_rights()
    rights.grant(bed.admin, kubernetes.namespace)
    until(lambda: impatient.look(request.run_uid, [(0, 1)]).complete, "the right to be back")
    assert kubernetes.until_phase(request, JobPhase.RUNNING)


def test_each_user_has_its_rights_and_no_more(kubernetes: KubernetesBench) -> None:
    assert kubernetes.namespace in kubernetes.cluster.check_rights()
    with pytest.raises(NotReady) as caught:
        client(kubernetes, "observer").check_rights()
    for right in ("create jobs.batch", "delete jobs.batch", "delete pods"):
        assert right in caught.value.message
    assert "list" not in caught.value.message


def test_many_at_once_on_a_busy_api_server_are_all_deployed(bed: Bed, kubernetes: KubernetesBench) -> None:
    run_uid = str(uuid4())
    requests = [kubernetes.request(SUCCEEDS, run_uid=run_uid, task=task, tasks=40) for task in range(40)]

    def deploy(request: DeploymentRequest) -> str:
        def deployed() -> str | None:
            try:
                return kubernetes.cluster.deploy(request).job_uid
            except TemporaryError:
                return None

        return until(deployed, f"{request.key} to be deployed")

    with bed.api_server_with(*FEW_AT_ONCE), ThreadPoolExecutor(16) as pool:
        uids = list(pool.map(deploy, requests))
    assert len(set(uids)) == len(names_of_jobs(kubernetes)) == 40


# stopping


def test_a_stop_whose_answer_was_lost_is_a_stop(kubernetes: KubernetesBench, proxy: Proxy) -> None:
    request = kubernetes.request(RUNS_UNTIL_ASKED)
    kubernetes.cluster.deploy(request)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    behind = kubernetes.client(server=proxy.url)
    proxy.drop_answer("DELETE", "/jobs/")
    with pytest.raises(TemporaryError):
        behind.stop(request.run_uid, [(0, 1)])
    behind.stop(request.run_uid, [(0, 1)])
    kubernetes.until_stopped(request)


def test_a_pod_that_never_ends_is_gone_when_it_is_killed(kubernetes: KubernetesBench) -> None:
    request = kubernetes.request(Behaviour("", fates.STUCK), grace_seconds=1)
    kubernetes.cluster.deploy(request)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    kubernetes.cluster.stop(request.run_uid, [(0, 1)])
    job = kubernetes.until_phase(request, JobPhase.ENDING)
    assert (job.stop_asked, job.gone) == (True, False)
    kubernetes.cluster.kill(request.run_uid, [(0, 1)])
    kubernetes.until_stopped(request)


def test_pods_whose_job_was_taken_from_them_are_ended(bed: Bed, kubernetes: KubernetesBench) -> None:
    request = kubernetes.request(RUNS_UNTIL_ASKED)
    name = kubernetes.cluster.deploy(request).job_name
    kubernetes.until_phase(request, JobPhase.RUNNING)
    path = f"/apis/batch/v1/namespaces/{kubernetes.namespace}/jobs/{name}"
    bed.admin.delete(path, {"propagationPolicy": "Orphan"})
    until(lambda: not bed.admin.exists(path), "the job to be gone")
    kubernetes.cluster.stop(request.run_uid, [(0, 1)])
    until(lambda: kubernetes.objects(request) == [], "its pod to be gone")


def test_a_job_on_record_leaves_with_its_pod_and_keeps_its_log(
    kubernetes: KubernetesBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = kubernetes.request(SUCCEEDS, not_after=datetime.now(UTC) + timedelta(seconds=30))
    kubernetes.cluster.deploy(request)
    assert kubernetes.until_ended(request).removable
    assert kubernetes.cluster.remove(request.run_uid, [(0, 1)]) == 1
    assert kubernetes.job(request)
    monkeypatch.setattr(removal, "ON_THE_WAY", -timedelta(minutes=1))
    assert kubernetes.cluster.remove(request.run_uid, [(0, 1)]) == 0
    until(lambda: kubernetes.objects(request) == [], "job and pod to be gone")
    assert kubernetes.cluster.log(request.run_uid, 0, 1, 0).text == "ran\n"


# following


@contextmanager
def followed(cluster: KubernetesCluster) -> Iterator[set[str]]:
    """The runs that were told of so far."""
    told: set[str] = set()
    ends = threading.Event()

    def follow() -> None:
        changed = cluster.changes()
        while not ends.is_set():
            with suppress(TemporaryError):  # it goes on
                told.update(next(changed))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        ends.set()
        thread.join(60)


def tells(kubernetes: KubernetesBench, told: set[str]) -> None:
    request = kubernetes.request(SUCCEEDS)
    kubernetes.cluster.deploy(request)
    until(lambda: request.run_uid in told, "the change to be told")


def test_changes_are_told_again_after_a_cut_and_a_compaction(
    bed: Bed, kubernetes: KubernetesBench, proxy: Proxy
) -> None:
    with followed(client(kubernetes, "observer", proxy.url)) as told:
        tells(kubernetes, told)
        proxy.fall_silent()
        proxy.cut()
        missed = kubernetes.request(SUCCEEDS)
        kubernetes.cluster.deploy(missed)
        kubernetes.until_ended(missed)
        bed.compact()
        proxy.speak_again()
        until(lambda: missed.run_uid in told, "what was missed to be told")
        tells(kubernetes, told)


def test_changes_are_told_again_after_a_silence(
    kubernetes: KubernetesBench, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "STREAM_SECONDS", 600)
    monkeypatch.setattr(changes, "SILENCE_SECONDS", SOON)
    with followed(client(kubernetes, "observer", proxy.url)) as told:
        tells(kubernetes, told)
        proxy.fall_silent()
        missed = kubernetes.request(SUCCEEDS)
        kubernetes.cluster.deploy(missed)
        kubernetes.until_ended(missed)
        assert missed.run_uid not in told
        proxy.speak_again()
        until(lambda: missed.run_uid in told, "what was missed to be told")


def test_changes_are_told_by_a_cluster_that_went_back_in_time(bed: Bed, kubernetes: KubernetesBench) -> None:
    observer = client(kubernetes, "observer")  # a cluster from before that has never heard of its token
    backup = bed.backup()
    with followed(observer) as told:
        for _ in range(5):
            tells(kubernetes, told)
        bed.restore(backup)
        tells(kubernetes, told)


def test_the_settings_of_the_files_reach_the_pod(bed: Bed, kubernetes: KubernetesBench, tmp_path: Path) -> None:
    access = ApiAccess(kubernetes.namespace, bed.kubeconfig("actor", kubernetes.namespace))
    pods = PodSettings(files_claim="files", service_account="default", image_pull_secrets=("one",))
    cluster = KubernetesCluster(access, kubernetes.installation, pods, LogStorage(tmp_path))
    request = kubernetes.request(RUNS_UNTIL_ASKED)
    cluster.deploy(request)
    pod = until(
        lambda: next((each for each in kubernetes.objects(request) if "containers" in each["spec"]), None), "a pod"
    )
    [container] = pod["spec"]["containers"]
    mounted = {mount["mountPath"]: mount.get("subPath") for mount in container["volumeMounts"]}
    assert mounted == {"/crawl/files": request.run_uid}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "one"}]


def test_a_pod_of_ours_uses_its_account_and_reads_its_token_again(
    bed: Bed, kubernetes: KubernetesBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    host, port = bed.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    for module in (connection, incluster_config):
        monkeypatch.setattr(module, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(bed.plane.certificates.authority))
    token.write_text("one that has expired")
    cluster = KubernetesCluster(
        ApiAccess(kubernetes.namespace), kubernetes.installation, PodSettings(), LogStorage(tmp_path)
    )
    with pytest.raises(TemporaryError, match="401"):
        cluster.check()
    token.write_text(bed.token("actor"))
    assert bed.url in cluster.check()
    assert cluster.deploy(kubernetes.request(SUCCEEDS)).created
