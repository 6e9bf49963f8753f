"""Archives in a bucket: the zip is uploaded while it is created, and downloaded by a signed address."""

from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path

from botocore.exceptions import ClientError

from crawler_lifecycle.clusters.adapters.regular_files import files_of
from crawler_lifecycle.delivery.adapters.archive import archive_writer
from crawler_lifecycle.delivery.adapters.archive_limits import ArchiveLimits
from crawler_lifecycle.delivery.aws.client import make_client, translated_errors
from crawler_lifecycle.delivery.aws.upload import MEND_WRITING, Upload, wait_after_lost_answer
from crawler_lifecycle.delivery.ports.outside import Archive, OnProgress, StoredArchive
from crawler_lifecycle.errors import NotFound, TemporaryError
from crawler_lifecycle.model.naming import archive_name, checked_uid
from crawler_lifecycle.settings.outside import ExportSettings

MIB = 1024 * 1024
TRIES = 3  # largest number of tries for a failing request
SIGNED_SECONDS = 900  # a signed address expires after this time; a download under way continues
MEND_READING = (  # advice to an operator, in messages
    "are CRAWLER_EXPORT__BUCKET, the region and the rights of these credentials (s3:GetObject, s3:ListBucket) right?"
)


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
