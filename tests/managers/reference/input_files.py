from crawler_lifecycle.managers import GeneratorCrawlManager
from crawler_lifecycle.files import list_folder


class CrawlManager(GeneratorCrawlManager):
    name = "crawl"
    loop_mode = 120
    default_max_jobs = 4
    spider = "example_spider"        # default; a yielded "spider" key overrides per job

    def set_parameters_gen(self):
        for input_file in list_folder("s3://bucket/inputs"):
            yield {"input_file": input_file}     # → spider arg input_file=<...>
