"""How does a pod live of which nothing in particular becomes? As kwok's own general stages say.

They are read from where the programs are (`programs` brings them along) and used as they are, with three changes. Their
delays are seconds and partly random: here a pod goes on at once, and completes after the time behind its image's name.
Each plays only for the pods of which our own stages (`stages`, `rare_stages`) make nothing else: kwok would choose by
weight among all stages that match. It has none in which a deleted pod ends: ours end it, then `pod-delete` asks for its
removal, and does so although somebody holds the pod, as a kubelet does: by that a pod loses the grace that it had, from
which one could tell whether it ended before it was told to.
"""

from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes import fates
from tests.kubernetes.stages import DELAY, NOT_FORCED, NOT_TO_RUN, PHASE, Condition, but, expression, of

HELD = ".metadata.finalizers"
PLAYING: dict[str, tuple[Condition, ...]] = {
    "pod-create": (),
    "pod-init-container-running": (),
    "pod-init-container-completed": (but(fates.UNPREPARED),),
    "pod-ready": (but(*NOT_TO_RUN),),
    "pod-complete": (of(fates.SUCCEEDS, fates.GATED, fates.SUSPENDED),),
    "pod-delete": (NOT_FORCED, (PHASE, "In", ("Succeeded", "Failed"))),
}


def pods(folder: Path) -> list[dict[str, Any]]:
    """`folder`: with one file for each stage, as in the module of kwok."""
    return [_changed(yaml.safe_load((folder / f"{name}.yaml").read_text()), when) for name, when in PLAYING.items()]


def _changed(stage: dict[str, Any], when: tuple[Condition, ...]) -> dict[str, Any]:
    spec = stage["spec"]
    asked = [each for each in spec["selector"]["matchExpressions"] if each["key"] != HELD]
    spec["selector"]["matchExpressions"] = [*asked, *(expression(*each) for each in when)]
    spec["delay"] = {"durationMilliseconds": 0}
    if stage["metadata"]["name"] == "pod-complete":
        spec["delay"]["durationFrom"] = {"jq": {"expression": DELAY}}
    return stage
