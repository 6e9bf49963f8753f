"""Which words say why something waits or has ended, where it is we who say it?"""

# why a task or a run waits
MAIN_JOB = "main_job"  # until that has started, no other task is deployed
DISPATCHER = "dispatcher"  # it has not come by yet
RUN_LIMIT = "run_limit"
INSTALLATION_LIMIT = "installation_limit"
SCHEDULER_UNAVAILABLE = "scheduler_unavailable"
CLUSTER_UNKNOWN = "cluster_unknown"
QUOTA = "quota"
CLUSTER_UNAVAILABLE = "cluster_unavailable"
CLUSTER_FORBIDS = "cluster_forbids"

# why a run, or a task, has ended
DEPLOYMENT_REFUSED = "deployment_refused"
ADMISSION_DENIED = "admission_denied"
NEVER_STARTED = "never_started"
MAX_DURATION = "max_duration"
STOPPED = "stopped"
STOPPED_FORCED = "stopped_forced"
BY_A_STOP = (STOPPED, STOPPED_FORCED)
