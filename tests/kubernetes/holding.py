"""When does a kwok that was started again play the pods that are there? Once it holds the nodes' leases, and hears of
each pod after that: of one that it sees in the moment in which it takes a lease it may think that it is another's."""

from uuid import uuid4

from tests.kubernetes.client import Answer, Client, until
from tests.kubernetes.stages import MANAGED

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
TOLD = "crawler-lifecycle-bed/told"
Holders = dict[str, str | None]


def holders(admin: Client) -> Holders:
    """By node."""
    return {each["metadata"]["name"]: each["spec"].get("holderIdentity") for each in admin.items(LEASES)}


def until_taken_over(admin: Client, before: Holders) -> None:
    def taken() -> bool:
        nodes = [each["metadata"]["name"] for each in admin.items("/api/v1/nodes", labelSelector=f"{MANAGED}=true")]
        now = holders(admin)
        return all(now.get(node) not in (None, before.get(node)) for node in nodes)

    until(taken, "another kwok to hold the nodes")
    for pod in admin.items("/api/v1/pods"):
        _tell(admin, pod["metadata"]["namespace"], pod["metadata"]["name"])


def _tell(admin: Client, namespace: str, name: str) -> None:
    try:
        admin.merge(f"/api/v1/namespaces/{namespace}/pods/{name}", {"metadata": {"annotations": {TOLD: uuid4().hex}}})
    except Answer as answer:
        if answer.status != 404:  # it has left meanwhile
            raise
