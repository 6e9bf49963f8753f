"""Speaks to the API server as one user: the bed's own hand, not what is tested."""

import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
PATIENCE = 60.0
MERGE = "application/merge-patch+json"


class Answer(Exception):
    """The API server answered with an error."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(
            f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text}"
        )
        self.status = response.status_code
        self.text = response.text


class Trust(ssl.SSLContext):
    """Shared by threads: httpcore would change it with each connection, while others are made of it."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None: ...


class Client:
    def __init__(self, url: str, token: str, trust: ssl.SSLContext) -> None:
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, verify=trust, timeout=30, trust_env=False
        )

    def get(self, path: str, **query: str | int) -> Any:
        return self._answer(self.http.get(path, params=query))

    def items(self, path: str, **query: str | int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(path, **query)["items"]
        return found

    def text(self, path: str, **query: str | int) -> str:
        return _checked(self.http.get(path, params=query)).text

    def post(self, path: str, body: Mapping[str, Any], **query: str | int) -> Any:
        return self._answer(self.http.post(path, json=body, params=query))

    def merge(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._answer(self.http.patch(path, json=body, headers={"Content-Type": MERGE}))

    def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._answer(self.http.request("DELETE", path, json=body or {}))

    def exists(self, path: str) -> bool:
        response = self.http.get(path)
        return response.status_code != httpx.codes.NOT_FOUND and bool(_checked(response))

    def close(self) -> None:
        self.http.close()

    def _answer(self, response: httpx.Response) -> Any:
        return _checked(response).json()


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        raise Answer(response)
    return response


def until(find: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """What `find` gives once it gives something."""
    end = time.monotonic() + patience
    while not (found := find()):
        assert time.monotonic() < end, f"waited {patience} s in vain: {what}"
        time.sleep(0.05)
    return found
