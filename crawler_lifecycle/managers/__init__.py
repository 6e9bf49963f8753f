"""Crawl managers: classes that schedule crawls, and react to their ends."""

from crawler_lifecycle.managers.crawl_manager import CrawlManager
from crawler_lifecycle.managers.generator_manager import GeneratorCrawlManager
from crawler_lifecycle.managers.log_levels import get_kumo_loglevel
from crawler_lifecycle.managers.mixins import (
    AsyncSchedulerCrawlManagerMixin,
    BaseLoopScriptAsyncMixin,
    SpiderStatsAggregatorMixin,
)
from crawler_lifecycle.managers.parameters import (
    FullJobParams,
    Item,
    JobDict,
    JobKey,
    JobParams,
    ScheduleArgs,
    StopRetry,
    get_jobseq,
)
from crawler_lifecycle.managers.periodic_manager import PeriodicCrawlManager
from crawler_lifecycle.managers.policies import Breaker, RetryPolicy, RetryRule
from crawler_lifecycle.managers.workflow_manager import (
    BaseLoopScript,
    BaseScript,
    CachedFinishedJobsMixin,
    WorkFlowManager,
)

__all__ = [
    "AsyncSchedulerCrawlManagerMixin",
    "BaseLoopScript",
    "BaseLoopScriptAsyncMixin",
    "BaseScript",
    "Breaker",
    "CachedFinishedJobsMixin",
    "CrawlManager",
    "FullJobParams",
    "GeneratorCrawlManager",
    "Item",
    "JobDict",
    "JobKey",
    "JobParams",
    "PeriodicCrawlManager",
    "RetryPolicy",
    "RetryRule",
    "ScheduleArgs",
    "SpiderStatsAggregatorMixin",
    "StopRetry",
    "WorkFlowManager",
    "get_jobseq",
    "get_kumo_loglevel",
]
