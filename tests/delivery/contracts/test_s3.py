"""What is special about a bucket: parts, what is left of tries that failed, a server that is slow or away."""

import hashlib
import io
import json
import random
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from botocore import endpoint

from crawler_lifecycle.delivery.aws import archives
from crawler_lifecycle.delivery.aws.archives import LARGEST, MOST_PARTS, S3Archiver, Upload, part_size
from crawler_lifecycle.delivery.ports import Archive
from crawler_lifecycle.errors import NotReady, TemporaryError
from tests.kit.outside.proxy import Proxy, proxy_to
from tests.kit.outside.stores import BUCKET, ENDED_AT, SMALLEST_PART, S3Store

MIB = 1024 * 1024
RUN = str(uuid4())
CONTENT = random.Random(5).randbytes(11 * MIB)  # it cannot be compressed, so it has three parts


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "items").write_bytes(CONTENT)
    (tmp_path / RUN / "log").write_text("done")
    return tmp_path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "log").write_text("done")
    return tmp_path


@pytest.fixture
def proxy(s3: S3Store) -> Iterator[Proxy]:
    with proxy_to(s3.url) as proxy:
        yield proxy


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the next try came when the one before has been missed."""
    monkeypatch.setattr(archives, "APART", timedelta())


def silent(files: int, bytes_done: int) -> None:
    pass


def behind(proxy: Proxy, s3: S3Store, files: Path) -> S3Archiver:
    return s3.archiver(files, s3_endpoint_url=proxy.url)


def assert_whole(s3: S3Store, archive: Archive | None) -> None:
    content = s3.content(RUN)
    assert content
    location, sha256 = f"s3://{BUCKET}/{s3.prefix}{RUN}.zip", hashlib.sha256(content).hexdigest()
    assert archive == Archive(location, files=2, bytes=len(CONTENT) + 4, size=len(content), sha256=sha256)
    with zipfile.ZipFile(io.BytesIO(content)) as whole:
        assert whole.testzip() is None
        manifest = json.loads(whole.read("manifest.json"))
    digests = {item["name"]: item["sha256"] for item in manifest["files"]}
    assert digests["items"] == hashlib.sha256(CONTENT).hexdigest()
    assert s3.unfinished() == []


def begin_upload(s3: S3Store, key: str) -> str:
    begun = s3.client.create_multipart_upload(Bucket=BUCKET, Key=key)
    s3.client.upload_part(Bucket=BUCKET, Key=key, UploadId=begun["UploadId"], PartNumber=1, Body=b"half")
    return str(begun["UploadId"])


@pytest.mark.long
def test_an_archive_goes_in_parts_of_one_size(s3: S3Store, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archiver = s3.archiver(files)
    sizes: list[int] = []
    send = archiver._client.upload_part

    def upload_part(**given: Any) -> Any:
        sizes.append(len(given["Body"]))
        return send(**given)

    monkeypatch.setattr(archiver._client, "upload_part", upload_part)
    assert_whole(s3, archiver.archive(RUN, 1, ENDED_AT, silent))
    assert sizes[:-1] == [SMALLEST_PART * MIB] * 2
    assert 0 < sizes[-1] <= SMALLEST_PART * MIB


def test_an_upload_may_end_with_a_full_part(s3: S3Store) -> None:
    key = f"{s3.prefix}{RUN}.zip"
    with Upload(s3.client, {"Bucket": BUCKET, "Key": key}, {}, SMALLEST_PART * MIB, lambda: None) as upload:
        upload.write(CONTENT[: 2 * SMALLEST_PART * MIB])
        upload.complete()
    assert s3.content(RUN) == CONTENT[: 2 * SMALLEST_PART * MIB]
    assert s3.unfinished() == []


def test_parts_grow_so_that_they_are_enough() -> None:
    sizes = [part_size(number, 8 * MIB) for number in range(1, MOST_PARTS + 1)]
    assert sizes == sorted(sizes)
    assert sum(size for size in sizes if size == 8 * MIB) > 20 * 10**9
    assert sum(sizes) > 2 * 1024**4
    assert max(sizes) == LARGEST
    assert {part_size(number, LARGEST) for number in (1, MOST_PARTS)} == {LARGEST}


def test_the_object_is_encrypted_and_named_as_the_settings_say(moto: str, credentials: None, small: Path) -> None:
    for chosen in ({"encryption": "AES256"}, {"encryption": "aws:kms", "kms_key": "alias/crawls"}):
        s3 = S3Store(moto, f"{uuid4()}/")
        s3.archiver(small, **chosen).archive(RUN, 2, ENDED_AT, silent)
        head = s3.client.head_object(Bucket=BUCKET, Key=f"{s3.prefix}{RUN}-2.zip")
        assert head["ServerSideEncryption"] == chosen["encryption"]
        assert head.get("SSEKMSKeyId") == chosen.get("kms_key")
        assert head["ContentType"] == "application/zip"


def test_what_a_try_that_crashed_has_left_goes_with_the_next_that_succeeds(
    s3: S3Store, small: Path, later: None
) -> None:
    begin_upload(s3, f"{s3.prefix}{RUN}.zip")
    begin_upload(s3, f"{s3.prefix}{RUN}.zip")
    begin_upload(s3, f"{s3.prefix}{RUN}.zip.other")
    assert s3.content(RUN) is None
    assert s3.archiver(small).archive(RUN, 1, ENDED_AT, silent)
    assert s3.content(RUN)
    assert s3.unfinished() == [f"{s3.prefix}{RUN}.zip.other"]


CRASH = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from crawler_lifecycle.delivery.aws.archives import S3Archiver
from crawler_lifecycle.settings import ExportSettings

def progress(files, bytes_done):
    if bytes_done > 8 * 1024 * 1024:
        os._exit(9)

settings = ExportSettings.model_validate_json(sys.argv[3])
S3Archiver(Path(sys.argv[1]), "archives", settings).archive(sys.argv[2], 1, datetime.now(UTC), progress)
"""


def test_one_that_was_begun_at_the_same_moment_is_left_alone(s3: S3Store, small: Path) -> None:
    with Upload(s3.client, {"Bucket": BUCKET, "Key": f"{s3.prefix}{RUN}.zip"}, {}, 5 * MIB, lambda: None) as other:
        other.write(b"x" * 5 * MIB)
        assert s3.archiver(small).archive(RUN, 1, ENDED_AT, silent)
        other.write(b"y" * 10)
        other.complete()
    assert s3.content(RUN) == b"x" * 5 * MIB + b"y" * 10


@pytest.mark.long
def test_a_process_that_dies_leaves_no_object(s3: S3Store, files: Path, later: None) -> None:
    command = [sys.executable, "-c", CRASH, str(files), RUN, s3.settings().model_dump_json()]
    assert subprocess.run(command, timeout=60).returncode == 9
    assert s3.content(RUN) is None
    assert s3.unfinished() == [f"{s3.prefix}{RUN}.zip"]
    assert_whole(s3, s3.archiver(files).archive(RUN, 1, ENDED_AT, silent))


def test_a_connection_that_breaks_once_costs_nothing(s3: S3Store, proxy: Proxy, files: Path) -> None:
    proxy.drop_after(8 * MIB)
    assert_whole(s3, behind(proxy, s3, files).archive(RUN, 1, ENDED_AT, silent))
    assert proxy.dropped == 1


@pytest.mark.long
def test_a_server_that_goes_away_is_a_temporary_error_and_the_next_try_cleans_up(
    s3: S3Store, proxy: Proxy, files: Path, later: None
) -> None:
    archiver = behind(proxy, s3, files)
    proxy.drop_after(8 * MIB, for_good=True)
    with pytest.raises(TemporaryError, match="cannot be reached"):
        archiver.archive(RUN, 1, ENDED_AT, silent)
    assert s3.content(RUN) is None
    assert len(s3.unfinished()) == 1
    proxy.open_door()
    assert_whole(s3, archiver.archive(RUN, 1, ENDED_AT, silent))


def test_a_lost_answer_to_the_last_request_does_no_harm(s3: S3Store, proxy: Proxy, files: Path) -> None:
    """The object is there already; whether the server says so when asked again, or not, is up to it."""
    archiver = behind(proxy, s3, files)
    proxy.lose_answer(rb"POST [^ ]+uploadId=")
    try:
        archive = archiver.archive(RUN, 1, ENDED_AT, silent)
    except TemporaryError:
        archive = archiver.archive(RUN, 1, ENDED_AT, silent)
    assert proxy.dropped == 1
    assert_whole(s3, archive)


def test_a_lost_answer_to_the_first_request_leaves_no_upload(
    s3: S3Store, proxy: Proxy, files: Path, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was repeated at once, and the upload that nobody knew of was taken for another's that lives."""
    pauses = list[float]()
    monkeypatch.setattr(endpoint, "time", SimpleNamespace(sleep=pauses.append))
    proxy.lose_answer(rb"POST [^ ]+\?uploads")
    archive = behind(proxy, s3, files).archive(RUN, 1, ENDED_AT, silent)
    assert proxy.dropped == 1
    assert pauses == [(archives.APART + timedelta(seconds=1)).total_seconds()]
    assert_whole(s3, archive)


def test_who_waits_for_the_server_says_so(
    s3: S3Store, proxy: Proxy, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BEAT", 0.05)
    held, repeated = threading.Event(), threading.Event()
    seen: list[tuple[int, int]] = []

    def progress(files: int, bytes_done: int) -> None:
        if bytes_done > 6 * MIB and not held.is_set():
            held.set()
            proxy.hold()
        seen.append((files, bytes_done))
        if len(seen) > 3 and len(set(seen[-3:])) == 1:
            repeated.set()

    with ThreadPoolExecutor(1) as pool:
        archive = pool.submit(behind(proxy, s3, files).archive, RUN, 1, ENDED_AT, progress)
        try:
            assert held.wait(60)
            assert repeated.wait(60)
        finally:
            proxy.let_go()
        assert_whole(s3, archive.result(60))
    assert seen == sorted(seen)


@pytest.mark.parametrize("cancelled_at", [1, 9 * MIB])
def test_who_is_cancelled_while_it_waits_leaves_nothing(
    s3: S3Store, proxy: Proxy, files: Path, monkeypatch: pytest.MonkeyPatch, cancelled_at: int
) -> None:
    """Also while the upload is only being begun."""
    monkeypatch.setattr(archives, "BEAT", 0.05)
    seen: list[int] = []

    def progress(files: int, bytes_done: int) -> None:
        if bytes_done >= cancelled_at:
            proxy.hold()
        seen.append(bytes_done)
        if len(seen) > 3 and seen[-1] == seen[-3]:
            proxy.let_go()
            raise RuntimeError("cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        behind(proxy, s3, files).archive(RUN, 1, ENDED_AT, progress)
    assert s3.content(RUN) is None
    assert s3.unfinished() == []


def test_a_server_that_does_not_list_uploads_is_good_enough(
    s3: S3Store, files: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    archiver = s3.archiver(files)

    def refused(**_: Any) -> None:
        archiver._client.head_bucket(Bucket="not-here")

    monkeypatch.setattr(archiver._client, "list_multipart_uploads", refused)
    assert_whole(s3, archiver.archive(RUN, 1, ENDED_AT, silent))
    assert "are not looked for" in caplog.text


def test_a_check_says_where_archives_go(s3: S3Store, small: Path) -> None:
    assert s3.archiver(small).check_archives() == f"archives in s3://{BUCKET}/{s3.prefix}"


def test_a_bucket_that_is_not_there_is_for_somebody_to_mend(s3: S3Store, small: Path) -> None:
    archiver = S3Archiver(small, "not-here", s3.settings())
    with pytest.raises(NotReady, match="CRAWLER_EXPORT__BUCKET"):
        archiver.check_archives()
    with pytest.raises(NotReady, match="NoSuchBucket"):
        archiver.archive(RUN, 1, ENDED_AT, silent)


def test_wrong_and_missing_credentials_are_for_somebody_to_mend(
    rclone: str, credentials: None, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = S3Store(rclone, "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
    with pytest.raises(NotReady, match="rights of these credentials"):
        s3.archiver(small).archive(RUN, 1, ENDED_AT, silent)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(NotReady, match="needs credentials"):
        s3.archiver(small).archive(RUN, 1, ENDED_AT, silent)


def test_an_address_that_is_none_is_said_at_once(credentials: None, small: Path) -> None:
    with pytest.raises(NotReady, match="CRAWLER_EXPORT__S3_ENDPOINT_URL"):
        S3Store("s3.example.com", "").archiver(small)


def test_nobody_there_is_a_temporary_error(credentials: None, small: Path) -> None:
    with pytest.raises(TemporaryError, match="cannot be reached"):
        S3Store("http://127.0.0.1:1", "").archiver(small).archive(RUN, 1, ENDED_AT, silent)
