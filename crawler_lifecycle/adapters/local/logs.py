"""What did a job print: from a byte on, or its last lines?

What is not a regular file is no log: jobs can write where their logs lie.
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


def read_from(log: Path, offset: int, *, ended: bool) -> LogChunk:
    """Whole characters only, unless the job has ended: then what is broken is shown as such."""
    try:
        with _open(log) as file:
            size = file.seek(0, 2)
            start = max(0, size + offset) if offset < 0 else min(offset, size)
            file.seek(start)
            content = file.read(CHUNK)
    except NO_LOG:
        return LogChunk("", max(offset, 0), ended)
    if offset < 0:
        cut = _length_of_cut_character(content)
        start, content = start + cut, content[cut:]
    at_end = start + len(content) >= size
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(content, final=ended and at_end)
    pending = len(decoder.getstate()[0])
    return LogChunk(text, start + len(content) - pending, ended and at_end)


def _length_of_cut_character(content: bytes) -> int:
    """How many bytes at the beginning are the rest of a UTF-8 character."""
    rest = len(content) - len(content.lstrip(bytes(range(0x80, 0xC0))))
    return rest if rest < 4 else 0


def _open(log: Path) -> IO[bytes]:
    return os.fdopen(open_regular(log), "rb")


def tail(log: Path) -> str:
    try:
        with _open(log) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            content = file.read(TAIL_BYTES)
    except NO_LOG:
        return ""
    lines = content.decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    # characters that could not be read take more room than they did
    return "\n".join(lines).encode()[-TAIL_BYTES:].decode("utf-8", errors="ignore")
