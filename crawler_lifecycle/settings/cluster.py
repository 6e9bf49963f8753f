"""Settings for jobs: backends, deployment and limits."""

import math
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

BUSY_SECONDS = 8.0  # requests to a busy Kubernetes API server are repeated for so long


def longest_request(connect_seconds: float, read_seconds: float) -> float:
    """Return the seconds until the Kubernetes adapter gives up the last try for a request. Read time-outs are sent as
    whole seconds."""
    return BUSY_SECONDS + connect_seconds + math.ceil(read_seconds)


class ClusterSettings(BaseModel):
    kind: Literal["local", "kubernetes"] = Field(default="local", description="which backend runs the jobs")
    capacity: int = Field(default=16, ge=1, description="jobs the local cluster runs at once; others wait")
    installation: str | None = Field(
        default=None, description="UUID of the one installation the scheduler service deploys for; default: any"
    )


class KubernetesSettings(BaseModel):
    """Settings for `CRAWLER_CLUSTER__KIND=kubernetes`."""

    namespace: str = Field(default="crawls", description="where the jobs are; it should hold nothing else")
    kubeconfig: Path | None = Field(
        default=None,
        description="kubeconfig file; default: the pod's own service account, outside of pods kubectl's file",
    )
    context: str | None = Field(default=None, description="context of the kubeconfig file; default: its current one")
    connect_seconds: float = Field(default=3, gt=0, description="to reach the API server")
    read_seconds: float = Field(default=10, gt=0, description="of silence until a request is given up")
    service_account: str | None = Field(
        default=None,
        description="under which the pods of crawlers run, without its token; default: the namespace's own",
    )
    image_pull_secrets: str = Field(default="", description="names of secrets for the crawlers' images, between commas")
    files_claim: str | None = Field(
        default=None, description="volume claim with the supporting files, a folder per run; default: lost with the pod"
    )
    files_group: int = Field(default=1000, ge=1, description="group that may write into that volume")
    longest_days: int = Field(default=30, ge=1, le=365, description="of a job whose run has no limit of its own")
    keep_days: int = Field(
        default=7, ge=1, le=365, description="until the cluster removes an ended job that we did not"
    )
    give_up_seconds: int = Field(
        default=1800,
        ge=1,
        description="of no progress for want of an image, a configuration or a pod, until the task has failed",
    )
    overdue_seconds: int = Field(
        default=1800,
        ge=1,
        description="after its grace until what does not end, as its node is dead, is deleted by force",
    )
    sidecar_seconds: int = Field(
        default=600,
        ge=1,
        description="after its main container has ended, until a task is over although another container runs on",
    )
    log_mebibytes: int = Field(default=64, ge=1, description="of a job's log that are kept when it is removed")


class LimitSettings(BaseModel):
    most_tasks: int = Field(default=10_000, ge=1, description="tasks of one run")
    grace_seconds: int = Field(default=30, ge=1, description="from a stop until it is forced, if nothing else is said")
    start_limit_seconds: int | None = Field(
        default=None, ge=1, description="how long a main job may wait to start; default: for ever"
    )
    max_duration_seconds: int | None = Field(
        default=None, ge=1, description="how long a run may take in all; default: for ever"
    )
