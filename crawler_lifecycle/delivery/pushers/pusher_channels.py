"""Pusher that sends notices to browsers by Pusher Channels: the hosted service, or a server with the same protocol.

The official package builds and signs the requests. The project's HTTP client sends the requests, because this client's
time limit covers the whole request.
"""

import json
from typing import Any

import httpx
import pusher
from pusher.errors import PusherBadRequest, PusherError
from pusher.http import Request, process_response
from pusher.util import validate_channel

from crawler_lifecycle.delivery.pushers.circuit_breaker import CircuitBreaker, NoAnswer
from crawler_lifecycle.errors import NotReady, Refused, TemporaryError
from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.model.notices import AnyNotice, Notice
from crawler_lifecycle.settings.outside import NoticeSettings
from crawler_lifecycle.transport.http_client import HttpClient

LARGEST_ANSWER = 1 << 20  # bytes of an answer by Pusher Channels
LARGEST_MESSAGE = 10_000  # bytes; servers refuse larger messages
LEFT_OUT: dict[str, Any] = {"stats": None, "result": None, "failures": []}  # fields left out above LARGEST_MESSAGE
SHORTENED_LENGTH = 300  # characters kept from a long text in a notice above LARGEST_MESSAGE
MOST_CHANNELS = 100  # servers refuse a message to more channels
ENCRYPTED_PREFIX = "private-encrypted-"  # names of encrypted channels begin so


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
