"""The archive of a run over real HTTP: whole, in parts, by a redirect, and the reasons why there is none."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.delivery.adapters.folder import FolderExporter
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportState
from tests.kit.data.databases import MakeRun, copy_of, ref_to
from tests.kit.data.run_archives import CONTENT, event_of, exported, over
from tests.kit.outside.stores import BUCKET, ENDED_AT, S3Store
from tests.kit.service.apis import Api, problem, served


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


def archived(folder: Path, database: Database, run: RunRecord) -> bytes:
    """The zip of a run that has left one file, in the folder of this state."""
    files = folder / "files" / run.run_uid
    files.mkdir(parents=True)
    (files / "items.jsonl").write_bytes(CONTENT)
    exporter = FolderExporter(folder / "files", folder / "exports")
    exported(database, run, exporter.archive(run.run_uid, run.end_number, ENDED_AT, lambda *_: None))
    return Path(exporter.destination(run.run_uid, run.end_number)).read_bytes()


def test_an_archive_is_given_whole_and_in_parts(
    http: httpx.Client, database: Database, make_run: MakeRun, tmp_path: Path
) -> None:
    run = over(database, make_run())
    content = archived(tmp_path, database, run)
    whole = http.get(f"/v1/runs/{run.run_id}/archive")
    assert (whole.status_code, whole.content) == (200, content)
    assert whole.headers["x-archive-sha256"] == hashlib.sha256(content).hexdigest()
    assert whole.headers["content-disposition"] == f'attachment; filename="{run.run_uid}.zip"'
    assert "content-encoding" not in whole.headers
    part = http.get(
        f"/v1/runs/{run.run_uid}/archive?end=1", headers={"Range": "bytes=10-", "If-Range": whole.headers["etag"]}
    )
    assert (part.status_code, part.content) == (206, content[10:])
    other = http.get(f"/v1/runs/{run.run_id}/archive", headers={"Range": "bytes=10-", "If-Range": '"another"'})
    assert other.content == content
    for wanted, status in ((f"bytes={len(content)}-", 416), ("lines=1-2", 400)):
        problem(http.get(f"/v1/runs/{run.run_id}/archive", headers={"Range": wanted}), status, "Range")


def test_an_archive_in_a_bucket_is_a_redirect_to_a_signed_address(
    credentials: None, moto: str, database_url: str, database: Database, make_run: MakeRun, tmp_path: Path
) -> None:
    store = S3Store(moto, f"crawls/{uuid4()}/")
    run = over(database, make_run())
    (tmp_path / "files" / run.run_uid).mkdir(parents=True)
    (tmp_path / "files" / run.run_uid / "items.jsonl").write_bytes(CONTENT)
    exported(database, run, store.archiver(tmp_path / "files").archive(run.run_uid, 1, ENDED_AT, lambda *_: None))
    bucket = {
        "BUCKET": BUCKET,
        "PREFIX": store.prefix,
        "S3_ENDPOINT_URL": moto,
        "PATH_STYLE": "true",
        "REGION": "eu-central-1",
    }
    variables = {f"CRAWLER_EXPORT__{name}": value for name, value in bucket.items()}
    with served(tmp_path, database_url, **variables) as api, api.client() as http:
        answer = http.get(f"/v1/runs/{run.run_id}/archive")
        assert answer.status_code == 307
        assert answer.headers["cache-control"] == "no-store"
        content = httpx.get(answer.headers["location"], trust_env=False).content
        address = http.get(f"/v1/runs/{run.run_id}/archive", headers={"Accept": "application/json"}).json()["url"]
        assert httpx.get(address, trust_env=False).content == content
    assert hashlib.sha256(content).hexdigest() == answer.headers["x-archive-sha256"]


def test_why_there_is_no_archive_is_told(
    http: httpx.Client, database: Database, make_run: MakeRun, tmp_path: Path
) -> None:
    run = make_run()
    path = f"/v1/runs/{run.run_id}/archive"
    assert "when it is over" in problem(http.get(path), 409).detail
    run = over(database, run)
    assert "not made yet" in problem(http.get(path), 503).detail
    problem(http.get(f"{path}?end=2"), 404)
    problem(http.get(f"{path}?end=0"), 422, "end")
    event = event_of(run, None)
    SqlStore(database).runs.open_export(ref_to(run), event)
    SqlStore(database).runs.settle_export(ref_to(run), event.event_id, ExportState.FAILED, None, "the disk is full")
    assert "the disk is full" in problem(http.get(path), 409).detail
    exported(database, run, None)
    assert "left no files" in problem(http.get(path), 404).detail
    content = over(database, make_run())
    archived(tmp_path, database, content)
    (tmp_path / "exports" / f"{content.run_uid}.zip").unlink()
    assert "was removed" in problem(http.get(f"/v1/runs/{content.run_id}/archive"), 404).detail
