"""Parts of a Job manifest that a catalogue entry shapes."""

from typing import Any

from crawler_lifecycle.adapters.kubernetes import naming
from crawler_lifecycle.contract.deployment import DeploymentRequest, Resources
from crawler_lifecycle.contract.pod_shape import PodShape, Toleration
from crawler_lifecycle.domain.pod_shape import DO_NOT_DISRUPT, SAFE_TO_EVICT, refusal
from crawler_lifecycle.errors import Refused

# Autoscalers evict pods to empty a node. Our Jobs start no second pod, so an evicted crawl has failed. Pods ask to be
# left alone: the cluster autoscaler reads the first annotation, Karpenter the second.
STAY = {SAFE_TO_EVICT: "false", DO_NOT_DISRUPT: "true"}


def checked_shape(request: DeploymentRequest) -> PodShape:
    """Return the request's pod shape. Raise Refused for a value that no catalogue entry may set.

    The catalogue has the same check, but a request comes with its own copy of the entry.
    """
    shape = request.crawler.pod
    if problem := refusal(shape):
        field, reason = problem
        raise Refused(f"crawler.pod.{field}: {reason}")
    return shape


def queue_label(shape: PodShape) -> dict[str, str]:
    """Return the label that puts the Job into its queue.

    Kueue's webhook suspends a new Job with the label. The Job is not created suspended: in a cluster without Kueue, no
    controller would ever resume the Job.
    """
    return {naming.QUEUE: shape.queue} if shape.queue else {}


def annotations(shape: PodShape) -> dict[str, str]:
    """Return the pod's annotations. An entry may let autoscalers move its pods.

    A pod that Karpenter may move has no annotation for Karpenter, which reports the value "false" as a mistake.
    """
    wanted = {**STAY, **shape.annotations}
    if wanted[DO_NOT_DISRUPT] == "false":
        del wanted[DO_NOT_DISRUPT]
    return wanted


def placement(shape: PodShape) -> dict[str, Any]:
    """Return the fields of a pod that choose its node and its priority; only fields that the entry sets."""
    fields = {
        "nodeSelector": shape.node_selector,
        "tolerations": [_toleration(toleration) for toleration in shape.tolerations],
        "priorityClassName": shape.priority_class,
    }
    return {name: value for name, value in fields.items() if value}


def _toleration(toleration: Toleration) -> dict[str, Any]:
    fields = toleration.model_dump(exclude_none=True)
    seconds = fields.pop("seconds", None)
    return fields if seconds is None else {**fields, "tolerationSeconds": seconds}


def quantities(resources: Resources) -> dict[str, str]:
    """Return the quantities by Kubernetes' names for the resources."""
    return {name.replace("_", "-"): value for name, value in resources.model_dump(exclude_none=True).items()}
