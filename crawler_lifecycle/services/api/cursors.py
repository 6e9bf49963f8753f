"""Cursors of list pages. A cursor says where the next page begins, and is valid only for the same list and filters."""

import base64
import hashlib
import re

from crawler_lifecycle.errors import BadInput

DIGEST = 12


def cursor_to(place: int, about: str) -> str:
    """Return the cursor for the place. `about` names the list: its installation and filters."""
    plain = f"{place}.{_digest(place, about)}"
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def place_in(cursor: str, about: str) -> int:
    """Return the place. BadInput: the cursor belongs to another installation, list or filter, or was never issued."""
    match = re.fullmatch(rf"(\d{{1,18}})\.([0-9a-f]{{{DIGEST}}})", _decoded(cursor))
    if not match or _digest(int(match[1]), about) != match[2]:
        raise BadInput("cursor", "expected the `next` of the page before, asked for with the same filters")
    return int(match[1])


def _decoded(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        return ""


def _digest(place: int, about: str) -> str:
    return hashlib.sha256(f"{place}:{about}".encode()).hexdigest()[:DIGEST]
