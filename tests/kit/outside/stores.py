"""Where exports go in tests: a folder, two S3 servers on loopback that share no code, and a bus with a queue."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.loaders import Loader, create_loader

from crawler_lifecycle.delivery.adapters.folder import FolderExporter
from crawler_lifecycle.delivery.aws.archives import S3Archiver
from crawler_lifecycle.delivery.ports import Archiver
from crawler_lifecycle.settings.outside import ExportSettings

KEY, SECRET, REGION = "loopback-key", "loopback-secret", "eu-central-1"
BUCKET = "archives"
SOURCE = "crawls.test"
ENDED_AT = datetime(2026, 3, 1, 12, 30, 59, tzinfo=UTC)  # of the runs whose files are archived
SMALLEST_PART = 5  # MiB, by S3's rules


class Store(Protocol):
    def archiver(self, files: Path) -> Archiver: ...

    def content(self, run_uid: str) -> bytes | None:
        """Of the archive of the run's first end; None if there is none."""

    def unfinished(self) -> list[str]:
        """What tries have begun and neither finished nor taken away."""


@dataclass
class FolderStore:
    exports: Path

    def archiver(self, files: Path) -> FolderExporter:
        return FolderExporter(files, self.exports)

    def content(self, run_uid: str) -> bytes | None:
        path = self.exports / f"{run_uid}.zip"
        return path.read_bytes() if path.exists() else None

    def unfinished(self) -> list[str]:
        return [path.name for path in self.exports.glob(".*")]


@dataclass
class S3Store:
    url: str
    prefix: str

    def settings(self, **more: Any) -> ExportSettings:
        given = {"path_style": True, "part_mib": SMALLEST_PART, "timeout_seconds": 20, "s3_endpoint_url": self.url}
        return ExportSettings(**{**given, "prefix": self.prefix, "region": REGION, **more})

    def archiver(self, files: Path, **more: Any) -> S3Archiver:
        return S3Archiver(files, BUCKET, self.settings(**more))

    def content(self, run_uid: str) -> bytes | None:
        try:
            answer = self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}{run_uid}.zip")
        except ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey"  # noqa: PT017 (the only way to tell)
            return None
        content = answer["Body"].read()
        assert isinstance(content, bytes)
        return content

    def unfinished(self) -> list[str]:
        try:
            answer = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=self.prefix)
        except ClientError as error:  # rclone's, as long as there never was one
            assert error.response["Error"]["Code"] == "NoSuchUpload"  # noqa: PT017 (the only way to tell)
            return []
        return [upload["Key"] for upload in answer.get("Uploads", [])]

    @property
    def client(self) -> Any:
        return client_of("s3", self.url)


class Bus:
    """With a rule whose target is a queue."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = f"crawls-{uuid4()}"
        self.sqs = client_of("sqs", url)
        events = client_of("events", url)
        events.create_event_bus(Name=self.name)
        self.queue = self.sqs.create_queue(QueueName=self.name)["QueueUrl"]
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])["Attributes"]
        pattern = {"source": [SOURCE], "detail-type": ["Ended", "Ready"]}
        events.put_rule(Name="ours", EventBusName=self.name, EventPattern=json.dumps(pattern))
        targets = [{"Id": "queue", "Arn": attributes["QueueArn"]}]
        events.put_targets(Rule="ours", EventBusName=self.name, Targets=targets)

    def queued(self) -> list[dict[str, Any]]:
        messages = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages", [])
        return [json.loads(message["Body"]) for message in messages]

    def taken(self) -> list[dict[str, Any]]:
        """Whatever is in the queue, which is empty afterwards."""
        found: list[dict[str, Any]] = []
        while messages := self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages", []):
            found += [json.loads(message["Body"]) for message in messages]
            done = [{"Id": str(number), "ReceiptHandle": each["ReceiptHandle"]} for number, each in enumerate(messages)]
            self.sqs.delete_message_batch(QueueUrl=self.queue, Entries=done)
        return found


@cache
def client_of(service: str, url: str) -> Any:
    return boto3.session.Session().client(
        service, endpoint_url=url, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET
    )


@cache
def _loader(search_path: str | None = None) -> Loader:
    """One for all clients: it reads the descriptions of AWS's services once, which takes longer than a test."""
    return create_loader(search_path)


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    with moto_server() as url:
        yield url


@contextmanager
def moto_server() -> Iterator[str]:
    """S3, EventBridge and SQS; its address."""
    from moto.server import ThreadedMotoServer  # with Flask it is a fifth of what starting pytest takes

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        s3 = client_of("s3", url)
        if BUCKET not in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}:  # all of a process share them
            s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield url
    finally:
        server.stop()


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rclone_on(tmp_path_factory.mktemp("rclone")) as url:
        yield url


@contextmanager
def rclone_on(folder: Path) -> Iterator[str]:
    """S3 with one bucket, as folders and files of this folder; its address."""
    (folder / BUCKET).mkdir(parents=True)
    program = str(Path(sys.executable).with_name("rclone"))
    options = ["--config", "", "--addr", "127.0.0.1:0", "--auth-key", f"{KEY},{SECRET}"]
    command = [program, "serve", "s3", *options, str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield announced(process)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def announced(process: "subprocess.Popen[str]") -> str:
    assert process.stderr
    said = ""
    for line in process.stderr:
        said += line
        if found := re.search(r"Starting s3 server on \[(http://[^/]+)/", line):
            return found[1]
    raise AssertionError(f"rclone ended at once: {said}")


# AWS's own variables, as an operator sets them; nothing of this machine's user is read
CREDENTIALS = {
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("botocore.session.create_loader", _loader)


@pytest.fixture(params=["moto", "rclone"])
def s3(request: pytest.FixtureRequest, credentials: None) -> S3Store:
    return S3Store(request.getfixturevalue(request.param), f"crawls/{uuid4()}/")


@pytest.fixture(params=["folder", "moto", "rclone"])
def store(request: pytest.FixtureRequest, tmp_path: Path, credentials: None) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "exports")
    return S3Store(request.getfixturevalue(request.param), f"crawls/{uuid4()}/")
