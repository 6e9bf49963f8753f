"""An author's manager in the form of shub-workflow's page: only import lines name this product."""

import asyncio
import itertools
import logging

from crawler_lifecycle.compat.shub.base import CachedFinishedJobsMixin
from crawler_lifecycle.compat.shub.crawl import FullJobParams, GeneratorCrawlManager, JobParams, StopRetry
from crawler_lifecycle.compat.shub.graph import GraphManager
from crawler_lifecycle.compat.shub.graph.task import Resource, ResourcesDict, SpiderTask, Task
from crawler_lifecycle.compat.shub.script import (
    BaseLoopScript,
    BaseLoopScriptAsyncMixin,
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


class Refill(BaseLoopScript):
    loop_mode = 60
    stats_interval = 120

    def add_argparser_options(self):
        super().add_argparser_options()
        self.argparser.add_argument("--jobs", type=int, default=2)

    def on_start(self):
        self.shops = iter(SHOPS)

    def workflow_loop(self) -> bool:
        under_way = len(list(self.get_jobs(spider="shop", state=["running", "pending"])))
        for shop in itertools.islice(self.shops, max(0, self.args.jobs - under_way)):
            self.schedule_spider("shop", tags=["REFILL"], shop=shop)
        self.stats.set_value("under way", under_way)
        self.maybe_upload_stats()
        if not under_way and self.stats.get_value("rounds", 0):
            self.workflow_loop_enabled = False
        self.stats.inc_value("rounds")
        return not self.is_max_time_ran_out()

    def on_close(self):
        self.upload_stats()
        self.print_stats()


class Batch(BaseLoopScriptAsyncMixin, BaseLoopScript):
    name = "batch"

    async def workflow_loop(self) -> bool:
        keys = await asyncio.gather(*(self.async_schedule_spider("shop", shop=shop) for shop in SHOPS))
        self.stats.set_value("jobs", sum(key is not None for key in keys))
        return True


if __name__ == "__main__":
    from crawler_lifecycle.compat.shub.utils import get_kumo_loglevel

    logging.basicConfig(level=get_kumo_loglevel())
    ShopManager().run()


class DeliveryGraph(GraphManager):
    name = "delivery"
    loop_mode = 120

    def configure_workflow(self):
        crawl = SpiderTask("crawl", "shop", shop="alfa")
        deliver = Task("deliver", "{% for i in range(2) %}py:deliver.py --part {{ i }}\n{% endfor %}")
        deliver.add_required_resources(ResourcesDict({Resource("db"): 1}))
        crawl.add_next_task(deliver)
        return (crawl,)
