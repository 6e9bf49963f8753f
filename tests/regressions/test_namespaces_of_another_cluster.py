"""With the kubeconfig of another cluster, where a namespace has the same name, no job counts as gone."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from crawler_lifecycle.activities.deploying import ClaimDeployer
from crawler_lifecycle.adapters.kubernetes.act.job_spec import Pods
from crawler_lifecycle.adapters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.adapters.kubernetes.observe.looking import Observer
from crawler_lifecycle.adapters.kubernetes.observe.namespace import NamespaceCheck
from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest, JobNamespace
from crawler_lifecycle.domain.looks import Look
from crawler_lifecycle.domain.reasons import NAMESPACE_CHANGED
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import Claim, Claims, Deployer, Place, PlacesInMemory
from tests.api_servers import an_access, an_api_server
from tests.kube import NAMESPACE, OURS, RUN, UID, Json, Shelf

KEY = (0, 1)


def namespace(uid: str, name: str = NAMESPACE) -> Json:
    return {"metadata": {"name": name, "uid": uid}, "status": {"phase": "Active"}}


def cluster(uid: str, kube_system: str | None) -> Shelf:
    """An API server that shows none of our jobs."""
    shelf = Shelf()
    shelf.of_namespace = namespace(uid)
    if kube_system:
        shelf.of_namespaces = {"kube-system": namespace(kube_system, "kube-system")}
    return shelf


def look(shelf: Shelf, places: PlacesInMemory) -> Look:
    return Observer(shelf, OURS, places=places).look(RUN, [KEY], uids={KEY: UID})


@pytest.fixture(params=["cluster-a", None], ids=["kube-system is read", "kube-system is not read"])
def kube_system(request: pytest.FixtureRequest) -> str | None:
    uid: str | None = request.param
    return uid


@pytest.fixture
def places(kube_system: str | None) -> PlacesInMemory:
    """What is known after a look at the right cluster."""
    known = PlacesInMemory()
    assert look(cluster("namespace-a", kube_system), known).complete
    return known


def test_in_the_same_namespace_a_job_may_be_gone(places: PlacesInMemory, kube_system: str | None) -> None:
    seen = look(cluster("namespace-a", kube_system), places)

    assert (seen.complete, seen.jobs) == (True, {})


@pytest.mark.parametrize("other", ["cluster-b", None])
def test_in_a_namespace_of_another_cluster_nothing_is_gone(places: PlacesInMemory, other: str | None) -> None:
    seen = look(cluster("namespace-b", other), places)

    assert not seen.complete
    assert seen.problem is not None
    assert "crawlctl accept-namespace" in seen.problem


def test_a_namespace_that_was_made_anew_in_the_same_cluster_is_taken_over() -> None:
    places = PlacesInMemory()
    look(cluster("namespace-a", "cluster-a"), places)

    assert look(cluster("namespace-new", "cluster-a"), places).complete
    assert places.known() == Place(NAMESPACE, "namespace-new", "cluster-a")
    assert not look(cluster("namespace-a", "cluster-b"), places).complete


def test_another_namespace_of_the_same_cluster_is_not_taken_over() -> None:
    """Jobs run on in the one before: a setting was changed, and nothing was made anew."""
    places = PlacesInMemory()
    places.keep(Place("crawls-before", "namespace-a", "cluster-a"), None)

    assert not look(cluster("namespace-b", "cluster-a"), places).complete


def test_what_an_operator_accepts_counts(places: PlacesInMemory) -> None:
    there = cluster("namespace-b", None)
    before, now = NamespaceCheck(there, places).accept()

    assert before is not None
    assert (before.namespace_uid, now.namespace_uid) == ("namespace-a", "namespace-b")
    assert look(there, places).complete


def test_nothing_is_deployed_into_a_namespace_of_another_cluster(tmp_path: Path) -> None:
    places = PlacesInMemory()
    places.keep(Place(NAMESPACE, "namespace-a", "cluster-a"), None)
    with an_api_server() as server:
        server.namespace_uid = "namespace-b"
        there = KubernetesCluster(an_access(server, tmp_path), OURS, Pods(), LogStorage(tmp_path), places=places)

        for confirm in (there.confirm, there.check):
            with pytest.raises(TemporaryError, match="accept-namespace") as caught:
                confirm()

            assert caught.value.cause == NAMESPACE_CHANGED
        there.accept_place()
        there.confirm()
        assert "namespace crawls" in there.check()


def request(namespace_uid: str | None, cluster_uid: str | None = "cluster-a") -> DeploymentRequest:
    known = JobNamespace(name=NAMESPACE, uid=namespace_uid, cluster_uid=cluster_uid) if namespace_uid else None
    crawler = Crawler(name="bookshop", image="registry/bookshop:1", command=["crawl"])
    return DeploymentRequest(
        installation=OURS, run_id=7, run_uid=RUN, task=0, tasks=1, attempt=1, crawler=crawler, namespace=known
    )


def test_a_scheduler_service_that_began_in_another_cluster_makes_no_job_and_is_not_ready(tmp_path: Path) -> None:
    """It has no database: it took the first namespace that it saw for the right one."""
    with an_api_server() as server:
        server.namespace_uid = "namespace-b"
        service = KubernetesCluster(an_access(server, tmp_path), OURS, Pods(), LogStorage(tmp_path))
        assert service.check()
        for ask in (lambda: service.deploy(request("namespace-a")), service.check):
            with pytest.raises(TemporaryError, match="the kubeconfig and the namespace") as caught:
                ask()
            assert caught.value.cause == NAMESPACE_CHANGED
        assert server.objects["jobs"] == {}
        server.namespace_uid = "namespace-a"
        assert service.deploy(request("namespace-a")).created
        assert service.check()


def test_a_scheduler_service_follows_the_namespace_that_an_operator_accepted(tmp_path: Path) -> None:
    with an_api_server() as server:
        server.namespace_uid = "namespace-a"
        service = KubernetesCluster(an_access(server, tmp_path), OURS, Pods(), LogStorage(tmp_path))
        assert service.deploy(request("namespace-a")).created
        server.namespace_uid = "namespace-b"
        assert not service.deploy(request("namespace-b")).created, "the namespace is no part of what a key stands for"


def test_a_request_of_a_caller_that_knows_no_namespace_is_carried_out(tmp_path: Path) -> None:
    with an_api_server() as server:
        service = KubernetesCluster(an_access(server, tmp_path), OURS, Pods(), LogStorage(tmp_path))
        assert service.deploy(request(None)).created


def test_a_request_carries_the_namespace_on_record(tmp_path: Path) -> None:
    places = PlacesInMemory()
    sent: list[DeploymentRequest] = []

    def deploy(request: DeploymentRequest) -> Deployment:
        sent.append(request)
        raise TemporaryError("no answer")

    deployer, claims = SimpleNamespace(deploy=deploy), SimpleNamespace(failed=lambda *_, **__: None)
    with an_api_server() as server:
        server.namespace_uid = "namespace-a"
        cluster = KubernetesCluster(an_access(server, tmp_path), OURS, Pods(), LogStorage(tmp_path), places=places)
        ClaimDeployer(cast(Claims, claims), cluster, cast(Deployer, deployer)).deploy(
            Claim(7, 0, "token", request(None))
        )
    assert [item.namespace for item in sent] == [JobNamespace(name=NAMESPACE, uid="namespace-a")]
