"""How do we speak with the API server? Bytes in, bytes out; every wait has an end, and every error is one of ours.

What may be sent again is decided here and nowhere below: a read whose connection broke, once; anything that was
answered with "too many requests" and how long to wait; anything refused for its token, once, with the token read again.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing, continuation, refusal
from crawler_lifecycle.adapters.kubernetes.http.connection import CANNOT_BE_USED, NOT_REACHED, Access, Connection
from crawler_lifecycle.adapters.kubernetes.http.receiving import (
    GZIP,
    LONGEST_ANSWER_SECONDS,
    PLAIN,
    TooLong,
    as_they_come,
    whole,
)
from crawler_lifecycle.adapters.kubernetes.http.server_clock import ServerClock
from crawler_lifecycle.adapters.kubernetes.http.time_limits import Limits, limits_of
from crawler_lifecycle.settings.cluster import longest_request

JSON = "application/json"
PAGE = 1024  # of a list. Not 1000: the last page of 10,000 would be full, and after a full one comes another, if empty
SMALLER = 8  # by so much, if a page is too long to be received
LISTS_AT_ONCE = 4  # the API server's fairness charges lists by their size
SHORTEST_PAUSE = 0.5  # also where a busy server asks for none
LONGEST_LINE = 8 << 20  # of a watch: a Job has at most 1.5 MiB
TOO_OLD = 410
STALE_CONNECTION = (urllib3.exceptions.ProtocolError, ConnectionError)
BUSY = (429, 503)


class Api:
    """One for a process; may be used by many threads at once."""

    def __init__(self, access: Access) -> None:
        self.namespace = access.namespace
        self.clock = ServerClock()
        self._access = access
        self._connection = Connection(access)
        self._renewing = threading.Lock()
        self._lists = threading.BoundedSemaphore(LISTS_AT_ONCE)

    @property
    def host(self) -> str:
        return self._connection.host

    def batch(self, *names: str) -> str:
        """The path of Jobs in our namespace."""
        return _path("apis", "batch", "v1", "namespaces", self.namespace, *names)

    def core(self, *names: str) -> str:
        """The path of pods, their logs, and events in our namespace."""
        return _path("api", "v1", "namespaces", self.namespace, *names)

    def namespaces(self, name: str) -> str:
        """The path of a namespace itself."""
        return _path("api", "v1", "namespaces", name)

    @property
    def longest_request(self) -> timedelta:
        """From when one is sent first until the API server has given up its last try."""
        return timedelta(seconds=longest_request(self._access.connect_seconds, self._access.read_seconds))

    def get(self, path: str, query: Mapping[str, str | int] | None = None, *, accept: str = JSON) -> bytes:
        return self._whole("GET", path, query, accept)

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """The API server gives it up when we do: what nobody waits for any more should not be made later."""
        return self._whole("POST", path, {"timeout": f"{math.ceil(self._access.read_seconds)}s"}, JSON, body)

    def delete(self, path: str, body: Mapping[str, Any], query: Mapping[str, str | int] | None = None) -> bytes:
        return self._whole("DELETE", path, query, JSON, body)

    def pages(
        self, path: str, query: Mapping[str, str | int] | None = None, *, accept: str = JSON, until: float = math.inf
    ) -> Iterator[bytes]:
        """Yield every page of a list, as of now.

        A list that became too old between two pages begins anew, once: an object may come twice. A page that is too
        long is asked for in smaller pieces. A 404 is ApiFailed: there is always a list, even of nothing, so a 404 says
        that this is not our API server."""
        asked: dict[str, str | int] = {"limit": PAGE, **(query or {})}
        may_begin_anew = True
        while True:
            if not self._lists.acquire(timeout=max(0.0, min(LONGEST_ANSWER_SECONDS, until - time.monotonic()))):
                raise ApiFailed("the other lists of this process do not end: try again")
            try:
                page = self._whole("GET", path, asked, accept, until=until)
            except Missing as error:
                raise ApiFailed(error.message, 404) from error
            except ApiFailed as error:
                if error.status == TOO_OLD and may_begin_anew and "continue" in asked:
                    may_begin_anew = False
                    del asked["continue"]
                elif isinstance(error.__cause__, TooLong) and int(asked["limit"]) > 1:
                    asked["limit"] = max(1, int(asked["limit"]) // SMALLER)
                else:
                    raise
                continue
            finally:
                self._lists.release()
            yield page
            following = continuation(page)
            if not following:
                return
            asked["continue"] = following

    def lines(
        self, path: str, query: Mapping[str, str | int] | None = None, *, accept: str = JSON, silence: float = 60
    ) -> Iterator[bytes]:
        """The lines of an answer that goes on, as they come; an empty one says that it has begun. It ends with the
        answer, or ApiFailed after `silence` or with a line that has no end."""
        pieces: list[bytes] = []  # of a line whose end has not come: joined once, however many there are
        size = 0
        for chunk in self.chunks(path, query, accept=accept, silence=silence):
            if not chunk:
                yield b""
            *ended, rest = chunk.split(b"\n")
            if ended:
                yield from (line for line in (b"".join([*pieces, ended[0]]), *ended[1:]) if line)
                pieces, size = [], 0
            pieces.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:
                raise ApiFailed(f"a line of the Kubernetes API's answer to {path} does not end")
        if last := b"".join(pieces):
            yield last

    def chunks(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        *,
        accept: str = JSON,
        silence: float | None = None,
        until: float = math.inf,
    ) -> Iterator[bytes]:
        """The pieces of an answer that may be long; an empty one says that it has begun. `silence`: how long none may
        come; `until`: when all has to be over. Never packed: a piece might be held back until there are more."""
        limits, headers = self._limits(until, silence), {"Accept": accept, "Accept-Encoding": PLAIN}
        with self._wrapped("GET", path), self._answer("GET", path, query, headers, None, limits) as answer:
            yield b""
            for chunk in as_they_come(answer):
                yield chunk
                if time.monotonic() > limits.last_piece:
                    raise urllib3.exceptions.HTTPError("its answer does not end")

    def _whole(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        accept: str,
        body: object = None,
        until: float = math.inf,
    ) -> bytes:
        headers = {"Accept": accept, "Accept-Encoding": GZIP}
        for last in (method != "GET", True):
            limits = self._limits(until)
            try:
                with self._answer(method, path, query, headers, body, limits) as answer:
                    return whole(answer, limits.last_piece)
            except STALE_CONNECTION as error:
                if last:
                    raise self._unreached(method, path, error) from error
            except NOT_REACHED as error:
                raise self._unreached(method, path, error) from error
        raise AssertionError("not reached")

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        headers: Mapping[str, str],
        body: object,
        limits: Limits,
    ) -> Iterator[urllib3.HTTPResponse]:
        """An answer that says yes. No try begins later than the limits say, however long each took."""
        target = f"{path}?{urlencode(query)}" if query else path
        sent = {**headers, "Content-Type": JSON} if body is not None else headers
        may_renew, timeout = True, (limits.connect, limits.silence)
        while True:
            connection = self._connection
            try:
                if method == "POST":
                    answer = connection.post(target, sent, body, timeout)
                else:
                    answer = connection.request(method, target, sent, body, timeout)
            except CANNOT_BE_USED as error:
                raise self._unreached(method, path, error) from error
            self.clock.set(answer.headers.get("Date"))
            if answer.status < 300:
                break
            failed = refusal(method, path, answer)
            pause = 0.0 if answer.status == 401 else max(failed.retry_after or 0.0, SHORTEST_PAUSE)
            in_time = time.monotonic() + pause <= limits.last_try
            if answer.status == 401 and may_renew and in_time:
                may_renew = False
                self._renew(connection)
            elif answer.status in BUSY and failed.retry_after is not None and in_time:
                time.sleep(pause)
            elif answer.status == 404 and failed.reason == "NotFound":
                raise Missing(failed.message)
            else:
                raise failed
        try:
            yield answer
        finally:
            answer.close()  # unless it was read to its end, which gave the connection back already

    def _limits(self, until: float, silence: float | None = None) -> Limits:
        if until <= time.monotonic():
            raise ApiFailed("there was no time left to ask the Kubernetes API", timed_out=True)
        return limits_of(self._access.connect_seconds, silence or self._access.read_seconds, until)

    @contextmanager
    def _wrapped(self, method: str, path: str) -> Iterator[None]:
        try:
            yield
        except NOT_REACHED as error:
            raise self._unreached(method, path, error) from error

    def _renew(self, used: Connection) -> None:
        """A token that was changed is read again, by the first who is told."""
        with self._renewing:
            if self._connection is used:
                self._connection = Connection(self._access)

    def _unreached(self, method: str, path: str, error: Exception) -> ApiFailed:
        what = str(error) or type(error).__name__
        message = f"no answer of the Kubernetes API at {self.host} to {method} {path}: {what}"
        return ApiFailed(message, timed_out=isinstance(error, urllib3.exceptions.TimeoutError))


def _path(*names: str) -> str:
    return "".join(f"/{quote(name, safe='')}" for name in names)
