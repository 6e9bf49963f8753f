"""`Api`: the client for an installation's HTTP API."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from typing_extensions import TypedDict

from crawler_lifecycle.client.http.archives import Archives
from crawler_lifecycle.client.http.audits import Audits
from crawler_lifecycle.client.http.changes import Change, follow_changes
from crawler_lifecycle.client.http.connection import Connection, segment
from crawler_lifecycle.client.http.flows import Flows
from crawler_lifecycle.client.http.limits import Limits
from crawler_lifecycle.client.http.runs import Runs
from crawler_lifecycle.client.http.schedules import Schedules
from crawler_lifecycle.contract.answers import CrawlerEntries
from crawler_lifecycle.contract.attention import Attention
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.records import CrawlerRuns
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings.processes import RemoteSettings

SECONDS = RemoteSettings().seconds  # default time limit


class Token(TypedDict):
    """Name and scopes for the token in use."""

    name: str
    scopes: list[str]


class _Crawlers(TypedDict):
    crawlers: list[str]


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
        self.connection = Connection(url, token, seconds, None if authorities is None else Path(authorities))
        self.runs = Runs(self.connection)
        self.archives = Archives(self.connection)
        self.flows = Flows(self.connection)
        self.limits = Limits(self.connection)
        self.schedules = Schedules(self.connection)
        self.audits = Audits(self.connection)

    @classmethod
    def open(cls, settings: RemoteSettings | None = None) -> Self:
        """Return the client by the variables `CRAWLER_REMOTE__...`, or by these settings."""
        if settings is None:
            from crawler_lifecycle import configuration

            settings = configuration.load().remote
        if settings.url is None:
            raise NotReady("CRAWLER_REMOTE__URL: expected the address of an API, such as https://crawler.example")
        return cls(settings.url, token_of(settings), seconds=settings.seconds, authorities=settings.authorities)

    def token(self) -> Token:
        """Return name and scopes for the token in use."""
        return self.connection.read(Token, "/v1/me")

    def attention(self) -> Attention:
        """Count waits for people, hosts and room."""
        return self.connection.read(Attention, "/v1/attention")

    def crawlers(self) -> Sequence[str]:
        """Return the names in the catalogue."""
        return self.connection.read(_Crawlers, "/v1/crawlers")["crawlers"]

    def crawler_runs(self) -> Sequence[CrawlerRuns]:
        """Return the latest run and the latest ends for every crawler in the catalogue."""
        return self.connection.read(_CrawlerRuns, "/v1/crawler-runs")["crawlers"]

    def crawler(self, name: str) -> Crawler:
        """Return the crawler's entry in the catalogue; values in its environment are hidden."""
        return self.connection.read(Crawler, f"/v1/crawlers/{segment(name)}")

    def entries(self) -> CrawlerEntries:
        """Return the catalogue's entries, with hidden values in their environments."""
        return self.connection.read(CrawlerEntries, "/v1/crawler-entries")

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


def token_of(settings: RemoteSettings) -> str:
    """Return the token, from its file if a file is named. Every call reads the file anew."""
    if settings.token_file is None:
        return settings.token.get_secret_value()
    try:
        return settings.token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "expected a text"
        raise NotReady(f"CRAWLER_REMOTE__TOKEN_FILE: {settings.token_file} cannot be read: {reason}") from error
