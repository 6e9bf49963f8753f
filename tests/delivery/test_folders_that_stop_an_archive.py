"""One folder of somebody else, one that was very deep, a name too long or a time too far off: no run like that was ever
archived, and its export stayed pending."""

import errno
import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.delivery.adapters.archive import DEEPEST, FIRST_ZIP_TIME, _zip_time, archive_writer
from crawler_lifecycle.model.run_plan import ExportedEnd
from crawler_lifecycle.model.states import ExportState
from tests.kit.outside.stores import ENDED_AT
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A closed or very deep folder, a name too long or a strange time kept a run from being archived"
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "run"
    (folder / "z").mkdir(parents=True)
    (folder / "z" / "last").write_text("is there")
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)  # shutil cannot go that deep


def nest(folder: Path, name: str, levels: int) -> None:
    """By steps: a path that long cannot be opened."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        deeper = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


def archived(folder: Path, target: Path) -> tuple[set[str], dict[str, str]]:
    """Names of the files in it, and what was left out for which reason."""
    with target.open("wb") as file, archive_writer(file, ENDED_AT, lambda *_: None) as archive:
        archive.add_folder(folder)
    with zipfile.ZipFile(target) as made:
        manifest = json.loads(made.read("manifest.json"))
        names = {name for name in made.namelist() if name.startswith("files/")}
    return names, {item["name"]: item["reason"] for item in manifest["skipped"]}


def test_a_folder_that_is_somebody_elses(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root nothing is refused, so the calls are."""
    (folder / "a" / "theirs" / "deep").mkdir(parents=True)
    (folder / "a" / "unseen").mkdir()
    before_open, before_stat = os.open, os.stat

    def refusing(call: Any, names: tuple[str, ...]) -> Any:
        def refuse(path: Any, *more: Any, **named: Any) -> Any:
            if path in names:
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return call(path, *more, **named)

        return refuse

    monkeypatch.setattr(os, "open", refusing(before_open, ("theirs", "unseen")))
    monkeypatch.setattr(os, "stat", refusing(before_stat, ("unseen",)))
    names, left_out = archived(folder, tmp_path / "zip")
    assert names == {"files/z/last"}
    assert left_out == {"a/theirs": "not readable", "a/unseen": "not readable"}


def test_folders_in_folders(folder: Path, tmp_path: Path) -> None:
    nest(folder, "d", 1100)
    names, left_out = archived(folder, tmp_path / "zip")
    assert names == {"files/z/last"}
    assert left_out == {"/".join(["d"] * (DEEPEST + 1)): "too deep"}


def test_a_path_that_no_zip_can_name(folder: Path, tmp_path: Path) -> None:
    nest(folder, "n" * 250, 280)
    names, left_out = archived(folder, tmp_path / "zip")
    assert names == {"files/z/last"}
    assert left_out == {"/".join(["n" * 250] * 280 + ["bottom"]): "the name is too long for a zip"}


@pytest.mark.parametrize("seconds", [2.0**38, -(2.0**38), 1e300])
def test_a_time_that_no_date_can_be(seconds: float) -> None:
    """Not every file system keeps such a time."""
    assert _zip_time(seconds) == FIRST_ZIP_TIME


def test_an_export_that_failed_unexpectedly_is_on_record(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = rig.started("sleepy")

    def broken(*_: object, **__: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(type(rig.exports.archiver), "archive", broken)
    with pytest.raises(RecursionError):
        rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    (failed,) = rig.details(plan).exports
    assert (failed.state, failed.problem) == (ExportState.FAILED, "unexpected: RecursionError: too deep")
    assert any(record.exc_info for record in caplog.records)
