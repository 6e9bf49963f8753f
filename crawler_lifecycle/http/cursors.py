"""Cursors of list pages. A cursor says where the next page begins, and is valid for one list with its filters only."""

import base64
import hashlib
import re

from crawler_lifecycle.errors import BadInput

DIGEST_LENGTH = 12  # hexadecimal digits


def make_cursor(place: int | str, list_name: str) -> str:
    """Return the cursor for a place in a list. The list's name contains its installation and filters."""
    plain = f"{place}.{_digest(place, list_name)}"
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def read_cursor(cursor: str, list_name: str) -> int:
    """Return the place. BadInput: the cursor belongs to another list, or was never issued."""
    place = read_place(cursor, list_name)
    if not re.fullmatch(r"\d{1,18}", place):
        raise _foreign()
    return int(place)


def read_place(cursor: str, list_name: str) -> str:
    """Return the place in a list whose places are texts, such as uids. BadInput as for `read_cursor`."""
    match = re.fullmatch(rf"([0-9a-f-]{{1,64}})\.([0-9a-f]{{{DIGEST_LENGTH}}})", _decode(cursor))
    if not match or _digest(match[1], list_name) != match[2]:
        raise _foreign()
    return match[1]


def _foreign() -> BadInput:
    return BadInput("cursor", "expected the `next` of the page before, asked for with the same filters")


def _digest(place: int | str, list_name: str) -> str:
    return hashlib.sha256(f"{place}:{list_name}".encode()).hexdigest()[:DIGEST_LENGTH]


def _decode(cursor: str) -> str:
    """Return the cursor's text, or "" for a cursor without ASCII text in base64."""
    padding = "=" * (-len(cursor) % 4)  # `make_cursor` removes the padding
    try:
        return base64.urlsafe_b64decode(cursor + padding).decode("ascii")
    except ValueError:
        return ""
