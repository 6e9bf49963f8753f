"""Version of the API server, and the check for the oldest accepted version.

Our manifests and Jobs are checked against the schemas of the oldest accepted version, OLDEST. Every accepted version
knows `podReplacementPolicy`: without the field, a Job's second pod could start before its first pod has ended.
"""

import re
import time

import msgspec

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.model.reasons import CLUSTER_TOO_OLD, CLUSTER_UNAVAILABLE

OLDEST = (1, 30)
PATH = "/version"
UNKNOWN = "version unknown"
ACCEPTED_SECONDS = 600.0
NUMBERS = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


class Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


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
        name = msgspec.json.decode(body, type=Version).git_version
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
