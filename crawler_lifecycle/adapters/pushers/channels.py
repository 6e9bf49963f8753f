"""How are browsers told? By Pusher Channels, hosted or any server of that protocol, with the official package.

The package builds and signs the requests; they go out by our own HTTP client, which knows a time-out for all of it,
proxies, and the certificates that this machine trusts.
"""

import json
from typing import Any

import httpx
import pusher
from pusher.errors import PusherBadRequest, PusherError
from pusher.http import Request, process_response
from pusher.util import validate_channel

from crawler_lifecycle.adapters.pushers.http import make_http
from crawler_lifecycle.adapters.pushers.silence import NoAnswer, Silence
from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.errors import NotReady, Refused, TemporaryError
from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.settings.outside import NoticeSettings

LARGEST_ANSWER = 1 << 20  # bytes
LARGEST = 10_000  # bytes of a message; servers refuse more
LONGEST_TEXT = 300  # characters of each text in a notice that is too large; in JSON at most twelve bytes each
MOST_CHANNELS = 100
ENCRYPTED = "private-encrypted-"


class PusherChannels:
    name = "Pusher Channels"

    def __init__(self, app_id: str, settings: NoticeSettings) -> None:
        self._templates = settings.pusher_channels.split()
        self._http = make_http(settings.timeout_seconds)
        self._timeout = settings.timeout_seconds
        self._silence = Silence()
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
                **_server(settings.pusher_url),
            )
        except ValueError as error:
            raise NotReady(f"CRAWLER_NOTICES__PUSHER_APP_ID: expected digits, not {app_id!r}") from error

    def send(self, notice: Notice) -> None:
        with self._silence.broken():
            self._trigger(notice)

    def _trigger(self, notice: Notice) -> None:
        channels = self._channels(str(notice.run_id), notice.run_uid)
        try:
            self._pusher.trigger(channels, f"run-{notice.kind}", message(notice))
        except PusherBadRequest as error:
            raise Refused(f"it will not take this notice: {error}") from error
        except (PusherError, httpx.HTTPError, ValueError) as error:
            raise self._trouble(error) from error

    def check(self) -> str:
        try:
            self._pusher.channels_info()
        except (PusherError, httpx.HTTPError, ValueError) as error:
            raise self._trouble(error) from error
        return f"{self.name} {', '.join(self._templates)}"

    def _channels(self, run_id: str, run_uid: str) -> list[str]:
        return [each.replace("{run_id}", run_id).replace("{run_uid}", run_uid) for each in self._templates]

    def _check_channels(self) -> None:
        if not 1 <= len(self._templates) <= MOST_CHANNELS:
            raise NotReady(f"CRAWLER_NOTICES__PUSHER_CHANNELS: expected 1 to {MOST_CHANNELS} names")
        for channel in self._channels("9" * 20, "f" * 36):
            try:
                validate_channel(channel)
            except ValueError as error:
                raise NotReady(f"CRAWLER_NOTICES__PUSHER_CHANNELS: {channel!r} is no name of a channel") from error
            if channel.startswith(ENCRYPTED):
                raise NotReady(f"CRAWLER_NOTICES__PUSHER_CHANNELS: {channel!r}: encrypted channels are not supported")

    def _trouble(self, error: Exception) -> TemporaryError:
        if isinstance(error, httpx.TimeoutException):
            return NoAnswer(f"no answer in {self._timeout:g} s")
        if isinstance(error, httpx.HTTPError):
            return TemporaryError(f"cannot be reached: {error}")
        if isinstance(error, PusherError):
            return TemporaryError(f"it answers {type(error).__name__}: {error}; are app id, key and secret right?")
        return TemporaryError("it answers 200 and no JSON: does it speak the Pusher protocol?")


def message(notice: Notice) -> str:
    """JSON in ASCII; what is too large is cut, and marked with `shortened`."""
    content = notice.model_dump(mode="json")
    text = json.dumps(content)
    if len(text) <= LARGEST:
        return text
    cut = {name: f"{value[:LONGEST_TEXT]}…" for name, value in content.items() if _is_long(value)}
    return json.dumps(content | cut | {"shortened": True})


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def _server(url: str | None) -> dict[str, Any]:
    """Where a server of one's own is."""
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
    """What the package calls to have a request sent; it makes one for each of its two clients."""

    def __init__(self, _client: object, http: httpx.Client) -> None:
        self._http = http

    def send_request(self, request: Request) -> Any:
        text = bytearray()
        with self._http.stream(request.method, request.url, headers=request.headers, content=request.body) as answer:
            for piece in answer.iter_bytes():
                text += piece
                if len(text) > LARGEST_ANSWER:
                    raise TemporaryError(f"its answer is larger than {LARGEST_ANSWER} bytes")
        return process_response(answer.status_code, text.decode("utf-8", "replace"))
