"""Clients that do not read, do not finish what they send, take too many places, or ask in an unusual form."""

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.http import gate
from crawler_lifecycle.http.http_process import TimeLimitedProtocol
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.runs.commands.reading import RunReader
from tests.kit.data.databases import MakeRun, copy_of
from tests.kit.service.apis import Api, problem, served, stream

PATIENCE = 30.0


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


@pytest.fixture
def impatient(database_url: str, tmp_path: Path) -> Iterator[Api]:
    with served(tmp_path, database_url, CRAWLER_API__CLIENT_SECONDS="1") as api:
        yield api


@pytest.fixture
def endless_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: RunReader, run_uid: str, task: object, offset: int = 0) -> LogChunk:
        return LogChunk(text="x" * 500_000, offset=offset + 500_000, ended=False)

    monkeypatch.setattr(RunReader, "task_log", endless)


def connect(api: Api, sent: str) -> socket.socket:
    """A connection that has sent this."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.settimeout(PATIENCE)
    connection.connect((urlsplit(api.url).hostname, urlsplit(api.url).port))
    connection.sendall(sent.encode())
    return connection


def unread_stream(api: Api, run_id: int, token: str) -> socket.socket:
    head = f"GET /v1/runs/{run_id}/logs/stream HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {token}\r\n\r\n"
    return connect(api, head)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


@pytest.mark.long
def test_a_stream_that_nobody_reads_ends(impatient: Api, make_run: MakeRun, endless_log: None) -> None:
    streams = impatient.app.state.api.streams
    with unread_stream(impatient, make_run().run_id, impatient.token(Scope.READ)):
        until(lambda: streams.open_count == 1)
        until(lambda: streams.open_count == 0)


@pytest.mark.long
def test_a_stream_that_is_read_slowly_goes_on(impatient: Api, make_run: MakeRun, endless_log: None) -> None:
    streams = impatient.app.state.api.streams
    with unread_stream(impatient, make_run().run_id, impatient.token(Scope.READ)) as slow:
        until(lambda: streams.open_count == 1)
        for _ in range(30):  # three times as long as one that is not read may last
            assert slow.recv(1 << 20)
            time.sleep(0.1)
        assert streams.open_count == 1


@pytest.mark.long
def test_a_stream_that_nobody_reads_ends_with_its_token(
    api: Api, make_run: MakeRun, endless_log: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = api.app.state.api.streams
    token = api.tokens.make("guest", [Scope.READ])
    with unread_stream(api, make_run().run_id, token):
        until(lambda: streams.open_count == 1)
        time.sleep(0.5)  # until its send is blocked
        api.tokens.revoke("guest")
        revoked = time.monotonic()
        until(lambda: streams.open_count == 0)
        assert time.monotonic() - revoked < 15, "that is half of the time for a client that does not read"


def test_one_token_leaves_streams_to_others(database_url: str, tmp_path: Path) -> None:
    with (
        served(tmp_path, database_url, CRAWLER_API__STREAMS_OF_ONE_TOKEN="2") as api,
        api.client() as greedy,
        api.client() as other,
        ExitStack() as streams,
    ):
        followed = [streams.enter_context(stream(greedy, "/v1/changes")) for _ in range(2)]
        assert [next(events).kind for events in followed] == ["ready", "ready"]
        refused = greedy.get("/v1/changes")
        assert "2 streams of the token" in problem(refused, 429).detail
        assert int(refused.headers["retry-after"]) >= 1
        assert greedy.get("/v1/runs").status_code == 200
        with stream(other, "/v1/changes") as events:
            assert next(events).kind == "ready"


@pytest.mark.parametrize(
    "unfinished",
    [
        "",
        "GET /healthz HTTP/1.1\r\nHost: api\r\nX-Slow: ",
        "POST /v1/runs HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 100\r\n\r\n{",
        "POST /v1/runs HTTP/1.1\r\nHost: api\r\nContent-Length: 100\r\n\r\n{",
        "GET /healthz HTTP/1.1\r\nHost: api\r\n\r\nGET /healthz HTTP/1.1\r\nHost: ",
    ],
    ids=["nothing", "half a head", "half a body", "half a body without a token", "half a head after a request"],
)
@pytest.mark.long
def test_a_request_that_never_ends_is_ended(impatient: Api, unfinished: str) -> None:
    """However steadily bytes drip in."""
    with connect(impatient, unfinished.replace("TOKEN", impatient.token())) as connection:
        connection.settimeout(0.2)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline
            try:
                if unfinished:
                    connection.sendall(b"x")
                if is_closed(connection):
                    return
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                return


@pytest.mark.long
def test_a_connection_is_kept_between_requests_and_during_long_answers(impatient: Api) -> None:
    with impatient.client() as http, stream(http, "/v1/changes") as events:
        assert next(events).kind == "ready"
        with closing(HTTPConnection(urlsplit(impatient.url).netloc, timeout=PATIENCE)) as kept:
            kept.request("GET", "/healthz")
            assert kept.getresponse().read()
            connection = kept.sock
            time.sleep(0.5)
            kept.request("GET", "/healthz")
            assert kept.getresponse().status == 200
            assert kept.sock is connection, "a connection that was closed is opened anew"
        time.sleep(2)  # longer than a client may take
        assert impatient.app.state.api.streams.open_count == 1


@pytest.mark.regression("On a kept connection, every answer's body came 40 ms after its head")
def test_a_body_does_not_wait_for_the_client_to_confirm_the_head(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    options, connection_made = list[int](), TimeLimitedProtocol.connection_made

    def note(protocol: TimeLimitedProtocol, transport: asyncio.Transport) -> None:
        connection_made(protocol, transport)
        connection = transport.get_extra_info("socket")
        options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(TimeLimitedProtocol, "connection_made", note)
    with api.client() as http:
        assert http.get("/healthz").status_code == 200
    assert options == [1]


def test_a_client_that_repeats_without_a_pause_is_refused_slowly(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "PAUSE", 0.3)
    with (
        served(tmp_path, database_url, CRAWLER_API__REQUESTS_PER_SECOND="0.1") as api,
        api.client() as greedy,
        api.client() as other,
    ):
        assert greedy.get("/v1/me").status_code == 200
        began = time.monotonic()
        refused = [greedy.get("/v1/me") for _ in range(2)]
        assert time.monotonic() - began >= 2 * 0.3
        assert [problem(answer, 429).code for answer in refused] == 2 * ["too_many_requests"]
        assert other.get("/v1/me").status_code == 200


def test_all_methods_of_a_path_are_named(http: httpx.Client) -> None:
    for path, allowed in (
        ("/v1/runs", "GET, HEAD, POST"),
        ("/v1/runs/1", "GET, HEAD"),
        ("/v1/runs/1/stop", "POST"),
        ("/v1/schedules/nightly", "GET, HEAD, PUT, DELETE"),
    ):
        refused = http.patch(path)
        problem(refused, 405)
        assert refused.headers["allow"] == allowed


@pytest.mark.long
def test_head_is_get_without_the_body(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run().run_id
    for path in ("/v1/runs", f"/v1/runs/{run}", "/healthz", "/"):
        head, get = http.head(path), http.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == get.headers["content-type"]
    assert http.head("/v1/runs/4711").status_code == 404
    assert http.head("/v1/changes").headers["content-type"].startswith("text/event-stream")
    assert http.head("/v1/runs/1/stop").status_code == 405


def test_parameters_that_are_strange_are_refused(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run().run_id
    assert (
        "limit, listed, outcome, reason, requested_by, search, since, status"
        in problem(http.get("/v1/runs?statuss=FAILED"), 422, "statuss").detail
    )
    problem(http.get("/v1/runs?search=a&search=b"), 422, "search")
    assert http.get("/v1/runs?status=COMPLETED&status=FAILED").status_code == 200
    problem(http.get(f"/v1/runs/{run}?x=1"), 422, "x")
    problem(http.get("/v1/changes?runs=1"), 422, "runs")
    problem(http.post("/v1/runs?key=1", json={"crawler": "books"}), 422, "key")
    assert http.get("/?utm_source=mail").status_code == 200
    assert http.get("/healthz?x").status_code == 200


def test_a_packed_body_is_refused_as_such(http: httpx.Client) -> None:
    body = gzip.compress(json.dumps({"crawler": "books"}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert "gzip" in problem(http.post("/v1/runs", content=body, headers=headers), 415).detail


def test_an_absolute_target_is_its_path(api: Api) -> None:
    for target, expected in (
        ("http://api.example/healthz?x=http://y/", b"HTTP/1.1 200"),
        ("HTTP://api.example", b"HTTP/1.1 200"),
        ("http://api.example/v1/runs", b"HTTP/1.1 401"),
    ):
        with connect(api, f"GET {target} HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n") as connection:
            assert connection.recv(1 << 16).startswith(expected)


def test_what_is_known_is_not_sent_again_and_what_is_large_is_packed(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run(100).run_id
    for path in (f"/v1/runs/{run}/tasks", "/app.js"):
        whole = http.get(path)
        assert whole.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in whole.headers["vary"].lower()
        plain = http.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == whole.content
        assert int(whole.headers["content-length"]) < len(plain.content) / 2
        again = http.get(path, headers={"If-None-Match": f'"other", {whole.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == whole.headers["etag"]
        assert http.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_stream_is_not_packed_and_comes_at_once(http: httpx.Client) -> None:
    with http.stream("GET", "/v1/changes", headers={"Accept-Encoding": "gzip"}) as response:
        assert "content-encoding" not in response.headers
        assert next(response.iter_lines()) == "event: ready"


def test_new_tasks_say_where_they_are(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run().run_id
    answer = http.post(f"/v1/runs/{run}/tasks", json={"count": 2}, headers={"Idempotency-Key": "more"})
    assert answer.status_code == 201
    assert [task["task"] for task in http.get(answer.headers["location"]).json()["tasks"]] == [1, 2]


def test_a_log_is_text_for_those_who_ask_for_text(
    http: httpx.Client, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole log up to its present end, in as many reads as its parts take."""
    whole = b"page 1 of 20\nS\xc3\xa3o Paulo\n" * 3

    def part(_: RunReader, run_uid: str, task: object, offset: int = 0) -> LogChunk:
        text = whole[offset : offset + 25]
        return LogChunk(text=text.decode(), offset=offset + len(text), ended=not text)

    monkeypatch.setattr(RunReader, "task_log", part)
    path = f"/v1/runs/{make_run().run_id}/logs"
    for accept in ("text/plain", "text/plain, application/json", "text/html, text/plain;q=0.5, */*"):
        answer = http.get(path, headers={"Accept": accept})
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.content == whole
    assert http.get(path, params={"offset": 50}, headers={"Accept": "text/plain"}).content == whole[50:]
    for accept in ("*/*", "application/json", "application/json, text/plain"):
        assert http.get(path, headers={"Accept": accept}).json()["offset"] == 25
    problem(http.get("/v1/runs/4711/logs", headers={"Accept": "text/plain"}), 404)


def test_changes_of_a_run_are_followed_by_either_name(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run()
    for name in (str(run.run_id), run.run_uid):
        with stream(http, f"/v1/changes?run={name}") as events:
            assert next(events).kind == "ready"
    for name in ("4711", "1fb52c80-6a0c-4d34-8ed0-6b1f4a0a8a6e", "nightly"):
        problem(http.get(f"/v1/changes?run={name}"), 404)


def test_all_of_a_run_comes_in_one_answer(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run(3)
    details = http.get(f"/v1/runs/{run.run_uid}/details").json()
    assert details["run"]["run_id"] == run.run_id
    assert [(task["task"], task["events"]) for task in details["tasks"]] == [(0, []), (1, []), (2, [])]
    problem(http.get("/v1/runs/4711/details"), 404)
