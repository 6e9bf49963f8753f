"""The client for the HTTP API: typed answers from a real API, errors as classes, repetitions that do no harm."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.client import Api
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, NotReady, PermanentError, TemporaryError
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.requests import HoldFlow, PushFlow
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.audits import AuditRequest
from crawler_lifecycle.model.limits import LimitChange, PauseRequest, ScopeName
from crawler_lifecycle.model.records import RunDetails, RunSummary, TaskOrder
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.settings.processes import RemoteSettings
from crawler_lifecycle.transport.streams import parsed
from tests.client.scripted import DROP, Answer, events, problem, scripted
from tests.kit.data.databases import MakeRun, copy_of, ref_to
from tests.kit.service import apis

STARTED = Answer(201, {"workflow_id": "w", "first_execution_run_id": "f", "run_id": 7, "run_uid": "u", "created": True})
STOPPING = Answer(202, {"run_id": 7, "run_uid": "u", "intent": "STOP", "told": "signal"})
NO_RUNS = Answer(200, {"runs": [], "next": None})


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def remote(api: apis.Api) -> Iterator[Api]:
    with Api(api.url, api.token(*Scope)) as remote:
        yield remote


def test_a_program_reads_runs_with_their_types(remote: Api, make_run: MakeRun) -> None:
    first, second, third = make_run(2), make_run(3, tags=["hot"]), make_run()
    page = remote.runs.page(limit=2)
    assert [type(run) for run in page.items] == [RunSummary] * 2
    assert [run.run_id for run in page.items] == [third.run_id, second.run_id]
    rest = remote.runs.page(limit=2, cursor=page.next)
    assert ([run.run_id for run in rest.items], rest.next) == ([first.run_id], None)
    assert [run.run_id for run in remote.runs.all(tag="hot")] == [second.run_id]
    details = remote.runs.show(second.run_uid)
    assert isinstance(details, RunDetails)
    assert [task.task for task in details.tasks] == [0, 1, 2]
    assert remote.runs.overview(second.run_id).run == details.run
    tasks = remote.runs.tasks(second.run_id, limit=2)
    assert ([task.task for task in tasks.items], tasks.next) == ([0, 1], 2)
    downwards = remote.runs.tasks(second.run_id, limit=2, order=TaskOrder.TASK_DOWN)
    assert ([task.task for task in downwards.items], downwards.next) == ([2, 1], 2)
    assert remote.runs.task(second.run_id, 2) == details.tasks[2]
    assert remote.runs.notices(second.run_id) == []
    assert list(remote.runs.add_tasks(second.run_id, 2, "more")) == [3, 4]
    assert list(remote.runs.add_tasks(second.run_id, 2, "more")) == [3, 4]
    assert remote.token()["scopes"] == [scope.value for scope in sorted(Scope)]


def test_a_program_reads_and_changes_limits_and_flows(remote: Api, api: apis.Api) -> None:
    assert remote.limits.change(LimitChange(label="site:example.com", runs=2, allow_unknown=True))[1].runs == 2
    assert remote.limits.pause(PauseRequest(reason="upgrade"))[0].paused_reason == "upgrade"
    assert remote.limits.resume(ScopeName())[0].paused_at is None
    with pytest.raises(NotFound):
        remote.limits.resume(ScopeName())
    work = Workflow("night", id="night/1").add("shop", crawl("books"))
    answer = remote.flows.push(PushFlow(definition=work.definition()))
    assert (answer.flow_id, answer.created, answer.nudged) == ("night/1", True, False)
    assert not remote.flows.push(PushFlow(definition=work.definition())).created
    assert [flow.id for flow in remote.flows.all()] == ["night/1"]
    assert [job.path for job in remote.flows.jobs("night/1")] == ["shop"]
    assert remote.flows.show("night/1")["status"].id == "night/1"
    assert remote.flows.why("night/1", "shop").path == "shop"
    assert remote.flows.change("night/1", HoldFlow(hold="pause")).changed
    assert "shop" in remote.flows.graph("night/1")
    assert next(remote.flows.follow("night/1")).jobs[0].path == "shop"
    assert remote.audits.overview().findings == []
    with pytest.raises(TemporaryError):  # Temporal is away in this test
        remote.audits.start(AuditRequest())
    with pytest.raises(NotFound):
        remote.flows.show("day")


def test_errors_have_their_classes(remote: Api, api: apis.Api, make_run: MakeRun) -> None:
    run = make_run().run_id
    with pytest.raises(NotFound, match="4711"):
        remote.runs.show(4711)
    with pytest.raises(BadInput) as refused:
        remote.runs.page(statuss="FAILED")
    assert refused.value.field == "statuss"
    with pytest.raises(Conflict, match="INITIALIZING"):
        remote.runs.export(run)
    with Api(api.url, api.token(Scope.READ)) as reader, pytest.raises(NotReady, match="lacks the scope operate"):
        reader.runs.stop(run)
    with Api(api.url, "crawl_wrong") as stranger, pytest.raises(NotReady, match="does not know the token"):
        stranger.runs.show(run)
    with Api(f"{api.url}/elsewhere", "crawl_wrong") as lost, pytest.raises(NotReady):
        lost.runs.show(run)


def test_changes_go_on_behind_a_break(remote: Api, database: Database, make_run: MakeRun) -> None:
    run = make_run()
    changes = remote.changes(run.run_uid)
    assert next(changes).kind == "ready"
    SqlStore(database).runs.mark_started(ref_to(run))
    change = next(changes)
    assert (change.run and change.run.run_id, change.run and change.run.status) == (run.run_id, RunStatus.PROCESSING)
    changes.close()  # type: ignore[attr-defined]
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
    later = remote.changes(run.run_id, last_id=change.id)
    kinds = [next(later) for _ in range(2)]
    assert [change.kind for change in kinds] == ["ready", "run"]
    assert kinds[1].run
    assert kinds[1].run.status is RunStatus.FAILED
    with pytest.raises(NotFound):
        next(remote.changes(4711))


@pytest.mark.long
def test_a_stream_connects_again_with_its_last_id() -> None:
    first = events("event: ready\ndata: {}\nid: 1\n\n: still here\n\nevent: strange\ndata: {}\nid: 2\n\n")
    second = events("event: reset\ndata: {}\nid: 3\n\n")
    with scripted(first, DROP, problem(503, "busy"), second) as server, Api(server.url, "t") as remote:
        changes = remote.changes()
        assert [next(changes).kind for _ in range(2)] == ["ready", "reset"]
        sent = [request.headers.get("last-event-id") for request in server.requests]
        assert sent == [None, "2", "2", "2"]


def test_a_stream_ends_with_the_errors_that_do_not_pass() -> None:
    with scripted(problem(404, "no run 7")) as server, Api(server.url, "t") as remote:
        with pytest.raises(NotFound):
            next(remote.changes(7))
        assert len(server.requests) == 1


def test_events_are_read_by_the_rules() -> None:
    lines = ["data", "", "event: a", "data: 1", "data:2", "id: 5", "", "retry: 3", "", ":comment", "data: 3", ""]
    assert [(event.kind, event.data, event.id) for event in parsed(iter(lines))] == [
        ("message", "", None),
        ("a", "1\n2", "5"),
        ("message", "3", "5"),
    ]


@pytest.mark.long
def test_a_broken_connection_is_tried_again_for_reads_and_for_harmless_commands() -> None:
    with scripted(DROP, DROP, NO_RUNS) as server, Api(server.url, "t") as remote:
        assert remote.runs.page().items == []
    with scripted(DROP, STARTED) as server, Api(server.url, "t") as remote:
        assert remote.runs.start(RunRequest(crawler="books")).run_id == 7
        keys = [request.headers["idempotency-key"] for request in server.requests]
        assert len(keys) == 2
        assert len(set(keys)) == 1
    with scripted(DROP, STOPPING) as server, Api(server.url, "t") as remote:
        assert remote.runs.stop(7).told == "signal"
    with scripted(DROP) as server, Api(server.url, "t") as remote:
        with pytest.raises(TemporaryError, match="gives no answer"):
            remote.runs.page()
        assert len(server.requests) == 3


def test_a_command_with_a_second_effect_is_sent_once() -> None:
    with scripted(DROP) as server, Api(server.url, "t") as remote:
        for command in (
            lambda: remote.runs.resume(7, reopen=True),
            lambda: remote.schedules.trigger("nightly"),
            lambda: remote.limits.resume(ScopeName()),
            lambda: remote.audits.start(AuditRequest()),
        ):
            server.requests.clear()
            with pytest.raises(TemporaryError):
                command()
            assert len(server.requests) == 1


def test_an_outage_behind_the_api_is_an_error_at_once() -> None:
    with scripted(problem(503, "the database is away", {"Retry-After": "5"})) as server, Api(server.url, "t") as remote:
        with pytest.raises(TemporaryError, match="the database is away"):
            remote.runs.page()
        assert len(server.requests) == 1


def test_too_many_requests_wait_as_long_as_the_api_says() -> None:
    busy = problem(429, "too many", {"Retry-After": "1"})
    with scripted(busy, STARTED) as server, Api(server.url, "t") as remote:
        began = time.monotonic()
        assert remote.runs.start(RunRequest(crawler="books")).run_id == 7
        assert time.monotonic() - began >= 1
    later = problem(429, "too many", {"Retry-After": "60"})
    with scripted(later) as server, Api(server.url, "t", seconds=5) as remote:
        with pytest.raises(TemporaryError, match="too many"):
            remote.runs.page()
        assert len(server.requests) == 1


def test_a_slow_api_is_left_after_the_time_limit() -> None:
    with scripted(Answer(200, {}, seconds=30)) as server, Api(server.url, "t", seconds=0.5) as remote:
        began = time.monotonic()
        with pytest.raises(TemporaryError, match=r"no answer in 0\.5 s"):
            remote.runs.page()
        assert time.monotonic() - began < 15
        assert len(server.requests) == 1, "a slow API would only be slower"


def test_an_api_of_another_version_is_understood_as_far_as_possible() -> None:
    newer = Answer(200, {"runs": [], "next": None, "mood": "good"})
    with scripted(newer) as server, Api(server.url, "t") as remote:
        assert remote.runs.page().next is None
    older = Answer(200, {"runs": []})
    with scripted(older) as server, Api(server.url, "t") as remote, pytest.raises(TemporaryError, match="version"):
        remote.runs.page()


def test_answers_of_other_programs_are_called_so() -> None:
    proxy = Answer(502, "<html>Bad Gateway</html>", kind="text/html")
    with scripted(proxy) as server, Api(server.url, "t") as remote, pytest.raises(TemporaryError, match="answers 502"):
        remote.runs.page()
    packed = problem(415, "not packed")
    with scripted(packed) as server, Api(server.url, "t") as remote, pytest.raises(PermanentError, match="415"):
        remote.runs.page()


def test_only_what_was_chosen_is_sent() -> None:
    """An older API would refuse the fields that it does not know."""
    with scripted(STARTED) as server, Api(server.url, "t") as remote:
        remote.runs.start(RunRequest(crawler="books", tasks=2, arguments={"site": "x"}), "order-1")
        (request,) = server.requests
    assert request.body == {"crawler": "books", "tasks": 2, "arguments": {"site": "x"}, "trigger": "api"}
    assert (request.headers["idempotency-key"], request.headers["authorization"]) == ("order-1", "Bearer t")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": None}, "CRAWLER_REMOTE__URL"),
        ({"url": "http://127.0.0.1:1"}, "CRAWLER_REMOTE__TOKEN"),
        ({"url": "http://127.0.0.1:1", "token": "a b"}, "printable"),
        ({"url": "http://127.0.0.1:1", "token_file": "/nowhere/token"}, "cannot be read"),
        ({"url": "https://127.0.0.1:1", "token": "t", "authorities": "/nowhere/ca.pem"}, "no certificates"),
    ],
)
def test_settings_that_cannot_work_say_so(settings: dict[str, object], words: str) -> None:
    with pytest.raises(NotReady, match=words):
        Api.open(RemoteSettings.model_validate(settings))


@pytest.mark.parametrize("url", ["crawler.example", "ftp://crawler.example", "http://"])
def test_what_is_no_address_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput, match="expected the API's address"):
        Api.open(RemoteSettings.model_validate({"url": url, "token": "t"}))


def test_a_password_in_an_address_is_not_shown() -> None:
    with Api("http://ann:s3cr3t@127.0.0.1:1", "t", seconds=2) as remote, pytest.raises(TemporaryError) as error:
        remote.runs.page()
    assert "s3cr3t" not in error.value.message


def test_the_token_comes_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("crawl_x\n")
    with scripted(NO_RUNS) as server:
        with Api.open(RemoteSettings(url=server.url, token_file=file)) as remote:
            remote.runs.page()
        assert server.requests[0].headers["authorization"] == "Bearer crawl_x"


def test_a_program_with_the_api_alone_loads_nothing_heavy() -> None:
    code = (
        "import sys; from crawler_lifecycle.client import Api\n"
        "heavy = {'temporalio', 'sqlalchemy', 'fastapi', 'uvicorn', 'alembic', 'kubernetes', 'boto3'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
