"""A crawl manager: forty shops, four crawls at a time. Two shops are banned at first, and are tried again.

    crawlctl flow run examples/flows/shops_manager.py
    crawlctl flow run examples/flows/shops_manager.py -- --max-running-jobs 2
    crawlctl flow run examples/flows/shops_manager.py -- --strict shop-17
    python examples/flows/shops_manager.py

The list of shops names some shops twice: each shop is crawled once. With `--strict shop-17`, this shop bans its retry
as well, and fails: `crawlctl flow retry FLOW --arg slow=yes` completes the shop.
"""

from collections.abc import Iterator

from crawler_lifecycle.managers import GeneratorCrawlManager, JobDict, JobKey, JobParams, ScheduleArgs

SHOPS = [f"shop-{number:02}" for number in range(1, 41)]
LISTED_TWICE = ("shop-03", "shop-07", "shop-21")
FRAGILE = ("shop-11", "shop-30")  # banned, unless a crawl is a retry


class ShopsManager(GeneratorCrawlManager):
    """Crawls each shop of the list once."""

    name = "shops"
    spider = "shop"
    loop_mode = 60  # an end of a crawl begins the next cycle at once
    default_max_jobs = 4
    MAX_RETRIES = 1

    def __init__(self) -> None:
        super().__init__()
        self.failed_outcomes.append("banned")

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.argparser.add_argument("--strict", metavar="SHOP", help="shop that bans each crawl without slow=yes")

    def set_parameters_gen(self) -> Iterator[ScheduleArgs]:
        for number, shop in enumerate([*SHOPS, *LISTED_TWICE], 1):
            fragile = {"fragile": "yes"} if shop in FRAGILE else {}
            if shop == self.args.strict:
                fragile = {"fragile": "always"}
            yield {"shop": shop, "pages": 1 + SHOPS.index(shop) % 5, "tags": [f"part-{1 + number % 2}"], **fragile}

    def get_retry_override(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> JobParams:
        """Read fewer pages of a shop that has banned its crawl."""
        return {"spider_args": {"pages": 1}} if outcome == "banned" else {}

    def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> None:
        """Count the ends by their outcome; the sums are on record with each end, exactly once."""
        self.stats.inc_value(f"ends/{metadata['close_reason']}")


if __name__ == "__main__":
    ShopsManager().run()
