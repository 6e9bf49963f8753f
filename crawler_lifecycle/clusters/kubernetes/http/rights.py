"""Check of the process's rights in the cluster; every missing right is reported with its purpose.

The API server decides every single right: only the server knows all rules.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import NOT_DECODABLE
from crawler_lifecycle.errors import TemporaryError

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """A right is a verb on a resource in our namespace, with the purpose for which the service needs the right."""

    verb: str
    resource: str
    purpose: str
    group: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        resource = "/".join(filter(None, (self.resource, self.subresource)))
        return f"{self.verb} {'.'.join(filter(None, (resource, self.group)))}"


BATCH = "batch"
RIGHTS = (
    Right("create", "jobs", "to deploy", BATCH),
    Right("get", "jobs", "to look", BATCH),
    Right("list", "jobs", "to look", BATCH),
    Right("watch", "jobs", "to follow changes", BATCH),
    Right("delete", "jobs", "to stop", BATCH),
    Right("get", "pods", "to look"),
    Right("list", "pods", "to look"),
    Right("watch", "pods", "to follow changes"),
    Right("delete", "pods", "to stop by force"),
    Right("get", "pods", "to read logs", subresource="log"),
    Right("list", "events", "to say why something waits"),
    Right("list", "resourcequotas", "to say why something waits"),
    Right("get", "namespaces", "to distinguish what is gone from what cannot be seen"),
)


class ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class Review(msgspec.Struct, frozen=True):
    """The API server's answer about one right."""

    status: ReviewStatus


def missing_rights(api: KubernetesApi, pool: ThreadPoolExecutor, rights: Iterable[Right] = RIGHTS) -> list[Right]:
    wanted = list(rights)
    grants = pool.map(lambda right: _is_granted(api, right), wanted)
    return [right for right, is_granted in zip(wanted, grants, strict=True) if not is_granted]


def _is_granted(api: KubernetesApi, right: Right) -> bool:
    attributes = {
        "namespace": api.namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
    }
    if right.resource == "namespaces":
        attributes["name"] = api.namespace  # only our own namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        return msgspec.json.decode(api.post(REVIEWS, review), type=Review).status.allowed
    except NOT_DECODABLE as error:
        raise TemporaryError(f"the API server's answer is no review of access: {error}") from error
