"""Settings for our processes, their doors, logs and metrics."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, SecretStr


class DatabaseSettings(BaseModel):
    url: str | None = Field(
        default=None, repr=False, description="SQLAlchemy URL; default: an SQLite file in the state folder"
    )
    pool_size: int = Field(default=20, ge=1, description="connections that a process opens at most")


class SchedulerSettings(BaseModel):
    url: str = Field(default="http://127.0.0.1:8310", description="where the scheduler service answers")
    token: SecretStr = Field(default=SecretStr(""), description="bearer token; the service does not start without")
    timeout_seconds: float = Field(default=20, gt=0, description="for one request; shorter than a claim lasts")
    catalogue: Path | None = Field(default=None, description="crawler catalogue file; needed by the service itself")


class ApiSettings(BaseModel):
    url: str = Field(default="http://127.0.0.1:3210", description="where the HTTP API and its page answer")
    tokens: Path | None = Field(
        default=None, description="file with the hashes of the tokens; default: `api-tokens.json` in the state folder"
    )
    origins: str = Field(
        default="", description="pages of other origins that may use the API, between commas; default: none"
    )
    requests_per_second: float = Field(default=50, gt=0, description="of one token; four times as many in a burst")
    streams: int = Field(default=200, ge=1, description="live streams that one process serves at once")
    streams_of_one_token: int = Field(default=20, ge=1, description="of these, live streams of one token")
    client_seconds: float = Field(
        default=30,
        gt=0,
        description="for a client to send a request's head, to send its body, and to read what is sent",
    )
    largest_body: int = Field(default=256 * 1024, ge=1, description="bytes that a request may have")


class DispatcherSettings(BaseModel):
    most_in_cluster: int = Field(
        default=1000,
        ge=1,
        description="tasks in the cluster, of all runs and main jobs included, from which on no child task is "
        "deployed; main jobs themselves are held back by the cluster alone",
    )
    interval_seconds: float = Field(default=0.5, gt=0, description="pause between two passes")
    claim_seconds: float = Field(
        default=60,
        gt=0,
        description="how long a claimed task may take to be deployed; on Kubernetes longer than one request of its API "
        "may take in all",
    )
    threads: int = Field(default=8, ge=1, description="deployments under way at once")


class WorkerSettings(BaseModel):
    task_queue: str = Field(default="crawler-lifecycle", description="Temporal task queue of runs and their activities")
    activity_slots: int = Field(default=40, ge=1, description="activities at once, a thread each")
    cached_workflows: int = Field(default=5000, ge=1, description="sleeping runs kept in memory instead of replayed")
    drain_seconds: float = Field(default=20, ge=0, description="for activities under way after SIGTERM")
    sticky_seconds: float = Field(default=2, gt=0, description="until a run moves on from a worker that died")


class AuditSettings(BaseModel):
    every_seconds: int = Field(
        default=600, ge=0, le=86400, description="period of the audit; 0: none, and nobody resumes what was terminated"
    )
    workflow_seconds: int = Field(
        default=60, ge=0, description="since a workflow ended or a run began, until a run is without a supervisor"
    )
    job_seconds: int = Field(default=300, ge=0, description="since its run was over, until a job is left over")
    handover_seconds: int = Field(
        default=300, ge=0, description="since a run was over, until its export or notice is replayed"
    )
    failed_export_seconds: int = Field(
        default=3600, ge=0, description="since an export failed, until it is tried again"
    )
    stuck_seconds: int = Field(
        default=1200,
        ge=60,
        description="since a claim ran out, a look was due, or anything was written of a run, until that is reported",
    )
    replay_days: int = Field(default=7, ge=1, description="how old an end may be that is still replayed by itself")
    keep_days: int = Field(default=30, ge=1, description="of audits, and of what they found and is mended")
    remove_unknown_jobs: bool = Field(
        default=False,
        description="remove jobs of ours that belong to no run; after a restore of a backup they may be live crawls",
    )


class LogSettings(BaseModel):
    format: Literal["text", "json"] = Field(default="text", description="lines for people, or JSON with the ids")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="the least that is logged")


class MetricsSettings(BaseModel):
    port: int | None = Field(
        default=None, ge=0, le=65535, description="where the worker serves its Temporal metrics; default: nowhere"
    )
    host: str = Field(default="127.0.0.1", description="address the metrics are served on")


class HealthSettings(BaseModel):
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="where worker, dispatcher and watcher answer `/healthz`, `/readyz`, `/metrics`; default: nowhere",
    )
    host: str = Field(default="127.0.0.1", description="address of that door")
    stuck_seconds: float = Field(default=120, gt=0, description="a loop that does not turn for longer is not alive")
    ready_seconds: float = Field(
        default=45, gt=0, description="a process is not ready if something it needs was silent for longer"
    )
