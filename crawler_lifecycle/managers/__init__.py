"""Crawl managers: classes that schedule crawls, and react to their ends."""

from crawler_lifecycle.managers.as_job import ManagerJob, manager
from crawler_lifecycle.managers.crawl_manager import CrawlManager
from crawler_lifecycle.managers.generator_manager import GeneratorCrawlManager
from crawler_lifecycle.managers.graph_manager import GraphManager
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
from crawler_lifecycle.managers.tasks import BaseTask, Resource, ResourcesDict, SpiderTask, Task
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
