"""Mixins for managers: coroutines for the methods, on an event loop, and sums over the stats of spiders."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.authors.parameters import JobDict, JobParams

BASE_TARGET_SPIDER_STATS = (  # regular expressions for the beginning of a name
    "downloader/response_status_count/",
    "downloader/response_count",
    "item_scraped_count",
    "spider_exceptions/",
    "scrapy-zyte-api/429",
    "scrapy-zyte-api/status_codes/",
    "zyte_api_proxy/response/status/429",
    "(items|pages|bytes|errors)$",  # by which crawls without Scrapy report
)


class SpiderStatsAggregatorMixin:
    """Adds the stats of jobs to a script's own stats."""

    target_spider_stats: Sequence[str] = ()  # regular expressions for the beginning of a name
    stats_only_total: bool = True  # whether to leave out the sums by spider

    def aggregate_spider_stats(self, jobdict: JobDict, stats_added_prefix: str = "") -> None:
        """Add the job's stats: the sum over all spiders, and on request the sum of the spider.

        `stats_added_prefix`: beginning of the sums' names; the spider's name alone makes no further sums.
        """
        spider = self.get_canonical_spidername(jobdict["spider"])  # type: ignore[attr-defined]
        stats = self.stats  # type: ignore[attr-defined]
        for name, value in (jobdict["stats"] or {}).items():  # a job has none before its end
            if not any(pattern.match(name) for pattern in self.target_stats):
                continue
            whole = f"{stats_added_prefix}/{name}".strip("/")
            if stats_added_prefix == spider:
                stats.inc_value(whole, value)
                continue
            stats.inc_value(f"{whole}/total", value)
            if not self.stats_only_total:
                stats.inc_value(f"{whole}/{spider}", value)

    @cached_property
    def target_stats(self) -> list[re.Pattern[str]]:
        try:
            return [re.compile(pattern) for pattern in (*BASE_TARGET_SPIDER_STATS, *self.target_spider_stats)]
        except re.error as error:
            problem = f"{str(error.pattern)[:100]!r} is no regular expression: {error.msg}"
            raise BadInput("target_spider_stats", problem) from error


class BaseLoopScriptAsyncMixin:
    """In front of a script or manager. Its methods may be coroutine functions."""

    awaits = True

    async def run(self) -> Any:
        answer = super().run()  # type: ignore[misc]
        return await answer if hasattr(answer, "__await__") else answer


class AsyncSchedulerCrawlManagerMixin(BaseLoopScriptAsyncMixin):
    """In front of GeneratorCrawlManager. A cycle's jobs start at once, and hooks may be coroutine functions."""

    starter = "async_schedule_spider"

    async def workflow_loop(self) -> bool:
        goes_on: bool = await self._cycle()  # type: ignore[attr-defined]
        return goes_on

    async def schedule_spider_with_jobargs(
        self, job_args_override: JobParams | None = None, spider: str | None = None
    ) -> Any:
        started = super().schedule_spider_with_jobargs(job_args_override, spider)  # type: ignore[misc]
        return await self._awaited(started)  # type: ignore[attr-defined]
