"""Near names: suggestions for misspelt names and paths."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from crawler_lifecycle.base.names import last_name, parent_path

MOST_COMPARED = 20_000  # names; a comparison takes some microseconds
WHOLE_PATH = 0.8  # ratio for whole paths, which often begin alike


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
