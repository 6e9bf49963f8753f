"""Gate of an HTTP service: refuses strangers, and compressed or large bodies, before an endpoint sees the request."""

import hmac
from collections.abc import Callable, Collection, Mapping

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler_lifecycle.services.problems import problem

# A check takes the request's bearer token ("" without a token) and the request, and returns the refusal, or None to
# admit the request.
CallerCheck = Callable[[str, Scope], Response | None]


def require_token(scopes_by_token: Mapping[str, Collection[str]]) -> CallerCheck:
    """Return a check to refuse every caller without exactly one of the tokens.

    Endpoints find the token's scopes in `state.scopes`.
    """

    def check(sent_token: str, scope: Scope) -> Response | None:
        granted: Collection[str] | None = None
        for token, scopes in scopes_by_token.items():  # all of them: the time of a comparison tells nothing
            # bytes, since the comparison refuses strings with other characters than ASCII; Starlette decodes as latin-1
            if hmac.compare_digest(sent_token.encode("latin-1"), token.encode()):
                granted = scopes
        if granted is None:
            return no_token()
        scope.setdefault("state", {})["scopes"] = granted
        return None

    return check


def no_token() -> Response:
    return problem(401, "a valid bearer token is needed", headers={"WWW-Authenticate": "Bearer"})


class Gate:
    """Middleware that checks callers and refuses compressed or large bodies. Paths in `open_paths` need no token.

    The check sees a token that is sent to an open path, too, so that the endpoint may say more to its holder.
    """

    def __init__(self, app: ASGIApp, check_caller: CallerCheck, open_paths: Collection[str], largest_body: int) -> None:
        self.app = app
        self.check_caller = check_caller
        self.open_paths = open_paths
        self.largest_body = largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self.app(scope, self._limited(receive), send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the refusal of a request by its headers, or None to admit the request."""
        headers = Headers(scope=scope)
        token, is_open = _bearer_token(headers), scope["path"] in self.open_paths
        refusal = self.check_caller(token, scope) if token or not is_open else None
        if refusal is not None and not is_open:
            return refusal
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            return problem(415, f"expected a body that is not packed, not {encoding[:40]}", "Content-Encoding")
        if int(headers.get("content-length", "0")) > self.largest_body:
            return problem(413, self._too_large())
        return None

    def _limited(self, receive: Receive) -> Receive:
        """Return a `receive` that counts the bytes, since a body may come without an announced size."""
        received = 0

        async def receive_and_count() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.largest_body:
                raise HTTPException(413, self._too_large())
            return message

        return receive_and_count

    def _too_large(self) -> str:
        return f"the body is larger than {self.largest_body} bytes"


def _bearer_token(headers: Headers) -> str:
    """Return the token, or "" without a token."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""
