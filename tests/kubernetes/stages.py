"""How do simulated nodes run pods? Stages of kwok: which pods, after how long, what their status becomes.

The ordinary life of a pod is in kwok's own stages (`general_stages`); here is what they do not have. Written as Python
because many stages share their status templates; `configuration()` is what kwok reads (JSON documents are YAML
documents).
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.kubernetes import fates

MANAGED = "crawler-lifecycle-bed/managed"  # nodes with this label are kept alive
FATE = '.spec.containers[0].image | sub(":.*$"; "")'
EXITS = f'{FATE} | if startswith("fate/exits-") then "fate/exits" else . end'
DELAY = '.spec.containers[0].image | split(":")[1] // "0s"'
SIGTERM_MILLISECONDS = 200
TIDYING = f'.spec.containers[0].image | split(":")[1] // "{SIGTERM_MILLISECONDS}ms"'
PHASE = ".status.phase"
DELETED = ".metadata.deletionTimestamp"
NOW, BEGAN = "{{ Now | Quote }}", "{{ $began }}"

Condition = tuple[str, str, Sequence[str]]

ALIVE: Condition = (DELETED, "DoesNotExist", ())
ASKED: Condition = (DELETED, "Exists", ())
# a pod deleted by force has no grace left, and the API server removes it; there is nothing to play for it
NOT_FORCED: Condition = (".metadata.deletionGracePeriodSeconds", "NotIn", ("0",))


def configuration(*more: dict[str, Any]) -> str:
    """`more`: further stages."""
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 4,
            "nodeLeaseParallelism": 4,
            "podsOnNodeSyncParallelism": 4,
        },
    }
    return "\n---\n".join(json.dumps(document) for document in [options, *NODES, *PODS, *more])


def of(*names: str) -> Condition:
    return (EXITS, "In", names)


def but(*names: str) -> Condition:
    return (EXITS, "NotIn", names)


def phase(name: str) -> Condition:
    return (PHASE, "In", (name,))


def stage(
    name: str,
    kind: str,
    when: Sequence[Condition],
    status: str,
    *,
    milliseconds: int = 0,
    delay: str | None = None,
    event: tuple[str, str] | None = None,
) -> dict[str, object]:
    steps: list[dict[str, object]] = []
    if event:
        steps.append({"event": {"type": "Warning", "reason": event[0], "message": event[1]}})
    if status:
        steps.append({"patch": {"subresource": "status", "root": "status", "template": status}})
    waits: dict[str, object] = {"durationMilliseconds": milliseconds}
    if delay:
        waits["durationFrom"] = {"jq": {"expression": delay}}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": [expression(*each) for each in when]},
            "delay": waits,
            "steps": steps,
        },
    }


def expression(key: str, operator: str, values: Sequence[str]) -> dict[str, object]:
    jq: dict[str, object] = {"key": key, "operator": operator}
    return {"jq": jq | ({"values": list(values)} if values else {})}


def conditions(**statuses: str) -> str:
    lines = [
        f'- {{type: {kind}, status: "{status}", lastTransitionTime: {{{{ Now | Quote }}}}}}'
        for kind, status in statuses.items()
    ]
    return "conditions:\n" + "\n".join(lines) + "\n"


def _containers(state: str) -> str:
    return (
        "containerStatuses:\n"
        "{{ range .spec.containers }}\n"
        "- {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: '', restartCount: 0,"
        f" ready: false, started: false, state: {state}}}\n"
        "{{ end }}\n"
    )


def waiting(reason: str, message: str = "") -> str:
    return _containers(f"{{waiting: {{reason: {reason}, message: '{message}'}}}}")


def ended(code: str, reason: str, phase: str, *, message: str = "", more: str = "", finished: str = NOW) -> str:
    """All containers over with this exit code, and the pod with them."""
    state = (
        f"{{terminated: {{exitCode: {code}, reason: {reason}, message: '{message}',"
        f" startedAt: {BEGAN}, finishedAt: {finished}}}}}"
    )
    return (
        "{{ $began := or .status.startTime Now | Quote }}\n"
        + "{{ $root := . }}\n"
        + f"phase: {phase}\n"
        + conditions(Ready="False", ContainersReady="False")
        + more
        + _containers(state)
    )


DISRUPTED = (
    '- {{type: DisruptionTarget, status: "True", reason: TerminationByKubelet, message: {message},'
    " lastTransitionTime: {{{{ Now | Quote }}}}}}\n"
)


def _forgotten(reason: str, message: str) -> str:
    """The node ended the pod and tells nothing of its containers."""
    return (
        f"phase: Failed\nreason: {reason}\nmessage: '{message}'\n"
        + conditions(Ready="False", ContainersReady="False")
        + DISRUPTED.format(message=f"'{message}'")
        + "containerStatuses: []\n"
    )


EXIT_CODE = '{{ (index $root.spec.containers 0).image | regexFind "-[0-9]+" | trimPrefix "-" }}'
LOW_MEMORY = "The node was low on resource: memory."

NODE_STATUS = """
conditions:
{{ range NodeConditions }}
- {type: {{ .type | Quote }}, status: {{ .status | Quote }}, reason: {{ .reason | Quote }},
   message: {{ .message | Quote }}, lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}}
{{ end }}
addresses: [{type: InternalIP, address: 127.0.0.1}, {type: Hostname, address: {{ NodeName | Quote }}}]
daemonEndpoints: {kubeletEndpoint: {Port: {{ NodePort }}}}
allocatable: {cpu: "64", memory: 256Gi, ephemeral-storage: 1Ti, pods: "1000"}
capacity: {cpu: "64", memory: 256Gi, ephemeral-storage: 1Ti, pods: "1000"}
nodeInfo: {architecture: amd64, bootID: "", containerRuntimeVersion: kwok, kernelVersion: kwok, kubeProxyVersion: kwok,
  kubeletVersion: kwok, machineID: "", operatingSystem: linux, osImage: "", systemUUID: ""}
phase: Running
"""

CREATING: Condition = (".status.containerStatuses[0].state.waiting.reason", "In", ("ContainerCreating",))
NOT_TO_RUN = (
    fates.NO_IMAGE,
    fates.BAD_CONFIG,
    fates.NO_START,
    fates.NO_VOLUME,
    fates.NO_SANDBOX,
    fates.CANNOT_RUN,
    fates.UNPREPARED,
)

NODES = [
    stage(
        "node-is-ready",
        "Node",
        [('.status.conditions.[] | select(.type == "Ready") | .status', "NotIn", ("True",))],
        NODE_STATUS,
    ),
]

PODS = [
    stage(
        "pod-has-no-image",
        "Pod",
        [ALIVE, phase("Pending"), CREATING, of(fates.NO_IMAGE)],
        waiting("ImagePullBackOff", "Back-off pulling image: not found"),
        event=("Failed", "Failed to pull image: not found"),
    ),
    stage(
        "pod-has-a-bad-configuration",
        "Pod",
        [ALIVE, phase("Pending"), CREATING, of(fates.BAD_CONFIG)],
        waiting("CreateContainerConfigError", 'secret "settings" not found'),
        event=("Failed", 'Error: secret "settings" not found'),
    ),
    stage(
        "pod-cannot-run",
        "Pod",
        [ALIVE, phase("Pending"), CREATING, of(fates.CANNOT_RUN)],
        ended("128", "StartError", "Failed", message="exec: no such file or directory"),
    ),
    stage(
        "pod-exits",
        "Pod",
        [ALIVE, phase("Running"), of("fate/exits")],
        ended(EXIT_CODE, "Error", "Failed"),
        delay=DELAY,
    ),
    stage(
        "pod-is-out-of-memory",
        "Pod",
        [ALIVE, phase("Running"), of(fates.OUT_OF_MEMORY)],
        ended("137", "OOMKilled", "Failed"),
        delay=DELAY,
    ),
    stage(
        "pod-is-lost-by-a-reboot",
        "Pod",
        [ALIVE, phase("Running"), of(fates.REBOOTED)],
        ended("255", "Unknown", "Failed"),
        delay=DELAY,
    ),
    stage(
        "pod-is-evicted",
        "Pod",
        [ALIVE, phase("Running"), of(fates.EVICTED)],
        _forgotten("Evicted", LOW_MEMORY),
        delay=DELAY,
        event=("Evicted", LOW_MEMORY),
    ),
    stage(
        "pod-ends-with-its-node",
        "Pod",
        [ALIVE, phase("Running"), of(fates.NODE_SHUTDOWN)],
        ended(
            "137",
            "Error",
            "Failed",
            more=DISRUPTED.format(message="'node shutdown'")
            + "reason: Terminated\nmessage: 'imminent node shutdown'\n",
        ),
        delay=DELAY,
    ),
    stage(
        "pod-heeds-sigterm",
        "Pod",
        [ASKED, NOT_FORCED, phase("Running"), but(fates.ORDERLY, fates.IGNORES, fates.STUCK, fates.DONE_UNSEEN)],
        ended("143", "Error", "Failed"),
        milliseconds=SIGTERM_MILLISECONDS,
    ),
    stage(
        "pod-ends-in-order",
        "Pod",
        [ASKED, NOT_FORCED, phase("Running"), of(fates.ORDERLY)],
        ended("0", "Completed", "Succeeded"),
        delay=TIDYING,
    ),
    stage(
        "pod-is-killed-after-its-grace",
        "Pod",
        [ASKED, NOT_FORCED, phase("Running"), of(fates.IGNORES)],
        ended("137", "Error", "Failed"),
        delay=DELETED,
    ),
    stage(
        "pod-never-ran",
        "Pod",
        [ASKED, NOT_FORCED, phase("Pending"), but(fates.STUCK)],
        "phase: Failed\n",
    ),
]
