"""Scrapy extension that writes the crawl's result: how the spider closed, and the numbers among its stats.

Copy this file beside the spider and switch the extension on in the settings:

    EXTENSIONS = {"crawl_result.CrawlResult": 0}

The variable CRAWL_RESULT names the file. Without the variable (outside of crawler-lifecycle) nothing is written.
`items`, `pages`, `bytes` and `errors` are the sums that lists of runs show; the other stats keep Scrapy's names.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.statscollectors import StatsCollector

LARGEST = 4_000  # bytes; a larger file does not count
LARGEST_NUMBER = 2**53  # larger or infinite numbers do not count either
LONGEST_OUTCOME = 64
logger = logging.getLogger(__name__)
KNOWN = {
    "items": "item_scraped_count",
    "pages": "response_received_count",
    "bytes": "downloader/response_bytes",
    "errors": "log_count/ERROR",
}


class CrawlResult:
    def __init__(self, path: Path, stats: StatsCollector) -> None:
        self.path = path
        self.stats = stats

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        path = os.environ.get("CRAWL_RESULT")
        if not path or crawler.stats is None:
            raise NotConfigured("the variable CRAWL_RESULT names no file")
        extension = cls(Path(path), crawler.stats)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    def spider_closed(self, spider: Spider, reason: str) -> None:
        """Write the file in place: on Kubernetes the file is mounted and cannot be replaced."""
        content = fitting(reason, self.stats.get_stats(), getattr(spider, "result", None))
        self.path.write_text(content)


def fitting(reason: str, stats: dict[str, Any], result: Any) -> str:
    """Return the result as JSON within the limit.

    A result that is no JSON or too large is left out with a log line. The known numbers always fit; of the other
    numbers as many as fit are added.
    """
    known = {name: stats.get(key, 0) for name, key in KNOWN.items()}
    outcome = "".join(character for character in reason if character.isprintable()).strip()[:LONGEST_OUTCOME]
    content = {"crawl_result": 1, "outcome": outcome or "finished", "stats": known}
    if result is not None and is_fitting(content | {"result": result}):
        content |= {"result": result}
    for key, value in sorted(stats.items()):
        if key not in KNOWN.values() and is_count(key, value):
            wider = content | {"stats": {**content["stats"], key: value}}
            if len(json.dumps(wider)) <= LARGEST:
                content = wider
    return json.dumps(content)


def is_fitting(content: dict[str, Any]) -> bool:
    """Return whether the content is JSON within the limit. Otherwise log why the spider's result is left out."""
    try:
        size = len(json.dumps(content, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        logger.error("the spider's result is no JSON: %s", error)
        return False
    if size > LARGEST:
        logger.error("the spider's result is left out: with it the file would have %s bytes, not %s", size, LARGEST)
    return size <= LARGEST


def is_count(key: str, value: Any) -> bool:
    """Return whether sums over several tasks make sense: sums of largest values or of rates do not."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER
    return is_number and not key.startswith("memusage/") and not key.endswith(("_max", "_per_minute"))
