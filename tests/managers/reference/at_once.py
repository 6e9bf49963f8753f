from crawler_lifecycle.managers import AsyncSchedulerCrawlManagerMixin, GeneratorCrawlManager


class CrawlManager(AsyncSchedulerCrawlManagerMixin, GeneratorCrawlManager):
    name = "crawl"
    loop_mode = 30
    spider = "example_spider"

    def set_parameters_gen(self):
        ...
