"""Pusher that sends notices to programs by signed HTTP requests, according to the Standard Webhooks specification.

A receiver accepts a notice by a status 2xx. After 410, this process sends no more notices to the receiver. After 400,
413, 415 and 422, the notice is not sent again. After any other answer the notice is sent again later; with 429 and 503,
the receiver may say how long to wait.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from crawler_lifecycle.delivery.pushers.circuit_breaker import CircuitBreaker, NoAnswer
from crawler_lifecycle.errors import NotReady, Refused, TemporaryError
from crawler_lifecycle.model.notices import AnyNotice, WebhookNotice
from crawler_lifecycle.transport.http_client import HttpAnswer, HttpClient

VARIABLE = "CRAWLER_NOTICES__WEBHOOKS"  # the setting, named in messages
SECRET_PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)  # lengths of secrets that the specification allows
GONE = 410  # the receiver wants no notices any more
REFUSING_STATUSES = (400, 413, 415, 422)  # the notice is not sent again
PAUSING_STATUSES = (429, 503)  # with a pause of the receiver's choice
LONGEST_PAUSE = 300.0  # seconds; a receiver's longer pause is shortened


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
