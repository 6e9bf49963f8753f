"""Choose the pod that explains a job: evidence, log and removal have to show the same pod."""

from collections.abc import Iterable

from crawler_lifecycle.clusters.kubernetes.objects import Job, Pod
from crawler_lifecycle.clusters.kubernetes.observe import pods
from crawler_lifecycle.clusters.kubernetes.observe.job_status import end_of
from crawler_lifecycle.clusters.kubernetes.observe.jobs import DatedJob


def deciding_pod(job: Job | DatedJob | None, listed: Iterable[Pod]) -> Pod | None:
    """Return the pod that decided the job's end, or describes the job now; None without pods of the job.

    Pods of another Job with the same name are left out. Without the Job, all listed pods count.
    """
    own_pods = [pod for pod in listed if job is None or pods.controller_uid(pod) in (None, job.metadata.uid)]
    end = end_of(job.status) if job else None
    if end is None:
        return pods.primary_pod(own_pods)
    return pods.ended_pod(own_pods, pods.SUCCEEDED if end.type == "Complete" else pods.FAILED)
