"""Read streams with server-sent events, and long lists page by page.

After a break, a stream continues without a loss.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

import httpx

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.transport.connection import HttpConnection
from crawler_lifecycle.transport.http_client import LOOPBACK, HttpAnswer

T = TypeVar("T")
Place = TypeVar("Place")
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 30.0  # the API sends a comment every few seconds: a longer silence is a dead connection
PATIENCE_SECONDS = 60.0  # longest outage before the stream gives up
PAUSES = Backoff(timedelta(seconds=0.5), timedelta(seconds=5))


@dataclass(frozen=True, slots=True)
class AnswerPage(Generic[T, Place]):
    """`next` is the next page's place; None for the last page."""

    items: Sequence[T]
    next: Place | None


def every(read: Callable[[Place | None], AnswerPage[T, Place]]) -> Iterator[T]:
    """Yield all pages' items. `read` returns the page at a place; None: the first page."""
    place: Place | None = None
    while True:
        page = read(place)
        yield from page.items
        place = page.next
        if place is None:
            return


@dataclass(frozen=True, slots=True)
class StreamEvent:
    kind: str
    data: str
    id: str | None


def parsed(lines: Iterator[str]) -> Iterator[StreamEvent]:
    """Yield the events in a stream's lines, by the rules for `EventSource` in HTML."""
    kind, data, event_id = "", list[str](), None
    for line in lines:
        if not line:
            if data:
                yield StreamEvent(kind or "message", "\n".join(data), event_id)
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            event_id = value


def followed(
    connection: HttpConnection, path: str, params: Mapping[str, Any] | None = None, last_id: str | None = None
) -> Iterator[StreamEvent]:
    """Yield the stream's events without an end. After a break, continue after the last event.

    TemporaryError if the API has never answered, or after an outage for PATIENCE_SECONDS; another error if the API
    refuses the stream.
    """
    failures, last_contact = 0, time.monotonic()
    with closing(_client(connection)) as client:
        while True:
            try:
                with client.stream("GET", connection.url + path, params=params, headers=_headers(last_id)) as response:
                    _refuse_failure(connection, response)
                    failures, last_contact, connection.has_answered = 0, time.monotonic(), True
                    for event in parsed(response.iter_lines()):
                        last_contact = time.monotonic()
                        last_id = event.id or last_id
                        yield event
            except httpx.HTTPError as error:
                if not connection.has_answered or time.monotonic() - last_contact > PATIENCE_SECONDS:
                    raise connection.away(error) from error
            except TemporaryError:
                if time.monotonic() - last_contact > PATIENCE_SECONDS:
                    raise
            failures += 1
            time.sleep(PAUSES.seconds(failures))


def _client(connection: HttpConnection) -> httpx.Client:
    return httpx.Client(
        headers=connection.headers,
        timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        verify=connection.tls_of_api if connection.tls_of_api is not None else True,
        mounts={f"all://{host}": None for host in LOOPBACK},
    )


def _headers(last_id: str | None) -> dict[str, str]:
    return {"Accept": "text/event-stream"} | ({} if last_id is None else {"Last-Event-ID": last_id})


def _refuse_failure(connection: HttpConnection, response: httpx.Response) -> None:
    """Raise the answer's error unless the answer is a stream."""
    if response.status_code != 200:
        raise connection.error(HttpAnswer(response.status_code, response.headers, response.read()))
