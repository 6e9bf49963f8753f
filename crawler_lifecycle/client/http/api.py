"""`Api`: the client for an installation's HTTP API."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message as Headers
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

import httpx
from typing_extensions import TypedDict

from crawler_lifecycle.adapters.http_client import LOOPBACK, HttpAnswer
from crawler_lifecycle.client.http.changes import Change, follow_changes
from crawler_lifecycle.client.http.connection import HttpConnection, segment, with_actor
from crawler_lifecycle.client.http.runs import ApiRuns
from crawler_lifecycle.contract.answers import AuditStarted, CrawlerEntries, InstallationView
from crawler_lifecycle.contract.attention import Attention
from crawler_lifecycle.contract.audits import AuditReport, AuditRequest, AuditView
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.limits import LimitChange, LimitRecord, PauseRequest, ScopeName
from crawler_lifecycle.contract.records import CrawlerRuns
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.settings.processes import RemoteSettings

if TYPE_CHECKING:
    from crawler_lifecycle.client.http.flows import ApiFlows
    from crawler_lifecycle.client.http.schedules import Schedules

CHUNK_BYTES = 1 << 20  # an archive may be larger than the memory
SILENCE_SECONDS = 60.0  # longest wait for the next byte
REDIRECT = 307
AUDIT_PATIENCE = 120.0  # seconds to wait for a report
AUDIT_PAUSE = 1.0  # seconds between two reads
SECONDS = RemoteSettings().seconds  # default time limit


class _Limits(TypedDict):
    limits: list[LimitRecord]


class ApiLimits:
    """Commands return all limits after the change. `actor`: name for the record, beside the token's name."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def all(self) -> Sequence[LimitRecord]:
        """Return the limits and pauses for all scopes with the present use. The installation comes first."""
        return self._connection.read(_Limits, "/v1/limits")["limits"]

    def installation(self) -> InstallationView:
        """Return the installation's use and the runs without room in the cluster."""
        return self._connection.read(InstallationView, "/v1/installation")

    def change(self, request: LimitChange, *, actor: str | None = None) -> Sequence[LimitRecord]:
        """Write the request's values."""
        return self._send("PUT", "/v1/limits", request, actor, repeatable=True)

    def pause(self, request: PauseRequest, *, actor: str | None = None) -> Sequence[LimitRecord]:
        """Pause the scope: new runs are accepted and wait, and work in the cluster continues."""
        return self._send("POST", "/v1/limits/pause", request, actor, repeatable=True)

    def resume(self, scope: ScopeName, *, actor: str | None = None) -> Sequence[LimitRecord]:
        """End the scope's pause. NotFound if the scope is not paused."""
        return self._send("POST", "/v1/limits/resume", scope, actor, repeatable=False)

    def _send(
        self, method: str, path: str, request: ScopeName, actor: str | None, *, repeatable: bool
    ) -> Sequence[LimitRecord]:
        body = request.model_dump(mode="json", exclude_unset=True)
        return self._connection.command(_Limits, method, with_actor(path, actor), body, repeatable=repeatable)["limits"]


class _Result(TypedDict):
    report: AuditReport | None


class Audits:
    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def overview(self, *, findings: int = 100) -> AuditView:
        """Return the last audits with repair and their findings."""
        return self._connection.read(AuditView, "/v1/audits", limit=findings)

    def start(self, request: AuditRequest) -> AuditStarted:
        """Start an audit and do not wait for its report."""
        body = request.model_dump(mode="json")
        return self._connection.command(AuditStarted, "POST", "/v1/audits", body, repeatable=False)

    def run(self, request: AuditRequest) -> AuditReport:
        """Start an audit and return its report. TemporaryError if the report takes longer than AUDIT_PATIENCE."""
        audit, deadline = self.start(request).audit, time.monotonic() + AUDIT_PATIENCE
        while (report := self.report(audit)) is None:
            if time.monotonic() > deadline:
                raise TemporaryError(
                    f"audit {audit} is under way but not done after {AUDIT_PATIENCE:.0f} s: `crawlctl audit` shows the "
                    "findings later"
                )
            time.sleep(AUDIT_PAUSE)
        return report

    def report(self, audit: str) -> AuditReport | None:
        """Return the audit's report; None while the audit is under way."""
        return self._connection.read(_Result, f"/v1/audits/{segment(audit)}")["report"]


@dataclass(frozen=True, slots=True)
class Download:
    """An archive on its way. `sha256` was computed while the archive was written."""

    name: str
    size: int
    sha256: str | None
    chunks: Iterator[bytes]


class Archives:
    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    @contextmanager
    def open(self, run: int | str, end: int | None = None) -> Iterator[Download]:
        """Open the archive for the run's end; default: the last end. TemporaryError if the download breaks off."""
        path, params = f"/v1/runs/{segment(run)}/archive", {} if end is None else {"end": end}
        headers = self._connection.headers | {"Accept": "*/*", "Accept-Encoding": "identity"}
        try:
            with (
                self._client() as client,
                client.stream("GET", self._connection.url + path, params=params, headers=headers) as answer,
            ):
                if answer.status_code != REDIRECT:
                    yield self._download(answer, answer.headers, answer)
                    return
                # another client: the bucket must not get the token
                with self._client() as other, other.stream("GET", answer.headers["location"]) as stored:
                    yield self._download(stored, answer.headers, stored)
        except httpx.HTTPError as error:
            raise self._connection.away(error) from error

    def _download(self, answer: httpx.Response, head: httpx.Headers, stored: httpx.Response) -> Download:
        if answer.status_code != 200:
            raise self._connection.error(HttpAnswer(answer.status_code, answer.headers, answer.read()))
        size = int(stored.headers["content-length"])
        return Download(_name(stored), size, head.get("x-archive-sha256"), stored.iter_raw(CHUNK_BYTES))

    def _client(self) -> httpx.Client:
        tls = self._connection.tls
        return httpx.Client(
            timeout=SILENCE_SECONDS,
            verify=tls if tls is not None else True,
            mounts={f"all://{host}": None for host in LOOPBACK},
        )


def _name(answer: httpx.Response) -> str:
    """Return the archive's name, without folders: the name becomes a local file's name."""
    disposition = Headers()
    disposition["content-disposition"] = answer.headers.get("content-disposition", "")
    name = disposition.get_filename() or unquote(urlsplit(str(answer.url)).path)
    return PurePosixPath(name).name


class TokenInUse(TypedDict):
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
        self.connection = HttpConnection(url, token, seconds, None if authorities is None else Path(authorities))
        self.runs = ApiRuns(self.connection)
        self.archives = Archives(self.connection)
        self.limits = ApiLimits(self.connection)
        self.audits = Audits(self.connection)

    @cached_property
    def flows(self) -> "ApiFlows":
        """The flows. Their many models are imported at the first use."""
        from crawler_lifecycle.client.http.flows import ApiFlows

        return ApiFlows(self.connection)

    @cached_property
    def schedules(self) -> "Schedules":
        from crawler_lifecycle.client.http.schedules import Schedules

        return Schedules(self.connection)

    @classmethod
    def open(cls, settings: RemoteSettings | None = None) -> Self:
        """Return the client by the variables `CRAWLER_REMOTE__...`, or by these settings."""
        if settings is None:
            from crawler_lifecycle import configuration

            settings = configuration.load().remote
        if settings.url is None:
            raise NotReady("CRAWLER_REMOTE__URL: expected the address of an API, such as https://crawler.example")
        return cls(settings.url, token_of(settings), seconds=settings.seconds, authorities=settings.authorities)

    def token(self) -> TokenInUse:
        """Return name and scopes for the token in use."""
        return self.connection.read(TokenInUse, "/v1/me")

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
