import logging
from crawler_lifecycle.managers import GeneratorCrawlManager


class CrawlManager(GeneratorCrawlManager):

    name = "crawl"
    loop_mode = 60          # seconds between cycles; required for periodic/generator managers
    default_max_jobs = 4    # at most 4 spider jobs running at once
    spider = "example_spider"

    @property
    def description(self):
        return "Schedule example_spider for each input."

    def set_parameters_gen(self):
        for n in range(10):
            yield {"page": n}          # → spider arg page=<n>


if __name__ == "__main__":
    from crawler_lifecycle.managers import get_kumo_loglevel

    logging.basicConfig(format="%(asctime)s %(name)s [%(levelname)s]: %(message)s", level=get_kumo_loglevel())
    CrawlManager().run()
