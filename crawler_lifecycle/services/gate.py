"""Gate of an HTTP service: refuses strangers and large bodies before an endpoint sees the request."""

import hmac
from collections.abc import Callable, Collection

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler_lifecycle.services.problems import problem

# takes the request's bearer token ("" without a token) and the request; returns the refusal, or None to admit
CallerCheck = Callable[[str, Scope], Response | None]


def require_token(token: str) -> CallerCheck:
    """Return a check that refuses every caller without exactly this token."""

    def check(given: str, _: Scope) -> Response | None:
        # Starlette decodes headers as latin-1; the comparison takes strings in ASCII only, so it gets bytes
        return None if hmac.compare_digest(given.encode("latin-1"), token.encode()) else no_token()

    return check


def no_token() -> Response:
    return problem(401, "a valid bearer token is needed", headers={"WWW-Authenticate": "Bearer"})


class Gate:
    """Middleware that checks callers and limits bodies. Paths in `open_paths` need no token."""

    def __init__(self, app: ASGIApp, check_caller: CallerCheck, open_paths: Collection[str], largest_body: int) -> None:
        self.app = app
        self.check_caller = check_caller
        self.open_paths = open_paths
        self.largest_body = largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["path"] not in self.open_paths and (refusal := self.check_caller(_bearer(headers), scope)):
            await refusal(scope, receive, send)
        elif (packed := headers.get("content-encoding", "identity").lower()) != "identity":
            await problem(415, f"expected a body that is not packed, not {packed[:40]}", "Content-Encoding")(
                scope, receive, send
            )
        elif int(headers.get("content-length", "0")) > self.largest_body:
            await problem(413, self._too_large())(scope, receive, send)
        else:
            await self.app(scope, self._limited(receive), send)

    def _limited(self, receive: Receive) -> Receive:
        """Count the bytes received: a body may come without an announced size."""
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
