"""What happens on nodes to pods that somebody changed before they came there, or that nobody could see?"""

from tests.kubernetes import fates
from tests.kubernetes.stages import (
    ALIVE,
    ASKED,
    BEGAN,
    CREATING,
    DELAY,
    NOT_FORCED,
    NOW,
    Condition,
    conditions,
    ended,
    of,
    phase,
    stage,
)

NO_NETWORK = "Failed to create pod sandbox: no address left in the range"
NOT_MOUNTED = 'MountVolume.SetUp failed for volume "files": not found'
TOO_LONG = "Pod was active on the node longer than the specified deadline"
ENDED = "{terminated: {exitCode: %s, reason: %s, startedAt: " + NOW + ", finishedAt: " + NOW + "}}"


def _beside(state: str, more: str = "", restarts: int = 0) -> str:
    """Its init containers, sidecars among them."""
    return (
        "initContainerStatuses:\n"
        "{{ range .spec.initContainers }}\n"
        f"- {{name: {{{{ .name | Quote }}}}, image: {{{{ .image | Quote }}}}, imageID: '', restartCount: {restarts},"
        f" ready: false, started: false, state: {state}{more}}}\n"
        "{{ end }}\n"
    )


OUT_OF_SIGHT: Condition = ('.status.conditions.[] | select(.type == "Ready") | .status', "In", ("False",))
UNTOLD: Condition = (".status.startTime", "DoesNotExist", ())
PREPARING: Condition = (".status.initContainerStatuses[0].state.running", "Exists", ())


def _hindered(by: str, fate: str, reason: str, message: str) -> dict[str, object]:
    """Its containers cannot be created, and only an event says why."""
    when = [ALIVE, CREATING, UNTOLD, of(fate)]
    return stage(f"pod-waits-for-its-{by}", "Pod", when, f"startTime: {NOW}\n", event=(reason, message))


PODS = [
    stage(
        "pod-is-seen-again",  # the control plane took Ready from it when its node was silent
        "Pod",
        [ALIVE, phase("Running"), OUT_OF_SIGHT],
        conditions(Ready="True"),
    ),
    _hindered("volume", fates.NO_VOLUME, "FailedMount", NOT_MOUNTED),
    _hindered("sandbox", fates.NO_SANDBOX, "FailedCreatePodSandBox", NO_NETWORK),
    stage(
        "pod-is-not-prepared",
        "Pod",
        [ALIVE, phase("Pending"), PREPARING, of(fates.UNPREPARED)],
        "phase: Failed\n"
        + conditions(Initialized="False", Ready="False", ContainersReady="False")
        + _beside(ENDED % (7, "Error")),
    ),
    stage(
        "pod-succeeds-beside-one-that-was-out-of-memory",
        "Pod",
        [ALIVE, phase("Running"), of(fates.MEMORY_BESIDE)],
        ended("0", "Completed", "Succeeded")
        + _beside(ENDED % (0, "Completed"), f", lastState: {ENDED % (137, 'OOMKilled')}", restarts=1),
        delay=DELAY,
    ),
    stage(
        "pod-is-out-of-time",
        "Pod",
        [ALIVE, phase("Running"), of(fates.OUT_OF_TIME)],
        ended("143", "Error", "Failed", more=f"reason: DeadlineExceeded\nmessage: '{TOO_LONG}'\n"),
        delay=DELAY,
    ),
    stage(
        "pod-had-ended-unseen",
        "Pod",
        [ASKED, NOT_FORCED, phase("Running"), of(fates.DONE_UNSEEN)],
        ended("0", "Completed", "Succeeded", finished=BEGAN),
    ),
]
