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
    "CrawlManagerProtocol",
    "FullJobParams",
    "GeneratorCrawlManager",
    "GeneratorCrawlManagerProtocol",
    "JobParams",
    "PeriodicCrawlManager",
    "ScheduleArgs",
    "SpiderArgs",
    "StopRetry",
    "get_jobseq",
]

SpiderArgs = dict[str, str]
CrawlManagerProtocol = GeneratorCrawlManagerProtocol = object  # bases for authors' mixins
