"""What may answer in the place of the API server: itself in trouble, what stands in front of it, another cluster?"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

Document = Mapping[str, Any]
JSON = {"Content-Type": "application/json"}
LONG = {"Retry-After": "60"}  # longer than anybody waits before it says so
SOON = {"Retry-After": "1"}
PAGE = "<html><head><title>{0}</title></head><body><h1>{0}</h1><hr>nginx</body></html>"


@dataclass(frozen=True)
class Reply:
    """`to`: requests that begin so (a regular expression of method and address)."""

    status: int
    body: str | Document
    to: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def fits(self, line: str) -> bool:
        return re.match(self.to, line) is not None

    def encoded(self) -> bytes:
        body = (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()
        kind = {"Content-Type": "text/html"} if isinstance(self.body, str) else JSON
        headers = {**kind, **self.headers, "Content-Length": str(len(body)), "Connection": "close"}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


def refusal(status: int, reason: str, message: str, to: str = "", **more: Any) -> Reply:
    """As the API server says no."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return Reply(status, {**body, "message": message, "reason": reason, "code": status}, to, **more)


def page(status: int, to: str = "") -> Reply:
    """As something in front of it does."""
    return Reply(status, PAGE.format(f"{status} {HTTPStatus(status).phrase}"), to)


def nothing_of(run_uid: str) -> list[Reply]:
    """As a cluster knows nothing of a run."""
    lists = {"jobs": ("batch/v1", "JobList"), "pods": ("v1", "PodList")}
    selected = rf"\S*run-uid\S*{run_uid}"
    found = [
        Reply(200, {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": []}, to)
        for path, (version, kind) in lists.items()
        for to in [rf"GET \S*/{path}\?{selected}"]
    ]
    named = rf"\w+ \S*/(jobs|pods)/crawl-{run_uid.replace('-', '')}-"
    return [*found, refusal(404, "NotFound", "not found", named)]


def no_namespace(name: str) -> Reply:
    return refusal(404, "NotFound", f'namespaces "{name}" not found', rf"GET /api/v1/namespaces/{name} ")
