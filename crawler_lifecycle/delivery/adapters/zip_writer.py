"""Write zips to a sink that cannot seek back.

The standard library's `zipfile` keeps an object for every entry in memory, and spends most of the time of a small file
in Python. This writer keeps the entries' part of the zip's directory in a file. It compresses with ISA-L, ten times as
fast as zlib: the same bytes in the same chunks give the same zip, on the same kind of processor.

An entry whose content is in memory has its sizes in its header. The sizes of a streamed entry follow its content, in a
data descriptor. An entry, or a zip, too large for 32 bits is in the format zip64.
"""

import hashlib
import os
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, NamedTuple, Protocol

from isal import isal_zlib

# the archive's manifest explains how names are escaped
RULE = "a byte of a name that not every system takes is % and two hexadecimal digits; percent-decoding gives the name"
TO_ESCAPE = re.compile(rb'[\x00-\x1f\x7f\\\\:*?"<>|]|%(?=[0-9A-Fa-f]{2})')
# characters to which `surrogateescape` decodes bytes outside UTF-8, with their escapes
NOT_UTF8 = {0xDC00 + byte: f"%{byte:02X}" for byte in range(0x80, 0x100)}
LEVEL = 2  # of ISA-L's levels 0 to 3: level 1 is no faster and compresses text less, level 3 takes twice the time
RAW = -15  # window bits for deflate without a header of its own
STORED, DEFLATED = 0, 8  # methods of compression
BEGUN_AS_ZIP64 = 1 << 30  # bytes; a larger streamed entry is begun in the format zip64, with 64 bits for its sizes
FULL_16, FULL_32 = 0xFFFF, 0xFFFFFFFF  # in place of a number for which zip64 has a field of its own
PLAIN_VERSION, ZIP64_VERSION = 20, 45  # of the format; the least that a reader has to know
MADE_ON_UNIX = 3 << 8  # so that readers take the mode from the entry's attributes
NAME_IS_UTF8, SIZES_FOLLOW = 0x800, 0x8  # flags of an entry
COPIED = 1 << 20  # bytes of the directory copied at once
LOCAL = struct.Struct("<IHHHHHIIIHH")
DESCRIPTOR, DESCRIPTOR_64 = struct.Struct("<IIII"), struct.Struct("<IIQQ")
CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
END, END_64, LOCATOR_64 = struct.Struct("<IHHHHIIH"), struct.Struct("<IQHHIIQQQQ"), struct.Struct("<IIQI")
LOCAL_SIGNATURE, DESCRIPTOR_SIGNATURE, CENTRAL_SIGNATURE = 0x04034B50, 0x08074B50, 0x02014B50
END_SIGNATURE, END_64_SIGNATURE, LOCATOR_64_SIGNATURE = 0x06054B50, 0x06064B50, 0x07064B50
ZIP64_FIELD = 1  # id of zip64's extra field
END_64_REST = END_64.size - 12  # the record's size, without its signature and this number
ZipTime = tuple[int, int, int, int, int, int]  # year, month, day, hour, minute, second


def archived_name(path: str) -> str:
    """Return a file's name in the archive; `path` is relative, as the file system gives the path.

    Every unzip program accepts such a name, and readers can turn the name back into the original bytes. Three kinds of
    bytes become `%` and two hexadecimal digits: bytes outside UTF-8, control characters, and characters with a meaning
    for folders, drives or wildcards on Windows. A percent sign before two such digits becomes `%25`.
    """
    escaped = TO_ESCAPE.sub(lambda match: b"%%%02X" % match[0][0], os.fsencode(path))
    return escaped.decode("utf-8", "surrogateescape").translate(NOT_UTF8)


class Sink(Protocol):
    """A target written from beginning to end; seeking back is not needed."""

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


class Measured:
    """Sink that passes bytes on to another sink, and counts and hashes the bytes.

    The sink cannot seek back, so a hashed byte never changes.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes, /) -> int:
        self._digest.update(data)
        self.size += len(data)
        return self._sink.write(data)

    def flush(self) -> None:
        self._sink.flush()

    def sha256(self) -> str:
        return self._digest.hexdigest()


class Entry(NamedTuple):
    """A file in the zip. `attributes` is the file's kind and mode, as in `st_mode`."""

    name: bytes  # UTF-8
    at: ZipTime
    attributes: int


@dataclass(frozen=True, slots=True)
class _Content:
    """Form and size of an entry's content."""

    method: int
    flags: int
    crc: int
    compressed: int  # bytes
    size: int  # bytes before compression


class ZipWriter:
    """The writer adds entries one after the other; `close` writes the zip's directory.

    `directory` is an empty file for the directory's entries, which has to stay open until then.
    """

    def __init__(self, sink: Sink, directory: IO[bytes]) -> None:
        self._sink = sink
        self._directory = directory
        self._written = 0  # bytes of the zip
        self._entries = 0

    def add(self, entry: Entry, content: bytes) -> None:
        """Add an entry whose content is in memory. Store the content if compression does not make it smaller."""
        method, data = DEFLATED, isal_zlib.compress(content, LEVEL, RAW)
        if len(data) >= len(content):
            method, data = STORED, content
        added = _Content(method, NAME_IS_UTF8, isal_zlib.crc32(content), len(data), len(content))
        offset = self._written
        header = _local_header(entry, added, added.compressed, added.size, PLAIN_VERSION, b"")
        self._write(b"".join((header, data)))
        self._add_to_directory(entry, added, offset)

    def add_stream(self, entry: Entry, chunks: Iterable[bytes | memoryview], largest: int) -> None:
        """Add an entry whose content comes in chunks, together no larger than `largest`."""
        offset, is_large = self._written, largest > BEGUN_AS_ZIP64
        self._write(_header_of_stream(entry, is_large=is_large))
        begun = self._written
        crc = size = 0
        compressor = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, RAW)
        for chunk in chunks:
            crc = isal_zlib.crc32(chunk, crc)
            size += len(chunk)
            self._write(compressor.compress(chunk))
        self._write(compressor.flush())
        added = _Content(DEFLATED, NAME_IS_UTF8 | SIZES_FOLLOW, crc, self._written - begun, size)
        descriptor = DESCRIPTOR_64 if is_large else DESCRIPTOR
        self._write(descriptor.pack(DESCRIPTOR_SIGNATURE, crc, added.compressed, size))
        self._add_to_directory(entry, added, offset)

    def close(self) -> None:
        begin = self._written
        self._directory.seek(0)
        while part := self._directory.read(COPIED):
            self._write(part)
        self._write(_end(self._entries, begin, self._written))
        self._sink.flush()

    def _write(self, data: bytes) -> None:
        if data:
            self._sink.write(data)
            self._written += len(data)

    def _add_to_directory(self, entry: Entry, content: _Content, offset: int) -> None:
        large = [number for number in (content.size, content.compressed, offset) if number >= FULL_32]
        extra = struct.pack(f"<HH{len(large)}Q", ZIP64_FIELD, 8 * len(large), *large) if large else b""
        version = ZIP64_VERSION if extra or content.size > BEGUN_AS_ZIP64 else PLAIN_VERSION
        record = CENTRAL.pack(
            CENTRAL_SIGNATURE,
            MADE_ON_UNIX | version,
            version,
            content.flags,
            content.method,
            *_packed_time(entry.at),
            content.crc,
            min(content.compressed, FULL_32),
            min(content.size, FULL_32),
            len(entry.name),
            len(extra),
            0,  # bytes of comment
            0,  # number of the disk
            0,  # internal attributes
            entry.attributes << 16,
            min(offset, FULL_32),
        )
        self._directory.write(b"".join((record, entry.name, extra)))
        self._entries += 1


def _header_of_stream(entry: Entry, *, is_large: bool) -> bytes:
    """Return the header of an entry whose sizes follow its content."""
    unknown = _Content(DEFLATED, NAME_IS_UTF8 | SIZES_FOLLOW, 0, 0, 0)
    if not is_large:
        return _local_header(entry, unknown, 0, 0, PLAIN_VERSION, b"")
    return _local_header(entry, unknown, FULL_32, FULL_32, ZIP64_VERSION, struct.pack("<HHQQ", ZIP64_FIELD, 16, 0, 0))


def _local_header(entry: Entry, content: _Content, compressed: int, size: int, version: int, extra: bytes) -> bytes:
    name = entry.name
    header = LOCAL.pack(
        LOCAL_SIGNATURE,
        version,
        content.flags,
        content.method,
        *_packed_time(entry.at),
        content.crc,
        compressed,
        size,
        len(name),
        len(extra),
    )
    return b"".join((header, name, extra))


def _packed_time(at: ZipTime) -> tuple[int, int]:
    """Return time and date as a zip holds them: in steps of two seconds, from 1980 on."""
    year, month, day, hour, minute, second = at
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day


def _end(entries: int, begin: int, end: int) -> bytes:
    """Return the zip's last records, for a directory between these offsets."""
    size = end - begin
    records = [END.pack(END_SIGNATURE, 0, 0, *[min(entries, FULL_16)] * 2, min(size, FULL_32), min(begin, FULL_32), 0)]
    if entries >= FULL_16 or begin >= FULL_32 or size >= FULL_32:
        large = END_64.pack(
            END_64_SIGNATURE, END_64_REST, ZIP64_VERSION, ZIP64_VERSION, 0, 0, entries, entries, size, begin
        )
        records = [large, LOCATOR_64.pack(LOCATOR_64_SIGNATURE, 0, end, 1), *records]
    return b"".join(records)
