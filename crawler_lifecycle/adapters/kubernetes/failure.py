"""R: why has a job failed? In one short word, the first of the rules that fits."""

from crawler_lifecycle.adapters.kubernetes import pods
from crawler_lifecycle.adapters.kubernetes.objects import Condition, Pod

AS_THE_JOB_SAYS = frozenset({"DeadlineExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded"})
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
    "NodeLost": "node_lost",
}
BY_DISRUPTION = {
    "PreemptionByScheduler": "preempted",
    "DeletionByTaintManager": "node_tainted",
    "EvictionByEvictionAPI": "drained",
    "DeletionByPodGC": "node_deleted",
    "TerminationByKubelet": "evicted",
}
BY_END = {
    "ContainerStatusUnknown": "node_lost",
    "ContainerCannotRun": "cannot_start",
    "StartError": "cannot_start",
}
BY_EXIT_CODE = {
    0: "job_failed_main_ok",
    126: "not_executable",
    127: "command_not_found",
    134: "sigabrt",
    137: "sigkill_unknown",
    139: "sigsegv",
    143: "sigterm",
}


def reason(failed: Condition | None, pod: Pod | None) -> str:
    """`failed` is the Job's condition, where there still is a Job."""
    said = (failed.reason if failed else None) or "failed"
    if said in AS_THE_JOB_SAYS or pod is None:
        return said
    return _of_pod(pod) or _of_exit(pod) or said


def message(failed: Condition | None, pod: Pod | None) -> str | None:
    end = pods.end_of_main(pod) if pod else None
    told = (pod.status or pods.NO_STATUS).message if pod else None
    return told or (end.message if end else None) or (failed.message if failed else None)


def _of_pod(pod: Pod) -> str | None:
    if any(end.reason == "OOMKilled" for end in pods.ends(pod)):
        return "oom_killed"
    said = (pod.status or pods.NO_STATUS).reason or ""
    if said.startswith("OutOf"):
        return "node_rejected"
    disruption = pods.condition(pod, "DisruptionTarget")
    disrupted = disruption.reason if disruption and disruption.is_true else None
    return BY_POD_REASON.get(said) or BY_DISRUPTION.get(disrupted or "")


def _of_exit(pod: Pod) -> str | None:
    end = pods.end_of_main(pod)
    if end and (known := BY_END.get(end.reason or "")):
        return known
    for each in pods.plain_init_containers(pod):
        init = pods.state(each).terminated
        if init and (known := BY_END.get(init.reason or "")):
            return known
        if init and init.exit_code:
            return f"init_exit_{init.exit_code}"
    return None if end is None or end.exit_code is None else _of_code(end.exit_code)


def _of_code(code: int) -> str:
    if 129 <= code <= 159 and code not in BY_EXIT_CODE:
        return f"sig{code - 128}"
    return BY_EXIT_CODE.get(code, f"exit_{code}")
