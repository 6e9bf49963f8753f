"""Convert the cluster's words (`PodInitializing`) into the notation of our causes and reasons (`pod_initializing`)."""

import re
from functools import lru_cache

LONGEST_WORD = 64  # characters; a longer word is cut off, since database columns for causes and reasons hold 128


@lru_cache  # thousands of pods wait for the same reason
def word(of_cluster: str | None, default: str) -> str:
    """Return `pod_initializing` for `PodInitializing`; `default` without letters and digits in the cluster's word.

    Any future word of the cluster is safe: all characters except letters and digits become underscores.
    """
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", of_cluster or "")
    return re.sub(r"[^a-z0-9]+", "_", parts.lower()).strip("_")[:LONGEST_WORD] or default
