"""A crawl manager as a job of a graph: six shops are crawled, two at a time, and then their delivery is made.

crawlctl flow run examples/flows/shops_and_delivery.py --graph
"""

from collections.abc import Iterator

from crawler_lifecycle.flows import Context, Workflow
from crawler_lifecycle.managers import GeneratorCrawlManager, ScheduleArgs, manager


class Shops(GeneratorCrawlManager):
    """Crawls each shop once."""

    name = "shops"
    spider = "shop"
    loop_mode = 60  # an end of a crawl begins the next cycle at once

    def set_parameters_gen(self) -> Iterator[ScheduleArgs]:
        yield from ({"shop": f"shop-{number:02}", "pages": 1} for number in range(1, 7))


def deliver(context: Context) -> str:
    """Deliver what the manager has crawled: its result has its close reason, its numbers and its stats."""
    shops = context["shops"]
    counts = shops["counts"]
    return f"{counts['completed']} shops delivered, {counts['failed']} missing: {shops['close_reason']}"


workflow = Workflow("shops-and-delivery")
workflow.add("shops", manager(Shops, "--max-running-jobs", "2"))
workflow.add("deliver", deliver, "shops")
