"""Gate of an HTTP service: checks token and size before any endpoint sees a request."""

import hmac
from collections.abc import Callable, Collection

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler_lifecycle.services.problems import problem

# given a bearer token ("" without one) and the request: the refusal, or None
Admit = Callable[[str, Scope], Response | None]


def only(token: str) -> Admit:
    """Admit callers with exactly this token."""

    def admit(given: str, _: Scope) -> Response | None:
        return None if hmac.compare_digest(given.encode("latin-1"), token.encode()) else no_token()

    return admit


def no_token() -> Response:
    return problem(401, "a valid bearer token is needed", headers={"WWW-Authenticate": "Bearer"})


class Gate:
    """Middleware that admits callers and limits bodies; paths in `open_paths` need no token."""

    def __init__(self, app: ASGIApp, admit: Admit, open_paths: Collection[str], largest_body: int) -> None:
        self.app = app
        self.admit = admit
        self.open_paths = open_paths
        self.largest_body = largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["path"] not in self.open_paths and (refusal := self.admit(_bearer(headers), scope)):
            await refusal(scope, receive, send)
        elif (packed := headers.get("content-encoding", "identity").lower()) != "identity":
            await problem(415, f"expected a body that is not packed, not {packed[:40]}", "Content-Encoding")(
                scope, receive, send
            )
        elif int(headers.get("content-length", "0")) > self.largest_body:
            await problem(413, self._too_large())(scope, receive, send)
        else:
            await self.app(scope, self._counting(receive), send)

    def _counting(self, receive: Receive) -> Receive:
        """Count a body without an announced size."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.largest_body:
                raise HTTPException(413, self._too_large())
            return message

        return counted

    def _too_large(self) -> str:
        return f"the body is larger than {self.largest_body} bytes"


def _bearer(headers: Headers) -> str:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""
