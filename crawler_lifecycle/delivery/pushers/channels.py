"""Pushers that send notices: to browsers by Pusher Channels, and to programs by signed HTTP requests.

Pusher Channels is the hosted service, or a server with the same protocol. The official package builds and signs the
requests, and the project's HTTP client sends them, because this client's time limit covers the whole request.

The requests to programs follow the Standard Webhooks specification. A receiver accepts a notice by a status 2xx. After
410, this process sends no more notices to the receiver. After 400, 413, 415 and 422, the notice is not sent again.
After any other answer the notice is sent again later; with 429 and 503, the receiver may say how long to wait.
"""

import base64
import binascii
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import pusher
from pusher.errors import PusherBadRequest, PusherError
from pusher.http import Request, process_response
from pusher.util import validate_channel

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import NotReady, Refused, TemporaryError
from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.model.notices import AnyNotice, Notice, WebhookNotice
from crawler_lifecycle.settings.outside import NoticeSettings
from crawler_lifecycle.transport.http_client import HttpAnswer, HttpClient

PAUSES = Backoff(timedelta(seconds=15), timedelta(minutes=5))  # of the circuit breaker
VARIABLE = "CRAWLER_NOTICES__WEBHOOKS"  # the setting, named in messages
SECRET_PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)  # lengths of secrets that the specification allows
GONE = 410  # the receiver wants no notices any more
REFUSING_STATUSES = (400, 413, 415, 422)  # the notice is not sent again
PAUSING_STATUSES = (429, 503)  # with a pause of the receiver's choice
LONGEST_PAUSE = 300.0  # seconds; a receiver's longer pause is shortened
LARGEST_ANSWER = 1 << 20  # bytes of an answer by Pusher Channels
LARGEST_MESSAGE = 10_000  # bytes; servers refuse larger messages
LEFT_OUT: dict[str, Any] = {"stats": None, "result": None, "failures": []}  # fields left out above LARGEST_MESSAGE
SHORTENED_LENGTH = 300  # characters kept from a long text in a notice above LARGEST_MESSAGE
MOST_CHANNELS = 100  # servers refuse a message to more channels
ENCRYPTED_PREFIX = "private-encrypted-"  # names of encrypted channels begin so


class NoAnswer(TemporaryError):
    """The time limit ended without an answer."""


class CircuitBreaker:
    """A circuit breaker for a receiver, shared by a process's threads.

    Without the breaker, waits for a silent receiver would fill the worker's slots. A request without an answer in time
    begins a pause, in which all requests fail at once. After the pause a single request goes through as a probe. Other
    requests fail until the probe's outcome is known: an answer lets all requests go through again, and silence begins
    another pause, twice as long.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._silences = 0  # requests without an answer since the last answer
        self._pause_end = 0.0
        self._probe_is_under_way = False  # only after a silence; an answering receiver needs no probe

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Wrap a request. Raise TemporaryError instead during a pause, or while a probe is under way.

        The block raises NoAnswer for silence; every other outcome counts as an answer.
        """
        began_at, is_answered = self._begin(), True
        try:
            yield
        except NoAnswer:
            is_answered = False
            raise
        finally:
            self._end(began_at, is_answered=is_answered)

    def _begin(self) -> float:
        """Return the time if the request may go through; else raise TemporaryError."""
        with self._lock:
            now = self._clock()
            if self._silences:
                if now < self._pause_end or self._probe_is_under_way:
                    remaining = max(self._pause_end - now, 0.0)
                    raise TemporaryError(f"it did not answer lately and is asked again in {remaining:.0f} s")
                self._probe_is_under_way = True
            return now

    def _end(self, began_at: float, *, is_answered: bool) -> None:
        with self._lock:
            self._probe_is_under_way = False
            if is_answered:
                self._silences = 0
            elif began_at >= self._pause_end:  # a request that began before the pause does not double the pause
                self._silences += 1
                self._pause_end = self._clock() + PAUSES.seconds(self._silences)


@dataclass(frozen=True)
class Endpoint:
    """A receiver. Messages show its number and host, never its path, which may be a secret, too."""

    number: int
    url: str
    secrets: tuple[bytes, ...]

    @property
    def name(self) -> str:
        return f"webhook {self.number} ({urlsplit(self.url).hostname})"


def endpoints(setting: str) -> list[Endpoint]:
    """Parse a setting with addresses, every address followed by its secrets. Raise NotReady for any other setting.

    The error shows no part of the setting, which may be a secret.
    """
    receivers: list[tuple[str, list[bytes]]] = []
    for number, word in enumerate(setting.split(), 1):
        if word.startswith(("http://", "https://")) and _host(word):
            receivers.append((word, []))
        elif word.startswith(SECRET_PREFIX) and receivers:
            receivers[-1][1].append(_decoded_secret(word, number))
        else:
            raise NotReady(
                f"{VARIABLE}: word {number} is neither an address nor a secret ({SECRET_PREFIX}...) after one"
            )
    for number, (_, secrets) in enumerate(receivers, 1):
        if not secrets:
            raise NotReady(f"{VARIABLE}: address {number} is followed by no secret ({SECRET_PREFIX}...)")
    return [Endpoint(number, url, tuple(secrets)) for number, (url, secrets) in enumerate(receivers, 1)]


def _host(url: str) -> str | None:
    """Return the address's host; an empty text or None for an unusable address."""
    try:
        return httpx.URL(url).host
    except httpx.InvalidURL:
        return None


def _decoded_secret(word: str, number: int) -> bytes:
    encoded = word.removeprefix(SECRET_PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise NotReady(f"{VARIABLE}: word {number} is no secret: what follows {SECRET_PREFIX} is not base64") from error
    if len(key) not in SECRET_BYTES:
        raise NotReady(f"{VARIABLE}: the secret in word {number} has {len(key)} bytes, expected 24 to 64")
    return key


class Webhook:
    """Pusher to one receiver."""

    def __init__(
        self,
        endpoint: Endpoint,
        timeout: float,
        clock: Callable[[], float] = time.time,
        breaker_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint
        self._clock = clock
        self._http = HttpClient(timeout)
        self._breaker = CircuitBreaker(breaker_clock)
        self._is_gone = False
        self._not_before = 0.0  # time until which the receiver wants no notice (Retry-After)

    def send(self, notice: AnyNotice) -> None:
        if self._is_gone:
            raise Refused("it answered 410 and is not asked again; take it out of " + VARIABLE)
        pause = self._not_before - self._clock()
        if pause > 0:
            raise TemporaryError(f"it wants to be left alone for {pause:.0f} s more")
        body = WebhookNotice(type=notice.topic, timestamp=notice.at, data=notice).model_dump_json().encode()
        headers = {"Content-Type": "application/json", "User-Agent": "crawler-lifecycle"}
        with self._breaker.guard():
            answer = self._request("POST", content=body, headers=headers | self._signature(notice.notice_id, body))
        self._raise_unless_accepted(answer)

    def check(self) -> str:
        """Return the name if a server answers. No request is harmless for every receiver, so any answer counts."""
        answer = self._request("OPTIONS")
        if answer.status >= 500:
            raise TemporaryError(f"it answers {answer.status}")
        return self.name

    def _signature(self, notice_id: str, body: bytes) -> dict[str, str]:
        """Return headers with a signature by every secret, so that a receiver may know the old or the new secret."""
        at = str(int(self._clock()))
        signed = f"{notice_id}.{at}.".encode() + body
        digests = [hmac.digest(secret, signed, hashlib.sha256) for secret in self._endpoint.secrets]
        return {
            "webhook-id": notice_id,
            "webhook-timestamp": at,
            "webhook-signature": " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests),
        }

    def _request(self, method: str, **content: Any) -> HttpAnswer:
        """Send the request and return the answer's status and headers. The body is not read, however long it takes."""
        try:
            return self._http.request(method, self._endpoint.url, largest_answer=0, **content)
        except httpx.TimeoutException as error:
            raise NoAnswer(str(error)) from error
        except httpx.HTTPError as error:
            raise TemporaryError(f"cannot be reached: {str(error) or type(error).__name__}") from error

    def _raise_unless_accepted(self, answer: HttpAnswer) -> None:
        """Return for a status 2xx, else raise. Remember 410 and a requested pause for later notices."""
        status = answer.status
        if httpx.codes.is_success(status):
            return
        if status == GONE:
            self._is_gone = True
            raise Refused("it answers 410: it wants no more notices")
        if status in REFUSING_STATUSES:
            raise Refused(f"it answers {status} and will not take this notice")
        if status in PAUSING_STATUSES:
            self._not_before = self._clock() + min(_requested_pause(answer, self._clock()), LONGEST_PAUSE)
        raise TemporaryError(f"it answers {status}")


def _requested_pause(answer: HttpAnswer, now: float) -> float:
    """Return the pause that Retry-After requests, in seconds from now. The header has a number or a date."""
    header = answer.headers.get("Retry-After", "0")
    try:
        if header.isascii() and header.isdigit():
            return float(header)
        return parsedate_to_datetime(header).timestamp() - now
    except (ValueError, OverflowError):
        return 0.0


class PusherChannels:
    """Pusher to the channels in the settings, whose names may contain {run_id} and {run_uid}, or {flow_uid}."""

    name = "Pusher Channels"

    def __init__(self, app_id: str, settings: NoticeSettings) -> None:
        self._templates = settings.pusher_channels.split()
        self._flow_templates = settings.pusher_flow_channels.split()
        self._http = HttpClient(settings.timeout_seconds)
        self._breaker = CircuitBreaker()
        self._check_channels()
        if not settings.pusher_key or not settings.pusher_secret:
            raise NotReady(
                "CRAWLER_NOTICES__PUSHER_KEY, CRAWLER_NOTICES__PUSHER_SECRET: expected both, with the app id"
            )
        try:
            self._pusher = pusher.Pusher(
                app_id=app_id,
                key=settings.pusher_key,
                secret=settings.pusher_secret.get_secret_value(),
                cluster=settings.pusher_cluster,
                backend=_Backend,
                http=self._http,
                **_server_options(settings.pusher_url),
            )
        except ValueError as error:
            raise NotReady(f"CRAWLER_NOTICES__PUSHER_APP_ID: expected digits, not {app_id!r}") from error

    def send(self, notice: AnyNotice) -> None:
        if isinstance(notice, Notice):
            channels = self._channels(str(notice.run_id), notice.run_uid)
        else:
            channels = self._flow_channels(notice.flow_uid)
        with self._breaker.guard():
            try:
                self._pusher.trigger(channels, notice.topic.replace(".", "-"), message(notice))
            except PusherBadRequest as error:
                raise Refused(f"it will not take this notice: {error}") from error
            except (PusherError, httpx.HTTPError, ValueError) as error:
                raise _temporary_error(error) from error

    def check(self) -> str:
        try:
            self._pusher.channels_info()
        except (PusherError, httpx.HTTPError, ValueError) as error:
            raise _temporary_error(error) from error
        return f"{self.name} {', '.join(self._templates)}"

    def _channels(self, run_id: str, run_uid: str) -> list[str]:
        return [name.replace("{run_id}", run_id).replace("{run_uid}", run_uid) for name in self._templates]

    def _flow_channels(self, flow_uid: str) -> list[str]:
        return [name.replace("{flow_uid}", flow_uid) for name in self._flow_templates]

    def _check_channels(self) -> None:
        longest_run_id, longest_uid = "9" * 20, "f" * 36
        _check("CRAWLER_NOTICES__PUSHER_CHANNELS", self._channels(longest_run_id, longest_uid))
        _check("CRAWLER_NOTICES__PUSHER_FLOW_CHANNELS", self._flow_channels(longest_uid))


def _check(variable: str, channels: list[str]) -> None:
    """Raise NotReady for channels with names against the server's rules."""
    if not 1 <= len(channels) <= MOST_CHANNELS:
        raise NotReady(f"{variable}: expected 1 to {MOST_CHANNELS} names")
    for channel in channels:
        try:
            validate_channel(channel)
        except ValueError as error:
            raise NotReady(f"{variable}: {channel!r} is no name of a channel") from error
        if channel.startswith(ENCRYPTED_PREFIX):
            raise NotReady(f"{variable}: {channel!r}: encrypted channels are not supported")


def _temporary_error(error: Exception) -> TemporaryError:
    """Return our error for a request's error; a ValueError means that the answer is not JSON."""
    if isinstance(error, httpx.TimeoutException):
        return NoAnswer(str(error))
    if isinstance(error, httpx.HTTPError):
        return TemporaryError(f"cannot be reached: {str(error) or type(error).__name__}")
    if isinstance(error, PusherError):
        return TemporaryError(f"it answers {type(error).__name__}: {error}; are app id, key and secret right?")
    return TemporaryError("it answers 200 and no JSON: does it speak the Pusher protocol?")


def message(notice: AnyNotice) -> str:
    """Return the notice as JSON in ASCII.

    Above LARGEST_MESSAGE, leave out the fields in LEFT_OUT, cut the long texts, and mark the notice `shortened`.
    """
    content = notice.model_dump(mode="json")
    text = json.dumps(content)
    if len(text) <= LARGEST_MESSAGE:
        return text
    content |= {name: empty for name, empty in LEFT_OUT.items() if name in content}
    for name, value in content.items():
        if isinstance(value, str) and len(value) > SHORTENED_LENGTH:
            content[name] = f"{value[:SHORTENED_LENGTH]}…"
    return json.dumps(content | {"shortened": True})


def _server_options(url: str | None) -> dict[str, Any]:
    """Return the package's options for the server at this address; no options for None, the hosted service."""
    if url is None:
        return {}
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise NotReady(
            f"CRAWLER_NOTICES__PUSHER_URL: {without_credentials(url)!r} is not an address: {error}"
        ) from error
    if address.scheme not in ("http", "https") or not address.host or address.path not in ("", "/"):
        expected = "expected an address such as http://127.0.0.1:6001"
        raise NotReady(f"CRAWLER_NOTICES__PUSHER_URL: {expected}, not {without_credentials(url)!r}")
    return {"ssl": address.scheme == "https", "host": address.host, "port": address.port}


class _Backend:
    """The project's HTTP client with the package's interface for HTTP clients; the package creates the objects."""

    def __init__(self, _client: object, http: HttpClient) -> None:
        self._http = http

    def send_request(self, request: Request) -> Any:
        answer = self._http.request(
            request.method, request.url, largest_answer=LARGEST_ANSWER, headers=request.headers, content=request.body
        )
        return process_response(answer.status, answer.body.decode("utf-8", "replace"))
