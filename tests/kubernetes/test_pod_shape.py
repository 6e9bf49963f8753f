"""A shaped Job on the real control plane: the API server takes it, and its pod carries the shape."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.clusters.kubernetes.act.job_spec import STAY
from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.looks import JobPhase, Look
from crawler_lifecycle.model.pod_shape import PodShape
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import verdict
from tests.kit.clusters.behaviours import RUNS_UNTIL_ASKED
from tests.kit.clusters.pod_shapes import (
    GOOD_KEYS,
    GOOD_NAMES,
    GOOD_QUANTITIES,
    GOOD_TOLERATIONS,
    GOOD_VALUES,
    SHAPED,
    WRONG_KEYS,
    WRONG_NAMES,
    WRONG_QUANTITIES,
    WRONG_TOLERATIONS,
    WRONG_VALUES,
)
from tests.kit.data.rows import NOW, after, row
from tests.kubernetes import fates, jobs
from tests.kubernetes.bed import Bed
from tests.kubernetes.bench import KubernetesBench
from tests.kubernetes.client import Answer, until

pytestmark = pytest.mark.timeout(300)
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITY = 1000
NODE = "node-7"
NODE_LABELS = {"example.com/pool": "crawls", "kubernetes.io/arch": "amd64"}


@pytest.fixture
def pool(bed: Bed) -> Iterator[str]:
    """The only node for crawls, on which nothing else may run."""
    path, taint = f"/api/v1/nodes/{NODE}", {"key": "example.com/pool", "value": "crawls", "effect": "NoSchedule"}
    bed.admin.merge(path, {"metadata": {"labels": NODE_LABELS}, "spec": {"taints": [taint]}})
    yield NODE
    bed.admin.merge(path, {"metadata": {"labels": dict.fromkeys(NODE_LABELS)}, "spec": {"taints": None}})


@pytest.fixture
def priority_class(bed: Bed) -> Iterator[str]:
    name = f"crawls-{uuid4().hex[:8]}"
    bed.admin.post(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": PRIORITY, "preemptionPolicy": "Never"})
    yield name
    bed.admin.delete(f"{PRIORITY_CLASSES}/{name}")


def test_a_pod_carries_the_shape_of_its_entry(
    kubernetes: KubernetesBench, pool: str, priority_class: str, tmp_path: Path
) -> None:
    crawler = in_a_catalogue(tmp_path, SHAPED.replace('"books:1"', f'"{fates.RUNS}"'))
    crawler = crawler.model_copy(update={"pod": crawler.pod.model_copy(update={"priority_class": priority_class})})
    request = kubernetes.request(RUNS_UNTIL_ASKED, crawler=crawler)
    assert kubernetes.cluster.deploy(request).created
    kubernetes.until_phase(request, JobPhase.RUNNING)
    assert not kubernetes.cluster.deploy(request).created, "with the same hash"
    job, pod = kubernetes.objects(request)

    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "crawls"
    assert not job["spec"].get("suspend")
    labels = pod["metadata"]["labels"]
    assert crawler.pod.labels.items() <= labels.items() & job["metadata"]["labels"].items()
    assert labels["crawler-lifecycle/run-uid"] == request.run_uid
    assert (crawler.pod.annotations | STAY).items() <= pod["metadata"]["annotations"].items()

    spec = pod["spec"]
    assert (spec["nodeName"], spec["nodeSelector"]) == (pool, NODE_LABELS)
    assert (spec["priorityClassName"], spec["priority"]) == (priority_class, PRIORITY)
    for toleration in (
        {"key": "example.com/pool", "operator": "Equal", "value": "crawls", "effect": "NoSchedule"},
        {"key": "example.com/spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ):
        assert toleration in spec["tolerations"]
    assert spec["containers"][0]["resources"]["limits"]["ephemeral-storage"] == "10Gi"
    kubernetes.cluster.stop(request.run_uid, [(0, 1)])
    kubernetes.until_stopped(request)


def in_a_catalogue(folder: Path, text: str) -> Crawler:
    path = folder / "catalogue.toml"
    path.write_text(text)
    return Catalogue.load(path).entry("books")


def test_a_pod_without_a_shape_asks_to_stay(kubernetes: KubernetesBench) -> None:
    request = kubernetes.request(RUNS_UNTIL_ASKED)
    kubernetes.cluster.deploy(request)
    kubernetes.until_phase(request, JobPhase.RUNNING)
    _, pod = kubernetes.objects(request)
    assert STAY.items() <= pod["metadata"]["annotations"].items()


def test_a_task_without_its_priority_class_says_so_and_is_given_up(kubernetes: KubernetesBench) -> None:
    words = "no PriorityClass with name nowhere was found"
    crawler = Crawler(name="unranked", image=fates.RUNS, pod=PodShape(priority_class="nowhere"))
    request = kubernetes.request(RUNS_UNTIL_ASKED, crawler=crawler)
    deployed = row(TaskStatus.PENDING, kubernetes.cluster.deploy(request).job_uid)

    def rejected() -> Look | None:
        look = kubernetes.cluster.look(request.run_uid, [(0, 1)])
        return look if look.jobs[0, 1].cause == "pod_create_rejected" else None

    seen = until(rejected, "the pod to be rejected")
    first = verdict(deployed, seen, Intent.RUN, NOW)
    assert first
    assert (first.status, first.cause) == (TaskStatus.PENDING, "pod_create_rejected")
    assert words in str(first.message)
    impatient = kubernetes.client(patience=JobPatience(no_progress=timedelta(0)))
    waiting, late = after(deployed, seen), impatient.look(request.run_uid, [(0, 1)])
    last = verdict(waiting, late, Intent.RUN, NOW)
    assert last
    assert (last.status, last.reason) == (TaskStatus.FAILED, "pod_create_rejected")
    assert words in str(last.message)
    kubernetes.cluster.stop(request.run_uid, [(0, 1)])
    kubernetes.until_stopped(request)


# the API server takes and refuses what we take and refuse


def with_pod(**pod: Any) -> dict[str, Any]:
    return jobs.job("trial", fates.RUNS, **pod)


def with_metadata(**metadata: Any) -> dict[str, Any]:
    job = with_pod()
    for field, values in metadata.items():
        job["spec"]["template"]["metadata"].setdefault(field, {}).update(values)
    return job


def with_resource(quantity: str) -> dict[str, Any]:
    job = with_pod()
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"ephemeral-storage": quantity}}
    return job


def with_toleration(values: dict[str, Any]) -> dict[str, Any]:
    named = {"tolerationSeconds" if name == "seconds" else name: value for name, value in values.items()}
    return with_pod(tolerations=[named])


def is_taken(bed: Bed, namespace: str, job: dict[str, Any]) -> bool:
    try:
        bed.admin.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job, dryRun="All")
    except Answer as answer:
        assert answer.status in (400, 422), answer  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize(
    ("good", "wrong", "job"),
    [
        pytest.param(GOOD_QUANTITIES, WRONG_QUANTITIES, with_resource, id="quantities"),
        pytest.param(GOOD_KEYS, WRONG_KEYS, lambda key: with_metadata(labels={key: ""}), id="labels"),
        pytest.param(GOOD_KEYS, WRONG_KEYS, lambda key: with_metadata(annotations={key: ""}), id="annotations"),
        pytest.param(GOOD_KEYS, WRONG_KEYS, lambda key: with_pod(nodeSelector={key: ""}), id="node_selector"),
        pytest.param(GOOD_VALUES, WRONG_VALUES, lambda value: with_metadata(labels={"a": value}), id="values"),
        pytest.param(GOOD_VALUES, WRONG_VALUES, lambda value: with_pod(nodeSelector={"a": value}), id="selected"),
        pytest.param(GOOD_NAMES, WRONG_NAMES, lambda name: with_pod(priorityClassName=name), id="priority_class"),
        pytest.param(GOOD_TOLERATIONS, WRONG_TOLERATIONS, with_toleration, id="tolerations"),
    ],
)
def test_the_api_server_has_the_same_syntax(
    bed: Bed, namespace: str, good: tuple[Any, ...], wrong: tuple[Any, ...], job: Callable[[Any], dict[str, Any]]
) -> None:
    taken = [value for value in (*good, *wrong) if is_taken(bed, namespace, job(value))]
    assert taken == list(good)
