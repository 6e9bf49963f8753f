"""Gate of an HTTP service: refuses strangers, unacceptable bodies and unknown parameters before the endpoint runs.

A caller of the API needs a valid token, and its requests a second are limited. A body is neither compressed nor large,
and `refuse_body` checks that the body is JSON which every reader understands alike, before a lenient reader takes it.

Unknown and repeated query parameters are refused, too: a misspelt filter would otherwise return everything, and a
repeated filter would lose its first value.
"""

import asyncio
import hmac
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NoReturn, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler_lifecycle.base.refusals import LONGEST_FIELD
from crawler_lifecycle.errors import BadInput, LifecycleError
from crawler_lifecycle.http.problems import MOST_MISTAKES, problem, refusal
from crawler_lifecycle.http.tokens import Tokens
from crawler_lifecycle.metrics import REFUSED_CALLERS

BODY = "body"
LONGEST_NAME = 100  # characters of an unknown parameter's name in the answer
DEEPEST = 200  # levels; readers deeper in the stack fail at their limit of recursion, some of them without words
TOO_DEEP = f"is nested more than {DEEPEST} deep"
METHODS_WITH_A_BODY = ("POST", "PUT", "PATCH", "DELETE")
# A check takes the request's bearer token ("" without a token) and the request, and returns the refusal, or None to
# admit the request.
CallerCheck = Callable[[str, Scope], Response | None]
PAUSE = 1.0  # seconds before a 429: clients that repeat without a pause would keep the process busy with refusals
BURST_SECONDS = 4  # after a rest, a caller may send the requests of four seconds at once
LARGEST_NUMBER_OF_BUCKETS = 10_000  # beyond, all buckets are forgotten: strangers must not fill the memory


def refuse_body(headers: Headers, body: bytes) -> Response | None:
    """Return the refusal of a request's body, or None to admit the body."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return problem(415, f"expected application/json, not {media_type[:40] or 'a body without it'}", "Content-Type")
    try:
        _check(body.decode())
    except ValueError as error:  # no UTF-8, no JSON, or a number with thousands of digits
        return problem(400, f"expected JSON in UTF-8: {error}", BODY)
    except BadInput as error:
        return refusal(error)
    return None


def _check(text: str) -> None:
    """Raise ValueError for no JSON, and BadInput for repeated keys, too deep nesting and half surrogate pairs."""
    repeated = list[tuple[object, str]]()  # objects with their repeated keys

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs) and len(repeated) < MOST_MISTAKES:
            times = Counter(name for name, _ in pairs)
            repeated.extend((content, name) for name in content if times[name] > 1)
        return content

    try:
        content = json.loads(text, object_pairs_hook=read_object, parse_constant=_refuse_constant)
        if _is_deep(content):
            raise BadInput(BODY, TOO_DEEP)
        json.dumps(content, ensure_ascii=False).encode()  # no later part can store or send a half pair
    except RecursionError as error:
        raise BadInput(BODY, TOO_DEEP) from error
    except UnicodeEncodeError as error:
        raise BadInput(BODY, "contains half of a surrogate pair, which is no character") from error
    if repeated:
        places = {id(value): field for field, value in _fields(content)}
        fields = [_inner(places.get(id(value), ""), name) for value, name in repeated]
        first, *more = [(field or BODY, "expected once") for field in fields]
        raise BadInput(*first, *more)


def _fields(content: object) -> Iterator[tuple[str, object]]:
    """Yield the body's lists and objects with their fields, such as `arguments`; the whole body has an empty field."""
    unread = [("", content)]
    while unread:
        field, value = unread.pop()
        yield field, value
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        unread += [(_inner(field, str(name)), child) for name, child in children if isinstance(child, dict | list)]


def _inner(field: str, name: str) -> str:
    return (f"{field}.{name[:LONGEST_FIELD]}" if field else name)[:LONGEST_FIELD]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _is_deep(content: object) -> bool:
    level = [content]
    for _ in range(DEEPEST):
        parents = [value for value in level if isinstance(value, dict | list)]
        level = [child for parent in parents for child in (parent.values() if isinstance(parent, dict) else parent)]
        if not level:
            return False
    return True


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
        if refusal is not None and refusal.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            await asyncio.sleep(PAUSE)
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


@dataclass
class RateLimit:
    """Limits the requests of a caller: the caller's bucket gets `per_second` units a second, a request takes a unit."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # by caller: units, and when counted

    def take(self, caller: str) -> float:
        """Take a unit from the caller's bucket and return 0, or return the seconds until the bucket has a unit."""
        now, capacity = self.clock(), max(1.0, self.per_second * BURST_SECONDS)
        if len(self._buckets) > LARGEST_NUMBER_OF_BUCKETS:
            self._buckets.clear()
        units, counted_at = self._buckets.get(caller, (capacity, now))
        units = min(capacity, units + (now - counted_at) * self.per_second)
        if units < 1:
            self._buckets[caller] = (units, now)
            return (1 - units) / self.per_second
        self._buckets[caller] = (units - 1, now)
        return 0.0


class ApiCallerCheck:
    """Refuse a caller without a valid token or with too many requests. Endpoints find the token in `state.caller`.

    Called by the gate: return the refusal, or None to admit the request.
    """

    def __init__(self, tokens: Tokens, per_second: float) -> None:
        self.tokens = tokens
        self.rate_limit = RateLimit(per_second)

    def __call__(self, token: str, scope: Scope) -> Response | None:
        try:
            caller = self.tokens.find(token) if token else None
        except LifecycleError as error:
            return refusal(error)
        address = (scope.get("client") or ("unknown",))[0]
        # strangers are limited before the refusal, by their address, so that no program can try tokens quickly
        wait_seconds = self.rate_limit.take(f"token {caller.name}" if caller else f"address {address}")
        if wait_seconds:
            return problem(429, "too many requests", headers={"Retry-After": str(math.ceil(wait_seconds))})
        if caller is None:
            return no_token()
        scope.setdefault("state", {})["caller"] = caller
        return None


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise BadInput for a query parameter that the endpoint does not have, or that comes more than once."""
    may_be_repeated = dict(_query_parameters(request.scope["route"].dependant))
    known = may_be_repeated.keys()
    for name in request.query_params:
        if name not in known:
            known_parameters = (
                f"the parameters here are {', '.join(sorted(known))}" if known else "there are no parameters here"
            )
            raise BadInput(name[:LONGEST_NAME] or "query", f"unknown parameter: {known_parameters}")
        if not may_be_repeated[name] and len(request.query_params.getlist(name)) > 1:
            raise BadInput(name, "expected once")


def _query_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Yield the names for an endpoint's query parameters, each with whether it may be repeated."""
    for parameter in dependant.query_params:
        kind, fields = parameter.field_info.annotation, {parameter.alias: parameter.field_info}
        if isinstance(kind, type) and issubclass(kind, BaseModel):  # each field is a parameter
            fields = kind.model_fields
        yield from ((name, get_origin(info.annotation) in (list, tuple)) for name, info in fields.items())
    for part in dependant.dependencies:
        yield from _query_parameters(part)
