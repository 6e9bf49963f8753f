"""A file with a crawl manager, as an author writes it."""

FILE = """
from crawler_lifecycle.managers import CrawlManager, GeneratorCrawlManager, PeriodicCrawlManager


class Shops(GeneratorCrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60
    default_max_jobs = 4

    def add_argparser_options(self):
        super().add_argparser_options()
        self.argparser.add_argument("--own", type=int, default=3)

    def set_parameters_gen(self):
        for number in range(self.args.own):
            yield {"shop": f"shop-{number}"}
        yield {"shop": "shop-0"}
        yield {"shop": None}
"""
