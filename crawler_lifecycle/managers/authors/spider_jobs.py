"""SpiderJobs: the command line for a spider's jobs, and the parameters and requests of the jobs."""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from crawler_lifecycle.managers.authors.arguments import json_object, spider_arguments
from crawler_lifecycle.managers.authors.parameters import FullJobParams, full_params
from crawler_lifecycle.managers.authors.policies import key_of
from crawler_lifecycle.managers.authors.requesting import item_of
from crawler_lifecycle.managers.authors.workflow_manager import WorkFlowManager
from crawler_lifecycle.model.manager_items import Item as LedgerItem
from crawler_lifecycle.model.manager_items import Origin


class SpiderJobs(WorkFlowManager):
    """Has a spider, and arguments for all its jobs."""

    spider: str | None = None
    labels: Sequence[str] = ()  # key templates for labels of all jobs, such as `site:{site}`
    priority: int | None = None  # of all jobs

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.add_spider_argument()
        add = self.argparser.add_argument
        add("--spider-args", type=spider_arguments, default="{}", metavar="JSON", help="arguments for every job")
        add("--job-settings", type=json_object, default="{}", metavar="JSON", help="settings for every job")
        add("--units", type=int, help="memory of every job, times the memory in the catalogue")

    def add_spider_argument(self) -> None:
        if self.spider is None:
            self.argparser.add_argument("spider", help="name of the spider")

    def _take_arguments(self) -> None:
        super()._take_arguments()
        self.spider = self.spider or getattr(self.args, "spider", None)

    def get_job_settings(self, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the settings of the command line with the override."""
        return {**json.loads(self.args.job_settings), **(override or {})}

    def effective(self, params: FullJobParams) -> FullJobParams:
        """Return the parameters over those of the command line. Reserved names in `--spider-args` count as such."""
        line = full_params(json.loads(self.args.spider_args), self.spider)
        settings = params.get("job_settings")
        units = [value for value in (params.get("units"), line.get("units"), self.args.units) if value is not None]
        projects = [value for value in (params.get("project_id"), line.get("project_id"), self.project_id) if value]
        priority = params.get("priority")
        effective: FullJobParams = {
            **line,
            **deepcopy(params),
            "spider": params.get("spider") or self.spider or "",
            "spider_args": {**(line["spider_args"] or {}), **(params.get("spider_args") or {})},
            "job_settings": self.get_job_settings(line.get("job_settings") if settings is None else settings),
            "units": units[0] if units else None,
            "tags": [*(line.get("tags") or []), *(params.get("tags") or [])],
            "project_id": projects[0] if projects else None,
            "priority": self.priority if priority is None else priority,
        }
        own = [key for template in self.labels if (key := key_of(template, effective)) is not None]
        effective["labels"] = [*own, *(params.get("labels") or [])]
        return effective

    def item(self, params: FullJobParams, origin: Origin = Origin.ADDED, key: str | None = None) -> LedgerItem:
        """Return the item with these parameters for the ledger."""
        return item_of(params, self.effective, self.get_tags(), origin, key)
