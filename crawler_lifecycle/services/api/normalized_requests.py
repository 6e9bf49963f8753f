"""Brings requests into one form, so that endpoints need no code for rare forms.

HEAD becomes a GET whose answer has no body, and an absolute target such as `http://host/path` becomes its path.
"""

from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class NormalizedRequests:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope = _with_path(scope)
        if scope["method"] != "HEAD":
            return await self._app(scope, receive, send)
        return await self._app({**scope, "method": "GET"}, receive, _only_head(send))


def _only_head(send: Send) -> Send:
    """End the answer after its head, so that a stream ends at once, too."""

    async def head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return head


def _with_path(scope: Scope) -> Scope:
    """Accept a target such as `http://host/path`, which clients send to proxies and every server has to accept."""
    raw: bytes = scope["raw_path"] or b""
    if not raw.lower().startswith((b"http://", b"https://")):
        return scope
    path = b"/" + raw.partition(b"//")[2].partition(b"/")[2]
    return {**scope, "raw_path": path, "path": unquote(path.decode("ascii"))}
