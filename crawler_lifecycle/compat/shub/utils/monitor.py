"""shub-workflow's aggregation of spiders' stats."""

from crawler_lifecycle.managers import SpiderStatsAggregatorMixin

__all__ = ["SpiderStatsAggregatorMixin"]
