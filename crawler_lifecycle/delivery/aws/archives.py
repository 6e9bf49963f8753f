"""Archives in a bucket: the zip is uploaded while it is created, and downloaded by a signed address.

`Upload` sends a part of the zip while the next part is filled. The total size is unknown, and S3 takes at most 10,000
parts. The first half of the parts have the same size, because a part is held in memory and some servers want equal
parts. The later parts grow, so that 10,000 parts are enough.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError, ResponseStreamingError

from crawler_lifecycle.clusters.adapters.regular_files import files_of
from crawler_lifecycle.delivery.adapters.archive import ArchiveLimits, archive_writer
from crawler_lifecycle.delivery.aws.client import make_client, translated_errors
from crawler_lifecycle.delivery.ports import Archive, OnProgress, StoredArchive
from crawler_lifecycle.errors import LifecycleError, NotFound, PermanentError, TemporaryError
from crawler_lifecycle.model.naming import archive_name, checked_uid
from crawler_lifecycle.settings.outside import ExportSettings

logger = logging.getLogger(__name__)

MOST_PARTS = 10_000
EQUAL_PARTS = 5_000  # the first parts, all with the same size
PARTS_UNTIL_DOUBLED = 500  # after the equal parts, the size doubles with every 500 parts
LARGEST = 1024**3  # bytes in the largest part: a part has to fit into memory
BEAT = 5.0  # seconds between two heartbeats while the server is silent
APART = timedelta(seconds=5)  # an upload begun at least five seconds before ours is abandoned: see `_abandoned`
ANSWER_LOST = (ConnectionClosedError, ReadTimeoutError, ResponseStreamingError)
MEND_WRITING = (  # advice to an operator, in messages
    "are CRAWLER_EXPORT__BUCKET, the region and the rights of these credentials "
    "(s3:PutObject, s3:AbortMultipartUpload, s3:ListBucketMultipartUploads) right?"
)
MIB = 1024 * 1024
TRIES = 3  # largest number of tries for a failing request
SIGNED_SECONDS = 900  # a signed address expires after this time; a download under way continues
MEND_READING = (  # advice to an operator, in messages
    "are CRAWLER_EXPORT__BUCKET, the region and the rights of these credentials (s3:GetObject, s3:ListBucket) right?"
)


def part_size(number: int, first: int) -> int:
    """Return the size in bytes of a part; numbers begin with 1, and part 1 has the size `first`."""
    if number <= EQUAL_PARTS:
        return first
    doublings = (number - EQUAL_PARTS - 1) // PARTS_UNTIL_DOUBLED + 1
    return max(first, min(first << doublings, LARGEST))


def wait_after_lost_answer(client: Any, tries: int) -> None:
    """Make the client wait before it creates an upload again after a lost answer.

    The request with the lost answer may have created an upload. Without the wait both uploads would have the same age,
    and `_abandoned` would not recognise the first upload.
    """

    def pause(attempts: int, caught_exception: Exception | None = None, **_: object) -> float | None:
        if attempts < tries and isinstance(caught_exception, ANSWER_LOST):
            return (APART + timedelta(seconds=1)).total_seconds()
        return None

    client.meta.events.register_first("needs-retry.s3.CreateMultipartUpload", pause)


class Upload:
    """A multipart upload, created with its first part. All requests run in a thread of the upload's own.

    The object exists when `complete` has returned, and not before. An upload without `complete` is aborted. A try that
    crashes leaves its upload open; the next try finds and aborts this abandoned upload.

    `target` has the bucket and key of the object. `beat` is called while the upload waits for the server.
    """

    def __init__(
        self, client: Any, target: dict[str, str], options: dict[str, str], first_part: int, beat: Callable[[], None]
    ) -> None:
        self._client = client
        self._target = target
        self._options = options
        self._first_part = first_part
        self._beat = beat
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upload")
        self._part = bytearray()  # the part that is being filled
        self._sending: Future[Any] | None = None  # the part before
        self._creation: Future[Any] | None = None  # the request that creates the upload, if an abort is still needed
        self._upload_id: dict[str, str] | None = None  # the id from the answer, as an argument for requests
        self._parts: list[dict[str, Any]] = []  # that have arrived

    def write(self, data: bytes, /) -> int:
        """Add the bytes to the part, and send every full part."""
        rest = memoryview(data)
        while len(self._part) + len(rest) >= (size := self._part_size):
            missing = size - len(self._part)
            self._part += rest[:missing]
            rest = rest[missing:]
            self._send_part()
        self._part += rest
        return len(data)

    def flush(self) -> None:
        """Do nothing: parts are sent when full."""

    def complete(self) -> None:
        """Complete the object, then abort abandoned uploads to the same key.

        The abort comes last, because a living try's upload may be taken for abandoned: two tries that aborted each
        other before their own end would never complete.
        """
        if self._part:  # a zip is never empty, but may end with a full part
            self._send_part()
        self._await_part()
        upload_id, abandoned = self._create_once(), self._abandoned()
        self._request("complete_multipart_upload", **self._target, **upload_id, MultipartUpload={"Parts": self._parts})
        self._upload_id = self._creation = None
        for abandoned_id in abandoned:
            self._abort(abandoned_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort the upload if it was created and not completed. Errors of the abort are logged only."""
        with self._thread:  # wait for the part under way: a part that arrives after the abort would stay forever
            self._beat = lambda: None  # a heartbeat may raise, and an error would prevent the abort
            if self._creation is not None:
                with suppress(LifecycleError):  # the creation has failed, so there is no upload to abort
                    self._abort({"UploadId": self._wait_for_answer(self._creation)["UploadId"]})

    def _create_once(self) -> dict[str, str]:
        """Return the upload's id as an argument for requests. The first call creates the upload."""
        if self._upload_id is None:
            self._creation = self._thread.submit(self._client.create_multipart_upload, **self._target, **self._options)
            self._upload_id = {"UploadId": self._wait_for_answer(self._creation)["UploadId"]}
        return self._upload_id

    @property
    def _part_size(self) -> int:
        return part_size(self._number, self._first_part)

    @property
    def _number(self) -> int:
        """The number of the part under way."""
        return len(self._parts) + (self._sending is not None) + 1

    def _send_part(self) -> None:
        """Send the part when the part before has arrived. Raise PermanentError if there are more than MOST_PARTS."""
        number, part, self._part = self._number, self._part, bytearray()
        if number > MOST_PARTS:
            raise PermanentError(
                f"the archive {self._target['Key']} is too big for {MOST_PARTS:,} parts: "
                "set CRAWLER_EXPORT__PART_MIB higher"
            )
        self._await_part()
        given = {**self._target, **self._create_once(), "PartNumber": number, "Body": part}
        self._sending = self._thread.submit(self._client.upload_part, **given)

    def _await_part(self) -> None:
        """Wait until the part before has arrived, if there is one."""
        if self._sending is not None:
            answer = self._wait_for_answer(self._sending)
            self._parts.append({"PartNumber": len(self._parts) + 1, "ETag": answer["ETag"]})
            self._sending = None

    def _abandoned(self) -> list[dict[str, str]]:
        """Return the ids of uploads to the same key that a crashed try left open.

        Temporal notices a crash by missing heartbeats, so the next try begins later by more than APART. An upload that
        began less than APART before ours belongs to a living try. If the uploads cannot be listed, return no ids: the
        object does not depend on the search.
        """
        bucket, key = self._target["Bucket"], self._target["Key"]
        try:
            answer = self._request("list_multipart_uploads", Bucket=bucket, Prefix=key)
        except LifecycleError as error:
            logger.warning("earlier uploads of %s are not looked for: %s", key, error.message)
            return []
        uploads = [upload for upload in answer.get("Uploads", []) if upload["Key"] == key]
        begun_at = {upload["UploadId"]: upload["Initiated"] for upload in uploads}
        ours_began_at = begun_at.get(self._create_once()["UploadId"])
        if ours_began_at is None:
            return []
        return [{"UploadId": upload} for upload, at in begun_at.items() if at <= ours_began_at - APART]

    def _abort(self, upload_id: dict[str, str]) -> None:
        """Abort the upload. If the abort fails, log the error: an open upload is no object."""
        try:
            self._request("abort_multipart_upload", **self._target, **upload_id)
        except LifecycleError as error:
            logger.warning("an upload of %s is not aborted: %s", self._target["Key"], error.message)

    def _request(self, operation: str, **arguments: Any) -> Any:
        return self._wait_for_answer(self._thread.submit(getattr(self._client, operation), **arguments))

    def _wait_for_answer(self, request: "Future[Any]") -> Any:
        """Return the answer, with heartbeats while the upload's own thread waits for the server.

        AWS errors become NotReady or TemporaryError.
        """
        while not wait([request], BEAT).done:
            self._beat()
        with translated_errors(f"bucket {self._target['Bucket']}", MEND_WRITING):
            return request.result()


class S3Archiver:
    """Archiver that keeps runs' archives in a bucket."""

    def __init__(self, files: Path, bucket: str, settings: ExportSettings) -> None:
        self._files = files.absolute()
        self._bucket = bucket
        self._prefix = settings.prefix
        self._options = _options(settings)
        self._limits = ArchiveLimits.from_settings(settings)
        self._first_part_bytes = settings.part_mib * MIB  # the later parts of a long upload are larger
        self._client = make_client(
            "s3",
            settings.s3_endpoint_url,
            "CRAWLER_EXPORT__S3_ENDPOINT_URL",
            region=settings.region,
            seconds=settings.timeout_seconds,
            tries=TRIES,
            path_style=settings.path_style,
        )
        wait_after_lost_answer(self._client, TRIES)  # without the wait, an upload could stay in the bucket unnoticed

    def destination(self, run_uid: str, end: int) -> str:
        return f"s3://{self._bucket}/{self._key(run_uid, end)}"

    def archive(
        self, run_uid: str, end: int, ended_at: datetime, progress: OnProgress, *, may_lack_files: bool = True
    ) -> Archive | None:
        """Upload the archive, and return its figures; `bytes` counts the files before compression.

        Return None without an upload if the run left no files.
        """
        folder = files_of(self._files, run_uid)
        if folder is None:
            return None
        target = {"Bucket": self._bucket, "Key": self._key(run_uid, end)}
        repeated = _RepeatedProgress(progress)
        try:
            with Upload(self._client, target, self._options, self._first_part_bytes, repeated.report_again) as upload:
                with archive_writer(upload, ended_at, repeated, self._limits) as archive:
                    archive.add_folder(folder)
                if not archive.is_worth_keeping(may_lack_files=may_lack_files):
                    return None  # an upload without `complete` leaves no object
                upload.complete()
        except OSError as error:
            raise TemporaryError(f"{folder} cannot be archived: {error}") from error
        return archive.written_to(self.destination(run_uid, end))

    def stored(self, run_uid: str, end: int) -> StoredArchive:
        """Return the archive's size and a signed address. Raise NotFound if the bucket has no such object."""
        target = {"Bucket": self._bucket, "Key": self._key(run_uid, end)}
        name = archive_name(run_uid, end)
        with translated_errors(f"bucket {self._bucket}", MEND_READING):
            try:
                size = int(self._client.head_object(**target)["ContentLength"])
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != HTTPStatus.NOT_FOUND:
                    raise
                raise NotFound(f"there is no archive at {self.destination(run_uid, end)}: it was removed") from error
            options = target | {"ResponseContentDisposition": f'attachment; filename="{name}"'}
            url = self._client.generate_presigned_url("get_object", Params=options, ExpiresIn=SIGNED_SECONDS)
        return StoredArchive(name, size, url=str(url))

    def check_archives(self) -> str:
        with translated_errors(f"bucket {self._bucket}", MEND_WRITING):
            self._client.head_bucket(Bucket=self._bucket)
        return f"archives in s3://{self._bucket}/{self._prefix}"

    def _key(self, run_uid: str, end: int) -> str:
        return self._prefix + archive_name(checked_uid(run_uid), end)


@dataclass
class _RepeatedProgress:
    """The archive's progress. The upload repeats the last progress while it waits for the server, as a heartbeat."""

    progress: OnProgress
    files: int = 0
    bytes_done: int = 0

    def __call__(self, files: int, bytes_done: int) -> None:
        self.files, self.bytes_done = files, bytes_done
        self.report_again()

    def report_again(self) -> None:
        self.progress(self.files, self.bytes_done)


def _options(settings: ExportSettings) -> dict[str, str]:
    """Return the options for new objects. With the setting `default` the bucket decides about encryption."""
    options = {"ContentType": "application/zip"}
    if settings.encryption != "default":
        options["ServerSideEncryption"] = settings.encryption
    if settings.kms_key:
        options["SSEKMSKeyId"] = settings.kms_key
    return options
