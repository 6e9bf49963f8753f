"""The connection to an API: requests with the token, with a time limit, and with harmless repetitions.

After a broken connection the API may or may not have carried out the request. Only reads, and commands without
a second effect, are sent again. A refusal for too many requests had no effect, so every request is sent
again after the time in `Retry-After`.
"""

import ssl
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from crawler_lifecycle import __version__
from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import (
    BadInput,
    Conflict,
    LifecycleError,
    NotFound,
    NotReady,
    Over,
    PermanentError,
    Removed,
    TemporaryError,
)
from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.model.deployment import Problem
from crawler_lifecycle.settings.processes import RemoteSettings
from crawler_lifecycle.transport.http_client import LOOPBACK, HttpAnswer, HttpClient

T = TypeVar("T")
LARGEST_ANSWER = 1 << 29  # bytes; a run with 10,000 tasks with their evidence has some 60 MB
TRIES = 3
PAUSES = Backoff(timedelta(seconds=0.2), timedelta(seconds=2))  # after a broken connection
TOO_MANY = 429
Headers = Mapping[str, str]
FIRST_FAILURE = 500  # lowest status for a failure in the API or its dependencies


class HttpConnection:
    """The address and the token for an API. `seconds` limits a request; `authorities`: file with certificates."""

    def __init__(self, url: str, token: str, seconds: float, authorities: Path | None = None) -> None:
        self.url = _checked_url(url)
        self.place = f"the API at {without_credentials(self.url)}"
        self.tls = None if authorities is None else _trusting(authorities)  # also for the bucket of an archive
        self.headers = {
            "Authorization": f"Bearer {_checked_token(token)}",
            "User-Agent": f"crawler-lifecycle/{__version__}",
            "Accept": "application/json",
        }
        self.advice = ""  # for an error without an answer
        self.has_answered = False
        # a plain address on the same machine needs no authorities, and they take long to load
        is_plain = self.url.startswith("http:") and httpx.URL(self.url).host in LOOPBACK
        self.tls_of_api = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else self.tls
        self._seconds = seconds
        self._http = HttpClient(seconds, self.tls_of_api)

    def close(self) -> None:
        self._http.close()

    def read(self, kind: type[T], path: str, **params: Any) -> T:
        """Return the model in the answer to a GET. Parameters without a value are left out."""
        chosen = {name: value for name, value in params.items() if value is not None}
        return self.model(kind, self.request("GET", path, repeatable=True, params=chosen).body)

    def command(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: object = None,
        *,
        repeatable: bool,
        headers: Headers | None = None,
    ) -> T:
        """Send a command and return the model in the answer. `repeatable`: a repetition has no second effect."""
        content: dict[str, Any] = {} if body is None else {"json": body}
        return self.model(kind, self.request(method, path, repeatable=repeatable, headers=headers, **content).body)

    def request(
        self,
        method: str,
        path: str,
        *,
        repeatable: bool,
        headers: Headers | None = None,
        statuses: tuple[int, ...] = (200, 201, 202),
        **content: Any,
    ) -> HttpAnswer:
        """Return the answer. An answer with another status raises its error."""
        deadline, broken = time.monotonic() + self._seconds, 0
        while True:
            try:
                answer = self._send(method, path, headers, content)
            except httpx.HTTPError as error:
                broken += 1
                if not repeatable or broken == TRIES or not _is_broken(error):
                    raise self.away(error) from error
                time.sleep(PAUSES.seconds(broken))
                continue
            if answer.status in statuses:
                return answer
            pause = _retry_after(answer)
            if answer.status != TOO_MANY or time.monotonic() + pause > deadline:
                raise self.error(answer)
            time.sleep(pause)

    def away(self, error: httpx.HTTPError) -> TemporaryError:
        """Return the error for an API without an answer."""
        advice = f"; {self.advice}" if self.advice else ""
        return TemporaryError(f"{self.place} gives no answer: {error or type(error).__name__}{advice}")

    def error(self, answer: HttpAnswer) -> LifecycleError:
        return error_of(answer, self.place)

    def _send(self, method: str, path: str, headers: Headers | None, content: dict[str, Any]) -> HttpAnswer:
        answer = self._http.request(
            method,
            self.url + path,
            largest_answer=LARGEST_ANSWER,
            headers=self.headers | dict(headers or {}),
            **content,
        )
        self.has_answered = True
        return answer

    def model(self, kind: type[T], text: bytes | str) -> T:
        """Return the model in an answer or event. Unknown fields are ignored, since the API may be newer."""
        try:
            return TypeAdapter(kind).validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            raise TemporaryError(
                f"{self.place} answers without a {getattr(kind, '__name__', kind)} ({field}: {first['msg']}): is its "
                "version older than the client's?"
            ) from error


def address_of(settings: RemoteSettings) -> str:
    if settings.url is None:
        raise NotReady("CRAWLER_REMOTE__URL: expected the address of an API, such as https://crawler.example")
    return settings.url


def token_of(settings: RemoteSettings) -> str:
    """Return the token, from its file if a file is named. Every call reads the file anew."""
    if settings.token_file is None:
        return settings.token.get_secret_value()
    try:
        return settings.token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "expected a text"
        raise NotReady(f"CRAWLER_REMOTE__TOKEN_FILE: {settings.token_file} cannot be read: {reason}") from error


def with_actor(path: str, actor: str | None) -> str:
    """Return the path with the name for records, beside the token's name."""
    return path if actor is None else f"{path}?actor={quote(actor, safe='')}"


def segment(name: object) -> str:
    """Return the name, quoted for a path."""
    return quote(str(name), safe="")


def _is_broken(error: httpx.HTTPError) -> bool:
    """Return whether the connection failed. After a time-out, a repetition would only take as long again."""
    return isinstance(error, httpx.TransportError) and not isinstance(error, httpx.TimeoutException)


def _retry_after(answer: HttpAnswer) -> float:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdecimal() else 1.0


def _checked_url(url: str) -> str:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise BadInput("api", f"{without_credentials(url)!r} is not an address of an API: {error}") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise BadInput(
            "api", f"expected the API's address, such as https://crawler.example, not {without_credentials(url)!r}"
        )
    return url.rstrip("/")


def _checked_token(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise NotReady(
            "a token for the API is needed, of printable ASCII without spaces: set CRAWLER_REMOTE__TOKEN_FILE or "
            "CRAWLER_REMOTE__TOKEN"
        )
    return token


def _trusting(authorities: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authorities))
    except (OSError, ssl.SSLError) as error:
        raise NotReady(f"{authorities} has no certificates of authorities: {error}") from error


def error_of(answer: HttpAnswer, place: str) -> LifecycleError:
    """Return the error for an answer without success. `place` names the API, such as `the API at http://...`."""
    problem = _problem(answer)
    if problem is None:  # a proxy's answer, or another program's
        return TemporaryError(f"{place} answers {answer.status}, and not as an API of ours: is the address right?")
    if problem.code == BadInput.code:
        mistakes = [(mistake.field, mistake.detail) for mistake in problem.errors] or [("request", problem.detail)]
        return BadInput(*mistakes[0], *mistakes[1:])
    if answer.status >= FIRST_FAILURE:
        return TemporaryError(problem.detail, cause=problem.cause)
    messages: dict[str, tuple[type[LifecycleError], str]] = {
        "unauthenticated": (
            NotReady,
            f"{place} does not know the token: `crawlctl token create` in that installation makes a token",
        ),
        "forbidden": (NotReady, f"{place} refuses the request: {problem.detail}"),
        "too_many_requests": (
            TemporaryError,
            f"{place} refuses more requests with this token for the moment: {problem.detail}",
        ),
        **{kind.code: (kind, problem.detail) for kind in (NotFound, Removed, Conflict, Over)},
    }
    kind, message = messages.get(problem.code, (PermanentError, f"{place} answers {answer.status}: {problem.detail}"))
    return kind(message)


def _problem(answer: HttpAnswer) -> Problem | None:
    try:
        return Problem.model_validate_json(answer.body)
    except ValidationError:
        return None
