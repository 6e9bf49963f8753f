"""Settings for an installation's processes: database, HTTP services, dispatcher, worker, audit, logs, health."""

from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, Field, SecretStr

from crawler_lifecycle.errors import NotReady

# An API process or a worker needs these connections: slow readers and waits for locks leave connections to stops.
LEAST_CONNECTIONS = 8


class DatabaseSettings(BaseModel):
    url: str | None = Field(
        default=None, repr=False, description="SQLAlchemy URL; default: an SQLite file in the state folder"
    )
    pool_size: int = Field(
        default=20,
        ge=1,
        description=f"largest number of connections of a process; HTTP API and worker need {LEAST_CONNECTIONS}",
    )
    tls: Literal["prefer", "verify", "require", "off"] = Field(
        default="prefer",
        description="for MySQL: `verify` (encrypted, and the server proves its name by a certificate), `require` "
        "(encrypted), `prefer` (as the URL says, otherwise encrypted if the server can) or `off`",
    )
    tls_ca: Path | None = Field(
        default=None,
        description="file with the authorities that may sign the certificate, for `verify`; default: the system's",
    )

    def refuse_few_connections(self) -> None:
        """Raise NotReady if the pool is too small for an API process or a worker."""
        if self.pool_size < LEAST_CONNECTIONS:
            raise NotReady(f"CRAWLER_DATABASE__POOL_SIZE: expected {LEAST_CONNECTIONS} or more for this process")

    @property
    def address(self) -> str | None:
        """The URL with the parameters for TLS."""
        if self.url is None or self.tls == "prefer":
            return self.url
        parameters = {"off": "ssl_disabled=true", "require": "ssl_check_hostname=false"}.get(self.tls) or self._proof
        return f"{self.url}{'&' if '?' in self.url else '?'}{parameters}"

    @property
    def warning(self) -> str | None:
        """Warning for a remote server without a proven name."""
        host = urlsplit(self.url or "").hostname
        if (
            self.url is None
            or host in (None, "localhost", "127.0.0.1", "::1")
            or "ssl_check_hostname=true" in (self.address or "")
        ):
            return None
        return (
            f"the database server {host} does not have to prove its name: CRAWLER_DATABASE__TLS=verify is recommended"
        )

    @property
    def _proof(self) -> str:
        import ssl  # slow, and not needed for SQLite

        system = ssl.get_default_verify_paths()
        authorities = f"ssl_ca={quote(str(self.tls_ca or system.cafile))}"
        if self.tls_ca is None and system.cafile is None:
            authorities = f"ssl_capath={quote(str(system.capath))}"
        return f"{authorities}&ssl_check_hostname=true"


class SchedulerSettings(BaseModel):
    url: str = Field(default="http://127.0.0.1:8310", description="address of the scheduler service")
    token: SecretStr = Field(
        default=SecretStr(""),
        description="bearer token for the scheduler service, which does not start without a token: the service's own "
        "permits everything, so only worker and dispatcher need it. Everybody else gets the token for reading",
    )
    read_token: SecretStr = Field(
        default=SecretStr(""),
        description="further token that the scheduler service accepts, for reading the catalogue alone; only the "
        "service has this variable, and callers have the text as CRAWLER_SCHEDULER__TOKEN. Default: no such token",
    )
    metrics_token: SecretStr = Field(
        default=SecretStr(""),
        description="further token that the scheduler service accepts, for `/metrics` alone; default: no such token",
    )
    timeout_seconds: float = Field(default=20, gt=0, description="time limit for a request; shorter than a claim")
    catalogue: Path | None = Field(default=None, description="crawler catalogue file; only the service reads the file")


class ApiSettings(BaseModel):
    url: str = Field(default="http://127.0.0.1:3210", description="address of the HTTP API and its page")
    tokens: Path | None = Field(
        default=None, description="file with the hashes of the tokens; default: `api-tokens.json` in the state folder"
    )
    operator_token: SecretStr = Field(
        default=SecretStr(""),
        description="text of a further token with all scopes, named `operator`: `crawlctl` in the installation's own "
        "containers sends it as `CRAWLER_REMOTE__TOKEN`",
    )
    origins: str = Field(
        default="", description="origins of other pages that may use the API, separated by commas; default: none"
    )
    requests_per_second: float = Field(
        default=50, gt=0, description="limit for the requests with a token; a burst may be four times as large"
    )
    streams: int = Field(default=200, ge=1, description="largest number of live streams of a process")
    streams_of_one_token: int = Field(
        default=20, ge=1, description="largest number of live streams with the same token"
    )
    client_seconds: float = Field(
        default=30,
        gt=0,
        description="time limit for a client to send a request's head, to send its body, and to read an answer",
    )
    temporal_ui: str | None = Field(
        default=None,
        description="address of Temporal's Web UI, for links from runs and flows to their workflows; default: no links",
    )
    largest_body: int = Field(default=16 << 20, ge=1, description="largest body of a request, in bytes")


class RemoteSettings(BaseModel):
    url: str | None = Field(
        default=None,
        description="address of the HTTP API that `crawlctl` and programs use in place of database and Temporal; "
        "default: none",
    )
    token: SecretStr = Field(default=SecretStr(""), description="token for this API")
    token_file: Path | None = Field(default=None, description="file with the token, in place of the token itself")
    seconds: float = Field(default=60, gt=0, description="time limit for a request to this API")
    authorities: Path | None = Field(
        default=None,
        description="file with certificates of authorities, for an API whose certificate the system does not trust",
    )


class DispatcherSettings(BaseModel):
    interval_seconds: float = Field(default=0.5, gt=0, description="pause between two passes of the dispatcher")
    claim_seconds: float = Field(
        default=60,
        gt=0,
        description="time limit for the deployment of a claimed task; on Kubernetes longer than the longest request to "
        "the API server",
    )
    threads: int = Field(default=8, ge=2, description="number of deployments at once")


class WorkerSettings(BaseModel):
    task_queue: str = Field(default="crawler-lifecycle", description="Temporal task queue of runs and their activities")
    # Temporal gives a worker an activity at once only if a slot is free; a task queue costs three more requests.
    activity_slots: int = Field(default=100, ge=1, description="number of activities at once, each in its own thread")
    # Temporal repeats a workflow task after ten seconds; many tasks at once take a busy worker longer.
    workflow_slots: int = Field(default=24, ge=2, description="number of workflow tasks at once")
    archive_slots: int = Field(
        default=4, ge=1, description="number of archives at once, in threads and on a task queue of their own"
    )
    cached_workflows: int = Field(
        default=5000, ge=1, description="number of waiting runs in memory; other runs are replayed"
    )
    drain_seconds: float = Field(default=20, ge=0, description="time for activities under way after SIGTERM")
    sticky_seconds: float = Field(
        default=2, gt=0, description="time until another worker takes over the runs of a dead worker"
    )
    flow_search_seconds: float = Field(
        default=15,
        ge=0,
        description="pause between two searches for flows whose push did not reach Temporal; 0: the audit finds them",
    )


class FlowSettings(BaseModel):
    own_host: str = Field(
        default="", description="flow whose steps alone this host runs, and those of flows that they push; none: all"
    )
    slots: int = Field(default=20, ge=1, description="number of steps that a host of steps runs at once")
    manager_slots: int = Field(
        default=50, ge=1, description="number of crawl managers that a host of steps runs beside its steps"
    )
    lease_seconds: float = Field(
        default=20, ge=2, description="time without a sign of life until other hosts take over the steps of a host"
    )
    step_seconds: float = Field(default=86400, gt=0, description="time limit for a step without a timeout of its own")
    drain_seconds: float = Field(default=20, ge=0, description="time for steps under way after SIGTERM")
    hook_seconds: float = Field(default=60, gt=0, description="time limit for a hook of a crawl manager")
    page_seconds: float = Field(
        default=600, gt=0, description="time limit for a page of a crawl manager's parameter sets, and for its import"
    )
    manager_tries: int = Field(
        default=5, ge=1, description="failures without progress after which a crawl manager is paused"
    )
    largest_result: int = Field(
        default=16 * 1024 * 1024,
        ge=1,
        le=16 * 1024 * 1024,
        description="largest result of a step, in bytes as JSON",
    )
    code_version: str | None = Field(
        default=None,
        description="version of the authors' code, kept with every attempt; none: a hash of the host's modules",
    )


class RetentionSettings(BaseModel):
    """Times from an end until the removal; 0: no removal."""

    every_seconds: int = Field(default=3600, ge=0, description="period of the removal of what is old; 0: no removal")
    runs_days: float = Field(
        default=365,
        ge=0,
        description="time from a run's end until the run leaves with its tasks, lines, notices, exports, labels, tags "
        "and files; also for settled items of managers that stay open. 0: runs are kept",
    )
    flows_days: float = Field(
        default=365, ge=0, description="time from a flow's end until the flow leaves; 0: flows are kept"
    )
    logs_days: float = Field(
        default=30,
        ge=0,
        description="time from a run's end until its kept logs leave, if an archive has them; 0: as long as the run",
    )
    archives_days: float = Field(
        default=0,
        ge=0,
        description="time until archives leave the exports folder; 0: they are kept. A bucket has rules of its own",
    )
    lines_days: float = Field(
        default=30, ge=0, description="time until earlier days of `events.jsonl` and `notices.jsonl` leave; 0: never"
    )

    @property
    def ages(self) -> dict[str, timedelta | None]:
        """The times by kind; None: no removal."""
        kinds = ("runs", "flows", "logs", "archives", "lines")
        return {kind: timedelta(days=days) if (days := getattr(self, f"{kind}_days")) else None for kind in kinds}


class AuditSettings(BaseModel):
    every_seconds: int = Field(
        default=600,
        ge=0,
        le=86400,
        description="period of the audit; 0: no audit, and no terminated workflow is resumed",
    )
    workflow_seconds: int = Field(
        default=60,
        ge=0,
        description="time after a workflow's end, or a run's start, until the run counts as unsupervised",
    )
    job_seconds: int = Field(
        default=300, ge=0, description="time after a run's end until its jobs are reported and ended"
    )
    handover_seconds: int = Field(
        default=300, ge=0, description="time after a run's end until a pending export or notice is made again"
    )
    failed_export_seconds: int = Field(default=3600, ge=0, description="time after a failed export until the next try")
    stuck_seconds: int = Field(
        default=1200,
        ge=60,
        description="time after a claim's expiry, a look's due time or a run's last write until a finding is reported",
    )
    replay_days: int = Field(
        default=7, ge=1, description="greatest age of an end whose pending deliveries are made again"
    )
    keep_days: int = Field(
        default=30, ge=1, description="time to keep audits, closed findings and the record of commands for schedules"
    )
    remove_unknown_jobs: bool = Field(
        default=False,
        description="allow `crawlctl audit --repair --remove-unknown-jobs` to remove our jobs without a run in the "
        "database; after a restore such jobs may be live crawls. Scheduled audits never remove them",
    )


class LogSettings(BaseModel):
    format: Literal["text", "json"] = Field(default="text", description="lines for people, or JSON for programs")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="lowest level in the log")


class MetricsSettings(BaseModel):
    port: int | None = Field(
        default=None, ge=0, le=65535, description="port for the worker's Temporal metrics; default: no port"
    )
    host: str = Field(default="127.0.0.1", description="host address for Temporal's metrics")


class HealthSettings(BaseModel):
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="port for `/healthz`, `/readyz`, `/metrics` of worker, dispatcher, watcher; default: no port",
    )
    host: str = Field(default="127.0.0.1", description="host address for the health endpoint")
    stuck_seconds: float = Field(
        default=120, gt=0, description="time after which a process is not alive because its loop has stalled"
    )
    ready_seconds: float = Field(
        default=45,
        gt=0,
        description="time after which a process is not ready because a service that it needs is silent",
    )
