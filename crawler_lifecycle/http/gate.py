"""Gate of an HTTP service: refuses strangers and unacceptable bodies before an endpoint sees the request.

A body is JSON as `json_bodies` reads it, neither compressed nor large.
"""

import hmac
from collections.abc import Callable, Collection, Mapping

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler_lifecycle.http.json_bodies import BODY, refuse_body
from crawler_lifecycle.http.problems import problem
from crawler_lifecycle.metrics import REFUSED_CALLERS

METHODS_WITH_A_BODY = ("POST", "PUT", "PATCH", "DELETE")

# A check takes the request's bearer token ("" without a token) and the request, and returns the refusal, or None to
# admit the request.
CallerCheck = Callable[[str, Scope], Response | None]


def require_token(scopes_by_token: Mapping[str, Collection[str]]) -> CallerCheck:
    """Return a check to refuse every caller without exactly one of the tokens.

    Endpoints find the token's scopes in `state.scopes`.
    """

    def check(sent_token: str, scope: Scope) -> Response | None:
        granted: Collection[str] | None = None
        for token, scopes in scopes_by_token.items():  # no early exit: the time of an answer must not reveal a match
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
    """Middleware that checks callers and bodies. Paths in `open_paths` need no token.

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
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        # an open path reads no body: a stranger's body must cost nothing
        if refusal is None and scope["method"] in METHODS_WITH_A_BODY and scope["path"] not in self.open_paths:
            body = await _read(receive, self.largest_body)
            if body is None:  # the client left
                return
            refusal = self._refusal_of_body(headers, body)
            receive = _again(body, receive)
        await (self.app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the refusal of a request by its headers, or None to admit the request."""
        token, is_open = _bearer_token(headers), scope["path"] in self.open_paths
        refusal = self.check_caller(token, scope) if token or not is_open else None
        if refusal is not None and not is_open:
            REFUSED_CALLERS.labels(str(refusal.status_code)).inc()
            return refusal
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            return problem(415, f"expected a body that is not packed, not {encoding[:40]}", "Content-Encoding")
        if int(headers.get("content-length", "0")) > self.largest_body:
            return self._too_large()
        return None

    def _refusal_of_body(self, headers: Headers, body: bytes) -> Response | None:
        if len(body) > self.largest_body:
            return self._too_large()
        return refuse_body(headers, body) if body else None

    def _too_large(self) -> Response:
        return problem(413, f"is larger than {self.largest_body} bytes", BODY)


async def _read(receive: Receive, largest: int) -> bytes | None:
    """Return the body, or its beginning with more than `largest` bytes. None: the client has left.

    The bytes are counted, since a body may come without an announced size.
    """
    body = bytearray()
    while len(body) <= largest:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with the body that was read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def _bearer_token(headers: Headers) -> str:
    """Return the token, or "" without a token."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""
