"""HTTP client for the Kubernetes API: requests and answers are bytes, every wait is bounded, every error is ours.

Only the client repeats requests: a read once more if its connection broke; any request after an answer 429 or 503 with
a Retry-After; any request once more after a refused token, with the token read again.

Every answer also sets the `ServerClock`, by which the ages of objects are computed.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from crawler_lifecycle.clusters.kubernetes.http import answers
from crawler_lifecycle.clusters.kubernetes.http.connection import ACCESS_FAILED, NOT_REACHED, ApiAccess, ApiConnection
from crawler_lifecycle.metrics import CLUSTER_ANSWERS, CLUSTER_SECONDS
from crawler_lifecycle.settings.cluster import BUSY_SECONDS, longest_request

FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)  # times outside are nonsense
SAME_WITHIN_SECONDS = 2  # clocks that differ by no more than this agree
HALF_A_SECOND = timedelta(seconds=0.5)  # is added to a header's time: the header leaves out up to a second
PERIOD_SECONDS = 1800.0  # the slowest clock in the present and the previous period counts
JSON = "application/json"
# Largest number of objects in a page. With 1000, the last page of 10,000 objects would be full, and an empty page would
# follow.
PAGE = 1024
SHRINKING = 8  # a page too long to receive is requested again with its size divided by this number
LISTS_AT_ONCE = 4  # the API server charges us for a list's size: with more lists, our other requests would have to wait
SHORTEST_PAUSE = 0.5  # a busy server is asked again after this many seconds, even if its Retry-After is shorter
LONGEST_LINE = 8 << 20  # a line with more bytes fails: a line of a watch holds a Job, which has at most 1.5 MiB
TOO_OLD = 410  # HTTP status: the snapshot of a list, from which its pages come, has expired
# errors of a kept connection that the server closed before our request
STALE_CONNECTION = (urllib3.exceptions.ProtocolError, ConnectionError)
BUSY = (429, 503)
# Content type of a proxy's page. The API server sends none: its logs are text/plain.
PAGE_FOR_PEOPLE = "text/html"


class ServerClock:
    """The API server's clock, read from the Date header of its answers. Many threads read and set the clock.

    Ages of objects are computed with this clock: the API server writes the times of Jobs and pods, and the clock of
    this machine may be an hour away from its clock. A Date header has whole seconds and may be old by the time that the
    answer took: the clock is right within a second or two.

    Several API servers may answer, with clocks minutes apart. The slowest clock counts, so no job is ended too early:
    ages may then be too small by the difference.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # the slowest API server's time when our monotonic clock showed 0, in the present and in the previous period
        self._slowest: tuple[datetime, ...] = ()
        self._period_began_at = 0.0  # by our monotonic clock

    def set(self, date: str | None) -> None:
        """Compare the clock with a Date header. A missing or senseless header changes nothing."""
        server_time = _parsed(date)
        if server_time is None:
            return
        with self._lock:
            monotonic = time.monotonic()
            at_zero = server_time + HALF_A_SECOND - timedelta(seconds=monotonic)
            age = monotonic - self._period_began_at
            if self._slowest and age < PERIOD_SECONDS:
                self._slowest = min(at_zero, self._slowest[0]), *self._slowest[1:]
            else:
                previous = self._slowest[:1] if age < 2 * PERIOD_SECONDS else ()
                self._slowest, self._period_began_at = (at_zero, *previous), monotonic

    def now(self) -> datetime:
        """Return the slowest API server's time, or before the first answer the time of our own clock."""
        with self._lock:
            slowest = self._slowest
        return min(slowest) + timedelta(seconds=time.monotonic()) if slowest else datetime.now(UTC)

    @property
    def difference(self) -> timedelta | None:
        """Return how far our clock is ahead of the API server's; None before its first answer."""
        return datetime.now(UTC) - self.now() if self._slowest else None

    def words(self) -> str:
        """Say how far the two clocks are apart, as a part of a sentence."""
        if (ahead := self.difference) is None:
            return "its clock is not known"
        seconds = round(ahead.total_seconds())
        if abs(seconds) <= SAME_WITHIN_SECONDS:
            return "its clock agrees with ours"
        return f"its clock is {abs(seconds)} s {'behind' if seconds > 0 else 'ahead of'} ours"


def _parsed(date: str | None) -> datetime | None:
    try:
        at = parsedate_to_datetime(date or "")
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if FIRST < at < LAST else None


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits of a request: `connect` and `silence` in seconds, `last_try` and `last_piece` by the monotonic clock."""

    connect: float  # a connection that takes longer fails
    silence: float  # an answer fails after this time without data
    last_try: float  # no try begins after this time
    last_piece: float  # no piece is awaited after this time


def time_limits_of(connect: float, silence: float, until: float) -> TimeLimits:
    """Return the limits of a request that has to be over at `until`.

    `connect` and `silence` are cut down to a quarter of the remaining time. The last try needs up to three quarters: to
    connect, to get the answer's beginning, and to wait for the last piece. The earlier tries have the rest, but at most
    BUSY_SECONDS.
    """
    now = time.monotonic()
    quarter = (until - now) / 4
    connect, silence = min(connect, quarter), min(silence, quarter)
    return TimeLimits(connect, silence, min(now + BUSY_SECONDS, until - connect - 2 * silence), until - silence)


class KubernetesApi:
    """Client for the API server. A process has a single client, and many threads may use the client at once."""

    def __init__(self, access: ApiAccess) -> None:
        self.namespace = access.namespace
        self.clock = ServerClock()
        self._access = access
        self._connection = ApiConnection(access)
        self._renewing = threading.Lock()
        self._lists = threading.BoundedSemaphore(LISTS_AT_ONCE)

    @property
    def host(self) -> str:
        return self._connection.host

    def jobs_path(self, *names: str) -> str:
        """Return the path to the Jobs in our namespace, or to a Job."""
        return _path("apis", "batch", "v1", "namespaces", self.namespace, "jobs", *names)

    def core_path(self, kind: str, *names: str) -> str:
        """Return the path to the pods or events in our namespace, to a pod, or to a pod's log."""
        return _path("api", "v1", "namespaces", self.namespace, kind, *names)

    def namespace_path(self, name: str | None = None) -> str:
        """Return the path to a namespace itself: to ours, unless a name is given."""
        return _path("api", "v1", "namespaces", name or self.namespace)

    @property
    def longest_request(self) -> timedelta:
        """Return the longest time from a request's first sending until the API server gives up the last try."""
        return timedelta(seconds=longest_request(self._access.connect_seconds, self._access.read_seconds))

    def get(self, path: str, query: Mapping[str, str | int] | None = None, *, accept: str = JSON) -> bytes:
        """Return the body. Like every request, raise Missing for an object that does not exist, else ApiFailed."""
        return self._whole("GET", path, query, accept)

    def post(self, path: str, body: Mapping[str, Any], query: Mapping[str, str | int] | None = None) -> bytes:
        """Create an object. The API server gives up when we do, so no object appears after we stopped waiting."""
        timeout = f"{math.ceil(self._access.read_seconds)}s"
        return self._whole("POST", path, {"timeout": timeout, **(query or {})}, JSON, body)

    def delete(self, path: str, body: Mapping[str, Any], query: Mapping[str, str | int] | None = None) -> bytes:
        return self._whole("DELETE", path, query, JSON, body)

    def pages(
        self, path: str, query: Mapping[str, str | int] | None = None, *, accept: str = JSON, until: float = math.inf
    ) -> Iterator[bytes]:
        """Yield every page of a list, as of now. A page waits for its turn while LISTS_AT_ONCE others are received.

        A list that became too old between two pages begins anew, once: an object may come twice. A page too long to
        receive is requested again with fewer objects. A 404 becomes ApiFailed: a list always exists, even without
        items, so a server with the answer 404 is not our API server. A repeated token for the next page
        becomes ApiFailed, too: a broken cache would repeat its page indefinitely, in a thread without cancellation.
        """
        page_query: dict[str, str | int] = {"limit": PAGE, **(query or {})}
        may_begin_anew, tokens = True, set[str]()
        while True:
            if not self._lists.acquire(timeout=max(0.0, min(answers.LONGEST_ANSWER_SECONDS, until - time.monotonic()))):
                raise answers.ApiFailed("the other lists of this process do not end: try again")
            try:
                page = self._whole("GET", path, page_query, accept, until=until)
            except answers.Missing as error:
                raise answers.ApiFailed(error.message, 404) from error
            except answers.ApiFailed as error:
                if error.status == TOO_OLD and may_begin_anew and "continue" in page_query:
                    may_begin_anew = False
                    tokens.clear()
                    del page_query["continue"]
                elif isinstance(error.__cause__, answers.TooLong) and int(page_query["limit"]) > 1:
                    page_query["limit"] = max(1, int(page_query["limit"]) // SHRINKING)
                else:
                    raise
                continue
            finally:
                self._lists.release()
            yield page
            next_page = answers.continuation(page)
            if not next_page:
                return
            if next_page in tokens:
                raise answers.ApiFailed(f"the Kubernetes API repeats a page of {path}: is a cache in front of it?")
            tokens.add(next_page)
            page_query["continue"] = next_page

    def lines(
        self, path: str, query: Mapping[str, str | int] | None = None, *, accept: str = JSON, silence: float = 60
    ) -> Iterator[bytes]:
        """Yield the lines of a continuing answer as they arrive; the first line is empty and reports the beginning.

        The lines end with the answer. Raise ApiFailed after `silence` seconds without data, or for a line longer than
        LONGEST_LINE.
        """
        pieces: list[bytes] = []  # parts of the unfinished line, joined when the line ends
        size = 0
        for chunk in self.chunks(path, query, accept=accept, silence=silence):
            if not chunk:  # the answer's beginning
                yield b""
            *line_ends, unfinished = chunk.split(b"\n")
            if line_ends:
                yield from (line for line in (b"".join([*pieces, line_ends[0]]), *line_ends[1:]) if line)
                pieces, size = [], 0
            pieces.append(unfinished)
            size += len(unfinished)
            if size > LONGEST_LINE:
                raise answers.ApiFailed(f"a line of the Kubernetes API's answer to {path} does not end")
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
        """Yield the pieces of a long answer; the first piece is empty and reports the beginning.

        `silence` bounds the seconds without a piece, `until` the whole answer. The answer is never compressed:
        compression could hold a piece back until more data comes.
        """
        limits, headers = self._limits(until, silence), {"Accept": accept, "Accept-Encoding": answers.PLAIN}
        with self._naming_the_request("GET", path), self._answer("GET", path, query, headers, None, limits) as answer:
            yield b""
            for chunk in answers.uncompressed_pieces(answer):
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
        """Return the whole answer.

        Only a GET is sent again after its connection broke. The API server may have carried out a POST or DELETE whose
        answer was lost, and the caller has to read the object before the next try.
        """
        headers = {"Accept": accept, "Accept-Encoding": answers.GZIP}
        may_send_again = method == "GET"
        while True:
            limits = self._limits(until)
            try:
                with self._answer(method, path, query, headers, body, limits) as answer:
                    return answers.read_whole(answer, limits.last_piece)
            except NOT_REACHED as error:
                if not (may_send_again and isinstance(error, STALE_CONNECTION)):
                    raise self._unreached(method, path, error) from error
                may_send_again = False

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        headers: Mapping[str, str],
        body: object,
        limits: TimeLimits,
    ) -> Iterator[urllib3.HTTPResponse]:
        """Yield a successful answer. Raise Missing if the object does not exist, ApiFailed for any other refusal.

        A refused token is read again once, and a busy server is asked again. No try begins later than the limits allow,
        however long the earlier tries took. A broken connection raises one of NOT_REACHED: the caller knows whether the
        request may be sent again. Without a usable token or certificate (ACCESS_FAILED) no request was sent.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        all_headers = {**headers, "Content-Type": JSON} if body is not None else headers
        may_renew, timeout = True, (limits.connect, limits.silence)
        while True:
            connection, began_at = self._connection, time.monotonic()
            try:
                if method == "POST":  # needs a time limit for its body, see `ApiConnection.post`
                    answer = connection.post(target, all_headers, body, timeout)
                else:
                    answer = connection.request(method, target, all_headers, body, timeout)
            except ACCESS_FAILED as error:
                raise self._unreached(method, path, error) from error
            CLUSTER_SECONDS.labels(method).observe(time.monotonic() - began_at)
            CLUSTER_ANSWERS.labels(method, str(answer.status)).inc()
            self.clock.set(answer.headers.get("Date"))
            if answer.status < 300:
                if answer.headers.get("Content-Type", "").startswith(PAGE_FOR_PEOPLE):
                    answer.close()
                    raise answers.ApiFailed(
                        f"a proxy answers {method} {path} with a page instead of the Kubernetes API"
                    )
                break
            failed = answers.refusal(method, path, answer)
            pause = 0.0 if answer.status == 401 else max(failed.retry_after or 0.0, SHORTEST_PAUSE)
            in_time = time.monotonic() + pause <= limits.last_try
            if answer.status == 401 and may_renew and in_time:
                may_renew = False
                self._renew(connection)
            elif answer.status in BUSY and failed.retry_after is not None and in_time:
                # Blocks a thread of ours and no event loop: this client is called in threads only. A thread cannot be
                # cancelled, so `last_try` bounds all pauses of a request together.
                time.sleep(pause)
            elif answer.status == 404 and failed.reason == "NotFound":
                raise answers.Missing(failed.message)
            else:
                raise failed
        try:
            yield answer
        finally:
            answer.close()  # does nothing after reading to the end: the connection is back in the pool

    def _limits(self, until: float, silence: float | None = None) -> TimeLimits:
        """Return a request's time limits. Raise ApiFailed if no time is left until `until`."""
        if until <= time.monotonic():
            raise answers.ApiFailed("there was no time left to ask the Kubernetes API", timed_out=True)
        return time_limits_of(self._access.connect_seconds, silence or self._access.read_seconds, until)

    @contextmanager
    def _naming_the_request(self, method: str, path: str) -> Iterator[None]:
        """Turn the HTTP library's errors into ApiFailed with the request's method and path."""
        try:
            yield
        except NOT_REACHED as error:
            raise self._unreached(method, path, error) from error

    def _renew(self, refused: ApiConnection) -> None:
        """Read the token again, unless another thread has already replaced the refused connection."""
        with self._renewing:
            if self._connection is refused:
                self._connection = ApiConnection(self._access)

    def _unreached(self, method: str, path: str, error: Exception) -> answers.ApiFailed:
        problem = str(error) or type(error).__name__
        CLUSTER_ANSWERS.labels(method, "none").inc()
        message = f"no answer of the Kubernetes API at {self.host} to {method} {path}: {problem}"
        return answers.ApiFailed(message, timed_out=isinstance(error, urllib3.exceptions.TimeoutError))


def _path(*names: str) -> str:
    return "".join(f"/{quote(name, safe='')}" for name in names)
