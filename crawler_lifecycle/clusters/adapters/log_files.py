"""Read logs of jobs among their run's files: from an offset on, or the last lines.

Jobs may put anything into the folder with logs, so only a regular file counts as a log.
"""

import codecs
import os
from pathlib import Path
from typing import IO

from crawler_lifecycle.clusters.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.clusters.ports import LogChunk

CHUNK = 64 * 1024  # bytes read at once
TAIL_BYTES = 4000  # bytes of evidence from a log, at most
TAIL_LINES = 20
NO_LOG = (FileNotFoundError, NotADirectoryError, NotRegular)  # errors of a job without a log


def log_name(task: int, attempt: int) -> str:
    """Return the path for a task's log within the run's folder."""
    return f"logs/{task}-{attempt}.log"


def read_from(log: Path, offset: int, *, ended: bool) -> LogChunk:
    """Read as `chunk_of`; without a log, return an empty chunk."""
    try:
        with _open(log) as file:
            return chunk_of(file, offset, ended=ended)
    except NO_LOG:
        return LogChunk("", max(offset, 0), ended)


def chunk_of(file: IO[bytes], offset: int, *, ended: bool) -> LogChunk:
    """Return at most CHUNK bytes from `offset` on, as text; a negative offset counts from the end.

    `ended` says whether the job has ended. Until then an incomplete last character waits for the next call, and
    afterwards becomes a replacement character.
    """
    size = file.seek(0, 2)
    start = max(0, size + offset) if offset < 0 else min(offset, size)
    file.seek(start)
    content = file.read(CHUNK)
    if offset < 0:
        cut = _length_of_cut_character(content)
        start, content = start + cut, content[cut:]
    is_last_chunk = ended and start + len(content) >= size
    text, decoded_bytes = characters(content, final=is_last_chunk)
    return LogChunk(text, start + decoded_bytes, is_last_chunk)


def characters(content: bytes, *, final: bool) -> tuple[str, int]:
    """Return the text, and the number of bytes decoded.

    An incomplete last character is left out; if `final`, a replacement character represents its bytes.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(content, final=final)
    return text, len(content) - len(decoder.getstate()[0])


def _length_of_cut_character(content: bytes) -> int:
    """Return how many bytes at the beginning continue a UTF-8 character; 0 if there are too many for a character."""
    continuation_bytes = bytes(range(0x80, 0xC0))
    length = len(content) - len(content.lstrip(continuation_bytes))
    return length if length < 4 else 0


def _open(log: Path) -> IO[bytes]:
    return os.fdopen(open_regular(log), "rb")


def tail(log: Path) -> str:
    """Return the log's last lines; an empty text without a log."""
    try:
        with _open(log) as file:
            return tail_of(file)
    except NO_LOG:
        return ""


def tail_of(file: IO[bytes]) -> str:
    """Return the file's last TAIL_LINES lines, or as many of them as TAIL_BYTES can hold."""
    size = file.seek(0, 2)
    file.seek(max(0, size - TAIL_BYTES))
    content = file.read(TAIL_BYTES)
    lines = content.decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    # cut once more: replacement characters take more bytes than the unreadable bytes
    return "\n".join(lines).encode()[-TAIL_BYTES:].decode("utf-8", errors="ignore")
