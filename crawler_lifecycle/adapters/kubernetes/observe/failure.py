"""Reason of a job's failure in one short word, by the first rule that fits (row R in docs/decisions/0014).

A deleted pod disappears as soon as the Job has counted the pod. Then only a sentence in the Job's condition Failed is
left, written because our Jobs have a pod failure policy (`act/job_spec.py`).
"""

import re
from collections.abc import Sequence

from crawler_lifecycle.adapters.kubernetes.objects import Condition, Pod, Terminated
from crawler_lifecycle.adapters.kubernetes.observe import pods
from crawler_lifecycle.adapters.kubernetes.observe.words import word
from crawler_lifecycle.domain.crawl_results import is_meant_as_result
from crawler_lifecycle.domain.reasons import DISRUPTED, of_exit_code

# with these reasons the Job decides, whatever its pods show
AS_THE_JOB_SAYS = frozenset({"DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded"})
DISRUPTION = "DisruptionTarget"
# the failure policy's sentences in the condition
POLICY_ON_DISRUPTION = re.compile(rf"Pod \S+ has condition {DISRUPTION} matching ")
POLICY_ON_EXIT_CODE = re.compile(
    rf"Container {pods.MAIN_CONTAINER} for pod \S+ failed with exit code ([0-9]{{1,3}}) matching "
)
OF_A_DELETION = (143, 137)  # exit codes of a deleted pod: SIGTERM, and SIGKILL after the grace
BY_POD_REASON = {
    "Evicted": "evicted",
    "Preempting": "preempted",
    "DeadlineExceeded": "pod_deadline",
    "Terminated": "node_shutdown",
    "Shutdown": "node_shutdown",
    "NodeShutdown": "node_shutdown",
    "UnexpectedAdmissionError": "node_rejected",
    "NodeAffinity": "node_rejected",
    "TopologyAffinityError": "node_rejected",
    # further names of the kubelet's own admission
    "NodeName": "node_rejected",
    "NodePorts": "node_rejected",
    "TaintToleration": "node_rejected",
    "VolumeAttachmentLimitExceeded": "node_rejected",
    "PodFeatureUnsupported": "node_rejected",
    "PodLevelResourcesNotSupported": "node_rejected",
    "PodOSNotSupported": "node_rejected",
    "PodOSSelectorNodeLabelDoesNotMatch": "node_rejected",
    "SysctlForbidden": "node_rejected",
    "AppArmor": "node_rejected",
    "InvalidNodeInfo": "node_rejected",
    "UnexpectedPredicateFailureType": "node_rejected",
    "NodeLost": "node_lost",
}
BY_KUBELET = "TerminationByKubelet"  # the kubelet ends a pod without deleting the pod
BY_DISRUPTION = {
    "PreemptionByScheduler": "preempted",
    "DeletionByTaintManager": "node_tainted",
    "EvictionByEvictionAPI": "drained",
    "DeletionByPodGC": "node_deleted",
    BY_KUBELET: "evicted",
}
BY_END = {"ContainerStatusUnknown": "node_lost", "ContainerCannotRun": "cannot_start", "StartError": "cannot_start"}


def reason(failed: Condition | None, pod: Pod | None) -> str:
    """Return the reason. `failed` is the Job's condition, if the Job still exists."""
    said = failed.reason if failed else None
    known = None
    if said not in AS_THE_JOB_SAYS:
        known = (_of_pod(pod) or _of_exit(pod) if pod else None) or _of_policy(failed)
    return known or word(said, "failed")


def exit_code(failed: Condition) -> int | None:
    """Return the exit code from the Job's condition, for a Job without pods."""
    match = POLICY_ON_EXIT_CODE.match(failed.message or "")
    return int(match[1]) if match else None


def is_by_deletion(failed: Condition | None, own_pods: Sequence[Pod], *, remembers: bool) -> bool:
    """Return whether a user or program deleted the pods: neither the Job's deadline nor a disruption did.

    Without pods, the exit code in the condition decides: a program's own code proves an end without a deletion.
    A missing code proves a deletion before the program ran, but only if the Job `remembers` codes by a failure policy.
    """
    if failed is None or failed.reason in AS_THE_JOB_SAYS or POLICY_ON_DISRUPTION.match(failed.message or ""):
        return False
    if any(pods.is_true(pod, DISRUPTION) for pod in own_pods):
        return False
    if own_pods:
        return all(pod.metadata.deletion_timestamp for pod in own_pods)
    code = exit_code(failed)
    return remembers if code is None else code in OF_A_DELETION


def disruption(pod: Pod) -> str | None:
    """Return the reason of the pod's disruption, such as a preemption or a drained node."""
    condition = pods.condition(pod, DISRUPTION)
    return BY_DISRUPTION.get(condition.reason or "", DISRUPTED) if condition and condition.is_true else None


def message(failed: Condition | None, pod: Pod | None) -> str | None:
    """Return the message nearest to the program. A crawl's result explains no failure."""
    end = (pods.end_of_main(pod) or pods.state(pods.failed_init(pod)).terminated) if pod else None
    pod_message = (pod.status or pods.NO_STATUS).message if pod else None
    return pod_message or (message_of(end) if end else None) or (failed.message if failed else None)


def message_of(end: Terminated) -> str | None:
    """Return the container's last message; None for a crawl's result."""
    return None if end.message and is_meant_as_result(end.message) else end.message


def _of_pod(pod: Pod) -> str | None:
    if any(end.reason == "OOMKilled" for end in pods.ends(pod)):
        return "oom_killed"
    said = (pod.status or pods.NO_STATUS).reason or ""
    if said.startswith("OutOf"):
        return "node_rejected"
    return BY_POD_REASON.get(said) or disruption(pod)


def _of_exit(pod: Pod) -> str | None:
    end = pods.end_of_main(pod)
    if end and (known := BY_END.get(end.reason or "")):
        return known
    for container in pods.plain_init_containers(pod):
        init = pods.state(container).terminated
        if init and (known := BY_END.get(init.reason or "")):
            return known
        if init and init.exit_code:
            return f"init_exit_{init.exit_code}"
    return None if end is None or end.exit_code is None else reason_of_code(end.exit_code)


def _of_policy(failed: Condition | None) -> str | None:
    if failed is None:
        return None
    if POLICY_ON_DISRUPTION.match(failed.message or ""):
        return DISRUPTED
    code = exit_code(failed)
    return None if code is None else reason_of_code(code)


def reason_of_code(code: int) -> str:
    return "job_failed_main_ok" if code == 0 else of_exit_code(code)
