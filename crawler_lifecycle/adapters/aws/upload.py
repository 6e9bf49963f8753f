"""Upload of an S3 object while its bytes are created, with at most one part in memory.

The object exists when `complete` has returned, and not before. An upload without `complete` is aborted.

The total size is unknown, and S3 takes 10,000 parts. Parts have the same size for as long as possible, because a part
is held in memory and some servers want equal parts; the last parts grow, so that 10,000 are enough.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError, ResponseStreamingError

from crawler_lifecycle.adapters.aws.client import translated_errors
from crawler_lifecycle.errors import LifecycleError, PermanentError

logger = logging.getLogger(__name__)

MOST_PARTS = 10_000
EQUAL_PARTS = 5_000  # so many parts have the first size
PARTS_UNTIL_DOUBLED = 500  # after the equal parts, the size doubles every so many parts
LARGEST = 1024**3  # a part has at most so many bytes, since a part is held in memory
BEAT = 5.0  # while the server is silent, the heartbeat is repeated after so many seconds
APART = timedelta(seconds=5)  # an upload that began at least so long before ours is abandoned: see `_abandoned`
ANSWER_LOST = (ConnectionClosedError, ReadTimeoutError, ResponseStreamingError)
MEND_WRITING = (
    "are CRAWLER_EXPORT__BUCKET, the region and the rights of these credentials "
    "(s3:PutObject, s3:AbortMultipartUpload, s3:ListBucketMultipartUploads) right?"
)


def part_size(number: int, first: int) -> int:
    """Return the size in bytes of the part with this number, if the part with number 1 has the size `first`."""
    if number <= EQUAL_PARTS:
        return first
    doublings = (number - EQUAL_PARTS - 1) // PARTS_UNTIL_DOUBLED + 1
    return max(first, min(first << doublings, LARGEST))


def wait_after_lost_answer(client: Any, tries: int) -> None:
    """Make the client wait before it creates an upload again after a lost answer.

    Without the wait both uploads would be as old, and the first would not be recognised as abandoned.
    """

    def pause(attempts: int, caught_exception: Exception | None = None, **_: object) -> float | None:
        if attempts < tries and isinstance(caught_exception, ANSWER_LOST):
            return (APART + timedelta(seconds=1)).total_seconds()
        return None

    client.meta.events.register_first("needs-retry.s3.CreateMultipartUpload", pause)


class Upload:
    """A multipart upload. `target` is bucket and key. `beat` is called while the upload waits for the server."""

    def __init__(
        self, client: Any, target: dict[str, str], options: dict[str, str], first_part: int, beat: Callable[[], None]
    ) -> None:
        self._client = client
        self._target = target
        self._options = options
        self._first_part = first_part
        self._beat = beat
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upload")
        self._buffer = bytearray()
        self._creation: Future[Any] | None = None  # the request, which may still create an upload after an error here
        self._upload_id: dict[str, str] | None = None  # as an argument for requests, from the answer to the creation
        self._parts: list[dict[str, Any]] = []
        self._part_is_missing = False

    def write(self, data: bytes, /) -> int:
        """Buffer the bytes, and send every full part. After a part that did not arrive, drop all bytes."""
        if self._part_is_missing:
            return len(data)  # a zip still writes its end after an error
        self._buffer += data
        while len(self._buffer) >= (size := part_size(len(self._parts) + 1, self._first_part)):
            with memoryview(self._buffer) as view:
                part = bytes(view[:size])
            del self._buffer[:size]
            self._send(part)
        return len(data)

    def flush(self) -> None:
        """Do nothing: parts are sent when full."""

    def complete(self) -> None:
        """Complete the object, then abort abandoned uploads to the same key.

        The abort comes last. An upload aborted by mistake is tried again, and two living tries that aborted each other
        first would never complete.
        """
        if self._buffer:  # a zip is never empty, but may end with a full part
            self._send(bytes(self._buffer))
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
        with self._thread:  # wait for the part under way: a part that arrives after the abort would stay for ever
            self._beat = lambda: None  # the heartbeat's error may have caused the abort
            if self._creation is not None:
                with suppress(LifecycleError):  # no upload was created then
                    self._abort({"UploadId": self._wait_for_answer(self._creation)["UploadId"]})

    def _create_once(self) -> dict[str, str]:
        """Return the upload's id as an argument for requests. The first call creates the upload."""
        if self._upload_id is None:
            self._creation = self._thread.submit(self._client.create_multipart_upload, **self._target, **self._options)
            self._upload_id = {"UploadId": self._wait_for_answer(self._creation)["UploadId"]}
        return self._upload_id

    def _send(self, part: bytes) -> None:
        number = len(self._parts) + 1
        self._part_is_missing = True  # until the part has arrived
        if number > MOST_PARTS:
            raise PermanentError(
                f"the archive {self._target['Key']} is too big for {MOST_PARTS:,} parts: "
                "set CRAWLER_EXPORT__PART_MIB higher"
            )
        answer = self._request("upload_part", **self._target, **self._create_once(), PartNumber=number, Body=part)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        self._part_is_missing = False

    def _abandoned(self) -> list[dict[str, str]]:
        """Return the ids of uploads to the same key that a crashed try left open.

        Temporal notices a crash by missing heartbeats, so the next try begins later by more than APART. An upload that
        began in the same moment as ours belongs to a living try. If the uploads cannot be listed, return nothing: the
        object is complete without the search.
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
        """Abort the upload. If the abort fails, the next try sees the upload again, and no object results from it."""
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
