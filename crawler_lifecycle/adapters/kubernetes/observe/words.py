"""Convert the cluster's words (`PodInitializing`) into the notation of our causes and reasons (`pod_initializing`)."""

import re
from functools import lru_cache

LONGEST = 64  # characters; columns for causes and reasons hold 128


@lru_cache  # thousands of pods wait for the same reason
def word(said: str | None, otherwise: str) -> str:
    """Return `pod_initializing` for `PodInitializing`; safe for any future word of the cluster."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", said or "")
    return re.sub(r"[^a-z0-9]+", "_", parts.lower()).strip("_")[:LONGEST] or otherwise
