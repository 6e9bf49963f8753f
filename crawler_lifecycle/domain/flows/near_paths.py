"""Near paths: suggestions for misspelt paths."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from crawler_lifecycle.contract.flows.names import last_name, parent_path

MOST_COMPARED = 20_000  # paths; a comparison takes some microseconds
WHOLE_PATH = 0.8  # ratio for whole paths, which often begin alike


def did_you_mean(path: str, paths: Iterable[str]) -> str:
    """Return for example `; did you mean 'fetch'?`, to append to a message; an empty text without a near path."""
    near = near_path(path, paths)
    return "" if near is None else f"; did you mean {near!r}?"


def near_path(path: str, paths: Iterable[str]) -> str | None:
    """Return a path with a similar name on the same level, with the same name on another level, or a similar path."""
    known = list(dict.fromkeys(islice(paths, MOST_COMPARED)))
    beside = {last_name(other): other for other in known if parent_path(other) == parent_path(path)}
    elsewhere = [other for other in known if last_name(other) == last_name(path)]
    for similar in get_close_matches(last_name(path), beside, n=1):
        return beside[similar]
    return next(iter(elsewhere or get_close_matches(path, known, n=1, cutoff=WHOLE_PATH)), None)
