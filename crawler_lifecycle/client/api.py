"""`Api`: the client for an installation's HTTP API."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from typing_extensions import TypedDict

from crawler_lifecycle.audits.client import ApiAudits
from crawler_lifecycle.clusters.client import ApiCrawlers
from crawler_lifecycle.delivery.client import ApiArchives
from crawler_lifecycle.limits.client import ApiLimits
from crawler_lifecycle.model.answers import CrawlerEntries
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import CrawlerRuns
from crawler_lifecycle.runs.client import ApiRuns, Change, follow_changes
from crawler_lifecycle.runs.model import Attention
from crawler_lifecycle.settings.processes import RemoteSettings
from crawler_lifecycle.transport.connection import HttpConnection, address_of, token_of

if TYPE_CHECKING:
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.schedules.client import ApiSchedules

SECONDS = RemoteSettings().seconds  # default time limit


class TokenInUse(TypedDict):
    """Name and scopes for the token in use."""

    name: str
    scopes: list[str]


def read_attention(connection: HttpConnection) -> Attention:
    return connection.read(Attention, "/v1/attention")


class _CrawlerRuns(TypedDict):
    crawlers: list[CrawlerRuns]


class Api:
    """The client for the API at `url`, for many threads: `with Api("https://crawler.example", token) as api:`.

    Answers are the contract's models. Errors are classes from `crawler_lifecycle.errors`: NotFound, Conflict, BadInput
    with the field, NotReady for the token, and TemporaryError for an API without an answer. `seconds` limits a request;
    streams have no limit. `authorities`: file with certificates, for an API with a certificate from an authority
    outside the system's list.
    """

    def __init__(
        self, url: str, token: str, *, seconds: float = SECONDS, authorities: Path | str | None = None
    ) -> None:
        self.connection = HttpConnection(url, token, seconds, None if authorities is None else Path(authorities))
        self.runs = ApiRuns(self.connection)
        self.archives = ApiArchives(self.connection)
        self.limits = ApiLimits(self.connection)
        self.audits = ApiAudits(self.connection)
        self._crawlers = ApiCrawlers(self.connection)

    @cached_property
    def flows(self) -> "ApiFlows":
        """The flows. Their many models are imported at the first use."""
        from crawler_lifecycle.flows.client import ApiFlows

        return ApiFlows(self.connection)

    @cached_property
    def schedules(self) -> "ApiSchedules":
        from crawler_lifecycle.schedules.client import ApiSchedules

        return ApiSchedules(self.connection)

    @classmethod
    def open(cls, settings: RemoteSettings | None = None) -> Self:
        """Return the client by the variables `CRAWLER_REMOTE__...`, or by these settings."""
        if settings is None:
            from crawler_lifecycle.settings import configuration

            settings = configuration.load().remote
        return cls(address_of(settings), token_of(settings), seconds=settings.seconds, authorities=settings.authorities)

    def token(self) -> TokenInUse:
        """Return name and scopes for the token in use."""
        return self.connection.read(TokenInUse, "/v1/me")

    def attention(self) -> Attention:
        """Count waits for people, hosts and room."""
        return read_attention(self.connection)

    def crawlers(self) -> Sequence[str]:
        """Return the names in the catalogue."""
        return self._crawlers.names()

    def crawler_runs(self) -> Sequence[CrawlerRuns]:
        """Return the latest run and the latest ends for every crawler in the catalogue."""
        return self.connection.read(_CrawlerRuns, "/v1/crawler-runs")["crawlers"]

    def crawler(self, name: str) -> Crawler:
        """Return the crawler's entry in the catalogue; values in its environment are hidden."""
        return self._crawlers.entry(name)

    def entries(self) -> CrawlerEntries:
        """Return the catalogue's entries, with hidden values in their environments."""
        return self._crawlers.entries()

    def changes(
        self, run: int | str | None = None, *, flows: bool = False, last_id: str | None = None
    ) -> Iterator[Change]:
        """Yield every change in the runs, or in a single run, without an end.

        After a break the stream continues without a loss. `last_id`: the earlier stream's last event.
        `flows`: also runs in flows.
        """
        return follow_changes(self.connection, run, flows=flows, last_id=last_id)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
