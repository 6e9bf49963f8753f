"""Decide whether a pod's program was asked to end before its end, and by whom: such a program has not finished.

A program is asked to end by its pod's deletion, or by the kubelet, the agent on its node. The node's clock dates the
end and the API server's clock the deletion, and the two clocks may differ by a minute, so only dates more than a minute
apart show the order. Within a minute, a grace proves that the request came first if the main container was the last to
end, since the API server gives an ended pod no grace. Without a grace the order is unknown.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from crawler_lifecycle.clusters.kubernetes.objects import Pod
from crawler_lifecycle.clusters.kubernetes.observe import pods
from crawler_lifecycle.model.reasons import DELETED_EXTERNALLY, DISRUPTED

CLOCK_DIFFERENCE = timedelta(minutes=1)  # the clocks of a node and the API server differ by at most this time
NODE_REJECTED = "node_rejected"
REASON_BY_POD_REASON = {  # by the reason in the pod's status: its kubelet ended the pod, or did not admit the pod
    "Evicted": "evicted",
    "Preempting": "preempted",
    "DeadlineExceeded": "pod_deadline",
    "Terminated": "node_shutdown",
    "Shutdown": "node_shutdown",
    "NodeShutdown": "node_shutdown",
    "UnexpectedAdmissionError": NODE_REJECTED,
    "NodeAffinity": NODE_REJECTED,
    "TopologyAffinityError": NODE_REJECTED,
    # further names of the kubelet's own admission
    "NodeName": NODE_REJECTED,
    "NodePorts": NODE_REJECTED,
    "TaintToleration": NODE_REJECTED,
    "VolumeAttachmentLimitExceeded": NODE_REJECTED,
    "PodFeatureUnsupported": NODE_REJECTED,
    "PodLevelResourcesNotSupported": NODE_REJECTED,
    "PodOSNotSupported": NODE_REJECTED,
    "PodOSSelectorNodeLabelDoesNotMatch": NODE_REJECTED,
    "SysctlForbidden": NODE_REJECTED,
    "AppArmor": NODE_REJECTED,
    "InvalidNodeInfo": NODE_REJECTED,
    "UnexpectedPredicateFailureType": NODE_REJECTED,
    "NodeLost": "node_lost",
}
DISRUPTION = "DisruptionTarget"  # condition; true if the cluster ends the pod, such as for a drained node
KILLED_EXIT_CODES = (143, 137)  # a deleted pod gets SIGTERM, and SIGKILL after the grace
BY_KUBELET = "TerminationByKubelet"  # the kubelet ends a pod without deleting the pod
REASON_BY_DISRUPTION = {  # by the reason in the condition DISRUPTION
    "PreemptionByScheduler": "preempted",
    "DeletionByTaintManager": "node_tainted",
    "EvictionByEvictionAPI": "drained",
    "DeletionByPodGC": "node_deleted",
    BY_KUBELET: "evicted",
}


def were_told_to_end(own_pods: Sequence[Pod]) -> bool | None:
    """Return whether the pods that succeeded were asked to end before. None: no pod can decide.

    A single pod that succeeded without a request is enough for False: its program has finished the work.
    """
    answers = {was_told_to_end(pod) for pod in own_pods if pods.phase(pod) == pods.SUCCEEDED}
    if False in answers:
        return False
    return True if True in answers else None


def ended_by(pod: Pod) -> str | None:
    """Return, as a reason for failure, which part of the cluster ended the pod or announced its end; None: no part."""
    pod_reason = (pod.status or pods.NO_STATUS).reason or ""
    if pod_reason.startswith("OutOf"):  # such as OutOfcpu
        return NODE_REJECTED
    if pod_reason in REASON_BY_POD_REASON:
        return REASON_BY_POD_REASON[pod_reason]
    condition = pods.condition(pod, DISRUPTION)
    return REASON_BY_DISRUPTION.get(condition.reason or "", DISRUPTED) if condition and condition.is_true else None


def author_of_request(own_pods: Sequence[Pod], job_deleted_at: datetime | None = None) -> str | None:
    """Return, as a reason for failure, the author: a part of the cluster, or a client that deleted the Job.

    None: an unnamed client deleted the pods alone.
    """
    parts = sorted(reason for pod in own_pods if (reason := ended_by(pod)))
    if parts:
        return parts[0]
    return DELETED_EXTERNALLY if job_deleted_at else None


def was_told_to_end(pod: Pod) -> bool | None:
    """Return whether the pod's main container was asked to end before its end. None: unknown."""
    end = pods.end_of_main(pod)
    ended_at = end.finished_at if end and not pods.is_lost(end) else None
    disruption = pods.condition(pod, DISRUPTION)
    is_by_kubelet = disruption is not None and disruption.is_true and disruption.reason == BY_KUBELET
    if is_by_kubelet or (pod.status or pods.NO_STATUS).reason in REASON_BY_POD_REASON:
        # the kubelet dates both with one clock, and deletes no pod: a missing date leaves the order unknown
        disrupted_at = disruption.last_transition_time if disruption and is_by_kubelet else None
        return None if ended_at is None or disrupted_at is None else disrupted_at <= ended_at
    grace_end, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
    if grace_end is None:
        # a disruption alone only announces a deletion, and the deletion may fail: nobody else ended such a program
        return None if disruption and disruption.is_true and pods.exit_code(pod) in KILLED_EXIT_CODES else False
    # When a node later deletes the finished pod for good, the API server sets the grace to 0, and `grace_end` back to
    # the first request's time. So `told_at` is the first request's time in both cases.
    told_at = grace_end - timedelta(seconds=grace or 0)
    if ended_at and ended_at > told_at + CLOCK_DIFFERENCE:
        return True
    if ended_at and ended_at < told_at - CLOCK_DIFFERENCE:
        return False
    return True if grace and not pods.outlived_main(pod) else None
