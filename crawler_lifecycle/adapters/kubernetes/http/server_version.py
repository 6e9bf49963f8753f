"""Version of the API server, and the check for the oldest accepted version.

Our manifests and Jobs are checked against the schemas of the oldest accepted version, OLDEST. Every accepted version
knows `podReplacementPolicy`: without the field, a Job's second pod could start before its first pod has ended.
"""

import re

import msgspec

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.http.api import Api
from crawler_lifecycle.errors import NotReady

OLDEST = (1, 30)
PATH = "/version"
NUMBERS = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


class Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


def checked_version(api: Api) -> str:
    """Return the version in words; a version that cannot be read is unknown, and accepted.

    Raise NotReady for a version before OLDEST.
    """
    try:
        name = msgspec.json.decode(api.get(PATH), type=Version).git_version
    except (ApiFailed, Missing, msgspec.MsgspecError):
        return "version unknown"
    numbers = NUMBERS.match(name)
    if numbers is None:
        return "version unknown"
    version = int(numbers[1]), int(numbers[2])
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise NotReady(
            f"Kubernetes at {api.host} is {name}: use {oldest} or later, older versions drop fields of our Jobs"
        )
    return f"version {version[0]}.{version[1]}"
