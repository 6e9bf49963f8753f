"""Settings of an installation. `configuration.load` reads them, in mains only.

Every field has the variable `CRAWLER_<GROUP>__<FIELD>`, for example `CRAWLER_DATABASE__URL`. Temporal's address comes
from Temporal's own variables and configuration file (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, ...).
"""

import math
import os
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

BUSY_SECONDS = 8.0  # for so long a busy Kubernetes API server is asked again


def longest_request(connect_seconds: float, read_seconds: float) -> float:
    """Return the seconds until the Kubernetes adapter gives up the last try of a request; time-outs are sent as
    whole seconds."""
    return BUSY_SECONDS + connect_seconds + math.ceil(read_seconds)


def default_state() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state"
    return Path(base) / "crawler-lifecycle"


def _home() -> Path:
    """Return the user's home, or a missing folder for a user id without a home, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


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


class LimitSettings(BaseModel):
    most_tasks: int = Field(default=10_000, ge=1, description="tasks of one run")
    grace_seconds: int = Field(default=30, ge=1, description="from a stop until it is forced, if nothing else is said")
    start_limit_seconds: int | None = Field(
        default=None, ge=1, description="how long a main job may wait to start; default: for ever"
    )
    max_duration_seconds: int | None = Field(
        default=None, ge=1, description="how long a run may take in all; default: for ever"
    )


class ExportSettings(BaseModel):
    bucket: str | None = Field(default=None, description="S3 bucket for the archives; default: a folder of the state")
    prefix: str = Field(default="", description="what the names of archives in the bucket begin with, as in `crawls/`")
    encryption: Literal["default", "AES256", "aws:kms"] = Field(
        default="default", description="how the server encrypts an archive; `default`: as the bucket says"
    )
    kms_key: str | None = Field(default=None, description="key for `aws:kms`; default: the account's own for S3")
    part_mib: int = Field(
        default=8, ge=5, le=1024, description="MiB that one archive keeps in memory and sends at once"
    )
    path_style: bool = Field(default=False, description="bucket in the path and not in the host name")
    s3_endpoint_url: str | None = Field(default=None, description="address of an S3 server other than Amazon's")
    event_bus: str | None = Field(
        default=None, description="name or ARN of the EventBridge bus for the events; default: a file of the state"
    )
    event_source: str = Field(default="crawler-lifecycle", description="source of the events, for rules")
    run_ended_type: str = Field(default="Crawl Run Ended", description="detail type of the event that a run is over")
    files_ready_type: str = Field(
        default="Crawl Files Ready", description="detail type of the event that its archive is there"
    )
    events_endpoint_url: str | None = Field(default=None, description="address of EventBridge other than Amazon's")
    region: str | None = Field(default=None, description="AWS region; default: as AWS's own variables and files say")
    timeout_seconds: float = Field(default=20, gt=0, le=25, description="for one answer of AWS")


class NoticeSettings(BaseModel):
    file: bool = Field(
        default=True, description="write notices to `notices.jsonl` in the exports folder, and to the log"
    )
    pusher_app_id: str | None = Field(default=None, description="Pusher Channels app; default: none is told")
    pusher_key: str | None = Field(default=None, description="key of that app")
    pusher_secret: SecretStr | None = Field(default=None, description="secret of that app")
    pusher_cluster: str | None = Field(default=None, description="cluster of the hosted service, as in `eu`")
    pusher_url: str | None = Field(default=None, description="address of a self-hosted server instead")
    pusher_channels: str = Field(
        default="crawler-runs crawler-run-{run_id}",
        description="channels that are told, separated by spaces; `{run_id}` and `{run_uid}` are filled in",
    )
    webhooks: SecretStr | None = Field(
        default=None,
        description="signed webhooks: an address, then its secrets (`whsec_...`), then the next address, all separated "
        "by spaces; with two secrets each notice has two signatures",
    )
    timeout_seconds: float = Field(
        default=8, gt=0, le=9, description="for telling one receiver of one notice; a run waits for 10 s at most"
    )


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


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="CRAWLER_", env_nested_delimiter="__", extra="ignore")

    state: Path = Field(
        default_factory=default_state,
        description="folder of the embedded profile; default: `~/.local/state/crawler-lifecycle`",
    )
    database: DatabaseSettings = DatabaseSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    api: ApiSettings = ApiSettings()
    cluster: ClusterSettings = ClusterSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    dispatcher: DispatcherSettings = DispatcherSettings()
    worker: WorkerSettings = WorkerSettings()
    limits: LimitSettings = LimitSettings()
    export: ExportSettings = ExportSettings()
    notices: NoticeSettings = NoticeSettings()
    audit: AuditSettings = AuditSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    health: HealthSettings = HealthSettings()

    @model_validator(mode="after")
    def _requests_are_shorter_than_claims(self) -> Self:
        if self.scheduler.timeout_seconds >= self.dispatcher.claim_seconds:
            raise PydanticCustomError(
                "CRAWLER_SCHEDULER__TIMEOUT_SECONDS", "expected less than CRAWLER_DISPATCHER__CLAIM_SECONDS"
            )
        return self

    @model_validator(mode="after")
    def _jobs_are_made_while_the_claim_lasts(self) -> Self:
        takes = longest_request(self.kubernetes.connect_seconds, self.kubernetes.read_seconds)
        if self.cluster.kind == "kubernetes" and self.dispatcher.claim_seconds <= takes:
            raise PydanticCustomError(
                "CRAWLER_DISPATCHER__CLAIM_SECONDS",
                "expected more than {takes} seconds, which one request of the Kubernetes API may take in all: "
                "CRAWLER_KUBERNETES__CONNECT_SECONDS, CRAWLER_KUBERNETES__READ_SECONDS and {busy} more",
                {"takes": f"{takes:g}", "busy": f"{BUSY_SECONDS:g}"},
            )
        return self

    @cached_property
    def database_url(self) -> str:
        return self.database.url or f"sqlite:///{self.state / 'crawler.db'}"

    @property
    def local_folders(self) -> list[Path]:
        """Folders on this machine needed by the installation."""
        chosen = (
            (self.state, self.database.url is None),
            (self.jobs_folder, self.cluster.kind == "local"),
            (self.exports_folder, self.notices.file or self.export.bucket is None),
        )
        return [folder for folder, is_used in chosen if is_used]

    @property
    def jobs_folder(self) -> Path:
        """Folder with the local cluster's records."""
        return self.state / "cluster"

    @property
    def files_folder(self) -> Path:
        """Folder with supporting files, one folder per run."""
        return self.state / "files"

    @property
    def tokens_file(self) -> Path:
        """File with the API's tokens."""
        return self.api.tokens or self.state / "api-tokens.json"

    @property
    def exports_folder(self) -> Path:
        """Folder with archives and the files of events and notices."""
        return self.state / "exports"
