"""Checks of a cluster before its use: the rights of the process, and the version of the API server.

The API server decides about every single right, since only the server knows all rules. Every missing right is reported
with its purpose.

Our manifests and Jobs are checked against the schemas of the oldest accepted version, OLDEST. Every accepted version
knows `podReplacementPolicy`: without the field, a Job's second pod could start before its first pod has ended.
"""

import re
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import NOT_DECODABLE
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.model.reasons import CLUSTER_TOO_OLD, CLUSTER_UNAVAILABLE

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
OLDEST = (1, 30)
PATH = "/version"
UNKNOWN = "version unknown"
ACCEPTED_SECONDS = 600.0
NUMBERS = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


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


REVIEW = msgspec.json.Decoder(Review)  # at the import, as in `answers`


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
        return REVIEW.decode(api.post(REVIEWS, review)).status.allowed
    except NOT_DECODABLE as error:
        raise TemporaryError(f"the API server's answer is no review of access: {error}") from error


class Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


VERSION = msgspec.json.Decoder(Version)


def checked_version(api: KubernetesApi) -> str:
    """Return the version in words; a version that cannot be read is unknown, and accepted.

    Raise NotReady for a version before OLDEST.
    """
    try:
        return _checked_words(api)
    except (ApiFailed, Missing):
        return UNKNOWN


def _checked_words(api: KubernetesApi) -> str:
    """As `checked_version`; raise ApiFailed or Missing if the version cannot be read."""
    body = api.get(PATH)
    try:
        name = VERSION.decode(body).git_version
    except msgspec.MsgspecError:
        return UNKNOWN
    numbers = NUMBERS.match(name)
    if numbers is None:
        return UNKNOWN
    version = int(numbers[1]), int(numbers[2])
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise NotReady(
            f"Kubernetes at {api.host} is {name}: use {oldest} or later, older versions drop fields of our Jobs",
            cause=CLUSTER_TOO_OLD,
        )
    return f"version {version[0]}.{version[1]}"


class AcceptedVersion:
    """Refuses deployments to an outdated server. An accepted version counts for ACCEPTED_SECONDS."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._accepted_until = 0.0  # by the monotonic clock; threads may ask the server twice without harm

    def must_be_accepted(self) -> None:
        """Raise NotReady for a version before OLDEST, and TemporaryError without an answer.

        A server with an unknown version is accepted, as by `checked_version`.
        """
        if time.monotonic() < self._accepted_until:
            return
        try:
            _checked_words(self._api)
        except Missing:
            pass
        except ApiFailed as error:
            if error.status is None:  # the request for the job would wait for a silent server as well
                raise TemporaryError(error.message, cause=CLUSTER_UNAVAILABLE) from error
            if error.status not in (401, 403, 404):
                return
        self._accepted_until = time.monotonic() + ACCEPTED_SECONDS
