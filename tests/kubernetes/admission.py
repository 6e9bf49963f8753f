"""What does a cluster make of our Jobs and pods before it takes them? Policies of one namespace: they change, or deny.

So queues (gates, suspended Jobs), meshes (sidecars, init containers) and a company's rules come into a cluster.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from tests.kubernetes.bed import Bed
from tests.kubernetes.client import Answer, until
from tests.kubernetes.jobs import job

API = "/apis/admissionregistration.k8s.io/v1"
OF_A_JOB = "object.spec.template.spec.containers[0].image"
OF_A_POD = "object.spec.containers[0].image"


@dataclass(frozen=True)
class Change:
    """Of every new pod (or Job) with an image that begins so: a field of its spec gets this value."""

    image: str
    field: str
    value: Any
    of_jobs: bool = False


@contextmanager
def changing(bed: Bed, namespace: str, *changes: Change) -> Iterator[None]:
    for change in changes:
        _install(bed, namespace, "mutating", change.image, _mutation(change))
    for change in changes:
        until(partial(_is_made, bed, namespace, change), f"{change.field} to be set")
    try:
        yield
    finally:
        _remove(bed, "mutating", namespace)


@contextmanager
def denying(bed: Bed, namespace: str, image: str, message: str) -> Iterator[None]:
    """Jobs with this image."""
    rule = {"expression": f'!{OF_A_JOB}.startsWith("{image}")', "message": message}
    _install(bed, namespace, "validating", image, {"matchConstraints": _matching(of_jobs=True), "validations": [rule]})
    until(lambda: _is_denied(bed, namespace, image), "the policy to be in force")
    try:
        yield
    finally:
        _remove(bed, "validating", namespace)


@contextmanager
def without_events(bed: Bed, namespace: str) -> Iterator[None]:
    """None that is told from now on can be read, as where all are gone before anybody asks."""
    rule = {"expression": "false", "message": "no events here"}
    operations = {"operations": ["CREATE", "UPDATE"], "resources": ["events"]}
    groups = {"apiGroups": ["", "events.k8s.io"], "apiVersions": ["v1"]}
    matching = {"resourceRules": [groups | operations]}
    _install(bed, namespace, "validating", "events", {"matchConstraints": matching, "validations": [rule]})
    until(lambda: not _takes_events(bed, namespace), "the policy to be in force")
    try:
        yield
    finally:
        _remove(bed, "validating", namespace)
        until(lambda: _takes_events(bed, namespace), "events to be taken again")


def _takes_events(bed: Bed, namespace: str) -> bool:
    about = {"kind": "Pod", "name": "trial", "namespace": namespace}
    event = {"metadata": {"name": "trial"}, "involvedObject": about, "reason": "Trial"}
    try:
        bed.admin.post(f"/api/v1/namespaces/{namespace}/events", event, dryRun="All")
    except Answer as answer:
        assert answer.status in (403, 422), answer  # noqa: PT017
        return False
    return True


def _mutation(change: Change) -> dict[str, Any]:
    image = OF_A_JOB if change.of_jobs else OF_A_POD
    patch = f'[JSONPatch{{op: "add", path: "/spec/{change.field}", value: {_cel(change.value)}}}]'
    return {
        "reinvocationPolicy": "Never",
        "matchConstraints": _matching(of_jobs=change.of_jobs),
        "matchConditions": [{"name": "image", "expression": f'{image}.startsWith("{change.image}")'}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }


def _matching(*, of_jobs: bool) -> dict[str, Any]:
    group, resource = ("batch", "jobs") if of_jobs else ("", "pods")
    return {
        "resourceRules": [
            {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        ]
    }


def _cel(value: Any) -> str:
    """Its maps and lists want all values to be of one type."""
    if isinstance(value, dict):
        return f"dyn({{{', '.join(f'{json.dumps(key)}: {_cel(each)}' for key, each in value.items())}}})"
    if isinstance(value, list):
        return f"dyn([{', '.join(map(_cel, value))}])"
    return f"dyn({json.dumps(value)})"


def _install(bed: Bed, namespace: str, kind: str, image: str, spec: dict[str, Any]) -> None:
    name = f"{namespace}-{uuid4().hex[:8]}"
    metadata = {"name": name, "labels": {"namespace": namespace}}
    bed.admin.post(f"{API}/{kind}admissionpolicies", {"metadata": metadata, "spec": {"failurePolicy": "Fail"} | spec})
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": name, "matchResources": here}
    if kind == "validating":
        binding["validationActions"] = ["Deny"]
    bed.admin.post(f"{API}/{kind}admissionpolicybindings", {"metadata": metadata, "spec": binding})


def _remove(bed: Bed, kind: str, namespace: str) -> None:
    for what in (f"{kind}admissionpolicybindings", f"{kind}admissionpolicies"):
        for each in bed.admin.items(f"{API}/{what}", labelSelector=f"namespace={namespace}"):
            bed.admin.delete(f"{API}/{what}/{each['metadata']['name']}")


def _is_made(bed: Bed, namespace: str, change: Change) -> bool:
    tried = job("trial", change.image)
    if change.of_jobs:
        made = bed.admin.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", tried, dryRun="All")
    else:
        pod = {"metadata": {"name": "trial"}, "spec": tried["spec"]["template"]["spec"]}
        made = bed.admin.post(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
    return _has(made["spec"].get(change.field), change.value)


def _has(made: Any, value: Any) -> bool:
    """With whatever the API server has added to it."""
    if isinstance(value, dict):
        return isinstance(made, dict) and all(_has(made.get(key), each) for key, each in value.items())
    if isinstance(value, list):
        return isinstance(made, list) and all(any(_has(each, wanted) for each in made) for wanted in value)
    return bool(made == value)


def _is_denied(bed: Bed, namespace: str, image: str) -> bool:
    try:
        bed.admin.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job("trial", image), dryRun="All")
    except Answer as answer:
        return answer.status in (403, 422)
    return False
