"""Crawl results, and the sums of crawls' stats.

A crawl writes its result, an account of its own end, to the file that CRAWL_RESULT names. On Kubernetes the file is the
container's termination message. There the cluster puts log text after a failure without a message, so a text may also
be no result at all.
"""

import json
import re
from collections.abc import Iterable
from math import isfinite

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.refusals import expectation

VERSION_FIELD = "crawl_result"
LARGEST_FILE = 4_000  # bytes; Kubernetes cuts a termination message at 4,096 bytes
LARGEST_NUMBER = 2**53  # JavaScript reads larger whole numbers wrongly
DEEPEST = 20  # nested lists and objects; parsers limit the depth
LONGEST_OUTCOME = 64  # characters in an outcome word
LONGEST_NAME = 100  # characters in the name of a number among the stats
LARGEST_SUMS = 3_000  # bytes as JSON: notices and events carry the sums
MOST_NAMES = 500  # different names in 10,000 tasks would fill the memory
FIRST_STATS = ("items", "pages", "bytes", "errors")  # the sums that lists show; the last to be left out
PROBLEM = "CRAWL_RESULT not used: {}"
LONGEST_PROBLEM = 300  # characters
BEGINNING = re.compile(rf'\s*\{{\s*"{VERSION_FIELD}"\s*:')

Number = int | float
Stats = dict[str, Number]


class CrawlResult(Message):
    """Account by a crawl. A run has the main task's outcome and result, and sums over all tasks' stats."""

    outcome: str | None = Field(default=None, description="the crawl's own word for its end, such as `banned`")
    stats: dict[str, JsonValue] = Field(
        default={}, description="numbers count in the run's sums; other values are kept"
    )
    result: JsonValue = Field(default=None, description="any JSON, for the programs that come after the crawl")


class CrawlResultFile(BaseModel):
    """The file's content, checked strictly."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    crawl_result: int = Field(ge=1, le=1, description="version of the format")
    outcome: str | None = Field(default=None, min_length=1, max_length=LONGEST_OUTCOME)
    stats: dict[str, JsonValue] = {}
    result: JsonValue = None

    @field_validator("outcome")
    @classmethod
    def _is_printable(cls, outcome: str | None) -> str | None:
        if outcome is not None and not (outcome.isprintable() and outcome.strip()):
            raise ValueError("expected a printable word or phrase")
        return outcome

    @field_validator("stats")
    @classmethod
    def _has_plain_names(cls, stats: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in stats:
            if not name.isprintable() or len(name) > LONGEST_NAME:
                raise ValueError(f"expected printable names of at most {LONGEST_NAME} characters, not {name[:30]!r}")
        return stats

    @field_validator("stats", "result")
    @classmethod
    def _is_plain(cls, value: JsonValue) -> JsonValue:
        _refuse_extremes(value, DEEPEST)
        return value

    @property
    def account(self) -> CrawlResult:
        return CrawlResult(outcome=self.outcome, stats=self.stats, result=self.result)


def _refuse_extremes(value: JsonValue, depth: int) -> None:
    """Raise ValueError for values that later readers could not read back: too deep, too large or not finite."""
    if depth < 0:
        raise ValueError(f"expected at most {DEEPEST} nested lists and objects")
    # `isfinite` alone would raise OverflowError for a large whole number
    if isinstance(value, int | float) and (abs(value) > LARGEST_NUMBER or not isfinite(value)):
        raise ValueError(f"expected numbers up to 2**53, not {str(value)[:30]}")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        _refuse_extremes(child, depth - 1)


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
