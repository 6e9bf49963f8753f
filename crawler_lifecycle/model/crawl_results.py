"""Read the results that crawls write, and add up their stats.

A crawl writes its result to the file that CRAWL_RESULT names. On Kubernetes the file is the container's termination
message. There the cluster puts log text after a failure without a message, so a text may also be no result at all.
"""

import json
import re
from collections.abc import Iterable

from pydantic import ValidationError

from crawler_lifecycle.base.refusals import expectation
from crawler_lifecycle.model.crawl_result import (
    LARGEST_FILE,
    LONGEST_NAME,
    VERSION_FIELD,
    CrawlResult,
    CrawlResultFile,
    Number,
    Stats,
)

LARGEST_SUMS = 3_000  # bytes as JSON: notices and events carry the sums
MOST_NAMES = 500  # different names in 10,000 tasks would fill the memory
FIRST_STATS = ("items", "pages", "bytes", "errors")  # the sums that lists show; the last to be left out
PROBLEM = "CRAWL_RESULT not used: {}"
LONGEST_PROBLEM = 300
BEGINNING = re.compile(rf'\s*\{{\s*"{VERSION_FIELD}"\s*:')


def read_result(text: str) -> tuple[CrawlResult | None, str | None]:
    """Return the result in the text and the problem. Both are None for an empty text."""
    if not text.strip():
        return None, None
    size = len(text.encode(errors="replace"))
    if size > LARGEST_FILE:
        return None, PROBLEM.format(too_long(size))
    try:
        return CrawlResultFile.model_validate_json(text).account, None
    except ValidationError as error:
        return None, PROBLEM.format(_first_mistake(error))


def too_long(size: int) -> str:
    return f"it has {size} bytes, and {LARGEST_FILE} are allowed"


def is_meant_as_result(text: str) -> bool:
    """Return whether the text is a result, broken or not, and no message for people.

    A result that the cluster has cut off is recognized if the version is its first field.
    """
    if BEGINNING.match(text):
        return True
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and VERSION_FIELD in content


def summed(results: Iterable[CrawlResult]) -> Stats:
    """Return the sums of the numbers by name. Names beyond MOST_NAMES, and sums beyond LARGEST_SUMS, are left out."""
    sums: Stats = {}
    for result in results:
        for name, value in result.stats.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if name in sums or name in FIRST_STATS or len(sums) < MOST_NAMES:
                sums[name] = _rounded(sums.get(name, 0) + value)
    return _within_limit(sums)


def _rounded(number: Number) -> Number:
    """Round a fraction, since sums such as 0.1 + 0.2 have many wrong digits."""
    return float(f"{number:.12g}") if isinstance(number, float) else number


def _within_limit(sums: Stats) -> Stats:
    kept: dict[str, Number] = {}
    size = 2  # the braces
    for name in sorted(sums, key=lambda name: (name not in FIRST_STATS, name)):
        size += len(json.dumps({name: sums[name]}))
        if size <= LARGEST_SUMS:
            kept[name] = sums[name]
    return kept


def _first_mistake(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(part if str(part).isprintable() else repr(part) for part in map(str, first["loc"]))[:LONGEST_NAME]
    return (f"{place}: {expectation(first)}" if place else expectation(first))[:LONGEST_PROBLEM]
