"""With the kubeconfig of another cluster, where a namespace has the same name, no job counts as gone."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import cast

import pytest

from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.clusters.kubernetes.observe.namespace import MOST_CONFIRMED, ConfirmedPlaces, NamespaceCheck
from crawler_lifecycle.clusters.ports import Deployer, JobsPlace, PlacesInMemory
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest, JobNamespace
from crawler_lifecycle.model.looks import Look
from crawler_lifecycle.model.reasons import CLUSTER_FORBIDS, CLUSTER_UNAVAILABLE, NAMESPACE_CHANGED
from crawler_lifecycle.runs.activities.deployment import ClaimDeployer
from crawler_lifecycle.runs.ports import Claim, Claims
from tests.kit.clusters.api_servers import Answered, ApiServer, Fault, an_access, an_api_server
from tests.kit.clusters.kube import NAMESPACE, OURS, RUN, UID, Json, Shelf

pytestmark = pytest.mark.regression(
    "With the kubeconfig of another cluster that has a namespace of the same name, all jobs counted as gone"
)

KEY = (0, 1)
CROSSING = 8  # requests at once


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
    assert places.known() == JobsPlace(NAMESPACE, "namespace-new", "cluster-a")
    assert not look(cluster("namespace-a", "cluster-b"), places).complete


def test_another_namespace_of_the_same_cluster_is_not_taken_over() -> None:
    """Jobs run on in the one before: a setting was changed, and nothing was made anew."""
    places = PlacesInMemory()
    places.keep(JobsPlace("crawls-before", "namespace-a", "cluster-a"), None)

    assert not look(cluster("namespace-b", "cluster-a"), places).complete


def test_what_an_operator_accepts_counts(places: PlacesInMemory) -> None:
    there = cluster("namespace-b", None)
    before, now = NamespaceCheck(there, places).accept()

    assert before is not None
    assert (before.namespace_uid, now.namespace_uid) == ("namespace-a", "namespace-b")
    assert look(there, places).complete


def test_nothing_is_deployed_into_a_namespace_of_another_cluster(tmp_path: Path) -> None:
    places = PlacesInMemory()
    places.keep(JobsPlace(NAMESPACE, "namespace-a", "cluster-a"), None)
    with an_api_server() as server:
        server.namespace_uid = "namespace-b"
        there = KubernetesCluster(an_access(server, tmp_path), OURS, PodSettings(), LogStorage(tmp_path), places=places)

        for confirm in (there.confirm, there.check):
            with pytest.raises(TemporaryError, match="accept-namespace") as caught:
                confirm()

            assert caught.value.cause == NAMESPACE_CHANGED
        there.accept_place()
        there.confirm()
        assert "namespace crawls" in there.check()


def request(namespace_uid: str | None, cluster_uid: str | None = "cluster-a", task: int = 0) -> DeploymentRequest:
    known = JobNamespace(name=NAMESPACE, uid=namespace_uid, cluster_uid=cluster_uid) if namespace_uid else None
    crawler = Crawler(name="bookshop", image="registry/bookshop:1", command=["crawl"])
    return DeploymentRequest(
        installation=OURS, run_id=7, run_uid=RUN, task=task, tasks=500, attempt=1, crawler=crawler, namespace=known
    )


def a_service(server: ApiServer, folder: Path) -> KubernetesCluster:
    """Return the cluster of a scheduler service: it has no database."""
    return KubernetesCluster(an_access(server, folder), OURS, PodSettings(), LogStorage(folder))


def test_a_scheduler_service_that_began_in_another_cluster_makes_no_job(tmp_path: Path) -> None:
    """The service took the first namespace that it saw for the right one."""
    with an_api_server() as server:
        server.namespace_uid = "namespace-b"
        service = a_service(server, tmp_path)
        with pytest.raises(TemporaryError, match="the kubeconfig and the namespace") as caught:
            service.deploy(request("namespace-a"))
        assert caught.value.cause == NAMESPACE_CHANGED
        assert server.objects["jobs"] == {}
        server.namespace_uid = "namespace-a"
        assert service.deploy(request("namespace-a")).created


def test_a_request_from_another_cluster_takes_the_service_from_nobody(tmp_path: Path) -> None:
    """The service was not ready for all its callers from then on. So no request reached it, and none could mend it: not
    after `crawlctl accept-namespace` either."""
    with an_api_server() as server:
        server.namespace_uid = "namespace-a"
        service = a_service(server, tmp_path)
        assert service.deploy(request("namespace-a")).created
        with pytest.raises(TemporaryError) as caught:
            service.deploy(request("namespace-b", task=1))
        assert caught.value.cause == NAMESPACE_CHANGED
        assert service.check()
        assert service.deploy(request("namespace-a", task=2)).created


def test_requests_that_cross_are_each_compared_with_their_own_namespace(tmp_path: Path) -> None:
    """One expected its namespace, another was confirmed in between, and the first made its job in the wrong cluster."""
    with an_api_server() as server:
        server.namespace_uid = "namespace-b"
        service = a_service(server, tmp_path)
        together = Barrier(CROSSING)

        def deploy(task: int) -> bool:
            wanted = "namespace-a" if task % 2 else "namespace-b"
            together.wait(10)
            try:
                return service.deploy(request(wanted, task=task)).created
            except TemporaryError as error:
                assert error.cause == NAMESPACE_CHANGED  # noqa: PT017 (the other half succeeds)
                return False

        tasks = range(20 * CROSSING)
        with at_every_step(), ThreadPoolExecutor(CROSSING) as pool:
            created = list(pool.map(deploy, tasks))
        assert created == [not task % 2 for task in tasks]
        assert len(server.objects["jobs"]) == len(tasks) // 2


@contextmanager
def at_every_step() -> Iterator[None]:
    """Let threads change as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.parametrize(
    ("status", "cause"), [(403, CLUSTER_FORBIDS), (401, CLUSTER_FORBIDS), (500, CLUSTER_UNAVAILABLE)]
)
def test_a_namespace_that_cannot_be_read_confirms_nothing(tmp_path: Path, status: int, cause: str) -> None:
    """A refusal counted as a confirmation for ten seconds."""
    with an_api_server() as server:
        server.namespace_uid = "namespace-b"
        service = a_service(server, tmp_path)
        server.faults = [Fault("GET", "/namespaces/crawls", Answered(status, "", "not now")) for _ in range(2)]
        with pytest.raises(TemporaryError, match="no job is created while namespace crawls") as caught:
            service.deploy(request("namespace-a"))
        assert caught.value.cause == cause
        server.faults.clear()
        with pytest.raises(TemporaryError) as caught:
            service.deploy(request("namespace-a"))
        assert caught.value.cause == NAMESPACE_CHANGED
        assert server.objects["jobs"] == {}


def test_a_namespace_without_a_uid_confirms_nothing(tmp_path: Path) -> None:
    with an_api_server() as server:
        server.namespace_uid = ""
        with pytest.raises(TemporaryError, match="no uid") as caught:
            a_service(server, tmp_path).deploy(request("namespace-a"))
        assert caught.value.cause == CLUSTER_UNAVAILABLE
        assert server.objects["jobs"] == {}


def test_a_part_with_a_database_confirms_nothing_by_a_refusal(tmp_path: Path) -> None:
    places = PlacesInMemory(JobsPlace(NAMESPACE, "namespace-a", "cluster-a"))
    with an_api_server() as server:
        server.namespace_uid = "namespace-b"
        worker = KubernetesCluster(
            an_access(server, tmp_path), OURS, PodSettings(), LogStorage(tmp_path), places=places
        )
        server.faults = [Fault("GET", "/namespaces/crawls", Answered(403, "", "not now"))]
        assert worker.confirm() == places.known(), "the request names the place, and the service compares"
        with pytest.raises(TemporaryError, match="accept-namespace"):
            worker.confirm()
        worker.accept_place()
        assert worker.confirm() == places.known() != JobsPlace(NAMESPACE, "namespace-a", "cluster-a")


def test_one_confirmation_serves_many_requests_and_many_places_fill_no_memory(tmp_path: Path) -> None:
    with an_api_server() as server:
        server.namespace_uid = "namespace-a"
        service = a_service(server, tmp_path)
        for task in range(5):
            service.deploy(request("namespace-a", task=task))
        reads = [seen for seen in server.asked("GET") if seen.path.endswith("/namespaces/crawls")]
        assert len(reads) == 1
        confirmed = ConfirmedPlaces(Shelf())
        for number in range(MOST_CONFIRMED + 1):
            confirmed.add(JobsPlace(NAMESPACE, str(number)))
        assert [JobsPlace(NAMESPACE, str(number)) in confirmed for number in (0, 1, MOST_CONFIRMED)] == [
            False,
            True,
            True,
        ]


def test_a_scheduler_service_follows_the_namespace_that_an_operator_accepted(tmp_path: Path) -> None:
    with an_api_server() as server:
        server.namespace_uid = "namespace-a"
        service = KubernetesCluster(an_access(server, tmp_path), OURS, PodSettings(), LogStorage(tmp_path))
        assert service.deploy(request("namespace-a")).created
        server.namespace_uid = "namespace-b"
        assert not service.deploy(request("namespace-b")).created, "the namespace is no part of what a key stands for"


def test_a_request_of_a_caller_that_knows_no_namespace_is_carried_out(tmp_path: Path) -> None:
    with an_api_server() as server:
        service = KubernetesCluster(an_access(server, tmp_path), OURS, PodSettings(), LogStorage(tmp_path))
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
        cluster = KubernetesCluster(
            an_access(server, tmp_path), OURS, PodSettings(), LogStorage(tmp_path), places=places
        )
        ClaimDeployer(cast(Claims, claims), cluster, cast(Deployer, deployer)).deploy(
            Claim(7, 0, "token", request(None))
        )
    assert [item.namespace for item in sent] == [JobNamespace(name=NAMESPACE, uid="namespace-a")]
