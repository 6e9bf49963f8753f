"""Settings for jobs: the jobs' cluster, the access to Kubernetes, and the limits for runs."""

import math
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

BUSY_SECONDS = 8.0  # time for repeating a request while a busy Kubernetes API server refuses the request


def longest_request(connect_seconds: float, read_seconds: float) -> float:
    """Return the longest time, in seconds, until the Kubernetes adapter gives up a request with all its tries.

    A claim has to last longer. The API server takes its time limit in whole seconds, so `read_seconds` is rounded up.
    """
    return BUSY_SECONDS + connect_seconds + math.ceil(read_seconds)


class ClusterSettings(BaseModel):
    """The choice between the clusters, and the local cluster's settings."""

    kind: Literal["local", "kubernetes"] = Field(default="local", description="cluster that runs the jobs")
    capacity: int = Field(default=16, ge=1, description="largest number of jobs that the local cluster runs at once")
    installation: str | None = Field(
        default=None,
        description="UUID of the only installation for which the scheduler service deploys; default: any installation",
    )


class KubernetesSettings(BaseModel):
    """Settings for `CRAWLER_CLUSTER__KIND=kubernetes`."""

    namespace: str = Field(default="crawls", description="namespace of the jobs, which should contain no other objects")
    kubeconfig: Path | None = Field(
        default=None, description="kubeconfig file; default: a pod's own service account, elsewhere kubectl's file"
    )
    context: str | None = Field(
        default=None, description="context in the kubeconfig file; default: the current context"
    )
    connect_seconds: float = Field(default=3, gt=0, description="time limit for a connection to the API server")
    read_seconds: float = Field(
        default=10, gt=0, description="time without an answer by the API server, after which a request is given up"
    )
    service_account: str | None = Field(
        default=None,
        description="service account of the crawlers' pods, which get no token; default: the namespace's own account",
    )
    image_pull_secrets: str = Field(
        default="", description="pull secrets for the crawlers' images, separated by commas"
    )
    files_claim: str | None = Field(
        default=None,
        description="volume claim for the runs' files, with a folder per run; default: files are lost with their pod",
    )
    files_group: int = Field(default=1000, ge=1, description="group that may write to the volume of the runs' files")
    longest_days: int = Field(default=30, ge=1, le=365, description="longest duration of a job whose run has no limit")
    keep_days: int = Field(
        default=7, ge=1, le=365, description="time until the cluster removes an ended job that we did not remove"
    )
    give_up_seconds: int = Field(
        default=1800,
        ge=1,
        description="time without progress towards an image, a configuration or a pod, after which the task has FAILED",
    )
    overdue_seconds: int = Field(
        default=1800,
        ge=1,
        description="time after the grace period until a job that does not end, as on a dead node, is deleted by force",
    )
    sidecar_seconds: int = Field(
        default=600,
        ge=1,
        description="time after the end of the main container until the task is over although a sidecar runs on",
    )
    log_mebibytes: int = Field(default=64, ge=1, description="largest log that is kept after a job")


class LimitSettings(BaseModel):
    """Limits for runs, where neither the request nor the crawler gives a limit, and for all runs together."""

    tasks_in_cluster: int = Field(
        default=1000,
        ge=2,
        description="largest number of tasks in the cluster, of all runs and with main tasks, unless `crawlctl limits` "
        "has set another one for the installation",
    )
    most_tasks: int = Field(default=10_000, ge=1, description="largest number of tasks in a run")
    grace_seconds: int = Field(default=30, ge=1, description="default time from a stop until the force")
    start_limit_seconds: int | None = Field(
        default=None, ge=1, description="longest wait for the start of a main job; default: no limit"
    )
    max_duration_seconds: int | None = Field(
        default=None, ge=1, description="longest duration of a run; default: no limit"
    )
