"""shub-workflow's aggregation of spiders' stats."""

from typing import NoReturn

from crawler_lifecycle.compat.shub.absent import refuse
from crawler_lifecycle.managers import SpiderStatsAggregatorMixin
from crawler_lifecycle.managers.authors.mixins import BASE_TARGET_SPIDER_STATS

__all__ = ["BASE_TARGET_SPIDER_STATS", "SpiderStatsAggregatorMixin"]


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name)
