"""The catalogue's crawlers over the HTTP API."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from crawler_lifecycle.model.answers import CrawlerEntries
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.transport.connection import HttpConnection, segment


class _Crawlers(TypedDict):
    crawlers: list[str]


class ApiCrawlers:
    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def names(self) -> Sequence[str]:
        return self._connection.read(_Crawlers, "/v1/crawlers")["crawlers"]

    def entry(self, name: str) -> Crawler:
        return self._connection.read(Crawler, f"/v1/crawlers/{segment(name)}")

    def entries(self) -> CrawlerEntries:
        return self._connection.read(CrawlerEntries, "/v1/crawler-entries")
