"""What can an operator choose? The only reader of the environment, built in mains only.

Every field is set by `CRAWLER_<GROUP>__<FIELD>`, for example `CRAWLER_DATABASE__URL`. Where Temporal is comes
from Temporal's own variables and configuration file (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, ...).
"""

import os
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from crawler_lifecycle.errors import NotReady


def default_state() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "crawler-lifecycle"


class DatabaseSettings(BaseModel):
    url: str | None = Field(default=None, description="SQLAlchemy URL; default: an SQLite file in the state folder")
    pool_size: int = Field(default=10, ge=1, description="connections that a process keeps open")


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
    largest_body: int = Field(default=256 * 1024, ge=1024, description="bytes that a request may have")


class ClusterSettings(BaseModel):
    kind: Literal["local"] = Field(default="local", description="which backend runs the jobs")
    capacity: int = Field(default=16, ge=1, description="jobs the local cluster runs at once; others wait")
    installation: str | None = Field(
        default=None, description="UUID of the one installation the scheduler service deploys for; default: any"
    )


class DispatcherSettings(BaseModel):
    most_in_cluster: int = Field(default=1000, ge=1, description="tasks in the cluster at once, of all runs")
    interval_seconds: float = Field(default=0.5, gt=0, description="pause between two passes")
    claim_seconds: float = Field(default=60, gt=0, description="how long a claimed task may take to be deployed")
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


class LogSettings(BaseModel):
    format: Literal["text", "json"] = Field(default="text", description="lines for people, or JSON with the ids")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="the least that is logged")


class MetricsSettings(BaseModel):
    port: int | None = Field(
        default=None, ge=0, le=65535, description="where this process serves its Prometheus metrics; default: nowhere"
    )
    host: str = Field(default="127.0.0.1", description="address the metrics are served on")


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
    dispatcher: DispatcherSettings = DispatcherSettings()
    worker: WorkerSettings = WorkerSettings()
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()

    @model_validator(mode="after")
    def _requests_are_shorter_than_claims(self) -> Self:
        if self.scheduler.timeout_seconds >= self.dispatcher.claim_seconds:
            raise PydanticCustomError(
                "CRAWLER_SCHEDULER__TIMEOUT_SECONDS", "expected less than CRAWLER_DISPATCHER__CLAIM_SECONDS"
            )
        return self

    @cached_property
    def database_url(self) -> str:
        return self.database.url or f"sqlite:///{self.state / 'crawler.db'}"

    @property
    def jobs_folder(self) -> Path:
        """The local cluster's records."""
        return self.state / "cluster"

    @property
    def files_folder(self) -> Path:
        """Supporting files, a folder per run."""
        return self.state / "files"

    @property
    def tokens_file(self) -> Path:
        """Who may use the HTTP API."""
        return self.api.tokens or self.state / "api-tokens.json"

    @property
    def exports_folder(self) -> Path:
        """Archives and the files of events and notices."""
        return self.state / "exports"


def load(**overrides: object) -> Settings:
    """The settings, or NotReady with a line that names the variable."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # a rule about several carries the variable's name as its type
        variable = "CRAWLER_" + "__".join(str(part) for part in first["loc"]).upper() if first["loc"] else first["type"]
        raise NotReady(f"{variable}: {first['msg']}") from error
    except SettingsError as error:
        raise NotReady(f"CRAWLER_...: {error}; a group is set by its fields, as in CRAWLER_DATABASE__URL") from error
