"""The API's middleware: a single form of request for the endpoints, entity tags for their answers, and metrics.

HEAD becomes a GET without a body in the answer, and an absolute target such as `http://host/path` becomes its path. An
entity tag names an answer's content: a client that has the current answer already gets 304 without a body. The metrics
have the number of requests, their status, and the time until the answer begins.
"""

import hashlib
import time
from dataclasses import dataclass, field
from urllib.parse import unquote

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"}  # methods invented by clients share a label
NO_ROUTE = "none"  # label for requests refused before routing, or with an unknown path


@dataclass
class Metrics:
    """The metrics of an API process."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        registry = self.registry
        self.requests = Counter(
            "api_requests", "Requests, by how they were answered", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram("api_request_seconds", "Time until an answer began", registry=registry)
        self.streams = Gauge("api_streams", "Streams that are open", registry=registry)
        self.disk_problem = Gauge(
            "api_disk_problem", "1 while a disk takes no writes or has little room", registry=registry
        )

    def text(self) -> bytes:
        return generate_latest(REGISTRY) + generate_latest(self.registry)


class RequestCounting:
    """Middleware for counting requests, around the gate: refused requests count, too."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began_at, is_answered = time.monotonic(), False

        async def send_and_count(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                self._count(scope, message["status"], began_at)
            await send(message)

        try:
            return await self._app(scope, receive, send_and_count)
        except Exception:  # for any exception, an outer layer of the framework answers 500
            if not is_answered:
                self._count(scope, 500, began_at)
            raise

    def _count(self, scope: Scope, status: int, began_at: float) -> None:
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.observe(time.monotonic() - began_at)


class EntityTags:
    """Middleware that tags answers to GET. Streams and archives pass untagged, since their bodies come in pieces."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            return await self._app(scope, receive, send)
        known_tags = Headers(scope=scope).get("if-none-match", "")
        pending_start = list[Message]()  # the start of the answer, until the body gives the tag

        async def send_tagged(message: Message) -> None:
            if message["type"] == "http.response.start" and _may_be_tagged(message):
                pending_start.append(message)
                return
            if pending_start:
                start = pending_start.pop()
                is_whole_body = not message.get("more_body", False)
                if is_whole_body and _set_tag(start, message["body"], known_tags):
                    message = {**message, "body": b""}
                await send(start)
            await send(message)

        return await self._app(scope, receive, send_tagged)


def _may_be_tagged(start: Message) -> bool:
    """Return whether the answer is a success without an own tag and may be stored by the client."""
    headers = Headers(raw=start["headers"])
    return start["status"] == 200 and "etag" not in headers and headers.get("cache-control") != "no-store"


def _set_tag(start: Message, body: bytes, known_tags: str) -> bool:
    """Tag the answer. Return whether the client has the body already; then the answer becomes a 304.

    The tag is weak, since a later layer may compress the body.
    """
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = MutableHeaders(raw=start["headers"])
    headers["ETag"] = tag
    headers.setdefault("Cache-Control", "private, no-cache")
    is_known = known_tags.strip() == "*" or tag in [known_tag.strip() for known_tag in known_tags.split(",")]
    if is_known:
        start["status"] = 304
        del headers["Content-Length"]
    start["headers"] = headers.raw
    return is_known


class NormalizedRequests:
    """Middleware that gives endpoints a GET for a HEAD, and a path for an absolute target."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope = _with_relative_target(scope)
        if scope["method"] != "HEAD":
            return await self._app(scope, receive, send)
        return await self._app({**scope, "method": "GET"}, receive, _send_only_head(send))


def _send_only_head(send: Send) -> Send:
    """Return a `send` that ends the answer after its head, so that a stream ends, too."""

    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return send_head


def _with_relative_target(scope: Scope) -> Scope:
    """Accept a target such as `http://host/path`, which clients send to proxies and every server has to accept."""
    raw: bytes = scope["raw_path"] or b""
    if not raw.lower().startswith((b"http://", b"https://")):
        return scope
    path = b"/" + raw.partition(b"//")[2].partition(b"/")[2]
    return {**scope, "raw_path": path, "path": unquote(path.decode("ascii"))}
