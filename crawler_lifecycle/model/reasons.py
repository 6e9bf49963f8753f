"""Causes and reasons. A cause is the word for why a task or run waits now; a reason, for why a task or run ended.

Runs, tasks, notices and events carry these words, so a word never changes.
"""

# causes: why a task or run waits
MAIN_JOB = "main_job"  # until task 0 has started, no other task is deployed
DISPATCHER = "dispatcher"  # the dispatcher has not reached the task yet
RETRY_PAUSE = "retry_pause"  # the task's last attempt failed, and the pause before its next attempt is not over
RUN_LIMIT = "run_limit"  # the run has as many jobs as its `max_parallel` allows
ADMISSION = "admission"  # a limit of the installation, of the crawler or of a label holds the run or its tasks
PAUSED = "paused"  # somebody has paused the installation, the crawler or a label
SCHEDULER_UNAVAILABLE = "scheduler_unavailable"  # the scheduler service does not answer, or answers with an error
CLAIM_LOST = "claim_lost"  # the task continued without the job just made, so the job was ended at once
CLUSTER_UNKNOWN = "cluster_unknown"  # the cluster could not be observed, so the start of the main job is not known
CLUSTER_UNAVAILABLE = "cluster_unavailable"  # the API server does not answer, or answers with an error
CLUSTER_FORBIDS = "cluster_forbids"  # the API server refuses our credentials
CLUSTER_TOO_OLD = "cluster_too_old"  # the API server's version is older than the oldest supported version
NAMESPACE_CHANGED = "namespace_changed"  # the namespace has another uid than the recorded namespace
JOB_LEAVING = "job_leaving"  # an earlier job with the same name is still being deleted
CLAIMED_ELSEWHERE = "claimed_elsewhere"  # another process deploys the main job, or has died while it did

# causes: why a job in the cluster waits, or its present trouble
CAPACITY = "capacity"  # the local cluster runs as many jobs as its setting allows
STARTING = "starting"  # the job has room in the cluster and has not started yet
QUOTA = "quota"  # the namespace's quota allows no further pod
NOT_SYNCED = "not_synced"  # the Job controller has not seen the job yet
NOT_CONSIDERED = "not_considered"  # no scheduler of the cluster has examined the pod yet
SUSPENDING = "suspending"  # a queue or a person holds the job back, and its pods are still ending
SUSPENDED = "suspended"  # a queue or a person holds the job back
POD_NOT_CREATED = "pod_not_created"  # the job has no pod, and no event names the obstacle
POD_CREATE_REJECTED = "pod_create_rejected"  # the cluster refuses to create the pod, for another reason than a quota
SCHEDULED = "scheduled"  # the pod has a node, and no container says why it waits
CONTAINER_CREATING = "container_creating"  # the containers do not start, and no event names the obstacle
VOLUME = "volume"  # a volume of the pod cannot be attached or mounted
POD_SANDBOX = "pod_sandbox"  # the node cannot set up the pod's surroundings, such as its network
RESOURCE_CLAIM = "resource_claim"  # the devices that the pod claims cannot be prepared
UNSCHEDULABLE = "unschedulable"  # no node has room for the pod, or no node fits
IMAGE_PULL = "image_pull"  # the image cannot be fetched
CONTAINER_CONFIG = "container_config"  # a setting of the container, such as a missing secret, is wrong
CANNOT_START = "cannot_start"  # the container cannot be made or started, such as for a command that does not exist
CRASH_LOOP = "crash_loop"  # the container fails again and again, and the node waits before its next start
NODE_UNREACHABLE = "node_unreachable"  # the pod's node does not answer
POD_TERMINATING = "pod_terminating"  # the pod was asked to end
POD_OVERDUE = "pod_overdue"  # the pod was asked to end, and is still there long after its grace period
SIDECAR_HANGING = "sidecar_hanging"  # the main container has ended, and another container runs on
SIDECAR_NOT_STARTED = "sidecar_not_started"  # the main container runs all the same
FINISHING = "finishing"  # the program has ended with 0, and the Job does not show the end yet
BACKOFF = "backoff"  # the program has failed, and the Job does not show the end yet
UNEXPLAINED = "failed"  # neither pod nor Job says why
FAILING = "failing"  # the Job will fail soon, and its pods are still ending
ORPHAN_PODS = "orphan_pods"  # pods live although their Job does not exist any more
DELETED_EXTERNALLY = "deleted_externally"  # the run was to continue, but its job was deleted

# reasons: why a run or task ended
DEPLOYMENT_REFUSED = "deployment_refused"  # the scheduler service can never deploy the job
ADMISSION_DENIED = "admission_denied"  # a rule of the cluster refuses the job
LABELS_REMOVED = (
    "labels_removed"  # a webhook of the cluster takes our labels from jobs: we would not find the job again
)
INVALID_IMAGE_NAME = "invalid_image_name"  # the image's name is no valid name, so no retry can help
JOB_CHANGED = "job_changed"  # the cluster changes new jobs so that they may start a second pod, or lose their end
NEVER_STARTED = "never_started"  # the main job did not start within the start limit
STOPPED_BEFORE_START = "stopped_before_start"  # a stop came before the local cluster had started the program
DEADLINE_EXCEEDED = "deadline_exceeded"  # the cluster ended the task's job at the run's time limit
POD_DEADLINE = "pod_deadline"  # the pod's own time limit, set by the cluster, ended the pod
OOM_KILLED = "oom_killed"  # the container used more memory than its limit
OF_INDEXES = ("failed_indexes", "max_failed_indexes_exceeded")  # too many pods of an Indexed Job failed
MAX_DURATION = "max_duration"  # the run took longer than its duration limit
STOPPED = "stopped"  # a stop asked the jobs to end
STOPPED_FORCED = "stopped_forced"  # a force killed the jobs
JOB_FAILED_MAIN_OK = "job_failed_main_ok"  # the main container ended with 0, and the Job failed all the same
DRAINED = "drained"  # the pod was evicted through the API, such as for a drained node
EVICTED = "evicted"  # the kubelet evicted the pod, such as for a lack of memory on its node
PREEMPTED = "preempted"  # the pod had to leave its node for a more important pod
NODE_TAINTED = "node_tainted"  # the node got a taint that the pod does not tolerate
NODE_DELETED = "node_deleted"  # the pod was removed, such as because its node does not exist any more
NODE_SHUTDOWN = "node_shutdown"  # the node was shut down
NODE_REJECTED = "node_rejected"  # the node did not admit the pod
NODE_LOST = "node_lost"  # the node does not answer any more
RUNNER_LOST = "runner_lost"  # the local cluster's process beside the program was killed
DISRUPTED = "disrupted"  # the pod was drained, preempted or evicted, by an unknown author
JOB_DISAPPEARED = "job_disappeared"  # the job is absent, and no trace shows its result
RESULT_UNKNOWN = "result_unknown"  # the job is gone, and its remains do not show the result
ALL_SUCCEEDED = "all_succeeded"  # the run ended, and each of its tasks succeeded
FAILURES_ALLOWED = "failures_allowed"  # tasks failed, and no more than the run's `allowed_failures`
MAIN_JOB_FAILED = "main_job_failed"  # task 0 did not succeed
MAIN_JOB_LOST = "main_job_lost"  # task 0 is LOST
TASKS_FAILED = "tasks_failed"  # the main job succeeded, and more tasks failed than the run allows
TASKS_LOST = "tasks_lost"  # the main job succeeded, no task failed, and more tasks are LOST than the run allows
BY_A_STOP = (STOPPED, STOPPED_FORCED)  # reasons for a run's end by a stop
LIMITS = (NEVER_STARTED, MAX_DURATION)  # time limits, as reasons of a run's end

# no reason, but the door of a stop: the run was replaced, because its schedule's next occurrence was due
SCHEDULE_DOOR = "schedule"

KILLED = "sigkill_unknown"  # SIGKILL by an unknown sender, often the kernel after memory ran out

# reasons for exit codes with a usual meaning
BY_EXIT_CODE = {
    126: "not_executable",
    127: "command_not_found",
    134: "sigabrt",
    137: KILLED,
    139: "sigsegv",
    143: "sigterm",
}


def of_exit_code(code: int) -> str:
    """Return the reason of a failure by its exit code. After an end by a signal, the code is 128 plus the signal."""
    is_signal = 128 < code < 160
    general = f"sig{code - 128}" if is_signal else f"exit_{code}"
    return BY_EXIT_CODE.get(code, general)


# failures of the infrastructure
OF_INFRASTRUCTURE = frozenset({
    DRAINED,
    PREEMPTED,
    EVICTED,
    NODE_TAINTED,
    NODE_DELETED,
    NODE_SHUTDOWN,
    NODE_REJECTED,
    NODE_LOST,
    RUNNER_LOST,
    DISRUPTED,
    DELETED_EXTERNALLY,
    JOB_DISAPPEARED,
    RESULT_UNKNOWN,
})  # fmt: skip
# a limit ended the program: a retry would only meet the limit again
BY_A_LIMIT = frozenset({DEADLINE_EXCEEDED, POD_DEADLINE})

# what a run or task waits for, by its usual causes; the page and the command line show it
WAITS_FOR = {
    MAIN_JOB: "the main job to run",
    DISPATCHER: "the dispatcher",
    CAPACITY: "capacity",
    QUOTA: "quota in the cluster",
    STARTING: "its start",
    UNSCHEDULABLE: "a node that fits",
    RETRY_PAUSE: "the pause before its next attempt",
    RUN_LIMIT: "its turn (limit of the run)",
    ADMISSION: "a place (limit of the installation, a crawler or a label)",
    PAUSED: "the end of a pause",
}
