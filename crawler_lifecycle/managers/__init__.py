"""Crawl managers: classes that schedule crawls, and react to their ends."""

from crawler_lifecycle.managers.authors.arguments import get_kumo_loglevel
from crawler_lifecycle.managers.authors.crawl_manager import CrawlManager, PeriodicCrawlManager
from crawler_lifecycle.managers.authors.defining import ManagerJob, manager
from crawler_lifecycle.managers.authors.generator_manager import GeneratorCrawlManager
from crawler_lifecycle.managers.authors.graph_manager import GraphManager
from crawler_lifecycle.managers.authors.mixins import (
    AsyncSchedulerCrawlManagerMixin,
    BaseLoopScriptAsyncMixin,
    SpiderStatsAggregatorMixin,
)
from crawler_lifecycle.managers.authors.parameters import (
    FullJobParams,
    Item,
    JobDict,
    JobKey,
    JobParams,
    ScheduleArgs,
    StopRetry,
    get_jobseq,
)
from crawler_lifecycle.managers.authors.policies import Breaker, RetryPolicy, RetryRule
from crawler_lifecycle.managers.authors.tasks import BaseTask, Resource, ResourcesDict, SpiderTask, Task
from crawler_lifecycle.managers.authors.workflow_manager import (
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
    "BaseTask",
    "Breaker",
    "CachedFinishedJobsMixin",
    "CrawlManager",
    "FullJobParams",
    "GeneratorCrawlManager",
    "GraphManager",
    "Item",
    "JobDict",
    "JobKey",
    "JobParams",
    "ManagerJob",
    "PeriodicCrawlManager",
    "Resource",
    "ResourcesDict",
    "RetryPolicy",
    "RetryRule",
    "ScheduleArgs",
    "SpiderStatsAggregatorMixin",
    "SpiderTask",
    "StopRetry",
    "Task",
    "WorkFlowManager",
    "get_jobseq",
    "get_kumo_loglevel",
    "manager",
]
