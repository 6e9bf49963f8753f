"""A folder of links or folders only, or one long write at the end, told nothing of itself for so long that its worker
was taken for dead, again and again."""

import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.delivery.adapters import folder as folders
from crawler_lifecycle.delivery.adapters.archive import archive_writer
from crawler_lifecycle.delivery.adapters.folder import FolderExporter
from crawler_lifecycle.model.run_plan import ExportedEnd
from tests.kit.outside.stores import ENDED_AT
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "An archive of links or folders only reported nothing for so long that its worker was taken for dead"
)

MANY = 20
RUN = "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize("kind", ["links", "links to folders", "folders", "pipes"])
def test_what_is_not_copied_is_progress_too(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for number in range(MANY):
        path = run / f"{number}"
        match kind:
            case "links":
                path.symlink_to("nowhere")
            case "links to folders":
                path.symlink_to(tmp_path)
            case "folders":
                path.mkdir()
            case _:
                os.mkfifo(path)
    told = list[tuple[int, int]]()
    slow = itertools.count(0, 10)
    monkeypatch.setattr(time, "monotonic", lambda: next(slow))
    with (
        (tmp_path / "zip").open("wb") as file,
        archive_writer(file, ENDED_AT, lambda *so_far: told.append(so_far)) as archive,
    ):
        archive.add_folder(run)
    assert len(told) >= 2 * MANY, "while they are listed, and while they are looked at"


def test_an_archive_is_written_down_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "files" / RUN
    run.mkdir(parents=True)
    (run / "items").write_bytes(os.urandom(5 << 20))
    monkeypatch.setattr(folders, "FLUSH_BYTES", 1 << 20)
    flushed, fsync = list[int](), os.fsync

    def counted(descriptor: int) -> Any:
        flushed.append(os.fstat(descriptor).st_size)
        return fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    FolderExporter(tmp_path / "files", tmp_path / "exports").archive(RUN, 1, ENDED_AT, lambda *_: None)
    assert len(flushed) == 6
    assert flushed == sorted(flushed)


def test_thousands_of_files_a_second_are_no_thousands_of_heartbeats(rig: Rig) -> None:
    """A heartbeat costs more than a small file."""
    plan, beats = rig.begin(), list[object]()
    folder = rig.folder / "files" / plan.run.run_uid
    folder.mkdir(parents=True)
    for number in range(MANY):
        (folder / f"{number}").write_text("x")
    rig.environment.on_heartbeat = lambda *details: beats.append(details[0])
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    assert 2 <= len(beats) < MANY, "the first file, and the finished archive"
