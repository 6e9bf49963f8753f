"""Words of ours for why a task or a run waits, and why it has ended."""

# why a task or a run waits
MAIN_JOB = "main_job"  # until that has started, no other task is deployed
DISPATCHER = "dispatcher"  # it has not come by yet
RUN_LIMIT = "run_limit"
INSTALLATION_LIMIT = "installation_limit"
SCHEDULER_UNAVAILABLE = "scheduler_unavailable"
CLAIM_LOST = "claim_lost"
CLUSTER_UNKNOWN = "cluster_unknown"
CLUSTER_UNAVAILABLE = "cluster_unavailable"
CLUSTER_FORBIDS = "cluster_forbids"
NAMESPACE_CHANGED = "namespace_changed"  # it is not the one that the installation knows
JOB_LEAVING = "job_leaving"  # an earlier job of its name is still being deleted

# why a job in the cluster waits, or what ails it
CAPACITY = "capacity"
QUOTA = "quota"
NOT_CONSIDERED = "not_considered"
SUSPENDED = "suspended"
POD_NOT_CREATED = "pod_not_created"  # and no event says why
POD_CREATE_REJECTED = "pod_create_rejected"
CONTAINER_CREATING = "container_creating"  # and no event says what keeps it from being created
VOLUME = "volume"
POD_SANDBOX = "pod_sandbox"
UNSCHEDULABLE = "unschedulable"
IMAGE_PULL = "image_pull"
CONTAINER_CONFIG = "container_config"
POD_TERMINATING = "pod_terminating"
POD_OVERDUE = "pod_overdue"  # it was told to end, and for long after its grace it has not
SIDECAR_HANGING = "sidecar_hanging"  # its main container has ended, and another one has not
SIDECAR_NOT_STARTED = "sidecar_not_started"  # its main container runs all the same
FINISHING = "finishing"  # its program has ended with 0; its job does not say so yet
BACKOFF = "backoff"  # the same of one that failed
FAILING = "failing"
ORPHAN_PODS = "orphan_pods"
DELETED_EXTERNALLY = "deleted_externally"

# why a run, or a task, has ended
DEPLOYMENT_REFUSED = "deployment_refused"
ADMISSION_DENIED = "admission_denied"
LABELS_REMOVED = "labels_removed"  # a webhook took them: nobody would find the job again
NEVER_STARTED = "never_started"
DEADLINE_EXCEEDED = "deadline_exceeded"  # of a task: the cluster ended its job, as it had run for the run's whole time
MAX_DURATION = "max_duration"
STOPPED = "stopped"
STOPPED_FORCED = "stopped_forced"
DISRUPTED = "disrupted"  # drained, preempted, sent off its node: by whom it was told to end is not known
JOB_DISAPPEARED = "job_disappeared"
RESULT_UNKNOWN = "result_unknown"  # its job is gone, and what is left of it is over and does not say how
BY_A_STOP = (STOPPED, STOPPED_FORCED)
SCHEDULE_DOOR = "schedule"  # the door of a stop: the next occurrence of a schedule replaces the run
LIMITS = (NEVER_STARTED, MAX_DURATION)  # of time
