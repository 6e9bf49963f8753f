"""Does what is done to the bed really happen to it, and is it well afterwards?"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.kubernetes import fates
from tests.kubernetes.bed import NODES, Bed, condition
from tests.kubernetes.client import Answer, Client, until
from tests.kubernetes.jobs import Jobs, job
from tests.kubernetes.proxy import Proxy

FEW_AT_ONCE = ("--enable-priority-and-fairness=false", "--max-requests-inflight=1")


@pytest.fixture
def jobs(bed: Bed, namespace: str) -> Jobs:
    return Jobs(bed, namespace)


def test_with_its_controllers_frozen_the_truth_stands_still(bed: Bed, jobs: Jobs) -> None:
    with bed.frozen("kube-controller-manager"):
        jobs.make("one", fates.SUCCEEDS)
        bed.programs["kube-controller-manager"].check()
        assert "startTime" not in jobs.get("one")["status"]
        assert jobs.pod("one") is None
    assert jobs.until_ended("one")[0] == "Complete"


def test_a_frozen_api_server_answers_nobody(bed: Bed, jobs: Jobs) -> None:
    client = httpx.Client(base_url=bed.url, verify=bed.trust, timeout=2, trust_env=False)
    with client, bed.frozen("kube-apiserver"), pytest.raises(httpx.TimeoutException):
        client.get("/readyz")
    jobs.make("one", fates.SUCCEEDS)
    assert jobs.until_ended("one")[0] == "Complete"


def test_simulated_nodes_that_were_killed_go_on(bed: Bed, jobs: Jobs) -> None:
    jobs.make("one", fates.RUNS)
    jobs.until_running("one")
    bed.programs["kwok"].kill()
    jobs.delete("one")
    bed.start_program("kwok")
    jobs.until_gone("one")


def test_a_restored_cluster_knows_nothing_of_what_came_after(bed: Bed, jobs: Jobs) -> None:
    jobs.make("before", fates.SUCCEEDS)
    jobs.until_ended("before")
    backup = bed.backup()
    jobs.make("after", fates.SUCCEEDS)
    jobs.until_ended("after")
    bed.restore(backup)
    assert condition(jobs.get("before"), "Complete") == "True"
    assert not bed.admin.exists(f"{jobs.jobs}/after")
    jobs.make("again", fates.SUCCEEDS)
    assert jobs.until_ended("again")[0] == "Complete"


def test_a_list_cannot_be_continued_after_compaction(bed: Bed, jobs: Jobs) -> None:
    for name in ("one", "two", "three"):
        jobs.make(name, fates.RUNS)
    page = bed.admin.get(jobs.jobs, limit=1)
    jobs.make("four", fates.RUNS)
    bed.compact()
    with pytest.raises(Answer) as answer:
        bed.admin.get(jobs.jobs, limit=1, **{"continue": page["metadata"]["continue"]})
    assert answer.value.status == 410


def test_a_watch_from_long_ago_is_expired(bed: Bed, jobs: Jobs) -> None:
    query: dict[str, str | int] = {"watch": "true", "resourceVersion": 1, "timeoutSeconds": 30}
    with bed.admin.http.stream("GET", jobs.jobs, params=query) as response:
        event = json.loads(next(response.iter_lines()))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_too_many_requests_at_once_are_sent_away(bed: Bed, jobs: Jobs) -> None:
    actor = bed.client("actor")

    def answer(_: int) -> httpx.Response:
        return actor.http.get(jobs.jobs)

    with bed.api_server_with(*FEW_AT_ONCE), ThreadPoolExecutor(16) as pool:

        def refusals() -> list[httpx.Response]:
            return [each for each in pool.map(answer, range(64)) if each.status_code == 429]

        assert "Retry-After" in until(refusals, "a 429")[0].headers
    assert actor.items(jobs.jobs) == []


@pytest.fixture
def proxied(bed: Bed, proxy: Proxy) -> Client:
    return bed.client("actor", proxy.url)


def test_a_request_whose_answer_is_dropped_was_carried_out(proxy: Proxy, proxied: Client, jobs: Jobs) -> None:
    assert proxied.items(jobs.jobs) == []
    proxy.drop_answer("POST", "/jobs")
    with pytest.raises(httpx.RemoteProtocolError):
        proxied.post(jobs.jobs, job("one", fates.RUNS))
    assert proxied.get(f"{jobs.jobs}/one")["metadata"]["name"] == "one"
    proxy.drop_answer("DELETE", "/jobs/one")
    with pytest.raises(httpx.RemoteProtocolError):
        proxied.delete(f"{jobs.jobs}/one", {"propagationPolicy": "Foreground"})
    jobs.until_gone("one")
    assert proxy.dropped == 2


def test_a_silent_connection_stays_silent(bed: Bed, proxy: Proxy, proxied: Client, jobs: Jobs) -> None:
    assert proxied.items(jobs.jobs) == []
    proxied.http.timeout = httpx.Timeout(1)
    proxy.fall_silent()
    with pytest.raises(httpx.ReadTimeout):
        proxied.items(jobs.jobs)
    with pytest.raises(httpx.TimeoutException):
        proxied.items(jobs.jobs)
    proxy.speak_again()
    until(lambda: proxied.items(jobs.jobs) == [], "a new connection to work")


def test_a_late_answer_comes(proxy: Proxy, proxied: Client, jobs: Jobs) -> None:
    proxy.delay = 3.0
    proxied.http.timeout = httpx.Timeout(1)
    with pytest.raises(httpx.TimeoutException):
        proxied.items(jobs.jobs)
    proxied.http.timeout = httpx.Timeout(60)
    assert proxied.items(jobs.jobs) == []


def is_deleted(pod: dict[str, Any]) -> bool:
    """It says by whom a moment before."""
    return "deletionTimestamp" in pod.get("metadata", {})


@pytest.mark.timeout(240)
def test_a_lost_node_is_noticed_and_its_pods_cannot_tell(bed: Bed, jobs: Jobs) -> None:
    jobs.make("one", fates.RUNS)
    pod = jobs.until_running("one")
    node = pod["spec"]["nodeName"]
    bed.lose_node(node)
    try:
        until(lambda: condition(bed.admin.get(f"/api/v1/nodes/{node}"), "Ready") == "Unknown", "NotReady", 120)
        until(lambda: is_deleted(jobs.pod("one") or {}), "the pod to be tainted away", 60)
        pod = jobs.pod("one") or {}
        assert condition(pod, "DisruptionTarget") == "True"
        assert pod["status"]["phase"] == "Running"
    finally:
        bed.return_node(node)
    until(lambda: condition(jobs.get("one"), "Failed") == "True", "the node to come back and tell")
    assert len(bed.admin.items("/api/v1/nodes")) == NODES
