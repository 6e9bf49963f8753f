"""`crawlctl fetch` gives the archive whole and checked, or nothing and the reason."""

import errno
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pytest

from crawler_lifecycle.delivery.client import ApiArchives, Download
from crawler_lifecycle.delivery.ports import RunArchive, StoredArchive
from crawler_lifecycle.model.records import RunOverview, RunRecord
from crawler_lifecycle.runs.commands.reading import RunReader
from tests.kit.service.commands import Crawlctl

CONTENT = bytes(range(256)) * 9000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Bucket(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403 if self.path == "/expired" else 200)
        self.send_header("Content-Length", str(len(CONTENT) + (self.path == "/short")))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def bucket() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@dataclass
class Lies:
    """A test says here what `fetch` gets."""

    archive: RunArchive
    crawler: str = "books & more"
    end: int = 2


@pytest.fixture
def lies(run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> Lies:
    """Give run 1 an end and an archive."""
    assert run.run_id == 1
    lies, read = Lies(in_bucket("http://127.0.0.1:1/unset")), RunReader.overview

    def overview(reader: RunReader, run: int | str) -> RunOverview:
        found = read(reader, run)
        ended = found.run.model_copy(update={"crawler": lies.crawler, "end_number": lies.end})
        return found.model_copy(update={"run": ended})

    monkeypatch.setattr(RunReader, "overview", overview)
    monkeypatch.setattr(RunReader, "archive", lambda _, run, end: lies.archive)
    return lies


def in_bucket(url: str, *, sha256: str | None = SHA256) -> RunArchive:
    return RunArchive(StoredArchive("a.zip", len(CONTENT), url=url), sha256)


def test_from_a_folder_and_from_a_bucket(crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: Lies) -> None:
    exported = tmp_path / "a.zip"
    exported.write_bytes(CONTENT)
    here = RunArchive(StoredArchive("a.zip", len(CONTENT), path=exported), SHA256)
    for lies.end, lies.archive in ((1, here), (2, in_bucket(f"{bucket}/signed"))):
        target = tmp_path / f"end-{lies.end}"
        target.mkdir()
        result = crawlctl("fetch", "1", "--output", str(target), "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        name = "books-more-run-1.zip" if lies.end == 1 else "books-more-run-1-2.zip"
        assert (told["end"], told["sha256"], told["file"]) == (lies.end, SHA256, str(target / name))
        assert (target / name).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("crawler", "name"),
    [
        ("../../.bashrc", "bashrc-run-1-2.zip"),
        ("\u202e ..", "crawl-run-1-2.zip"),
        ("books/de", "books-de-run-1-2.zip"),
        ("x" * 128, "x" * 100 + "-run-1-2.zip"),
    ],
)
@pytest.mark.long
def test_the_file_has_our_name_whatever_the_server_calls_it(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: Lies, crawler: str, name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The name came from the server: a hostile one named `.bashrc`."""
    archive = in_bucket(f"{bucket}/signed")
    lies.crawler, lies.archive = crawler, replace(archive, stored=replace(archive.stored, name="../.bashrc"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert crawlctl("fetch", "1").exit_code == 0
    assert [path.name for path in folder.iterdir()] == [name]


def test_no_file_is_overwritten(crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: Lies) -> None:
    lies.archive = in_bucket(f"{bucket}/signed")
    assert crawlctl("fetch", "1", "--output", str(tmp_path)).exit_code == 0
    (tmp_path / "books-more-run-1-2.zip").write_bytes(b"mine")
    result = crawlctl("fetch", "1", "--output", str(tmp_path))
    assert (result.exit_code, result.stdout) == (6, "")
    assert "books-more-run-1-2.zip exists already" in result.stderr
    assert (tmp_path / "books-more-run-1-2.zip").read_bytes() == b"mine"


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.long
def test_the_file_has_its_name_only_when_it_is_whole(
    crawlctl: Crawlctl, run: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """After kill -9, an empty file had the final name; and a file that appeared meanwhile was overwritten."""
    target = tmp_path / "new.zip"

    def meanwhile(act: Callable[[], object]) -> None:
        """Let the next download call the function between its first and last bytes."""

        def chunks() -> Iterator[bytes]:
            yield CONTENT[:1000]
            act()
            yield CONTENT[1000:]

        download = nullcontext(Download("a.zip", len(CONTENT), SHA256, chunks()))
        monkeypatch.setattr(ApiArchives, "open", lambda *_: download)

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", Mock(side_effect=PermissionError(errno.EPERM, "no links here")))
    seen: list[bool] = []
    meanwhile(lambda: seen.append(target.exists()))
    assert crawlctl("fetch", str(run.run_id), "--output", str(target)).exit_code == 0
    assert (seen, target.read_bytes()) == ([False], CONTENT)
    target.unlink()
    meanwhile(lambda: target.write_bytes(b"mine"))
    assert crawlctl("fetch", str(run.run_id), "--output", str(target)).exit_code == 6
    assert target.read_bytes() == b"mine"
    assert not list(tmp_path.glob(".fetch-*"))


@pytest.mark.parametrize(
    ("path", "figures", "status", "said"),
    [
        ("signed", {"sha256": "0" * 64}, 1, "is damaged"),
        ("short", {}, 4, "peer closed connection without sending complete message body"),
        ("expired", {}, 4, "answers 403"),
    ],
)
@pytest.mark.long
def test_nothing_is_left_of_what_is_not_whole(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: Lies, path: str, figures: dict[str, str],
    status: int, said: str,
) -> None:  # fmt: skip
    lies.archive = in_bucket(f"{bucket}/{path}", **figures)
    target = tmp_path / "out" / "new.zip"
    target.parent.mkdir()
    result = crawlctl("fetch", "1", "--output", str(target))
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr
    assert list(target.parent.iterdir()) == []


@pytest.mark.long
def test_a_run_without_an_archive_is_one_line(crawlctl: Crawlctl, run: RunRecord) -> None:
    result = crawlctl("fetch", str(run.run_id))
    assert (result.exit_code, result.stdout) == (6, "")
    assert "its archive is made when it is over" in result.stderr


def test_a_place_that_cannot_be_written_is_one_line(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: Lies
) -> None:
    lies.archive = in_bucket(f"{bucket}/signed")
    result = crawlctl("fetch", "1", "--output", str(tmp_path / "nowhere" / "a.zip"))
    assert result.exit_code == 2, "the command line is wrong, not the installation"
    assert "--output: " in result.stderr
    assert "nowhere/a.zip cannot be written: No such file" in result.stderr


def test_without_a_place_the_archive_is_in_the_current_folder_and_its_path_is_shown(
    crawlctl: Crawlctl, tmp_path: Path, bucket: str, lies: Lies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the name of the file was shown, so that the folder was anybody's guess."""
    lies.archive = in_bucket(f"{bucket}/signed")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "books-more-run-1-2.zip"
    shown = crawlctl("fetch", "1").stdout
    assert shown.startswith(f"the archive of run 1, end 2, was written to {path}\n")
    assert path.read_bytes() == CONTENT
    path.unlink()
    assert json.loads(crawlctl("fetch", "1", "--json").stdout)["file"] == str(path)
    assert "default: the current folder" in " ".join(crawlctl("fetch", "--help").stdout.split())
