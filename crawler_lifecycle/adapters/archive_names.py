"""Names of files as an archive has them: text that every unzip program takes, and from which the bytes come back.

A byte that is no UTF-8, a control character, and what separates folders, names a drive or is a wildcard on Windows
becomes `%` and two hexadecimal digits. A percent sign that two such digits follow becomes `%25`.
"""

import os
import re

RULE = "a byte of a name that not every system takes is % and two hexadecimal digits; percent-decoding gives the name"
TO_ESCAPE = re.compile(rb'[\x00-\x1f\x7f\\\\:*?"<>|]|%(?=[0-9A-Fa-f]{2})')


def archived_name(path: str) -> str:
    """Return the name of a file in the archive; `path` is relative, as the file system gives it."""
    escaped = TO_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], os.fsencode(path))
    return escaped.decode("utf-8", "surrogateescape").translate(NO_TEXT)


NO_TEXT = {0xDC00 + byte: f"%{byte:02X}" for byte in range(0x80, 0x100)}
