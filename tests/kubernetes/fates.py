"""What can become of a pod of the bed? Its image says so: the catalogue's `image` goes into the pod as it is.

`fate/{what}:{after}`, and the pod runs that long before it happens: `fate/exits-3:500ms`.
"""

SUCCEEDS = "fate/succeeds"
RUNS = "fate/runs"  # until asked: then it ends with 143
ORDERLY = "fate/orderly"  # until asked: then it ends with 0, in the time that stands behind it
IGNORES = "fate/ignores"  # until asked; ends by SIGKILL, 137, when its grace is over
STUCK = "fate/stuck"  # its node never tells of an end: only a pod deleted by force is gone
OUT_OF_MEMORY = "fate/out-of-memory"
EVICTED = "fate/evicted"  # by its node, which also forgets its containers
NODE_SHUTDOWN = "fate/node-shutdown"
REBOOTED = "fate/rebooted"  # its node starts anew, and has lost the container
NO_IMAGE = "fate/no-image"
BAD_CONFIG = "fate/bad-config"
NO_START = "fate/no-start"  # the container cannot be created for ever (ContainerCreating)
NO_VOLUME = "fate/no-volume"  # the same, and its node says that a volume is missing
NO_SANDBOX = "fate/no-sandbox"  # the same, and its node says that it cannot make the pod's own network
CANNOT_RUN = "fate/cannot-run"  # the container's program cannot be started

# those of which a test has the cluster change the pod, or its Job (`admission`)
GATED = "fate/gated"  # succeeds, once it may be scheduled
SUSPENDED = "fate/suspended"  # succeeds, once its Job goes on
UNPREPARED = "fate/unprepared"  # an init container exits with 7
MEMORY_BESIDE = "fate/memory-beside"  # succeeds; a sidecar ran out of memory and was started again
OUT_OF_TIME = "fate/out-of-time"  # runs until the deadline of the pod itself
LASTING = "fate/lasting"  # runs until asked; stays on a node that does not answer
UNACCEPTABLE = "fate/unacceptable"  # has no pod: the API server refuses its Job
DONE_UNSEEN = "fate/done-unseen"  # runs as far as anybody sees; asked to end, it had ended with 0 long before


def exits(code: int) -> str:
    return f"fate/exits-{code}"


def after(fate: str, delay: str) -> str:
    """The fate, once the pod ran this long (as Go writes durations: 500ms, 2s, 1m)."""
    return f"{fate}:{delay}"
