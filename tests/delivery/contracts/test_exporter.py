"""What every exporter does with a run's files, wherever it puts them."""

import errno
import hashlib
import io
import json
import os
import socket
import stat
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.delivery.adapters.zip_writer import RULE, archived_name
from crawler_lifecycle.errors import BadInput, NotFound, Refused, TemporaryError
from tests.kit.outside.stores import ENDED_AT, FolderStore, Store


class Bench:
    def __init__(self, folder: Path, store: Store) -> None:
        self.run_uid = str(uuid4())
        self.files = folder / "files"
        self.run = self.files / self.run_uid
        self.store = store
        self.exporter = store.archiver(self.files)
        self.reported: list[tuple[int, int]] = []

    def progress(self, files: int, bytes_done: int) -> None:
        self.reported.append((files, bytes_done))

    def write(self, name: str, content: bytes = b"content") -> Path:
        path = self.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def archived(self) -> tuple[dict[str, bytes], dict[str, Any]]:
        """The files of the archive, and its manifest."""
        with zipfile.ZipFile(io.BytesIO(self.content())) as archive:
            assert archive.testzip() is None
            content = {name: archive.read(name) for name in archive.namelist()}
        assert len(content) == len(set(content))
        manifest = json.loads(content.pop("manifest.json"))
        return {name.removeprefix("files/"): data for name, data in content.items()}, manifest

    def left_out(self) -> dict[object, object]:
        return {item["name"]: item["reason"] for item in self.archived()[1]["skipped"]}

    def content(self) -> bytes:
        content = self.store.content(self.run_uid)
        assert content is not None
        return content


@pytest.fixture
def bench(tmp_path: Path, store: Store) -> Bench:
    return Bench(tmp_path, store)


def test_everything_a_run_left_is_archived(bench: Bench) -> None:
    written = {
        "items-0.jsonl": b'{"a": 1}\n',
        "logs/0-1.log": b"",
        "a/b/c": b"x" * 3_000_000,
        "manifest.json": b"its own",
    }
    for name, content in written.items():
        bench.write(name, content)
    archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    assert archive
    assert archive.location == bench.exporter.destination(bench.run_uid, 1)
    assert (archive.files, archive.bytes) == (4, sum(map(len, written.values())))
    files, manifest = bench.archived()
    assert files == written
    listed = {
        name: {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in written.items()
    }
    assert {item["name"]: item for item in manifest["files"]} == listed
    assert (manifest["count"], manifest["bytes"], manifest["skipped"]) == (4, archive.bytes, [])
    assert bench.reported == sorted(bench.reported)
    assert bench.reported[-1] == (4, archive.bytes)
    assert len(bench.reported) >= 6  # also within a big file
    assert bench.store.unfinished() == []


def test_an_archive_is_measured_and_can_be_fetched_in_parts(bench: Bench) -> None:
    bench.write("items.jsonl", os.urandom(200_000))
    archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    content = bench.content()
    assert archive
    assert (archive.size, archive.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    stored = bench.exporter.stored(bench.run_uid, 1)
    assert (stored.name, stored.size) == (f"{bench.run_uid}.zip", len(content))
    if stored.url is None:
        assert stored.path
        assert stored.path.read_bytes() == content
    else:
        assert stored.path is None
        answer = httpx.get(stored.url, headers={"Range": "bytes=100-199"}, trust_env=False)
        assert answer.status_code in (200, 206), "rclone calls a part 200"
        assert answer.content == content[100:200]


def test_an_archive_that_is_not_there_is_not_found(bench: Bench) -> None:
    bench.write("items.jsonl")
    bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    for run_uid, end in ((bench.run_uid, 2), (str(uuid4()), 1)):
        with pytest.raises(NotFound, match="there is no archive at"):
            bench.exporter.stored(run_uid, end)


@pytest.mark.parametrize("empty", ["no folder", "empty folder", "only folders", "a file"])
def test_a_run_that_left_no_file_has_no_archive(bench: Bench, empty: str) -> None:
    if empty == "a file":
        bench.files.mkdir()
        bench.run.write_text("not a folder")
    elif empty != "no folder":
        bench.run.mkdir(parents=True)
    if empty == "only folders":
        (bench.run / "a" / "b").mkdir(parents=True)
    assert bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress) is None
    assert bench.store.content(bench.run_uid) is None
    assert bench.store.unfinished() == []


def refuse(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Root may read everything, so the calls are refused."""
    before = os.open

    def refusing(path: Any, *more: Any, **named: Any) -> int:
        if Path(os.fsdecode(path)).name in names:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return before(path, *more, **named)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.parametrize("kind", ["file", "folder", "run's folder", "link"])
def test_an_archive_without_files_names_what_was_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A crawl's only file was of another user, and its export was done with no file and no word about it."""
    (bench.run / "folder").mkdir(parents=True)
    if kind == "link":
        (bench.run / "link").symlink_to("/etc/passwd")
    else:
        bench.write("folder/items.jsonl")
        refuse(monkeypatch, {"file": "items.jsonl", "folder": "folder"}.get(kind, bench.run_uid))
    archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    again = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    monkeypatch.undo()
    name, reason = {
        "file": ("folder/items.jsonl", "not readable"),
        "folder": ("folder", "not readable"),
        "run's folder": (".", "not readable"),
        "link": ("link", "link"),
    }[kind]
    assert archive
    assert archive == again
    assert (archive.files, archive.bytes, archive.left_out) == (0, 0, 1)
    assert archive.first_left_out == (f"{name} ({reason})",)
    assert (archive.size, archive.sha256) == (len(bench.content()), hashlib.sha256(bench.content()).hexdigest())
    assert bench.archived()[0] == {}
    assert bench.left_out() == {name: reason}
    assert bench.exporter.stored(bench.run_uid, 1).size == archive.size
    assert bench.store.unfinished() == []


def test_an_archive_without_files_need_not_replace_one_with_files(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("items.jsonl")
    bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    before = bench.content()
    refuse(monkeypatch, bench.run_uid)
    again = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress, may_lack_files=False)
    monkeypatch.undo()
    assert again is None
    assert bench.content() == before
    assert bench.store.unfinished() == []
    again = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress, may_lack_files=False)
    assert again
    assert again.files == 1


def test_a_second_archive_is_the_same(bench: Bench) -> None:
    for name in ("z", "a/z", "a/b/c", "b", "B"):
        bench.write(name, name.encode() * 1000)
    first = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    content = bench.content()
    second = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    assert first == second
    assert bench.content() == content


def test_the_manifest_has_the_time_of_the_end(bench: Bench) -> None:
    """The manifest was dated 1980."""
    bench.write("items.jsonl")
    bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    with zipfile.ZipFile(io.BytesIO(bench.content())) as archive:
        assert archive.getinfo("manifest.json").date_time == (2026, 3, 1, 12, 30, 58)  # in steps of two seconds


@pytest.mark.parametrize("store", ["folder", "moto"], indirect=True)
def test_two_at_once_do_no_harm(bench: Bench) -> None:
    """Not with rclone: once in some fifty times its object is gone when completions of one key meet."""
    for number in range(50):
        bench.write(f"{number}", os.urandom(20_000))
    barrier = threading.Barrier(4)

    def archive(_: int) -> object:
        barrier.wait(60)
        return bench.exporter.archive(bench.run_uid, 1, ENDED_AT, lambda *_: None)

    with ThreadPoolExecutor(4) as pool:
        archives = list(pool.map(archive, range(4)))
    assert len(set(archives)) == 1
    assert len(bench.archived()[0]) == 50
    assert bench.store.unfinished() == []


def test_links_and_special_files_are_named_but_not_followed(bench: Bench) -> None:
    bench.write("real")
    secret = bench.files / "secret"
    (secret / "deep").mkdir(parents=True)
    (secret / "password").write_text("confidential")
    (bench.run / "link").symlink_to(secret / "password")
    (bench.run / "folder").symlink_to(secret)
    (bench.run / "broken").symlink_to("nowhere")
    (bench.run / "loop").symlink_to("loop")
    os.mkfifo(bench.run / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        # the path of a socket may be short only
        here = Path.cwd()
        os.chdir(bench.run)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    assert archive
    assert archive.files == 1
    assert list(bench.archived()[0]) == ["real"]
    assert bench.left_out() == {
        "link": "link",
        "folder": "link",
        "broken": "link",
        "loop": "link",
        "pipe": "special file",
        "socket": "special file",
    }


def test_a_folder_that_is_a_link_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.files.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("x")
    bench.run.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused):
        bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)


@pytest.mark.parametrize(
    ("name", "archived"),
    [
        (b"fine..name", "fine..name"),
        (b"..\\..\\evil", "..%5C..%5Cevil"),
        (b"\\evil", "%5Cevil"),
        (b"C:evil", "C%3Aevil"),
        (b"a:b*?", "a%3Ab%2A%3F"),
        (b"caf\xe9", "caf%E9"),
        (b"\xff\xfe\x80bad", "%FF%FE%80bad"),
        (b"line\nbreak\x1b[31m", "line%0Abreak%1B[31m"),
        (b"100%", "100%"),
        (b"%ff", "%25ff"),
        (b"%%FF\xff", "%%25FF%FF"),
        ("🕷 'quoted' $(x) %s".encode(), "🕷 'quoted' $(x) %s"),
    ],
)
def test_a_name_that_not_every_system_takes_is_escaped_and_comes_back(bench: Bench, name: bytes, archived: str) -> None:
    """Such files were left out, as if their names led out of the folder. (W7)"""
    bench.write("plain")
    (bench.run / os.fsdecode(name)).write_bytes(name)
    archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    assert archive
    assert (archive.files, archive.left_out) == (2, 0)
    assert bench.archived()[0][archived] == name
    assert unquote_to_bytes(archived) == name
    assert bench.archived()[1]["names"] == RULE


@given(st.sets(st.binary(min_size=1, max_size=20).filter(lambda name: not set(name) & {0, 0x2F}), max_size=20))
def test_no_two_names_become_one(names: set[bytes]) -> None:
    archived = [archived_name(os.fsdecode(name)) for name in names]
    assert len(set(archived)) == len(names)
    assert {unquote_to_bytes(name) for name in archived} == names


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=30).filter(
            lambda name: name not in (".", "..") and len(name.encode()) < 200
        ),
        st.binary(max_size=2000),
        min_size=1,
        max_size=5,
    )
)
def test_any_name_and_content_comes_back(tmp_path: Path, files: dict[str, bytes]) -> None:
    bench = Bench(tmp_path, FolderStore(tmp_path / "exports"))
    for name, content in files.items():
        bench.write(name, content)
    archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    assert archive
    assert archive.files == len(files)
    assert {os.fsdecode(unquote_to_bytes(name)): data for name, data in bench.archived()[0].items()} == files


@pytest.mark.parametrize("change", ["grows", "shrinks", "is rewritten"])
def test_a_file_that_changes_while_it_is_read_is_noted(bench: Bench, change: str) -> None:
    path = bench.write("changing", b"x" * 3_000_000)
    bench.write("same", b"x")

    def progress(files: int, bytes_done: int) -> None:
        if files or not 0 < bytes_done <= 1_500_000:
            return
        with path.open("r+b") as file:
            if change == "grows":
                file.seek(0, 2)
                file.write(b"y" * 1_000_000)
            elif change == "shrinks":
                file.truncate(2_000_000)
            else:
                file.write(b"z")
                os.utime(path, (1, 1))

    archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, progress)
    assert archive
    files, manifest = bench.archived()
    noted = {item["name"]: item.get("changed_while_read", False) for item in manifest["files"]}
    assert noted == {"changing": True, "same": False}
    assert len(files["changing"]) == (2_000_000 if change == "shrinks" else 3_000_000)
    assert archive.bytes == len(files["changing"]) + 1


def test_an_interrupted_archive_leaves_nothing_and_the_old_one_in_place(bench: Bench) -> None:
    bench.write("a", b"x" * 3_000_000)
    bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    before = bench.content()
    bench.write("b")

    def cancelled(files: int, bytes_done: int) -> None:
        raise InterruptedError("cancelled")

    with pytest.raises((InterruptedError, TemporaryError)):
        bench.exporter.archive(bench.run_uid, 1, ENDED_AT, cancelled)
    assert bench.content() == before
    assert bench.store.unfinished() == []


def test_strange_times_and_modes_are_no_obstacle(bench: Bench) -> None:
    os.utime(bench.write("old"), (-1_000_000_000, -1_000_000_000))
    os.utime(bench.write("future"), (2**33, 2**33))
    bench.write("program").chmod(0o755)
    archive = bench.exporter.archive(bench.run_uid, 1, ENDED_AT, bench.progress)
    assert archive
    assert archive.files == 3
    with zipfile.ZipFile(io.BytesIO(bench.content())) as content:
        assert stat.S_IMODE(content.getinfo("files/program").external_attr >> 16) == 0o755


@pytest.mark.parametrize("run_uid", ["", "..", "../x", "no-uuid", "x" * 36])
def test_only_a_uuid_becomes_a_path(bench: Bench, run_uid: str) -> None:
    with pytest.raises(BadInput):
        bench.exporter.archive(run_uid, 1, ENDED_AT, bench.progress)
    with pytest.raises(BadInput):
        bench.exporter.destination(run_uid, 1)
