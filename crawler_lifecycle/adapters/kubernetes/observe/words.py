"""How do we write the words of a cluster? In small letters, as our own."""

import re
from functools import lru_cache

LONGEST = 64


@lru_cache  # thousands of pods wait for the same
def word(said: str | None, otherwise: str) -> str:
    """`PodInitializing` becomes `pod_initializing`, whatever else the cluster may say one day."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", said or "")
    return re.sub(r"[^a-z0-9]+", "_", parts.lower()).strip("_")[:LONGEST] or otherwise
