"""shub-workflow's crawl managers."""

from crawler_lifecycle.managers import (
    AsyncSchedulerCrawlManagerMixin,
    CrawlManager,
    FullJobParams,
    GeneratorCrawlManager,
    JobParams,
    PeriodicCrawlManager,
    ScheduleArgs,
    StopRetry,
    get_jobseq,
)

__all__ = [
    "AsyncSchedulerCrawlManagerMixin",
    "CrawlManager",
    "FullJobParams",
    "GeneratorCrawlManager",
    "JobParams",
    "PeriodicCrawlManager",
    "ScheduleArgs",
    "SpiderArgs",
    "StopRetry",
    "get_jobseq",
]

SpiderArgs = dict[str, str]
