"""Rules for the reason of a job's failure, and for whether a request to end came before a program's end.

`reason` gives the reason in one short word, by the first rule that fits (row R in docs/decisions/0014). The rules read
the pod, and the Job's condition `Failed`. A deleted pod disappears as soon as the Job has counted the pod. Then only a
sentence in the condition says how the pod ended; Kubernetes writes the sentence because our Jobs have a pod failure
policy (`act/job_spec.py`).

A program that was asked to end has not finished (`was_told_to_end`). The request is its pod's deletion, or comes from
the kubelet, the agent on its node. The node's clock dates the end and the API server's clock the deletion, and the two
clocks may differ by a minute, so only dates more than a minute apart show the order. Within a minute, a grace proves
that the request came first if the main container was the last to end, since the API server gives an ended pod no grace.
Without a grace the order is unknown.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from crawler_lifecycle.clusters.kubernetes.objects import Condition, Pod, Terminated, is_exit_code
from crawler_lifecycle.clusters.kubernetes.observe import pods
from crawler_lifecycle.model.crawl_results import is_meant_as_result
from crawler_lifecycle.model.reasons import (
    CANNOT_START,
    DELETED_EXTERNALLY,
    DISRUPTED,
    DRAINED,
    EVICTED,
    JOB_FAILED_MAIN_OK,
    NODE_DELETED,
    NODE_LOST,
    NODE_REJECTED,
    NODE_SHUTDOWN,
    NODE_TAINTED,
    OOM_KILLED,
    POD_DEADLINE,
    PREEMPTED,
    UNEXPLAINED,
    of_exit_code,
)

CLOCK_DIFFERENCE = timedelta(minutes=1)  # the clocks of a node and the API server differ by at most this time
REASON_BY_POD_REASON = {  # by the reason in the pod's status: its kubelet ended the pod, or did not admit the pod
    "Evicted": EVICTED,
    "Preempting": PREEMPTED,
    "DeadlineExceeded": POD_DEADLINE,
    "Terminated": NODE_SHUTDOWN,
    "Shutdown": NODE_SHUTDOWN,
    "NodeShutdown": NODE_SHUTDOWN,
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
    "NodeLost": NODE_LOST,
}
DISRUPTION = "DisruptionTarget"  # condition; true if the cluster ends the pod, such as for a drained node
KILLED_EXIT_CODES = (143, 137)  # a deleted pod gets SIGTERM, and SIGKILL after the grace
BY_KUBELET = "TerminationByKubelet"  # the kubelet ends a pod without deleting the pod
REASON_BY_DISRUPTION = {  # by the reason in the condition DISRUPTION
    "PreemptionByScheduler": PREEMPTED,
    "DeletionByTaintManager": NODE_TAINTED,
    "EvictionByEvictionAPI": DRAINED,
    "DeletionByPodGC": NODE_DELETED,
    BY_KUBELET: EVICTED,
}
LONGEST_WORD = 64  # characters; a longer word is cut off, since database columns for causes and reasons hold 128
# with these reasons in the condition the Job decides, whatever its pods show
REASONS_BY_JOB_ALONE = frozenset({"DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded"})
# sentences that the failure policy leaves in the condition
POLICY_ON_DISRUPTION = re.compile(rf"Pod \S+ has condition {DISRUPTION} matching ")
POLICY_ON_EXIT_CODE = re.compile(
    rf"Container {pods.MAIN_CONTAINER} for pod \S+ failed with exit code (-?[0-9]{{1,10}}) matching "
)
DELETION_EXIT_CODES = (0, *KILLED_EXIT_CODES)  # many programs obey a request to end with 0
REASON_BY_CONTAINER_END = {  # by the kubelet's reason for a container's end
    "OOMKilled": OOM_KILLED,
    "ContainerCannotRun": CANNOT_START,
    "StartError": CANNOT_START,
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


@lru_cache  # thousands of pods wait for the same reason
def word(of_cluster: str | None, default: str) -> str:
    """Return `pod_initializing` for `PodInitializing`; `default` without letters and digits in the cluster's word.

    Any future word of the cluster is safe: all characters except letters and digits become underscores.
    """
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", of_cluster or "")
    return re.sub(r"[^a-z0-9]+", "_", parts.lower()).strip("_")[:LONGEST_WORD] or default


def reason(failed: Condition | None, pod: Pod | None) -> str:
    """Return the reason of the failure; `failed`: the Job's condition, None if the Job does not exist any more."""
    job_reason = failed.reason if failed else None
    known_reason = None
    if job_reason not in REASONS_BY_JOB_ALONE:
        known_reason = (_reason_of_pod(pod) if pod else None) or _reason_of_policy(failed)
    return known_reason or word(job_reason, UNEXPLAINED)


def _reason_of_pod(pod: Pod) -> str | None:
    """Return the reason by the pod; None if the pod shows no reason.

    The program's own end decides if it came before any request to end, and so does a lack of memory. Otherwise the
    author of the request decides: without a known author, a program that ended as deleted programs do was disrupted.
    """
    by_containers = _reason_of_containers(pod)
    was_told = was_told_to_end(pod) is not False
    if by_containers and (by_containers == OOM_KILLED or not was_told):
        return by_containers
    if author := ended_by(pod):
        return author
    if by_containers and pod.metadata.deletion_timestamp and pods.exit_code(pod) in DELETION_EXIT_CODES:
        return DISRUPTED
    is_rejected = (pod.status or pods.NO_STATUS).reason and not pods.has_begun(pod)  # by a kubelet, in unknown words
    return by_containers or (NODE_REJECTED if is_rejected else None)


def _reason_of_containers(pod: Pod) -> str | None:
    """Return the reason by how the main container ended, or by a failed init container; None if neither has ended."""
    main_end = pods.end_of_main(pod)
    if reason_of_end := _special_reason(main_end):
        return reason_of_end
    for container in pods.plain_init_containers(pod):
        init_end = pods.state(container).terminated
        if reason_of_end := _special_reason(init_end):
            return reason_of_end
        if init_end and init_end.exit_code:
            return f"init_exit_{init_end.exit_code}"
    if main_end is None:  # a container beside it kept the main container from its start
        return OOM_KILLED if any(end.reason == "OOMKilled" for end in pods.container_ends(pod)) else None
    return None if main_end.exit_code is None else _reason_of_code(main_end.exit_code)


def _special_reason(end: Terminated | None) -> str | None:
    """Return the reason of a container's end that its exit code does not give; None without such a reason."""
    if end is None:
        return None
    return NODE_LOST if pods.is_lost(end) else REASON_BY_CONTAINER_END.get(end.reason or "")


def _reason_of_policy(failed: Condition | None) -> str | None:
    """Return the reason by the sentence that the failure policy left in the condition; None without a sentence."""
    if failed is None:
        return None
    if POLICY_ON_DISRUPTION.match(failed.message or ""):
        return DISRUPTED
    code = exit_code(failed)
    return None if code is None else _reason_of_code(code)


def _reason_of_code(code: int) -> str:
    return JOB_FAILED_MAIN_OK if code == 0 else of_exit_code(code)


def exit_code(failed: Condition) -> int | None:
    """Return the exit code from the Job's condition, for a Job without pods; None if the condition names no code."""
    match = POLICY_ON_EXIT_CODE.match(failed.message or "")
    code = int(match[1]) if match else None
    return code if code is not None and is_exit_code(code) else None


def message(failed: Condition | None, pod: Pod | None) -> str | None:
    """Return the first known message: from the pod, its main container or failed init container, or the Job.

    A crawl's result explains no failure and is no message.
    """
    end = (pods.end_of_main(pod) or pods.state(pods.failed_init(pod)).terminated) if pod else None
    pod_message = (pod.status or pods.NO_STATUS).message if pod else None
    return pod_message or (message_of(end) if end else None) or (failed.message if failed else None)


def message_of(end: Terminated) -> str | None:
    """Return the container's last message; None for a crawl's result."""
    return None if end.message and is_meant_as_result(end.message) else end.message


def is_by_deletion(failed: Condition | None, own_pods: Sequence[Pod], *, has_failure_policy: bool) -> bool:
    """Return whether a user or program deleted the pods; False if the Job's deadline or a disruption ended them.

    Without pods, the exit code in the condition decides: a program's own code proves an end without a deletion. A
    missing code proves a deletion before the program ran, if the Job `has_failure_policy`: a policy keeps every code.
    """
    if failed is None or failed.reason in REASONS_BY_JOB_ALONE or POLICY_ON_DISRUPTION.match(failed.message or ""):
        return False
    if any(pods.is_true(pod, DISRUPTION) for pod in own_pods):
        return False
    if own_pods:
        return all(pod.metadata.deletion_timestamp for pod in own_pods)
    code = exit_code(failed)
    return has_failure_policy if code is None else code in KILLED_EXIT_CODES
