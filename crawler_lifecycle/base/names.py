"""Names, ids and paths, and suggestions for misspelt names.

A path such as `fetch/users` names a member or group from the flow's top level.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Annotated

from pydantic import AfterValidator, Field

from crawler_lifecycle.base.limits import DEEPEST, LONGEST_NAME
from crawler_lifecycle.errors import BadInput

SEPARATOR = "/"
ROOT = ""  # path for a flow's top level
LONGEST_PATH = (LONGEST_NAME + 1) * (DEEPEST + 1)
MOST_COMPARED = 20_000  # names; a comparison takes some microseconds
WHOLE_PATH = 0.8  # ratio for whole paths, which often begin alike


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


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return for example `; did you mean 'fetch'?`, to append to a message; an empty text without a near name."""
    near = near_name(name, names)
    return "" if near is None else f"; did you mean {near!r}?"


def near_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar name.

    A path is compared with the paths on its level, then with the same name on other levels, then as a whole.
    """
    known = list(dict.fromkeys(islice(names, MOST_COMPARED)))
    beside = {last_name(other): other for other in known if parent_path(other) == parent_path(name)}
    elsewhere = [other for other in known if last_name(other) == last_name(name)]
    for similar in get_close_matches(last_name(name), beside, n=1):
        return beside[similar]
    return next(iter(elsewhere or get_close_matches(name, known, n=1, cutoff=WHOLE_PATH)), None)
