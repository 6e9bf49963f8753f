"""Metrics of the API's requests: number, status, and time until the answer begins."""

import time
from dataclasses import dataclass, field

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
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
