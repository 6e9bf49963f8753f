"""A zip of our own writing, read by Python's `zipfile`: other programs read one in contracts/test_unzip.py."""

import io
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterable

import pytest

from crawler_lifecycle.delivery.adapters.zip_writer import BEGUN_AS_ZIP64, Entry, ZipWriter

AT = (2026, 11, 23, 13, 30, 58)
Content = bytes | tuple[Iterable[bytes], int]  # in memory, or chunks and what they may come to


def zipped(*contents: tuple[str, Content]) -> bytes:
    sink = io.BytesIO()
    with tempfile.TemporaryFile() as directory:
        writer = ZipWriter(sink, directory)
        for name, content in contents:
            entry = Entry(name.encode(), AT, stat.S_IFREG | 0o640)
            if isinstance(content, bytes):
                writer.add(entry, content)
            else:
                writer.add_stream(entry, *content)
        writer.close()
    return sink.getvalue()


def opened(content: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.testzip() is None
    return archive


@pytest.mark.parametrize("content", [b"", b"x", b"text " * 1000, os.urandom(100_000)])
@pytest.mark.parametrize("way", ["in memory", "in chunks", "as zip64"])
def test_a_content_comes_back(content: bytes, way: str) -> None:
    chunks = [content[first : first + 1000] for first in range(0, len(content), 1000)]
    most = BEGUN_AS_ZIP64 + 1 if way == "as zip64" else len(content)
    archive = opened(zipped(("größe/a", content if way == "in memory" else (chunks, most)), ("b", b"after")))
    assert {name: archive.read(name) for name in archive.namelist()} == {"größe/a": content, "b": b"after"}
    entry = archive.getinfo("größe/a")
    assert (entry.date_time, entry.external_attr >> 16, entry.file_size) == (AT, stat.S_IFREG | 0o640, len(content))


def test_what_compression_makes_no_smaller_is_stored() -> None:
    archive = opened(zipped(("noise", os.urandom(1000)), ("text", b"a" * 1000), ("empty", b"")))
    methods = {entry.filename: entry.compress_type for entry in archive.infolist()}
    assert methods == {"noise": zipfile.ZIP_STORED, "text": zipfile.ZIP_DEFLATED, "empty": zipfile.ZIP_STORED}
    assert archive.getinfo("text").compress_size < 100


def test_no_entry_is_a_zip_too() -> None:
    assert opened(zipped()).namelist() == []


@pytest.mark.system
@pytest.mark.parametrize("count", [0xFFFE, 0xFFFF, 0x10001])
def test_there_may_be_more_entries_than_a_plain_zip_has(count: int) -> None:
    content = zipped(*((f"{number}", b"") for number in range(count)))
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.namelist() == [f"{number}" for number in range(count)]
    assert archive.read(f"{count - 1}") == b""
    assert (b"PK\x06\x06" in content) is (count >= 0xFFFF)
