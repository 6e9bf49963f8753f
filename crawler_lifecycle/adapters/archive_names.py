"""Names of files in an archive: text that every unzip program accepts, and that gives back the original bytes.

These bytes become `%` and two hexadecimal digits: bytes outside UTF-8, control characters, and characters with a
meaning for folders, drives or wildcards on Windows. A percent sign before two such digits becomes `%25`.
"""

import os
import re

RULE = "a byte of a name that not every system takes is % and two hexadecimal digits; percent-decoding gives the name"
TO_ESCAPE = re.compile(rb'[\x00-\x1f\x7f\\\\:*?"<>|]|%(?=[0-9A-Fa-f]{2})')


def archived_name(path: str) -> str:
    """Return a file's name in the archive; `path` is relative, as the file system gives the path."""
    escaped = TO_ESCAPE.sub(lambda match: b"%%%02X" % match[0][0], os.fsencode(path))
    return escaped.decode("utf-8", "surrogateescape").translate(NO_TEXT)


NO_TEXT = {0xDC00 + byte: f"%{byte:02X}" for byte in range(0x80, 0x100)}
