"""The Kubernetes backend as the settings make it: the port's methods, what doctor says, and what a command imports."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from crawler_lifecycle import settings
from crawler_lifecycle.assembly.clusters import cluster_of
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster
from crawler_lifecycle.clusters.kubernetes.observe.jobs import THREADS
from crawler_lifecycle.errors import BadInput, NotFound, NotReady, Refused, TemporaryError
from crawler_lifecycle.model.answers import Check
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.looks import JobPhase
from crawler_lifecycle.settings import configuration
from crawler_lifecycle.settings.installation import Installation
from tests.kit.clusters.api_servers import Answered, ApiServer, Fault, an_access, an_api_server
from tests.kit.waiting import until

INSTALLATION = str(uuid4())


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with an_api_server() as server:
        yield server


@pytest.fixture
def chosen(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> settings.Settings:
    an_access(server, tmp_path)
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CRAWLER_CLUSTER__KIND", "kubernetes")
    monkeypatch.setenv("CRAWLER_KUBERNETES__KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("CRAWLER_KUBERNETES__IMAGE_PULL_SECRETS", "one, two")
    monkeypatch.setenv("CRAWLER_KUBERNETES__SERVICE_ACCOUNT", "crawls")
    monkeypatch.setenv("CRAWLER_KUBERNETES__KEEP_DAYS", "3")
    return configuration.load()


@pytest.fixture
def cluster(chosen: settings.Settings) -> KubernetesCluster:
    made = cluster_of(chosen, INSTALLATION)
    assert isinstance(made, KubernetesCluster)
    return made


def a_request() -> DeploymentRequest:
    crawler = Crawler(name="bookshop", image="registry/bookshop:1")
    given = {"installation": INSTALLATION, "run_id": 7, "run_uid": str(uuid4()), "task": 0, "tasks": 1, "attempt": 1}
    return DeploymentRequest.model_validate(given | {"crawler": crawler})


def test_the_settings_make_the_job(cluster: KubernetesCluster, server: ApiServer) -> None:
    deployment = cluster.deploy(a_request())
    spec = server.objects["jobs"][deployment.job_name]["spec"]
    pod = spec["template"]["spec"]
    assert spec["ttlSecondsAfterFinished"] == 3 * 24 * 3600
    assert (pod["serviceAccountName"], pod["imagePullSecrets"]) == ("crawls", [{"name": "one"}, {"name": "two"}])
    assert "command" not in pod["containers"][0]


def test_a_job_goes_through_its_life(cluster: KubernetesCluster, server: ApiServer) -> None:
    request = a_request()
    run_uid, key = request.run_uid, (0, 1)
    deployment = cluster.deploy(request)
    waiting = cluster.look(run_uid, [key]).jobs[key]
    assert (waiting.phase, waiting.uid) == (JobPhase.WAITING, deployment.job_uid)
    assert (cluster.log(run_uid, 0, 1, 0).text, cluster.evidence(run_uid, [key])) == ("", [])
    put_pod(server, deployment.job_name, "pod")
    server.logs["pod"] = b"done\n"
    server.end(deployment.job_name)
    look = cluster.look(run_uid, [key])
    assert (look.complete, look.jobs[key].phase, look.jobs[key].removable) == (True, JobPhase.SUCCEEDED, True)
    chunk = cluster.log(run_uid, 0, 1, 0)
    assert (chunk.text, chunk.ended) == ("done\n", True)
    [evidence] = cluster.evidence(run_uid, [key])
    assert evidence.log_tail == "done"
    assert cluster.remove(run_uid, [key]) == 0
    server.objects["pods"].clear()
    assert (cluster.look(run_uid).complete, cluster.look(run_uid).jobs) == (True, {})
    kept = cluster.log(run_uid, 0, 1, 2)
    assert (kept.text, kept.ended) == ("ne\n", True)


def test_a_link_that_a_crawl_puts_in_the_place_of_its_logs_shows_no_other_runs(
    cluster: KubernetesCluster, chosen: settings.Settings
) -> None:
    mine, other = (chosen.files_folder / str(uuid4()) for _ in range(2))
    (other / "logs").mkdir(parents=True)
    (other / "logs" / "0-1.log").write_text("of another run")
    mine.mkdir()
    (mine / "logs").symlink_to(other / "logs")
    with pytest.raises(NotFound):
        cluster.log(mine.name, 0, 1, 0)
    assert cluster.log(other.name, 0, 1, 0).text == "of another run"


def test_a_stop_does_not_wait_for_logs_that_do_not_come(cluster: KubernetesCluster, server: ApiServer) -> None:
    """Nodes that were slow with the logs of jobs to be removed had all threads, and stops and evidence none."""
    over = a_request()
    tasks = range(THREADS + 4)
    for task in tasks:
        name = cluster.deploy(over.model_copy(update={"task": task, "tasks": len(tasks)})).job_name
        put_pod(server, name, f"pod-{task}")
        server.logs[f"pod-{task}"] = b"done\n"
        server.end(name)
    deployed = cluster.deploy(stopped := a_request())
    come = threading.Event()
    server.faults = [Fault("GET", "/log", hang=come) for _ in tasks]
    with ThreadPoolExecutor(2) as pool:
        try:
            removing = pool.submit(cluster.remove, over.run_uid, [(task, 1) for task in tasks])
            until(lambda: len(server.asked("GET", "/log")) == THREADS, "all threads to wait for logs")
            pool.submit(cluster.stop, stopped.run_uid, [(0, 1)]).result(timeout=5)
            assert not removing.done()
        finally:
            come.set()
    assert "deletionTimestamp" in server.objects["jobs"][deployed.job_name]["metadata"]
    assert removing.result() == 0


def put_pod(server: ApiServer, job_name: str, name: str) -> None:
    metadata = {"name": name, "labels": server.objects["jobs"][job_name]["metadata"]["labels"]}
    spec = {"containers": [{"name": "crawl"}]}
    server.put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Succeeded"}})


def test_what_is_not_ours_is_refused_or_not_found(cluster: KubernetesCluster) -> None:
    with pytest.raises(Refused):
        cluster.deploy(a_request().model_copy(update={"installation": str(uuid4())}))
    with pytest.raises(NotFound):
        cluster.log(str(uuid4()), 0, 1, 0)
    with pytest.raises(BadInput):
        cluster.log("../../etc", 0, 1, 0)
    assert not cluster.look("../../etc").complete


def test_a_check_is_one_line_and_says_what_is_wrong(cluster: KubernetesCluster, server: ApiServer) -> None:
    line = cluster.check()
    assert (server.url in line, "namespace crawls" in line, "\n" in line) == (True, True, False)
    server.faults = [Fault("GET", "jobs", Answered(403, "Forbidden", "jobs.batch is forbidden"))]
    with pytest.raises(TemporaryError, match="is forbidden"):
        cluster.check()


@pytest.mark.parametrize(
    ("version", "words"),
    [("v1.30.0-gke.100", "version 1.30"), ("v1.36.4+k3s1", "version 1.36"), ("?", "version unknown")],
)
def test_a_check_names_the_version(cluster: KubernetesCluster, server: ApiServer, version: str, words: str) -> None:
    server.git_version = version
    assert f", {words}, " in cluster.check()


def test_a_version_that_is_too_old_is_told(cluster: KubernetesCluster, server: ApiServer) -> None:
    server.git_version = "v1.29.9"
    with pytest.raises(NotReady, match=r"v1\.29\.9: use 1\.30 or later"):
        cluster.check()


def test_nothing_is_deployed_to_a_version_that_is_too_old(cluster: KubernetesCluster, server: ApiServer) -> None:
    server.git_version = "v1.27.9"
    with pytest.raises(NotReady, match=r"v1\.27\.9: use 1\.30 or later") as caught:
        cluster.deploy(a_request())
    assert caught.value.cause == "cluster_too_old"
    assert server.asked("POST", "jobs") == []

    server.git_version = "v1.30.1"  # somebody has upgraded the cluster
    assert cluster.deploy(a_request()).created


def test_the_version_is_read_once_for_many_deployments(cluster: KubernetesCluster, server: ApiServer) -> None:
    server.faults = [Fault("GET", "/version", Answered(503)), Fault("GET", "/version", Answered(403, "Forbidden"))]
    for _ in range(4):
        assert cluster.deploy(a_request()).created
    assert len(server.asked("GET", "/version")) == 2


def test_doctor_tells_which_right_is_missing_and_for_what(chosen: settings.Settings, server: ApiServer) -> None:
    control = Control(Installation(chosen, {"TEMPORAL_ADDRESS": "127.0.0.1:9"}))
    control.parts.__dict__["cluster"] = cluster_of(chosen, INSTALLATION)

    def rights() -> Check:
        return next(check for check in asyncio.run(control.doctor()) if check.part == "cluster rights")

    assert rights().ok
    server.denied = {("delete", "pods"), ("get", "pods/log")}
    missing = rights()
    assert not missing.ok
    assert "delete pods (to stop by force)" in missing.line
    assert "get pods/log (to read logs)" in missing.line


@pytest.mark.long
def test_choosing_kubernetes_imports_it_only_where_the_cluster_is_asked(chosen: settings.Settings) -> None:
    code = (
        "import sys, crawler_lifecycle.cli, crawler_lifecycle.settings.configuration as configuration\n"
        "from crawler_lifecycle.assembly.clusters import cluster_of\n"
        "from crawler_lifecycle.assembly.parts import Parts\n"
        "parts = Parts(configuration.load())\n"
        "assert not {'kubernetes', 'urllib3'} & set(sys.modules)\n"
        f"cluster_of(parts.settings, {INSTALLATION!r})\n"
        "assert 'kubernetes' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_all_jobs_are_listed_by_their_metadata(cluster: KubernetesCluster, server: ApiServer) -> None:
    """Also pods whose Job is gone, and what does not tell its run; nothing of others."""
    requests = [a_request() for _ in range(3)]
    deployments = [cluster.deploy(request) for request in requests]
    labels = {each: server.objects["jobs"][each.job_name]["metadata"]["labels"] for each in deployments}
    server.put("pods", {"metadata": {"name": "with-its-job", "labels": labels[deployments[0]]}})
    server.put("pods", {"metadata": {"name": "without-it", "labels": labels[deployments[2]]}})
    del server.objects["jobs"][deployments[2].job_name]
    ours = {"crawler-lifecycle/installation": INSTALLATION}
    server.put("jobs", {"metadata": {"name": "nameless", "labels": ours}})
    server.put("jobs", {"metadata": {"name": "theirs", "labels": {"crawler-lifecycle/installation": str(uuid4())}}})
    listed = [job for page in cluster.inventory() for job in page]
    found = {(job.name, job.run_uid, job.key) for job in listed}
    assert found == {
        (deployments[0].job_name, requests[0].run_uid, (0, 1)),
        (deployments[1].job_name, requests[1].run_uid, (0, 1)),
        ("without-it", requests[2].run_uid, (0, 1)),
        ("nameless", None, None),
    }


@pytest.mark.parametrize("kind", ["jobs", "pods"])
def test_a_list_that_breaks_off_is_none(cluster: KubernetesCluster, server: ApiServer, kind: str) -> None:
    cluster.deploy(a_request())
    server.faults = [Fault("GET", kind, Answered(500, "InternalError", "etcdserver: leader changed"))]
    with pytest.raises(TemporaryError):
        list(cluster.inventory())
