"""An installation's settings, with their defaults. Mains and `crawlctl` read the settings by `configuration.load`.

Every field has the variable `CRAWLER_<GROUP>__<FIELD>`, for example `CRAWLER_DATABASE__URL`. Temporal's address comes
from Temporal's own variables and configuration file (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, ...).
"""

import os
from functools import cached_property
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from crawler_lifecycle.settings import processes
from crawler_lifecycle.settings.cluster import (
    BUSY_SECONDS,
    ClusterSettings,
    KubernetesSettings,
    LimitSettings,
    longest_request,
)
from crawler_lifecycle.settings.outside import ExportSettings, NoticeSettings, TriggerSettings

PREFIX = "CRAWLER_"  # for every variable


def default_state() -> Path:
    """Return the embedded profile's state folder: database, jobs, files and exports on a single machine."""
    base = os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state"
    return Path(base) / "crawler-lifecycle"


def _home() -> Path:
    """Return the user's home, or a missing folder for a user without a home, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="ignore")

    state: Path = Field(
        default_factory=default_state,
        description="state folder of the embedded profile; default: `~/.local/state/crawler-lifecycle`",
    )
    database: processes.DatabaseSettings = processes.DatabaseSettings()
    scheduler: processes.SchedulerSettings = processes.SchedulerSettings()
    api: processes.ApiSettings = processes.ApiSettings()
    remote: processes.RemoteSettings = processes.RemoteSettings()
    cluster: ClusterSettings = ClusterSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    dispatcher: processes.DispatcherSettings = processes.DispatcherSettings()
    worker: processes.WorkerSettings = processes.WorkerSettings()
    flows: processes.FlowSettings = processes.FlowSettings()
    limits: LimitSettings = LimitSettings()
    export: ExportSettings = ExportSettings()
    notices: NoticeSettings = NoticeSettings()
    triggers: TriggerSettings = TriggerSettings()
    retention: processes.RetentionSettings = processes.RetentionSettings()
    audit: processes.AuditSettings = processes.AuditSettings()
    log: processes.LogSettings = processes.LogSettings()
    metrics: processes.MetricsSettings = processes.MetricsSettings()
    health: processes.HealthSettings = processes.HealthSettings()

    @model_validator(mode="after")
    def _requests_are_shorter_than_claims(self) -> Self:
        """Refuse a request longer than its claim. The error's type is the variable, for `configuration.load`."""
        if self.scheduler.timeout_seconds >= self.dispatcher.claim_seconds:
            raise PydanticCustomError(
                "CRAWLER_SCHEDULER__TIMEOUT_SECONDS", "expected less than CRAWLER_DISPATCHER__CLAIM_SECONDS"
            )
        return self

    @model_validator(mode="after")
    def _jobs_are_made_while_the_claim_lasts(self) -> Self:
        """Refuse settings where a claim may expire while the scheduler service still tries to make the job."""
        longest = longest_request(self.kubernetes.connect_seconds, self.kubernetes.read_seconds)
        if self.cluster.kind == "kubernetes" and self.dispatcher.claim_seconds <= longest:
            raise PydanticCustomError(
                "CRAWLER_DISPATCHER__CLAIM_SECONDS",
                "expected more than {takes} seconds, the longest time of a request to the Kubernetes API: "
                "CRAWLER_KUBERNETES__CONNECT_SECONDS, CRAWLER_KUBERNETES__READ_SECONDS and {busy} seconds more",
                {"takes": f"{longest:g}", "busy": f"{BUSY_SECONDS:g}"},
            )
        return self

    @model_validator(mode="after")
    def _database_has_one_place_for_tls(self) -> Self:
        """Refuse contradictions about TLS. The error's type is the variable, for `configuration.load`."""
        database, url = self.database, self.database.url or ""
        if database.tls in ("verify", "require") and not url.startswith(("mysql", "mariadb")):
            raise PydanticCustomError("CRAWLER_DATABASE__TLS", "expected only with a URL of MySQL or MariaDB")
        if database.tls != "prefer" and "ssl_" in url:
            raise PydanticCustomError("CRAWLER_DATABASE__TLS", "expected only with a URL without parameters for TLS")
        if database.tls_ca and database.tls != "verify":
            raise PydanticCustomError("CRAWLER_DATABASE__TLS_CA", "expected only with CRAWLER_DATABASE__TLS=verify")
        return self

    @cached_property
    def database_url(self) -> str:
        """The database's SQLAlchemy URL, with the default filled in."""
        return self.database.address or f"sqlite:///{self.state / 'crawler.db'}"

    @property
    def local_folders(self) -> list[Path]:
        """The local folders in use with these settings."""
        is_used = {
            self.state: self.database.url is None,
            self.jobs_folder: self.cluster.kind == "local",
            self.exports_folder: self.notices.file or self.export.bucket is None,
        }
        return [folder for folder in is_used if is_used[folder]]

    @property
    def jobs_folder(self) -> Path:
        """Folder with the local cluster's records."""
        return self.state / "cluster"

    @property
    def files_folder(self) -> Path:
        """Folder for the runs' files, with a folder for every run."""
        return self.state / "files"

    @property
    def tokens_file(self) -> Path:
        """File with the API's tokens."""
        return self.api.tokens or self.state / "api-tokens.json"

    @property
    def exports_folder(self) -> Path:
        """Folder with archives, events and notices."""
        return self.state / "exports"
