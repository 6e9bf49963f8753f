"""Names, ids and paths. A path names a member or group from the flow's top level: `fetch/users`."""

from typing import Annotated

from pydantic import AfterValidator, Field

from crawler_lifecycle.base.limits import DEEPEST, LONGEST_NAME
from crawler_lifecycle.errors import BadInput

SEPARATOR = "/"
ROOT = ""  # path for a flow's top level
LONGEST_PATH = (LONGEST_NAME + 1) * (DEEPEST + 1)


def printable(text: str) -> str:
    """Return the text. ValueError if the text is blank or contains unprintable characters."""
    if not text.strip() or not text.isprintable():
        raise ValueError("must be printable and not blank")
    return text


def checked_name(field: str, name: object) -> str:
    """Return the member's or group's name; raise BadInput if the name is no valid part for a path."""
    if not isinstance(name, str):
        raise BadInput(field, f"expected a text, not {type(name).__name__}")
    checked_text(field, name)
    if SEPARATOR in name:
        raise BadInput(field, f"must not contain {SEPARATOR!r}, which separates levels: {name!r}")
    return name


def checked_text(field: str, text: object) -> str:
    """Return the id or label; raise BadInput if the text is blank, too long or not printable."""
    if not isinstance(text, str):
        raise BadInput(field, f"expected a text, not {type(text).__name__}")
    if not text.strip() or not text.isprintable():
        raise BadInput(field, f"must be printable and not blank: {text[:LONGEST_NAME]!r}")
    if len(text) > LONGEST_NAME:
        raise BadInput(field, f"has {len(text)} characters, at most {LONGEST_NAME} are possible")
    return text


def joined(parent: str, name: str) -> str:
    return f"{parent}{SEPARATOR}{name}" if parent else name


def parent_path(path: str) -> str:
    return path.rpartition(SEPARATOR)[0]


def last_name(path: str) -> str:
    return path.rpartition(SEPARATOR)[2]


def depth(path: str) -> int:
    """Count the levels above the path's member or group, without the top level."""
    return path.count(SEPARATOR)


def _path(text: str) -> str:
    for name in text.split(SEPARATOR):
        checked_name("path", name)
    if depth(text) > DEEPEST:
        raise ValueError(f"sub-workflows are nested more than {DEEPEST} deep")
    return text


def _checked_path(text: str) -> str:
    try:
        return _path(text)
    except BadInput as error:
        raise ValueError(error.expected) from error


Label = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(printable)]
Path = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH), AfterValidator(_checked_path)]
