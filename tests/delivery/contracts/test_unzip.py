"""Other programs read an archive: each entry, the small ones and the large, and what only zip64 can say."""

import os
import stat
import tempfile
import zipfile
from pathlib import Path

import pytest

from crawler_lifecycle.delivery.adapters.archive import archive_writer
from crawler_lifecycle.delivery.adapters.zip_writer import Entry, ZipWriter
from tests.kit.outside.stores import ENDED_AT
from tests.kit.outside.unzips import PROGRAMS, content_of, verify

MIB = 1 << 20
MORE_THAN_32_BITS = (4 << 30) + 5
MORE_THAN_16_BITS = 0x10000 + 10
AT = (2026, 11, 23, 13, 30, 58)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "a" / "b").mkdir(parents=True)
    return tmp_path / "run"


def archived(run: Path) -> Path:
    target = run.parent / "archive.zip"
    with target.open("wb") as file, archive_writer(file, ENDED_AT, lambda *_: None) as archive:
        archive.add_folder(run)
    return target


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_reads_every_kind_of_entry(run: Path, program: str) -> None:
    (run / "größe 🕷").write_text("small")
    (run / os.fsdecode(b"caf\xe9")).write_text("escaped")
    (run / "empty").touch()
    (run / "a" / "noise").write_bytes(os.urandom(3 * MIB))
    (run / "a" / "b" / "text").write_text("text " * MIB)
    (run / "link").symlink_to("empty")
    archive = archived(run)
    verify(program, archive)
    assert content_of(program, archive, "files/empty") == ""
    assert content_of(program, archive, "files/caf%E9") == "escaped"
    assert content_of(program, archive, "files/a/b/text") == "text " * MIB
    assert '"name": "link", "reason": "link"' in content_of(program, archive, "manifest.json")


@pytest.mark.system
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_reads_more_files_than_a_plain_zip_has(run: Path, program: str) -> None:
    for number in range(MORE_THAN_16_BITS):
        (run / "a" / f"{number}").write_text(str(number))
    archive = archived(run)
    verify(program, archive)
    assert content_of(program, archive, f"files/a/{MORE_THAN_16_BITS - 1}") == str(MORE_THAN_16_BITS - 1)


@pytest.mark.system
@pytest.mark.timeout(240)
@pytest.mark.parametrize("program", [*PROGRAMS, "Python"])
def test_it_reads_a_file_that_is_larger_than_a_plain_zip_takes(run: Path, program: str) -> None:
    (run / "holes").touch()
    os.truncate(run / "holes", MORE_THAN_32_BITS)
    (run / "z").write_text("after it")
    archive = archived(run)
    with zipfile.ZipFile(archive) as opened:
        assert opened.getinfo("files/holes").file_size == MORE_THAN_32_BITS
        assert opened.read("files/z") == b"after it"
        if program == "Python":
            assert opened.testzip() is None
    if program != "Python":
        verify(program, archive)


class WithHoles:
    """A file in which large writes are holes: their entry is damaged, and all that follows is where it should be."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, data: bytes, /) -> int:
        if len(data) < MIB:
            return self._file.write(data)
        self._file.seek(len(data), os.SEEK_CUR)
        return len(data)

    def flush(self) -> None:
        self._file.flush()


@pytest.mark.system
@pytest.mark.timeout(240)
@pytest.mark.parametrize("program", [*PROGRAMS, "Python"])
def test_it_reads_an_entry_beyond_the_offsets_of_a_plain_zip(tmp_path: Path, program: str) -> None:
    """The first entry is noise, which no compression makes smaller."""
    archive, noise = tmp_path / "archive.zip", os.urandom(MIB)
    with tempfile.TemporaryFile() as directory:
        writer = ZipWriter(WithHoles(archive), directory)
        chunks = (noise for _ in range(MORE_THAN_32_BITS // MIB + 1))
        writer.add_stream(Entry(b"noise", AT, stat.S_IFREG | 0o644), chunks, MORE_THAN_32_BITS + MIB)
        writer.add(Entry(b"beyond", AT, stat.S_IFREG | 0o644), b"is there")
        writer.close()
    if program == "Python":
        with zipfile.ZipFile(archive) as opened:
            assert opened.getinfo("beyond").header_offset > MORE_THAN_32_BITS
            assert opened.read("beyond") == b"is there"
    else:
        assert content_of(program, archive, "beyond") == "is there"
