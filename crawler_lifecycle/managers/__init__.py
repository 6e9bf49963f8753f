"""Crawl managers: classes that schedule crawls, and react to their ends."""

from crawler_lifecycle.managers.crawl_manager import CrawlManager, PeriodicCrawlManager
from crawler_lifecycle.managers.generator_manager import GeneratorCrawlManager
from crawler_lifecycle.managers.mixins import AsyncSchedulerCrawlManagerMixin
from crawler_lifecycle.managers.parameters import (
    FullJobParams,
    Item,
    JobDict,
    JobKey,
    JobParams,
    ScheduleArgs,
    StopRetry,
)
from crawler_lifecycle.managers.workflow_manager import CachedFinishedJobsMixin, WorkFlowManager

__all__ = [
    "AsyncSchedulerCrawlManagerMixin",
    "CachedFinishedJobsMixin",
    "CrawlManager",
    "FullJobParams",
    "GeneratorCrawlManager",
    "Item",
    "JobDict",
    "JobKey",
    "JobParams",
    "PeriodicCrawlManager",
    "ScheduleArgs",
    "StopRetry",
    "WorkFlowManager",
]
