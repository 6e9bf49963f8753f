"""Causes and reasons: the words for why a task or run waits now (cause), and why it ended (reason)."""

# causes: why a task or run waits
MAIN_JOB = "main_job"  # until task 0 has started, no other task is deployed
DISPATCHER = "dispatcher"  # the dispatcher has not reached the task yet
RUN_LIMIT = "run_limit"  # the run has as many jobs as its `max_parallel` allows
INSTALLATION_LIMIT = "installation_limit"
SCHEDULER_UNAVAILABLE = "scheduler_unavailable"
CLAIM_LOST = "claim_lost"  # the task went on without the new job, so the job is ended again
CLUSTER_UNKNOWN = "cluster_unknown"  # the look could not see the main job
CLUSTER_UNAVAILABLE = "cluster_unavailable"  # the API server does not answer, or answers with an error
CLUSTER_FORBIDS = "cluster_forbids"  # the API server refuses our credentials
NAMESPACE_CHANGED = "namespace_changed"  # the namespace has another uid than the namespace on record
JOB_LEAVING = "job_leaving"  # an earlier job with the same name is still being deleted

# causes: why a job in the cluster waits, or its present trouble
CAPACITY = "capacity"
QUOTA = "quota"
NOT_CONSIDERED = "not_considered"  # no scheduler of the cluster has examined the pod yet
SUSPENDED = "suspended"
POD_NOT_CREATED = "pod_not_created"  # no event names the obstacle
POD_CREATE_REJECTED = "pod_create_rejected"
CONTAINER_CREATING = "container_creating"  # no event names the obstacle
VOLUME = "volume"
POD_SANDBOX = "pod_sandbox"
UNSCHEDULABLE = "unschedulable"
IMAGE_PULL = "image_pull"
CONTAINER_CONFIG = "container_config"
POD_TERMINATING = "pod_terminating"
POD_OVERDUE = "pod_overdue"  # told to end, and still there long after its grace
SIDECAR_HANGING = "sidecar_hanging"  # the main container has ended, and another container runs on
SIDECAR_NOT_STARTED = "sidecar_not_started"  # the main container runs all the same
FINISHING = "finishing"  # the program has ended with 0, and the Job does not show the end yet
BACKOFF = "backoff"  # the program has failed, and the Job does not show the end yet
FAILING = "failing"  # the Job is about to fail, and its pods are still ending
ORPHAN_PODS = "orphan_pods"
DELETED_EXTERNALLY = "deleted_externally"  # the run was to go on, but its job was deleted

# reasons: why a run or task ended
DEPLOYMENT_REFUSED = "deployment_refused"
ADMISSION_DENIED = "admission_denied"
LABELS_REMOVED = "labels_removed"  # by a webhook: our job could not be found again
NEVER_STARTED = "never_started"
DEADLINE_EXCEEDED = "deadline_exceeded"  # the cluster ended the task's job at the run's time limit
MAX_DURATION = "max_duration"
STOPPED = "stopped"
STOPPED_FORCED = "stopped_forced"
DISRUPTED = "disrupted"  # drained, preempted or evicted, by an unknown author
JOB_DISAPPEARED = "job_disappeared"
RESULT_UNKNOWN = "result_unknown"  # the job is gone, and its remains do not show the result
BY_A_STOP = (STOPPED, STOPPED_FORCED)
SCHEDULE_DOOR = "schedule"  # the door of a stop, if a schedule's next occurrence replaces the run
LIMITS = (NEVER_STARTED, MAX_DURATION)  # time limits, as reasons of a run's end

BY_EXIT_CODE = {
    126: "not_executable",
    127: "command_not_found",
    134: "sigabrt",
    137: "sigkill_unknown",
    139: "sigsegv",
    143: "sigterm",
}


def of_exit_code(code: int) -> str:
    """Return the reason of a failure by its exit code, which is 128 and the signal where a signal ended the program."""
    by_number = f"sig{code - 128}" if 128 < code < 160 else f"exit_{code}"
    return BY_EXIT_CODE.get(code, by_number)
