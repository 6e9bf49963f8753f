"""A Job carries the shape of its catalogue entry, and nothing that an entry must not set."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.clusters.adapters.job_request import request_hash
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings, job_of, labels_of, reporting_labels
from crawler_lifecycle.errors import Refused
from crawler_lifecycle.model.deployment import DeploymentRequest

STAY = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
QUEUE = "kueue.x-k8s.io/queue-name"
EVERY_FIELD: Mapping[str, Any] = {
    "labels": {"example.com/team": "books"},
    "annotations": {"example.com/owner": "ann"},
    "node_selector": {"example.com/pool": "crawls"},
    "tolerations": [{"key": "example.com/pool", "operator": "Exists"}],
    "priority_class": "crawls",
    "queue": "crawls",
}


def a_request(**crawler: Any) -> DeploymentRequest:
    values = {
        "installation": str(UUID(int=1)),
        "run_id": 7,
        "run_uid": str(UUID(int=2)),
        "task": 0,
        "tasks": 1,
        "attempt": 1,
        "crawler": {"name": "books", "image": "books:1", "command": ["crawl"], **crawler},
    }
    return DeploymentRequest.model_validate(values)


def a_job(**pod: Any) -> dict[str, Any]:
    return job_of(a_request(pod=pod), PodSettings())


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def test_a_pod_asks_autoscalers_not_to_move_it() -> None:
    job = a_job()
    assert job["spec"]["template"]["metadata"]["annotations"] == STAY
    assert list(job["metadata"]["annotations"]) == ["crawler-lifecycle/not-after"]


def test_a_crawler_that_may_be_moved_says_so() -> None:
    """Karpenter reports `false`, which is neither `true` nor a time, as a mistake."""
    autoscaler, karpenter = STAY
    later = {autoscaler: "true", karpenter: "4h"}
    assert a_job(annotations=later)["spec"]["template"]["metadata"]["annotations"] == later
    now = later | {karpenter: "false"}
    assert a_job(annotations=now)["spec"]["template"]["metadata"]["annotations"] == {autoscaler: "true"}


def test_without_a_shape_nothing_else_is_said() -> None:
    job, request = a_job(), a_request()
    labels = reporting_labels(request) | labels_of(request)
    assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"] == labels
    assert pod_of(job).keys().isdisjoint({"nodeSelector", "tolerations", "priorityClassName", "priority"})
    assert "suspend" not in job["spec"]


@pytest.mark.parametrize(
    ("crawler", "labels", "expected"),
    [
        ("books", [], {"crawler": "books"}),
        ("books@7", ["site:a.com", "tenant:acme"], {"crawler": "books_7", "tenant": "acme"}),
        ("Bücher " + "s" * 80, ["tenant:ä"], {"crawler": "B_cher_" + "s" * 56}),
        ("-", ["tenant:" + "t" * 62 + ".t"], {"tenant": "t" * 62}),
    ],
)
def test_a_job_names_its_run_crawler_and_tenant_for_reports(
    crawler: str, labels: list[str], expected: Mapping[str, str]
) -> None:
    request = a_request(name=crawler).model_copy(update={"labels": labels})
    expected = {f"crawler-lifecycle/{name}": value for name, value in {"run": "7", **expected}.items()}
    assert reporting_labels(request) == expected
    assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value) for value in expected.values())


def test_labels_are_on_the_job_and_on_its_pod() -> None:
    job = a_job(labels={"example.com/team": "books"})
    for labels in (job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]):
        assert labels["example.com/team"] == "books"
        assert len([key for key in labels if key.startswith("crawler-lifecycle/")]) == 7


def test_annotations_are_on_the_pod() -> None:
    job = a_job(annotations={"example.com/owner": "ann"})
    assert job["spec"]["template"]["metadata"]["annotations"] == {"example.com/owner": "ann"} | STAY
    assert "example.com/owner" not in job["metadata"]["annotations"]


def test_a_queue_is_a_label_of_the_job_alone_which_kueue_suspends() -> None:
    job = a_job(queue="crawls")
    assert job["metadata"]["labels"][QUEUE] == "crawls"
    assert QUEUE not in job["spec"]["template"]["metadata"]["labels"]
    assert "suspend" not in job["spec"]


def test_a_pod_gets_its_place_and_priority() -> None:
    pod = pod_of(
        a_job(
            node_selector={"example.com/pool": "crawls"},
            tolerations=[
                {"key": "example.com/pool", "value": "crawls", "effect": "NoSchedule"},
                {"key": "example.com/spot", "operator": "Exists", "effect": "NoExecute", "seconds": 0},
                {"key": "example.com/bare"},
            ],
            priority_class="crawls",
        )
    )
    assert pod["nodeSelector"] == {"example.com/pool": "crawls"}
    assert pod["priorityClassName"] == "crawls"
    assert pod["tolerations"] == [
        {"key": "example.com/pool", "operator": "Equal", "value": "crawls", "effect": "NoSchedule"},
        {"key": "example.com/spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "example.com/bare", "operator": "Equal"},
    ]


def test_a_shape_changes_nothing_else_of_a_pod() -> None:
    plain, shaped = pod_of(a_job()), pod_of(a_job(**EVERY_FIELD))
    for field in ("nodeSelector", "tolerations", "priorityClassName"):
        del shaped[field]
    assert shaped == plain


def test_ephemeral_storage_is_requested_and_limited_beside_the_others() -> None:
    resources = {"cpu": "1", "ephemeral_storage": "10Gi"}
    [container] = pod_of(job_of(a_request(resources=resources), PodSettings()))["containers"]
    quantities = {"cpu": "1", "ephemeral-storage": "10Gi"}
    assert container["resources"] == {"requests": quantities, "limits": quantities}


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"labels": {"crawler-lifecycle/run-uid": "x"}}, "crawler.pod.labels.crawler-lifecycle/run-uid: keys of"),
        ({"annotations": {"iam.amazonaws.com/role": "x"}}, "crawler.pod.annotations.iam.amazonaws.com/role: keys of"),
        ({"priority_class": "system-node-critical"}, "crawler.pod.priority_class: names that begin with system-"),
    ],
)
def test_a_request_that_did_not_come_from_our_catalogue_is_refused_alike(pod: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused) as caught:
        a_job(**pod)
    assert caught.value.message.startswith(message)


# the hash, by which an existing Job is known as the requested one


def test_a_shape_without_values_is_no_other_request() -> None:
    """A request from a version without shapes had this hash."""
    assert request_hash(a_request()) == request_hash(a_request(pod={})) == request_hash(a_request(resources={}))
    before = "34ea2fa2da03e04e5016716af70aa02d215633d6aacb5d13cbf25204fbe29f3f"
    assert request_hash(a_request()) == before


@pytest.mark.parametrize("field", EVERY_FIELD)
def test_another_shape_is_another_request(field: str) -> None:
    assert request_hash(a_request(pod={field: EVERY_FIELD[field]})) != request_hash(a_request())


def test_other_ephemeral_storage_is_another_request() -> None:
    one, two = (a_request(resources={"ephemeral_storage": size}) for size in ("1Gi", "2Gi"))
    assert len({request_hash(one), request_hash(two), request_hash(a_request())}) == 3


@given(st.permutations(["labels", "annotations", "node_selector"]), st.permutations(["a", "b", "c"]))
def test_the_same_shape_in_another_order_is_the_same_job(fields: list[str], names: list[str]) -> None:
    written = a_request(pod={field: {f"example.com/{name}": name for name in names} for field in fields})
    sorted_fields = ("annotations", "labels", "node_selector")
    expected = a_request(pod={field: {f"example.com/{name}": name for name in "abc"} for field in sorted_fields})
    arrived = DeploymentRequest.model_validate_json(written.model_dump_json())
    assert request_hash(arrived) == request_hash(written) == request_hash(expected)
    assert job_of(arrived, PodSettings()) == job_of(written, PodSettings()) == job_of(expected, PodSettings())
