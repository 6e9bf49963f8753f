"""Crawls the bookshop: as task k of n, every n-th list page from the k-th on, and the books listed there.

Arguments: `site` (the shop's address; without it, the spider opens the shop beside this file for as long as the crawl
takes), `lists` (list pages in place of all, such as `/list/1,/list/2`), `books=no` (the list pages themselves are the
items). The spider also reads CRAWL_TASK and CRAWL_TASKS (its share), CRAWL_FILES (the folder for `items-<task>.jsonl`)
and CRAWL_RESULT (the file for its stats). It exits with 0 only if its whole share was collected.
"""

import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bookshop_site import make_server
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse

TASK = int(os.environ.get("CRAWL_TASK", "0"))
TASKS = int(os.environ.get("CRAWL_TASKS", "1"))
FILES = Path(os.environ.get("CRAWL_FILES", ".")).absolute()
SETTINGS = {
    "FEEDS": {(FILES / f"items-{TASK}.jsonl").as_uri(): {"format": "jsonlines", "overwrite": True}},
    "EXTENSIONS": {"crawl_result.CrawlResult": 0},
    "LOG_LEVEL": "WARNING",
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
    "RETRY_TIMES": 1,
    "DOWNLOAD_TIMEOUT": 10,
}


class BookshopSpider(Spider):
    name = "bookshop"
    site: str
    chosen: list[str] = []  # list pages; none: all
    wants_books = True
    lists: list[str] = []
    items = 0
    failures = 0

    async def start(self) -> AsyncIterator[Request]:
        yield self.page(self.site, self.parse_index)

    def parse_index(self, response: HtmlResponse) -> Iterator[Request | dict[str, Any]]:
        links = response.css("a.list::attr(href)").getall()
        missing = [link for link in self.chosen if link not in links]
        if not links or missing:
            self.failures += 1
            self.logger.error("%s: no lists of books here: %s", response.url, ", ".join(missing) or "none at all")
        self.lists = [link for link in links if not self.chosen or link in self.chosen][TASK::TASKS]
        for link in self.lists:
            if self.wants_books:
                yield self.page(response.urljoin(link), self.parse_list)
            else:
                self.items += 1
                yield {"list": link}

    def parse_list(self, response: HtmlResponse) -> Iterator[Request]:
        for link in response.css("a.book::attr(href)").getall():
            yield self.page(response.urljoin(link), self.parse_book)

    def parse_book(self, response: HtmlResponse) -> Iterator[dict[str, Any]]:
        self.items += 1
        yield {
            "url": response.url,
            "title": response.css("h1::text").get(),
            "price": float(response.css(".price::text").get(default="")),
        }

    def page(self, url: str, callback: Any) -> Request:
        return Request(url, callback, errback=self.failed)

    def failed(self, failure: Any) -> None:
        self.failures += 1
        self.logger.error("%s: %s", failure.request.url, failure.getErrorMessage())


@contextmanager
def shop(site: str | None) -> Iterator[str]:
    """The address of the given shop, or of one that is open during the crawl."""
    if site is not None:
        yield site
        return
    with make_server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def main() -> int:
    arguments = json.loads(os.environ.get("CRAWL_ARGUMENTS", "{}"))
    process = AsyncCrawlerProcess(SETTINGS)
    crawler = process.create_crawler(BookshopSpider)
    chosen = [link for link in arguments.get("lists", "").split(",") if link]
    with shop(arguments.get("site")) as site:
        process.crawl(crawler, site=site, chosen=chosen, wants_books=arguments.get("books") != "no")
        process.start()
    assert isinstance(crawler.spider, BookshopSpider)
    assert crawler.stats
    return report(crawler.spider, crawler.stats.get_stats())


def report(spider: BookshopSpider, stats: dict[str, Any]) -> int:
    print(f"{spider.items} items collected, {spider.failures} pages failed")
    finished = stats.get("finish_reason") == "finished" and not stats.get("log_count/ERROR")
    complete = spider.items or not spider.lists  # with more tasks than lists, some have nothing to do
    return 0 if finished and complete and not spider.failures else 1


if __name__ == "__main__":
    sys.exit(main())
