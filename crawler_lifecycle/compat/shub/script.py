"""shub-workflow's bases for scripts, and its words for types: plain texts at run time."""

from crawler_lifecycle.managers import BaseLoopScript, BaseLoopScriptAsyncMixin, BaseScript, JobDict, JobKey

__all__ = [
    "BaseLoopScript",
    "BaseLoopScriptAsyncMixin",
    "BaseScript",
    "BaseScriptProtocol",
    "JobDict",
    "JobKey",
    "Outcome",
    "SpiderName",
]

BaseScriptProtocol = object  # base for authors' mixins
Outcome = str
SpiderName = str
