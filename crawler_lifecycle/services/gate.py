"""Who may speak to an HTTP service, and how much may they send? Asked before anything else is looked at."""

import hmac
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler_lifecycle.services.problems import problem


class Gate:
    """Lets through who has the token, and bodies up to a size; a path in `open_paths` needs no token."""

    def __init__(self, app: ASGIApp, token: str, open_paths: Collection[str], largest_body: int) -> None:
        self.app = app
        self.expected = f"Bearer {token}".encode()
        self.open_paths = open_paths
        self.largest_body = largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["path"] not in self.open_paths and not self._may_pass(headers):
            answer = problem(401, "a valid bearer token is needed", headers={"WWW-Authenticate": "Bearer"})
            await answer(scope, receive, send)
        elif int(headers.get("content-length", "0")) > self.largest_body:
            await problem(413, self._too_large())(scope, receive, send)
        else:
            await self.app(scope, self._counting(receive), send)

    def _may_pass(self, headers: Headers) -> bool:
        given = headers.get("authorization", "").encode("latin-1")
        scheme, _, credentials = given.partition(b" ")
        return hmac.compare_digest(scheme.title() + b" " + credentials.strip(), self.expected)

    def _counting(self, receive: Receive) -> Receive:
        """For a body whose size was not announced."""
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
