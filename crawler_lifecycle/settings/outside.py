"""Settings for exports and notices."""

from typing import Literal

from pydantic import BaseModel, Field, SecretStr


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
