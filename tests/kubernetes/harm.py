"""Who may be in the way of a job's pod, or let it end, other than a stop of ours? Each by the path of the pod."""

from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import until
from tests.kubernetes.jobs import UNPRIVILEGED

HOLDER = "example.org/held"


def drain(bed: Bed, path: str) -> None:
    name = path.rpartition("/")[2]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    bed.admin.post(f"{path}/eviction", eviction)


def preempt(bed: Bed, path: str) -> None:
    """By a pod that matters more and needs the whole node."""
    node = bed.admin.get(path)["spec"]["nodeName"]
    container = {"name": "main", "image": fates.RUNS, "securityContext": UNPRIVILEGED}
    spec = {
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container | {"resources": {"requests": {"cpu": "64"}}}],
    }
    bed.admin.post(path.rpartition("/")[0], {"metadata": {"name": "vip"}, "spec": spec})


def taint(bed: Bed, path: str) -> None:
    node = f"/api/v1/nodes/{bed.admin.get(path)['spec']['nodeName']}"
    taints = [{"key": "example.org/out", "effect": "NoExecute"}]
    bed.admin.merge(node, {"spec": {"taints": taints}})
    try:
        until(lambda: is_leaving(bed, path), "the pod to be sent away")
    finally:
        bed.admin.merge(node, {"spec": {"taints": None}})


def is_leaving(bed: Bed, path: str) -> bool:
    listed = bed.admin.items(path.rpartition("/")[0])
    found = [pod["metadata"] for pod in listed if pod["metadata"]["name"] == path.rpartition("/")[2]]
    return not found or "deletionTimestamp" in found[0]


def delete(bed: Bed, path: str) -> None:
    bed.admin.delete(path)


def finish(bed: Bed, path: str) -> None:
    """It ends now, in order: nobody told it to."""
    pod = bed.admin.get(path)
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    statuses = [status | {"state": ended, "ready": False} for status in pod["status"]["containerStatuses"]]
    bed.admin.merge(f"{path}/status", {"status": {"phase": "Succeeded", "containerStatuses": statuses}})


def shut_down(bed: Bed, path: str) -> None:
    """Its spot node shuts down in order: the kubelet tells the program to end, and notes why."""
    _end_by_kubelet(bed, path, "Terminated", "Pod was terminated in response to imminent node shutdown.")


def lack_disk(bed: Bed, path: str) -> None:
    """Its node runs out of disk: the kubelet evicts the pod, and forgets how its containers ended."""
    _end_by_kubelet(bed, path, "Evicted", "The node was low on resource: ephemeral-storage.", exit_code=None)


def _end_by_kubelet(bed: Bed, path: str, reason: str, message: str, exit_code: int | None = 143) -> None:
    pod = bed.admin.get(path)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
    conditions = [*pod["status"].get("conditions", []), target]
    ended = {"terminated": {"exitCode": exit_code, "reason": "Error"}}
    statuses = [status | {"state": ended, "ready": False} for status in pod["status"]["containerStatuses"]]
    status = {"phase": "Failed", "reason": reason, "message": message, "conditions": conditions}
    status["containerStatuses"] = statuses if exit_code is not None else []
    bed.admin.merge(f"{path}/status", {"status": status})


def full_quota(bed: Bed, namespace: str, what: str) -> str:
    """Nothing more of that kind may be made from now on."""
    base, name = f"/api/v1/namespaces/{namespace}/resourcequotas", what.partition("/")[2] or what
    bed.admin.post(base, {"metadata": {"name": name}, "spec": {"hard": {what: "0"}}})
    until(lambda: bed.admin.get(f"{base}/{name}").get("status", {}).get("hard"), "the quota to be counted")
    return f"{base}/{name}"


def hold(bed: Bed, path: str) -> None:
    """It stays when it has ended, as something of the cluster's own wants to see it."""
    finalizers = bed.admin.get(path)["metadata"].get("finalizers", [])
    bed.admin.merge(path, {"metadata": {"finalizers": [*finalizers, HOLDER]}})


def release(bed: Bed, path: str) -> None:
    finalizers = bed.admin.get(path)["metadata"]["finalizers"]
    bed.admin.merge(path, {"metadata": {"finalizers": [each for each in finalizers if each != HOLDER]}})
