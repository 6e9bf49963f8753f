"""Settings for further systems: archives, events and notices go there, and events come from there."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, SecretStr


class ExportSettings(BaseModel):
    """Archives in S3 and events on EventBridge; the defaults write both to the exports folder."""

    bucket: str | None = Field(default=None, description="S3 bucket for the archives; default: the exports folder")
    prefix: str = Field(default="", description="text in front of the archives' names, such as `crawls/`")
    encryption: Literal["default", "AES256", "aws:kms"] = Field(
        default="default", description="encryption of archives; `default`: the bucket's own rule"
    )
    kms_key: str | None = Field(default=None, description="key for `aws:kms`; default: the account's own key for S3")
    part_mib: int = Field(
        default=8,
        ge=5,
        le=1024,
        description="size in MiB of the parts in which an archive is sent; two parts are in memory",
    )
    largest_gib: float = Field(
        default=200,
        gt=0,
        description="largest size in GiB of an archive's files before compression; further files are left out. A file "
        "counts by its bytes on disk, and all holes together have the same limit",
    )
    most_files: int = Field(
        default=1_000_000, ge=1, description="largest number of files in an archive; further files are left out"
    )
    path_style: bool = Field(default=False, description="put the bucket in the path instead of the host name")
    s3_endpoint_url: str | None = Field(default=None, description="address of another S3 server")
    event_bus: str | None = Field(
        default=None, description="EventBridge bus for the events, name or ARN; default: a file"
    )
    file: bool = Field(
        default=True, description="without a bus, write events to `events.jsonl` in the exports folder, a file per day"
    )
    event_source: str = Field(default="crawler-lifecycle", description="source of the events, for EventBridge's rules")
    run_ended_type: str = Field(default="Crawl Run Ended", description="detail type of the event for a run's end")
    files_ready_type: str = Field(default="Crawl Files Ready", description="detail type of the event for an archive")
    flow_ended_type: str = Field(default="Crawl Flow Ended", description="detail type of the event for a flow's end")
    events_endpoint_url: str | None = Field(default=None, description="address of another EventBridge server")
    region: str | None = Field(default=None, description="AWS region; default: by AWS's own variables and files")
    timeout_seconds: float = Field(default=20, gt=0, le=25, description="time limit for an answer by AWS")


class NoticeSettings(BaseModel):
    """Receivers for notices: a file, Pusher Channels and webhooks. Every configured receiver gets every notice."""

    file: bool = Field(
        default=True,
        description="write notices to `notices.jsonl` in the exports folder, a file per day, and to the log",
    )
    pusher_app_id: str | None = Field(default=None, description="id of the Pusher Channels app; default: no app")
    pusher_key: str | None = Field(default=None, description="key of the Pusher Channels app")
    pusher_secret: SecretStr | None = Field(default=None, description="secret of the Pusher Channels app")
    pusher_cluster: str | None = Field(default=None, description="cluster of the hosted Pusher service, such as `eu`")
    pusher_url: str | None = Field(default=None, description="address of a self-hosted server for Pusher's protocol")
    pusher_channels: str = Field(
        default="crawler-runs crawler-run-{run_id}",
        description="channels for the notices, separated by spaces; `{run_id}` and `{run_uid}` are filled in",
    )
    pusher_flow_channels: str = Field(
        default="crawler-flows crawler-flow-{flow_uid}",
        description="channels for the notices about flows, separated by spaces; `{flow_uid}` is filled in",
    )
    webhooks: SecretStr | None = Field(
        default=None,
        description="signed webhooks: an address, then its secrets (`whsec_...`), then the next address, all separated "
        "by spaces; with two secrets each notice has two signatures",
    )
    timeout_seconds: float = Field(
        default=8, gt=0, le=9, description="time limit for a notice to a receiver; a run waits at most 10 s"
    )

    @property
    def is_file_alone(self) -> bool:
        """Whether no service receives notices. The fields that are None by default are the services' own."""
        fields = type(self).model_fields
        return all(value is None for name, value in self if fields[name].default is None)


class TriggerSettings(BaseModel):
    """Events to start and stop work: the mapping for the API, and the queue for `python -m workers.triggers`."""

    mapping: Path | None = Field(
        default=None, description="mapping file, which says what an event does; only the API reads the file"
    )
    queue_url: str | None = Field(default=None, description="SQS queue with the events")
    dead_letter_url: str | None = Field(
        default=None, description="SQS queue for events that cannot be mapped, and for those whose request is refused"
    )
    endpoint_url: str | None = Field(default=None, description="address of another SQS server")
    region: str | None = Field(default=None, description="AWS region; default: by AWS's own variables and files")
    visibility_seconds: int = Field(
        default=120, ge=1, le=43_200, description="time until other workers receive the events of a dead worker"
    )
    longest_pause_seconds: int = Field(
        default=300, ge=1, le=43_200, description="longest pause until an event whose request failed is tried again"
    )
