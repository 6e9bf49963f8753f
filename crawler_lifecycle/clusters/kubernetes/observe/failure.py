"""Give the reason of a job's failure in one short word, by the first rule that fits (row R in docs/decisions/0014).

The rules read the pod, and the Job's condition `Failed`. A deleted pod disappears as soon as the Job has counted the
pod. Then only a sentence in the condition says how the pod ended; Kubernetes writes the sentence because our Jobs have
a pod failure policy (`act/job_spec.py`).
"""

import re
from collections.abc import Sequence

from crawler_lifecycle.clusters.kubernetes.objects import Condition, Pod, Terminated, is_exit_code
from crawler_lifecycle.clusters.kubernetes.observe import pods, termination
from crawler_lifecycle.clusters.kubernetes.observe.termination import DISRUPTION, KILLED_EXIT_CODES, NODE_REJECTED
from crawler_lifecycle.clusters.kubernetes.observe.words import word
from crawler_lifecycle.model.crawl_results import is_meant_as_result
from crawler_lifecycle.model.reasons import DISRUPTED, UNEXPLAINED, of_exit_code

# with these reasons in the condition the Job decides, whatever its pods show
REASONS_BY_JOB_ALONE = frozenset({"DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded"})
# sentences that the failure policy leaves in the condition
POLICY_ON_DISRUPTION = re.compile(rf"Pod \S+ has condition {DISRUPTION} matching ")
POLICY_ON_EXIT_CODE = re.compile(
    rf"Container {pods.MAIN_CONTAINER} for pod \S+ failed with exit code (-?[0-9]{{1,10}}) matching "
)
DELETION_EXIT_CODES = (0, *KILLED_EXIT_CODES)  # many programs obey a request to end with 0
OOM_KILLED = "oom_killed"
REASON_BY_CONTAINER_END = {  # by the kubelet's reason for a container's end
    "OOMKilled": OOM_KILLED,
    "ContainerCannotRun": "cannot_start",
    "StartError": "cannot_start",
}


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
    was_told = termination.was_told_to_end(pod) is not False
    if by_containers and (by_containers == OOM_KILLED or not was_told):
        return by_containers
    if author := termination.ended_by(pod):
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
    return "node_lost" if pods.is_lost(end) else REASON_BY_CONTAINER_END.get(end.reason or "")


def _reason_of_policy(failed: Condition | None) -> str | None:
    """Return the reason by the sentence that the failure policy left in the condition; None without a sentence."""
    if failed is None:
        return None
    if POLICY_ON_DISRUPTION.match(failed.message or ""):
        return DISRUPTED
    code = exit_code(failed)
    return None if code is None else _reason_of_code(code)


def _reason_of_code(code: int) -> str:
    return "job_failed_main_ok" if code == 0 else of_exit_code(code)


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
