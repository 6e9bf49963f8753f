import json
import os
import zipfile
from pathlib import Path

import pytest

from crawler_lifecycle.delivery.adapters.archive import DEFAULT_LIMITS, GIB, ArchiveLimits, archive_writer
from crawler_lifecycle.delivery.ports import Archive
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd
from tests.kit.outside.stores import ENDED_AT
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A file of holes costs no disk, and an archive read every zero of it: with 16 TiB no try came to its end"
)

TIB = 1024 * GIB
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def with_holes(path: Path, size: int, content: bytes = b"") -> None:
    path.write_bytes(content)
    os.truncate(path, size)


def archived(folder: Path, limits: ArchiveLimits) -> tuple[list[str], dict[str, str], Archive]:
    """Files in it, and what was left out for which reason."""
    target = folder.parent / "zip"
    with target.open("wb") as file, archive_writer(file, ENDED_AT, lambda *_: None, limits) as writer:
        writer.add_folder(folder)
    with zipfile.ZipFile(target) as content:
        manifest = json.loads(content.read("manifest.json"))
        names = [name.removeprefix("files/") for name in content.namelist() if name.startswith("files/")]
    assert names == [item["name"] for item in manifest["files"]]
    return names, {item["name"]: item["reason"] for item in manifest["skipped"]}, writer.written_to("there")


@pytest.mark.timeout(60)
def test_terabytes_of_holes_are_left_out(folder: Path) -> None:
    with_holes(folder / "holes", 8 * TIB)
    (folder / "item").write_bytes(b"x")
    names, left_out, archive = archived(folder, DEFAULT_LIMITS)
    assert (names, archive.files, archive.bytes) == (["item"], 1, 1)
    assert left_out == {"holes": "its holes are beyond the limit of 200 GiB"}


def test_many_files_of_holes_have_one_limit(folder: Path) -> None:
    for name in "abc":
        with_holes(folder / name, 3 * MIB)
    names, left_out, _ = archived(folder, ArchiveLimits(bytes=7 * MIB, files=10))
    assert names == ["a", "b"]
    assert left_out == {"c": "its holes are beyond the limit of 0.00684 GiB"}


def test_holes_take_no_room_of_what_is_on_disk(folder: Path) -> None:
    with_holes(folder / "a", 3 * MIB, os.urandom(MIB))
    (folder / "b").write_bytes(os.urandom(2 * MIB))
    assert archived(folder, ArchiveLimits(bytes=3 * MIB, files=10))[0] == ["a", "b"]


def test_a_file_beyond_the_limit_is_left_out_and_a_smaller_one_after_it_is_not(folder: Path) -> None:
    for name, size in {"a": 600_000, "b": 600_000, "c": 400_000, "d": 1}.items():
        (folder / name).write_bytes(os.urandom(size))
    names, left_out, archive = archived(folder, ArchiveLimits(bytes=1_000_000, files=10))
    assert (names, archive.bytes) == (["a", "c"], 1_000_000)
    reason = "beyond the limit of 0.000931 GiB"
    assert left_out == {"b": reason, "d": reason}


def test_more_files_than_the_limit_are_left_out(folder: Path) -> None:
    (folder / "z").mkdir()
    for name in ("a", "b", "z/c", "z/d"):
        (folder / name).write_text(name)
    names, left_out, archive = archived(folder, ArchiveLimits(bytes=GIB, files=3))
    assert (names, archive.files) == (["a", "b", "z/c"], 3)
    assert left_out == {"z/d": "beyond the limit of 3 files"}


def test_what_is_left_out_anyway_takes_no_room(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").write_text("b")
    names, left_out, _ = archived(folder, ArchiveLimits(bytes=GIB, files=1))
    assert (names, left_out) == (["b"], {"a": "link"})


def test_what_the_limits_leave_out_is_told_with_the_run(rig: Rig) -> None:
    plan = rig.begin()
    rig.tasks.cancel_queued(plan.run, "stopped")
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    folder = rig.folder / "files" / plan.run.run_uid
    folder.mkdir(parents=True)
    with_holes(folder / "holes", 8 * TIB)
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    (line,) = [line for line in rig.details(plan).log if line.event == "left_out"]
    assert line.message == (
        "1 file left out of the archive: holes (its holes are beyond the limit of 200 GiB); its manifest.json lists all"
    )
