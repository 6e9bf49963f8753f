"""The manifests on a real control plane: accepted as they are, with pods that may start and rights that suffice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.assembly.clusters import cluster_of
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.looks import JobLook, JobPhase
from crawler_lifecycle.settings import Settings
from crawler_lifecycle.settings.cluster import ClusterSettings, KubernetesSettings
from tests.deploy import manifests
from tests.deploy.manifests import INSTALLATIONS, KUBERNETES
from tests.kit.clusters.schedulers import a_request
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import until
from tests.kubernetes.kubectl import Kubectl

pytestmark = pytest.mark.timeout(300)
HOME, CRAWLS, SECOND = "crawler-lifecycle", "crawls", "crawler-second"
OURS = "deployments,cronjobs,jobs,services,configmaps,persistentvolumeclaims,poddisruptionbudgets,networkpolicies"
PARTS = ("api", "dispatcher", "scheduler", "watcher", "worker")


@pytest.fixture(scope="module")
def kubectl(bed: Bed) -> Kubectl:
    return Kubectl(bed)


@pytest.fixture(scope="module")
def tried(kubectl: Kubectl) -> Iterator[dict[str, str]]:
    """What the API server says to each, if it were applied. Only their namespaces have to be there."""
    folders = ("base/crawls/namespace.yaml", "base/home/namespace.yaml")
    kubectl("apply", "--server-side", "--force-conflicts", *(f"-f{KUBERNETES / each}" for each in folders))
    kubectl("create", "namespace", SECOND)
    yield {name: kubectl.apply(name, "--dry-run=server") for name in INSTALLATIONS}
    kubectl("delete", "namespace", CRAWLS, SECOND, "--timeout=120s")


@pytest.fixture(scope="module")
def installed(kubectl: Kubectl, tried: dict[str, str]) -> Iterator[None]:
    """The small installation, and the second beside it. Nobody provides volumes in the bed: they are made before."""
    kubectl.provide_volume(HOME, "ReadWriteOnce")
    kubectl.provide_volume(SECOND, "ReadWriteMany")
    kubectl.apply("overlays/small")
    kubectl.apply("overlays/second")
    yield
    kubectl("delete", OURS, "--all", "-n", HOME, "--wait=false")
    kubectl("delete", "persistentvolumes", "--all", "--wait=false")


@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_the_api_server_accepts_them(tried: dict[str, str], kubectl: Kubectl, installation: str) -> None:
    documents = manifests.rendered(kubectl.program, installation)
    assert len(tried[installation].splitlines()) == len(documents)
    assert [problem for document in documents for problem in manifests.problems(document)] == []
    manifests_of_pods = dict(manifests.pods(documents))
    assert len(manifests_of_pods) == len(PARTS) + 1


@pytest.mark.parametrize("namespace", [HOME, SECOND])
@pytest.mark.usefixtures("installed")
def test_every_part_gets_its_pods(kubectl: Kubectl, namespace: str) -> None:
    """Pod Security lets them in, their accounts and volumes are there, and they fit somewhere."""
    for part in PARTS:
        kubectl("rollout", "status", f"deployment/{part}", "-n", namespace, "--timeout=90s")
    assert {each["metadata"]["name"] for each in kubectl.json("get", "pdb", "-n", namespace)["items"]} == set(PARTS)


@pytest.mark.usefixtures("installed")
def test_the_api_of_a_volume_of_one_node_and_the_next_worker_are_together(kubectl: Kubectl) -> None:
    kubectl("rollout", "status", "deployment/api", "-n", HOME, "--timeout=90s")
    assert nodes_of(kubectl, "api") == nodes_of(kubectl, "worker")
    kubectl("rollout", "restart", "deployment/worker", "-n", HOME)
    kubectl("rollout", "status", "deployment/worker", "-n", HOME, "--timeout=90s")
    assert nodes_of(kubectl, "worker") == nodes_of(kubectl, "api")


def nodes_of(kubectl: Kubectl, part: str) -> list[str]:
    pods = kubectl.json("get", "pods", "-n", HOME, "-l", f"app.kubernetes.io/name={part}")["items"]
    return [pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


@pytest.mark.usefixtures("installed")
def test_the_database_is_upgraded_by_a_job_made_by_hand(kubectl: Kubectl) -> None:
    assert kubectl.json("get", "cronjob/upgrade", "-n", HOME)["spec"]["suspend"] is True
    kubectl("create", "job", "upgrade-1", "--from=cronjob/upgrade", "-n", HOME)
    made = until(lambda: kubectl.json("get", "pods", "-n", HOME, "-l", "job-name=upgrade-1")["items"], "its pod")
    (container,) = made[0]["spec"]["containers"]
    assert container["command"] == ["crawlctl", "db", "upgrade"]


def cluster_for(bed: Bed, account: str, tmp_path: Path) -> KubernetesCluster:
    """As one of our processes has it."""
    settings = Settings(
        state=tmp_path,
        cluster=ClusterSettings(kind="kubernetes"),
        kubernetes=KubernetesSettings(
            namespace=CRAWLS, service_account="crawler", kubeconfig=bed.kubeconfig(account, CRAWLS)
        ),
    )
    cluster = cluster_of(settings, None)
    assert isinstance(cluster, KubernetesCluster)
    return cluster


@pytest.mark.usefixtures("installed")
def test_the_actor_has_the_rights_that_doctor_asks_for(bed: Bed, tmp_path: Path) -> None:
    assert CRAWLS in cluster_for(bed, "actor", tmp_path).check_rights()


@pytest.mark.usefixtures("installed")
def test_the_observer_can_look_and_nothing_else(bed: Bed, tmp_path: Path) -> None:
    observer = cluster_for(bed, "observer", tmp_path)
    assert observer.check()
    with pytest.raises(NotReady) as missing:
        observer.check_rights()
    assert all(right in missing.value.message for right in ("create jobs", "delete jobs", "delete pods"))
    assert "get" not in missing.value.message.split("; ")[0]


@pytest.mark.usefixtures("installed")
def test_a_crawl_fits_the_namespace_of_the_crawls(bed: Bed, kubectl: Kubectl, tmp_path: Path) -> None:
    actor = cluster_for(bed, "actor", tmp_path)
    request = a_request(crawler=Crawler(name="hello", image=fates.after(fates.SUCCEEDS, "500ms")))
    actor.deploy(request)

    def ended() -> JobLook | None:
        job = actor.look(request.run_uid).jobs.get((request.task, request.attempt))
        return job if job and job.phase.has_ended else None

    assert until(ended, "the crawl to end").phase is JobPhase.SUCCEEDED
    (pod,) = kubectl.json("get", "pods", "-n", CRAWLS)["items"]
    (container,) = pod["spec"]["containers"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}  # the namespace's, if it asks for none
    assert pod["spec"]["serviceAccountName"] == "crawler"
    assert not any(mount["mountPath"].startswith("/var/run/secrets") for mount in container["volumeMounts"])
