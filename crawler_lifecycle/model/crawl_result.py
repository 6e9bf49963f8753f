"""Crawl results: accounts by crawls about their own ends, written to the files named by CRAWL_RESULT."""

from math import isfinite

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from crawler_lifecycle.base.base import Message

VERSION_FIELD = "crawl_result"
LARGEST_FILE = 4_000  # bytes; Kubernetes cuts a termination message at 4,096 bytes
LARGEST_NUMBER = 2**53  # JavaScript reads larger whole numbers wrongly
DEEPEST = 20  # nested lists and objects; parsers limit the depth
LONGEST_OUTCOME = 64
LONGEST_NAME = 100  # of a number among the stats

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
