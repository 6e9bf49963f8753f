"""shub-workflow's bases for scripts, and its words for types: plain texts at run time."""

from typing import Any

from crawler_lifecycle import managers
from crawler_lifecycle.managers import BaseLoopScriptAsyncMixin, BaseScript, CrawlManager, JobDict, JobKey

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


class BaseLoopScript(CrawlManager):
    """A script in cycles, whose `schedule_spider` starts jobs. The command line has no options for jobs."""

    flow_id_required = False

    def add_argparser_options(self) -> None:
        managers.BaseLoopScript.add_argparser_options(self)
        self.argparser.set_defaults(
            max_running_jobs=self.default_max_jobs, spider_args="{}", job_settings="{}", units=None
        )

    def workflow_loop(self) -> Any:
        raise NotImplementedError
