"""Rules for pod shapes: the labels, annotations and priority classes that a catalogue entry may set.

A key needs a prefix. Keys without a prefix belong to the cluster's users, and some controllers still trust such keys
(`job-name`, `aadpodidbinding`). Keys below a reserved domain are refused, except for the keys in the two allow-lists.
Every allowed key describes a pod, limits a pod, or says where and when a pod may run; none gives a pod a right.
"""

from collections.abc import Mapping

from crawler_lifecycle.model.naming import LABEL_DOMAIN
from crawler_lifecycle.model.pod_shape import QUANTITY, PodShape, Syntax

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"

RESERVED_DOMAINS = (
    # our own keys identify runs, and keys below the next four steer the cluster's controllers
    LABEL_DOMAIN,
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",  # Kueue
    "karpenter.sh",
    # keys below these give a pod an identity, secrets, volumes or another network
    "iam.amazonaws.com",
    "azure.workload.identity",
    "vault.hashicorp.com",
    "istio.io",
    "cncf.io",
    "cilium.io",
    "projectcalico.org",
)
SYSTEM_PRIORITY = "system-"  # Kubernetes reserves the prefix; such a pod may evict the cluster's own pods

ANY_VALUE = Syntax(".*", 63, "a label's value")
NO_SIDECAR = Syntax("false", 5, "false")  # a sidecar would give the pod an identity in the mesh
# without `instance` and `managed-by`: by these, Argo CD and Helm recognize objects that they may remove
ALLOWED_LABELS: Mapping[str, Syntax] = {
    "app.kubernetes.io/component": ANY_VALUE,
    "app.kubernetes.io/name": ANY_VALUE,
    "app.kubernetes.io/part-of": ANY_VALUE,
    "app.kubernetes.io/version": ANY_VALUE,
    "kueue.x-k8s.io/priority-class": ANY_VALUE,
    "sidecar.istio.io/inject": NO_SIDECAR,
}
ALLOWED_ANNOTATIONS: Mapping[str, Syntax] = {
    SAFE_TO_EVICT: Syntax("true|false", 5, "true or false"),
    DO_NOT_DISRUPT: Syntax(r"true|false|([0-9]+(\.[0-9]+)?(ms|s|m|h))+", 32, "true, false or a duration such as 4h30m"),
    "kubernetes.io/egress-bandwidth": QUANTITY,
    "kubernetes.io/ingress-bandwidth": QUANTITY,
    "sidecar.istio.io/inject": NO_SIDECAR,
}


def refusal(shape: PodShape) -> tuple[str, str] | None:
    """Return the first field with a value that no catalogue entry may set, and the reason; None if all are allowed."""
    for field, values, allowed in (
        ("labels", shape.labels, ALLOWED_LABELS),
        ("annotations", shape.annotations, ALLOWED_ANNOTATIONS),
    ):
        for key, value in values.items():
            if problem := _problem(key, value, allowed):
                return f"{field}.{key}", problem
    if shape.priority_class and shape.priority_class.startswith(SYSTEM_PRIORITY):
        return "priority_class", f"names that begin with {SYSTEM_PRIORITY} are reserved for the cluster's own pods"
    return None


def _problem(key: str, value: str, allowed: Mapping[str, Syntax]) -> str | None:
    """Return why the key may not be set to the value; None if the key may."""
    if key in allowed:
        try:
            allowed[key].check(value)
        except ValueError as error:
            return str(error)
        return None
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return f"expected a key with a prefix of yours, such as example.com/{key}"
    for domain in RESERVED_DOMAINS:
        if f".{prefix}".endswith(f".{domain}"):
            return f"keys of {domain} are reserved; a catalogue may set {', '.join(sorted(allowed))}"
    return None
