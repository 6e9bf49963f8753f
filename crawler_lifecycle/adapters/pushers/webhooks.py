"""How is another program told over HTTP, so that it can be sure who speaks? By the Standard Webhooks specification.

A 2xx is taken, anything else is not. 410 means never again: this process stops asking that receiver. 400, 413, 415
and 422 are said of this notice, which is not sent again. The rest may pass; 429 and 503 may say when.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from crawler_lifecycle.adapters.pushers.http import make_http
from crawler_lifecycle.adapters.pushers.silence import NoAnswer, Silence
from crawler_lifecycle.contract.notices import Notice, WebhookNotice
from crawler_lifecycle.errors import NotReady, Refused, TemporaryError

VARIABLE = "CRAWLER_NOTICES__WEBHOOKS"
PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
GONE = 410
NOT_THIS_ONE = (400, 413, 415, 422)
MAY_SAY_WHEN = (429, 503)
LONGEST_PAUSE = 300.0


@dataclass(frozen=True)
class Endpoint:
    """`number` tells it from others in messages, which never show its path: that may be a secret, too."""

    number: int
    url: str
    secrets: tuple[bytes, ...]

    @property
    def name(self) -> str:
        return f"webhook {self.number} ({urlsplit(self.url).hostname})"


def endpoints(said: str) -> list[Endpoint]:
    """Addresses, each followed by its secrets. NotReady, without showing any of it, if that is not what is said."""
    found: list[tuple[str, list[bytes]]] = []
    for number, word in enumerate(said.split(), 1):
        if word.startswith(("http://", "https://")) and _host(word):
            found.append((word, []))
        elif word.startswith(PREFIX) and found:
            found[-1][1].append(_key(word, number))
        else:
            raise NotReady(f"{VARIABLE}: word {number} is neither an address nor a secret ({PREFIX}...) after one")
    if bare := next((number for number, (_, secrets) in enumerate(found, 1) if not secrets), None):
        raise NotReady(f"{VARIABLE}: address {bare} is followed by no secret ({PREFIX}...)")
    return [Endpoint(number, url, tuple(secrets)) for number, (url, secrets) in enumerate(found, 1)]


def _host(url: str) -> str | None:
    try:
        return httpx.URL(url).host
    except httpx.InvalidURL:
        return None


def _key(word: str, number: int) -> bytes:
    encoded = word.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise NotReady(f"{VARIABLE}: word {number} is no secret: what follows {PREFIX} is not base64") from error
    if len(key) not in SECRET_BYTES:
        raise NotReady(f"{VARIABLE}: the secret in word {number} has {len(key)} bytes, expected 24 to 64")
    return key


class Webhook:
    def __init__(
        self,
        endpoint: Endpoint,
        timeout: float,
        clock: Callable[[], float] = time.time,
        pauses: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint
        self._timeout = timeout
        self._clock = clock
        self._http = make_http(timeout)
        self._silence = Silence(pauses)
        self._gone = False
        self._not_before = 0.0

    def send(self, notice: Notice) -> None:
        if self._gone:
            raise Refused("it answered 410 and is not asked again; take it out of " + VARIABLE)
        if (pause := self._not_before - self._clock()) > 0:
            raise TemporaryError(f"it wants to be left alone for {pause:.0f} s more")
        body = WebhookNotice(type=f"run.{notice.kind}", timestamp=notice.at, data=notice).model_dump_json().encode()
        headers = {"Content-Type": "application/json", "User-Agent": "crawler-lifecycle"}
        with self._silence.broken():
            answer = self._ask("POST", content=body, headers=headers | self._signature(notice.notice_id, body))
        self._judge(answer)

    def check(self) -> str:
        """There is no request that every receiver takes for nothing; any answer shows that somebody is there."""
        answer = self._ask("OPTIONS")
        if answer.status_code >= 500:
            raise TemporaryError(f"it answers {answer.status_code}")
        return self.name

    def _signature(self, notice_id: str, body: bytes) -> dict[str, str]:
        """With a signature by each secret, a receiver may know the old or the new one."""
        at = str(int(self._clock()))
        signed = f"{notice_id}.{at}.".encode() + body
        made = (hmac.digest(secret, signed, hashlib.sha256) for secret in self._endpoint.secrets)
        return {
            "webhook-id": notice_id,
            "webhook-timestamp": at,
            "webhook-signature": " ".join(f"v1,{base64.b64encode(each).decode()}" for each in made),
        }

    def _ask(self, method: str, **content: object) -> httpx.Response:
        """The status and the headers; nobody needs the rest."""
        try:
            with self._http.stream(method, self._endpoint.url, **content) as answer:  # type: ignore[arg-type]
                return answer
        except httpx.TimeoutException as error:
            raise NoAnswer(f"no answer in {self._timeout:g} s") from error
        except httpx.HTTPError as error:
            raise TemporaryError(f"cannot be reached: {error or type(error).__name__}") from error

    def _judge(self, answer: httpx.Response) -> None:
        status = answer.status_code
        if answer.is_success:
            return
        if status == GONE:
            self._gone = True
            raise Refused("it answers 410: it wants no more notices")
        if status in NOT_THIS_ONE:
            raise Refused(f"it answers {status} and will not take this notice")
        if status in MAY_SAY_WHEN:
            self._not_before = self._clock() + min(_retry_after(answer, self._clock()), LONGEST_PAUSE)
        raise TemporaryError(f"it answers {status}")


def _retry_after(answer: httpx.Response, now: float) -> float:
    """Seconds, said as such or as a date."""
    said = answer.headers.get("Retry-After", "0")
    try:
        if said.isascii() and said.isdigit():
            return float(said)
        return parsedate_to_datetime(said).timestamp() - now
    except (ValueError, OverflowError):
        return 0.0
