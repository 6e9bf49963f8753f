"""`crawlctl fetch` gives the archive whole and checked, or nothing and the reason."""

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.control.reading import RunArchive, RunReader
from crawler_lifecycle.ports import StoredArchive
from tests.commands import Crawlctl

CONTENT = bytes(range(256)) * 9000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Bucket(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/signed" else 403)
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def bucket() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def lies(monkeypatch: pytest.MonkeyPatch) -> list[RunArchive]:
    """The list holds the archive that `fetch` gets; a test fills the list."""
    archives: list[RunArchive] = []
    monkeypatch.setattr(RunReader, "archive", lambda _, run, end: archives[0])
    return archives


def in_bucket(url: str, *, size: int = len(CONTENT), sha256: str | None = SHA256) -> RunArchive:
    return RunArchive(1, 2, StoredArchive("a.zip", size, url=url), sha256)


def test_from_a_folder_and_from_a_bucket(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: list[RunArchive]
) -> None:
    exported = tmp_path / "a.zip"
    exported.write_bytes(CONTENT)
    here = RunArchive(1, 1, StoredArchive("a.zip", len(CONTENT), path=exported), SHA256)
    for archive in (here, in_bucket(f"{bucket}/signed")):
        lies[:] = [archive]
        target = tmp_path / f"end-{archive.end}"
        target.mkdir()
        result = crawlctl("fetch", "1", "--output", str(target), "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert (told["end"], told["sha256"], told["file"]) == (archive.end, SHA256, str(target / "a.zip"))
        assert (target / "a.zip").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "figures", "status", "said"),
    [
        ("signed", {"sha256": "0" * 64}, 1, "is damaged"),
        ("signed", {"size": len(CONTENT) + 1}, 4, "broke off after"),
        ("expired", {}, 4, "answers 403"),
    ],
)
def test_what_is_not_whole_does_not_take_the_place_of_the_file(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: list[RunArchive], path: str, figures: dict[str, str],
    status: int, said: str,
) -> None:  # fmt: skip
    lies[:] = [in_bucket(f"{bucket}/{path}", **figures)]  # type: ignore[arg-type]
    target = tmp_path / "out" / "kept.zip"
    target.parent.mkdir()
    target.write_bytes(b"before")
    result = crawlctl("fetch", "1", "--output", str(target))
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr
    assert [each.read_bytes() for each in target.parent.iterdir()] == [b"before"]


def test_a_run_without_an_archive_is_one_line(crawlctl: Crawlctl, run: RunRecord) -> None:
    result = crawlctl("fetch", str(run.run_id))
    assert (result.exit_code, result.stdout) == (6, "")
    assert "its archive is made when it is over" in result.stderr


def test_a_place_that_cannot_be_written_is_one_line(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: list[RunArchive]
) -> None:
    lies[:] = [in_bucket(f"{bucket}/signed")]
    result = crawlctl("fetch", "1", "--output", str(tmp_path / "nowhere" / "a.zip"))
    assert result.exit_code == 4
    assert "nowhere/a.zip cannot be written: No such file" in result.stderr


def test_without_a_place_the_archive_is_in_the_current_folder_and_its_path_is_shown(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: list[RunArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the name of the file was shown, so that the folder was anybody's guess."""
    lies[:] = [in_bucket(f"{bucket}/signed")]
    monkeypatch.chdir(tmp_path)
    shown = crawlctl("fetch", "1").stdout
    assert shown.startswith(f"the archive of run 1, end 2, was written to {tmp_path / 'a.zip'}\n")
    assert json.loads(crawlctl("fetch", "1", "--json").stdout)["file"] == str(tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT
    assert "default: the current folder" in " ".join(crawlctl("fetch", "--help").stdout.split())
