"""shub-workflow's words for types. The words are types for checkers and plain texts at run time."""

from crawler_lifecycle.managers import JobDict, JobKey

__all__ = ["JobDict", "JobKey", "Outcome", "SpiderName"]

Outcome = str
SpiderName = str
