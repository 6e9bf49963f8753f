"""Archives and files by day leave the exports folder by their age, and nothing else in the folder does."""

import os
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.retention.files import remove_logs
from crawler_lifecycle.retention.model import Kind
from tests.kit.data.databases import copy_of
from tests.retention.old_runs import LONG_AGO, NOW, passed, retention

MONTH = timedelta(days=30)
YESTERDAY = (NOW - timedelta(days=1)).date()


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A single kind of database: the files depend on none."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    folder = tmp_path / "exports"
    folder.mkdir()
    return folder


def write(path: Path, *, old: bool = True) -> str:
    path.write_bytes(b"12345")
    if old:
        os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    return path.name


def test_old_archives_leave_if_they_have_an_age(database: Database, exports: Path, tmp_path: Path) -> None:
    old = {write(exports / f"{uuid4()}.zip"), write(exports / f"{uuid4()}-2.zip")}
    others = {write(exports / f"{uuid4()}.zip", old=False), write(exports / "backup.zip"), write(exports / "notes.txt")}
    (exports / f"{uuid4()}.zip").symlink_to(tmp_path / "elsewhere")
    assert passed(retention(database, tmp_path)).removed == {}, "archives are kept unless an age is set"
    report = passed(retention(database, tmp_path, archives=MONTH))
    assert (report.removed, report.bytes) == ({Kind.ARCHIVES: 2}, {Kind.ARCHIVES: 10})
    remaining = {path.name for path in exports.iterdir() if not path.is_symlink()}
    assert (remaining, remaining & old, sum(path.is_symlink() for path in exports.iterdir())) == (others, set(), 1)


def test_earlier_days_leave_and_the_present_files_stay(database: Database, exports: Path, tmp_path: Path) -> None:
    for name in ("events", "notices"):
        write(exports / f"{name}-2025-01-31.jsonl")
    stay = {
        write(exports / name)
        for name in ("events.jsonl", "notices.jsonl", f"events-{YESTERDAY}.jsonl", "items-2025-01-31.jsonl")
    }
    assert retention(database, tmp_path, lines=MONTH).survey().removed == {Kind.FILES_OF_LINES: 2}
    report = passed(retention(database, tmp_path, lines=MONTH))
    assert (report.removed, report.bytes) == ({Kind.FILES_OF_LINES: 2}, {Kind.FILES_OF_LINES: 10})
    assert {path.name for path in exports.iterdir()} == stay


@pytest.mark.parametrize("is_link", [True, False], ids=["a link", "removed"])
def test_logs_outside_stay_if_a_crawl_replaces_its_folder_by_a_link(tmp_path: Path, *, is_link: bool) -> None:
    """A crawl that still runs may replace or remove its folder just before the removal."""
    files, logs, run_uid = tmp_path / "files", tmp_path / "elsewhere" / "logs", str(uuid4())
    files.mkdir()
    logs.mkdir(parents=True)
    name = write(logs / "0.log")
    if is_link:
        (files / run_uid).symlink_to(logs.parent)
    assert remove_logs(files, run_uid) == 0, "no bytes are freed"
    assert [path.name for path in logs.iterdir()] == [name]
