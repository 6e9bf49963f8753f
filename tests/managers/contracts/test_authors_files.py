"""The functions for authors' files: the same in a local folder and in a bucket."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle import files
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.files import FSHelper
from crawler_lifecycle.managers import BaseLoopScript
from crawler_lifecycle.managers.authors.arguments import command_line
from tests.kit.outside.stores import BUCKET, REGION, S3Store, client_of


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder for the test, local or in S3."""
    return str(tmp_path) if request.param == "folder" else str(request.getfixturevalue("bucket"))


@pytest.fixture
def bucket(moto: str, credentials: None, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    monkeypatch.setenv("AWS_REGION", REGION)
    return f"s3://{BUCKET}/{S3Store(moto, os.urandom(8).hex()).prefix}"


@pytest.fixture
def helper() -> FSHelper:
    return FSHelper()


@pytest.fixture
def filled(helper: FSHelper, place: str) -> str:
    for name in ("inputs/b.csv", "inputs/a.csv", "inputs/below/c.csv", "other.txt"):
        with helper_open(helper, place, name) as file:
            file.write(f"of {name}")
    return place


def helper_open(helper: FSHelper, place: str, name: str) -> Any:
    if not place.startswith("s3://"):
        (Path(place) / name).parent.mkdir(parents=True, exist_ok=True)
    return helper.get_file(f"{place}/{name}", "w")


def test_lists(helper: FSHelper, filled: str) -> None:
    inputs = f"{filled}/inputs"
    direct = [f"{inputs}/a.csv", f"{inputs}/b.csv", f"{inputs}/below"]
    assert helper.list_folder(inputs) == helper.list_folder(f"{inputs}/") == direct
    assert helper.list_folder(f"{filled}/absent") == []
    assert list(helper.list_folder_files_recursive(inputs)) == [*direct[:2], f"{inputs}/below/c.csv"]
    by_time = [name for name in helper.list_folder_in_ts_order(inputs) if name.endswith(".csv")]
    assert by_time == (
        _by_seconds(direct[:2]) if filled.startswith("s3://") else [f"{inputs}/b.csv", f"{inputs}/a.csv"]
    )
    assert helper.get_glob(f"{inputs}/*.csv") == direct[:2]
    assert helper.get_glob(f"{filled}/*/below/?.csv") == [f"{inputs}/below/c.csv"]
    assert set(helper.list_path(inputs)) >= set(direct[:2])


def _by_seconds(names: list[str]) -> list[str]:
    """Return the names by their times in S3, which are whole seconds."""
    store = client_of("s3", os.environ["AWS_ENDPOINT_URL_S3"])

    def written_at(name: str) -> Any:
        return store.head_object(Bucket=BUCKET, Key=name.removeprefix(f"s3://{BUCKET}/"))["LastModified"]

    return sorted(names, key=lambda name: (written_at(name), name))


def test_files_are_copied_moved_and_removed(helper: FSHelper, filled: str, tmp_path: Path) -> None:
    helper.cp_file(f"{filled}/other.txt", f"{filled}/copies/")
    helper.mv_file(f"{filled}/other.txt", f"{filled}/moved.txt")
    assert [helper.exists(f"{filled}/{name}") for name in ("copies/other.txt", "moved.txt", "other.txt")] == [
        True, True, False,
    ]  # fmt: skip
    assert helper.exists(f"{filled}/copies")
    with helper.get_file(f"{filled}/moved.txt") as file:
        assert file.read() == "of other.txt"
    with helper.get_file(f"{filled}/moved.txt", "rb") as file:
        assert file.read() == b"of other.txt"
    helper.rm_file(f"{filled}/moved.txt")
    assert not helper.exists(f"{filled}/moved.txt")
    helper.touch(f"{filled}/new/empty")
    with pytest.raises(ValueError, match="exists"):
        helper.touch(f"{filled}/new/empty")
    assert helper.empty_folder(f"{filled}/inputs") == [f"{filled}/inputs/a.csv", f"{filled}/inputs/b.csv"]
    assert list(helper.list_folder_files_recursive(f"{filled}/inputs")) == [f"{filled}/inputs/below/c.csv"]
    helper.cp_file(f"{filled}/new/empty", str(tmp_path / "here" / "empty"))
    assert (tmp_path / "here" / "empty").read_bytes() == b""


def test_many_objects_are_removed_by_few_requests(
    helper: FSHelper, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "DELETED_AT_ONCE", 2)
    names = [f"{bucket}/inputs/{letter}" for letter in "abcde"]
    for name in names:
        helper.touch(name)
    requests: list[str] = []
    helper._s3.meta.events.register("before-call.s3", lambda model, **_: requests.append(model.name))
    assert helper.empty_folder(f"{bucket}/inputs") == names
    assert requests == ["ListObjectsV2", *["DeleteObjects"] * 3]
    assert helper.list_folder(f"{bucket}/inputs") == []


def test_an_object_that_s3_does_not_remove_is_an_error(
    helper: FSHelper, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper.touch(f"{bucket}/inputs/kept")
    key = f"{bucket}/inputs/kept".removeprefix(f"s3://{BUCKET}/")
    refused = {"Errors": [{"Key": key, "Code": "AccessDenied", "Message": "Access Denied"}]}
    monkeypatch.setattr(helper._s3, "delete_objects", lambda **_: refused)
    with pytest.raises(OSError, match="kept is not removed: Access Denied"):
        helper.empty_folder(f"{bucket}/inputs")


def test_uploads_and_downloads(helper: FSHelper, bucket: str, tmp_path: Path) -> None:
    local, back = tmp_path / "local.bin", tmp_path / "back.bin"
    local.write_bytes(b"\x00content")
    helper.upload_file(str(local), f"{bucket}/up/")
    helper.upload_file_obj(io.BytesIO(b"more"), f"{bucket}/up/object")
    assert helper.s3_folder_size(f"{bucket}/up") == 12
    helper.download_file(f"{bucket}/up/local.bin", str(back))
    assert back.read_bytes() == local.read_bytes()
    with helper.get_file(f"{bucket}/written", "wb") as file:
        file.write(b"\x01\x02")
    with helper.get_file(f"{bucket}/written", "rb") as file:
        assert file.read() == b"\x01\x02"
    with pytest.raises(ValueError, match="no path in S3"):
        helper.upload_file(str(local), str(back))


def test_an_object_whose_block_fails_is_not_uploaded(helper: FSHelper, bucket: str) -> None:
    with pytest.raises(ZeroDivisionError), helper.get_file(f"{bucket}/half", "w") as file:
        file.write(f"half {1 / 0}")
    assert not helper.exists(f"{bucket}/half")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: files.list_folder("gs://bucket/a"), "only local paths and s3://BUCKET/KEY"),
        (lambda: files.list_folder("s3://"), "names no bucket"),
        (lambda: files.get_file("s3://bucket/key", "a"), "not opened as 'a'"),
    ],
)
def test_other_paths_and_modes_are_refused(act: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        act()


def test_a_script_has_the_functions_and_makes_them_once() -> None:
    class Script(BaseLoopScript):
        name = "script"
        helpers = 0

        def init_fshelper(self) -> FSHelper:
            Script.helpers += 1
            return FSHelper(aws_key="key", aws_secret="secret")

    with command_line(()):
        script, plain = Script(), BaseLoopScript()
    assert script.fshelper is script.fshelper
    assert (Script.helpers, type(plain.fshelper)) == (1, FSHelper)
    assert files.list_folder("/") == sorted(f"/{name}" for name in os.listdir("/"))  # noqa: PTH208
    assert files.list_folder(" ") == files.list_folder("") == [], "`empty_folder` would empty the root"
    assert plain.fshelper.list_folder(str(Path(__file__).parent / "absent")) == files.list_folder("absent") == []
