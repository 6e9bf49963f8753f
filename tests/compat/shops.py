"""An author's manager in the form of shub-workflow's page: only import lines name this product."""

import logging

from crawler_lifecycle.compat.shub.base import CachedFinishedJobsMixin
from crawler_lifecycle.compat.shub.crawl import FullJobParams, GeneratorCrawlManager, JobParams, StopRetry
from crawler_lifecycle.compat.shub.script import (
    BaseScript,
    BaseScriptProtocol,
    JobDict,
    JobKey,
    Outcome,
    SpiderName,
)

SHOPS = ("alfa", "beta", "gamma")


class ShopManager(CachedFinishedJobsMixin, GeneratorCrawlManager):
    name = "shops"
    loop_mode = 60
    default_max_jobs = 2
    spider = SpiderName("shop")
    MAX_RETRIES = 1

    @property
    def description(self) -> str:
        return "Crawl every shop."

    def set_parameters_gen(self):
        for shop in SHOPS:
            yield FullJobParams({"spider_args": {"shop": shop}, "tags": [f"SHOP={shop}"]})

    def get_retry_override(self, spider: SpiderName, outcome: Outcome, job_args_override: JobParams, jobkey: JobKey):
        if outcome == "banned":
            raise StopRetry(spider)
        return {"spider_args": {"slow": "yes"}}

    def resume_running_job_hook(self, job: JobDict):
        super().resume_running_job_hook(job)


class ShopMixin(BaseScriptProtocol):
    def add_argparser_options(self):
        super().add_argparser_options()
        self.argparser.add_argument("--shop", required=True)

    @property
    def target(self):
        return f"{self.args.shop} of {self.name}"


class ShopScript(ShopMixin, BaseScript):
    name = "shops"

    def run(self):
        print(self.target)


if __name__ == "__main__":
    from crawler_lifecycle.compat.shub.utils import get_kumo_loglevel

    logging.basicConfig(level=get_kumo_loglevel())
    ShopManager().run()
