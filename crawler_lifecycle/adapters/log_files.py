"""Read logs of jobs among their run's files: from an offset on, or the last lines.

Only a regular file is a log, since jobs may write into the folder with logs.
"""

import codecs
import os
from pathlib import Path
from typing import IO

from crawler_lifecycle.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.ports import LogChunk

CHUNK = 64 * 1024
TAIL_BYTES = 4000
TAIL_LINES = 20
NO_LOG = (FileNotFoundError, NotADirectoryError, NotRegular)


def log_name(task: int, attempt: int) -> str:
    """Return the path for a task's log within the run's folder."""
    return f"logs/{task}-{attempt}.log"


def read_from(log: Path, offset: int, *, ended: bool) -> LogChunk:
    try:
        with _open(log) as file:
            return chunk_of(file, offset, ended=ended)
    except NO_LOG:
        return LogChunk("", max(offset, 0), ended)


def chunk_of(file: IO[bytes], offset: int, *, ended: bool) -> LogChunk:
    """Return at most CHUNK bytes from `offset` on, as text; a negative offset counts from the end.

    While the job runs, an incomplete last character stays for the next call. After the end, a replacement shows it.
    """
    size = file.seek(0, 2)
    start = max(0, size + offset) if offset < 0 else min(offset, size)
    file.seek(start)
    content = file.read(CHUNK)
    if offset < 0:
        cut = _length_of_cut_character(content)
        start, content = start + cut, content[cut:]
    at_end = start + len(content) >= size
    text, taken = characters(content, final=ended and at_end)
    return LogChunk(text, start + taken, ended and at_end)


def characters(content: bytes, *, final: bool) -> tuple[str, int]:
    """Return the text and its length in bytes. An incomplete last character waits for the next call unless
    `final`."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(content, final=final)
    return text, len(content) - len(decoder.getstate()[0])


def _length_of_cut_character(content: bytes) -> int:
    """Return how many bytes at the beginning belong to a cut UTF-8 character."""
    rest = len(content) - len(content.lstrip(bytes(range(0x80, 0xC0))))
    return rest if rest < 4 else 0


def _open(log: Path) -> IO[bytes]:
    return os.fdopen(open_regular(log), "rb")


def tail(log: Path) -> str:
    try:
        with _open(log) as file:
            return tail_of(file)
    except NO_LOG:
        return ""


def tail_of(file: IO[bytes]) -> str:
    size = file.seek(0, 2)
    file.seek(max(0, size - TAIL_BYTES))
    content = file.read(TAIL_BYTES)
    lines = content.decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    # replacement characters take more bytes than the unreadable bytes did
    return "\n".join(lines).encode()[-TAIL_BYTES:].decode("utf-8", errors="ignore")
