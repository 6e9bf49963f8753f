"""The API's middleware: a single form of request for the endpoints, and entity tags for their answers.

HEAD becomes a GET without a body in the answer, and an absolute target such as `http://host/path` becomes its path.
With an entity tag, a client with the current answer gets 304 instead of a repetition.
"""

import hashlib
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class EntityTags:
    """Middleware that tags answers to GET. Streams and archives pass untagged, since their bodies come in pieces."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            return await self._app(scope, receive, send)
        known, held = Headers(scope=scope).get("if-none-match", ""), list[Message]()

        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start" and _may_be_tagged(message):
                held.append(message)  # until the body is there
                return
            if held:
                start = held.pop()
                is_whole = not message.get("more_body", False)
                if is_whole and _set_tag(start, message["body"], known):
                    message = {**message, "body": b""}
                await send(start)
            await send(message)

        return await self._app(scope, receive, tagged)


def _may_be_tagged(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return start["status"] == 200 and "etag" not in headers and headers.get("cache-control") != "no-store"


def _set_tag(start: Message, body: bytes, known: str) -> bool:
    """Tag the answer; make the answer a 304 and return True if the client has the body already.

    The tag is weak, since a later layer may compress the body.
    """
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = MutableHeaders(raw=start["headers"])
    headers["ETag"] = tag
    headers.setdefault("Cache-Control", "private, no-cache")
    is_known = known.strip() == "*" or tag in (tag_given.strip() for tag_given in known.split(","))
    if is_known:
        start["status"] = 304
        del headers["Content-Length"]
    start["headers"] = headers.raw
    return is_known


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
