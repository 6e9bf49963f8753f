"""Turns crawlers into a table of text."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from crawler_lifecycle.console.words import duration, table
from crawler_lifecycle.model.deployment import Crawler

COLUMNS = ("CRAWLER", "PROCESSES", "AT ONCE", "START LIMIT", "MAX DURATION", "GRACE")


def crawler_lines(crawlers: Sequence[Crawler]) -> Iterator[str]:
    return table([COLUMNS, *(_row(crawler) for crawler in crawlers)])


def _row(crawler: Crawler) -> tuple[str, ...]:
    limits = (crawler.start_limit_seconds, crawler.max_duration_seconds, crawler.grace_seconds)
    durations = ("-" if limit is None else duration(timedelta(seconds=limit)) for limit in limits)
    return crawler.name, str(crawler.processes), str(crawler.max_parallel or "-"), *durations
