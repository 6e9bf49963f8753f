"""Parts of an archive's zip: names of files, and a sink that hashes the zip's bytes.

Names in the archive are texts that every unzip program accepts, and that readers can turn back into the original bytes.
Three kinds of bytes become `%` and two hexadecimal digits: bytes outside UTF-8, control characters, and characters with
a meaning for folders, drives or wildcards on Windows. A percent sign before two such digits becomes `%25`.
"""

import hashlib
import os
import re
from typing import Protocol

# the archive's manifest explains how names are escaped
RULE = "a byte of a name that not every system takes is % and two hexadecimal digits; percent-decoding gives the name"
TO_ESCAPE = re.compile(rb'[\x00-\x1f\x7f\\\\:*?"<>|]|%(?=[0-9A-Fa-f]{2})')
# characters to which `surrogateescape` decodes bytes outside UTF-8, with their escapes
NOT_UTF8 = {0xDC00 + byte: f"%{byte:02X}" for byte in range(0x80, 0x100)}


def archived_name(path: str) -> str:
    """Return a file's name in the archive; `path` is relative, as the file system gives the path."""
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
