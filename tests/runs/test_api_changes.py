"""The stream of changes: nothing is missed, by whomever it was written, also by who was away."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.notices import NoticeKind
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.http import streams
from crawler_lifecycle.runs.http.streams import id_of, moment_of
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import MakeRun, copy_of, ref_to
from tests.kit.data.flows import pushed
from tests.kit.outside.messages import a_notice
from tests.kit.service.apis import Api, Event, problem, served, stream


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client(Scope.READ) as client:
        yield client


def next_of(events: Iterator[Event], run: RunRecord, status: str) -> Event:
    return next(event for event in events if event.data.get("run_id") == run.run_id and event.data["status"] == status)


def start(database: Database, run: RunRecord) -> None:
    SqlStore(database).runs.mark_started(ref_to(run))


def test_changes_come_as_they_happen(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    before = make_run(2)
    with stream(http, "/v1/changes") as events:
        assert next(events).kind == "ready"
        made = make_run(3)
        assert next_of(events, made, "INITIALIZING").data["tasks"] == {"QUEUED": 3}
        start(database, before)
        told = next_of(events, before, "PROCESSING")
        assert told.data == http.get("/v1/runs?status=PROCESSING").json()["runs"][0]
        SqlStore(database).runs.request_stop(made.run_id, StopRequest(), datetime.now(UTC))
        assert next_of(events, made, "STOPPING").kind == "run"


def test_the_end_comes_with_its_outcome_and_sums(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    run = make_run()
    with stream(http, "/v1/changes") as events:
        assert next(events).kind == "ready"
        end_tasks(database, run, [CrawlResult(outcome="banned", stats={"items": 3})])
        SqlStore(database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
        ended = next_of(events, run, "COMPLETED").data
    assert (ended["outcome"], ended["stats"]) == ("banned", {"items": 3})


def test_who_comes_back_has_missed_nothing(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    first, second = make_run(), make_run()
    with stream(http, "/v1/changes") as events:
        last = next(events).id
    start(database, first)
    third = make_run()
    start(database, second)
    with stream(http, "/v1/changes", last) as events:
        told = {}
        for event in events:
            if event.kind == "run":
                told[event.data["run_id"]] = event.data["status"]
                last = event.id
            if told == {first.run_id: "PROCESSING", third.run_id: "INITIALIZING", second.run_id: "PROCESSING"}:
                break
    start(database, third)
    with stream(http, "/v1/changes", last) as events:
        next_of(events, third, "PROCESSING")


def test_each_event_can_be_the_last_that_was_received(
    http: httpx.Client, database: Database, make_run: MakeRun
) -> None:
    with stream(http, "/v1/changes") as events:
        last = next(events).id
    made = [make_run().run_id for _ in range(4)]
    received = list[int]()
    while len(received) < len(made):  # one event a visit
        with stream(http, "/v1/changes", last) as events:
            event = next(each for each in events if each.kind == "run" and each.data["run_id"] not in received)
        received.append(event.data["run_id"])
        last = event.id
    assert received == made


@pytest.mark.long
def test_a_transaction_that_was_slow_to_commit_is_not_missed(
    http: httpx.Client, database: Database, make_run: MakeRun
) -> None:
    """What it wrote carries an earlier time than what others have been told of meanwhile."""
    slow, quick = make_run(), make_run()
    earlier = datetime.now(UTC) - streams.LOOK_BACK / 2
    with stream(http, "/v1/changes") as events:
        next(events)
        start(database, quick)
        next_of(events, quick, "PROCESSING")
        with database.transaction() as connection:
            late = update(histories).where(histories.c.id == slow.run_id)
            connection.execute(late.values(changed_at=earlier, waiting_cause="late"))
        assert next_of(events, slow, "INITIALIZING").data["waiting_cause"] == "late"


@pytest.mark.long
def test_a_clock_that_is_ahead_hides_nothing(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    ahead, other = make_run(), make_run()
    with stream(http, "/v1/changes") as events:
        next(events)
        with database.transaction() as connection:
            of = update(histories).where(histories.c.id == ahead.run_id)
            connection.execute(of.values(changed_at=datetime.now(UTC) + timedelta(hours=1), waiting_cause="ahead"))
        last = next_of(events, ahead, "INITIALIZING").id
        start(database, other)
        next_of(events, other, "PROCESSING")
    other = make_run()
    with stream(http, "/v1/changes", last) as events:
        next_of(events, other, "INITIALIZING")


def announce(database: Database, run: RunRecord, kind: NoticeKind, notice_id: str) -> None:
    told = {"run_id": run.run_id, "run_uid": run.run_uid, "kind": kind, "at": datetime.now(UTC)}
    SqlStore(database).runs.keep_notice(ref_to(run), a_notice(notice_id).model_copy(update=told))


@pytest.mark.long
def test_notices_come_once_each_and_before_the_state_of_their_run(
    http: httpx.Client, database: Database, make_run: MakeRun
) -> None:
    run, other = make_run(), make_run()
    announce(database, run, NoticeKind.PROGRESS, "before")
    with stream(http, f"/v1/changes?run={run.run_id}") as events:
        next(events)
        start(database, run)
        assert next_of(events, run, "PROCESSING").kind == "run", "a start is no notice of it"
        announce(database, other, NoticeKind.STARTED, "other")
        announce(database, run, NoticeKind.STARTED, "started")
        told = [next(events), next(events)]
        assert [each.kind for each in told] == ["notice", "run"]
        assert told[0].data == http.get(f"/v1/runs/{run.run_id}").json()["notices"][-1]
        announce(database, run, NoticeKind.STARTED, "started")  # its sender has died before it knew
        announce(database, run, NoticeKind.FINISHED, "finished")
        told = [each for each in (next(events), next(events)) if each.kind == "notice"]
        assert [each.data["notice_id"] for each in told] == ["finished"]


def test_who_comes_back_has_missed_no_notice(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    run = make_run()
    with stream(http, "/v1/changes") as events:
        last = next(events).id
    announce(database, run, NoticeKind.STARTED, "started")
    for _ in range(2):  # each event can be the last that was received
        with stream(http, "/v1/changes", last) as events:
            notice = next(event for event in events if event.kind == "notice")
        assert notice.data["notice_id"] == "started"
        last = notice.id


def test_a_notice_of_long_ago_is_not_told_again_because_its_run_changes(
    http: httpx.Client, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    announce(database, run, NoticeKind.STARTED, "started")
    monkeypatch.setattr(streams, "LOOK_BACK", timedelta(0))
    latest = http.get(f"/v1/runs/{run.run_id}").json()["run"]["changed_at"]
    last = id_of(datetime.fromisoformat(latest) + timedelta(microseconds=1))
    with stream(http, "/v1/changes", last) as events:
        next(events)
        start(database, run)
        assert next(events).kind == "run"


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(hours=1)])
@pytest.mark.long
def test_a_new_view_of_a_quiet_run_is_told_nothing_of_what_was_before_it(
    http: httpx.Client, database: Database, make_run: MakeRun, ahead: timedelta
) -> None:
    """Also where the last to write was a machine whose clock is ahead."""
    quiet = make_run()
    announce(database, quiet, NoticeKind.STARTED, "started")
    long_ago = datetime.now(UTC) - 2 * streams.LOOK_BACK
    changed_at(database, quiet, long_ago)
    changed_at(database, make_run(), datetime.now(UTC) + ahead)
    with stream(http, f"/v1/changes?run={quiet.run_id}") as events:
        ready = next(events)
        start(database, quiet)
        told = next(events)
    assert (told.kind, told.data["status"]) == ("run", "PROCESSING")
    assert moment_of(str(ready.id)) > long_ago


@pytest.mark.long
def test_a_new_view_of_all_is_told_nothing_twice_because_a_clock_is_ahead(
    http: httpx.Client, database: Database, make_run: MakeRun
) -> None:
    before, ahead = make_run(), make_run()
    announce(database, before, NoticeKind.STARTED, "started")
    changed_at(database, ahead, datetime.now(UTC) + timedelta(hours=1))
    with stream(http, "/v1/changes") as events:
        next(events)
        made = make_run()
        assert next(events).data["run_id"] == made.run_id


def changed_at(database: Database, run: RunRecord, moment: datetime) -> None:
    with database.transaction() as connection:
        connection.execute(update(histories).where(histories.c.id == run.run_id).values(changed_at=moment))


def test_only_one_run(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    one, other = make_run(), make_run()
    with stream(http, f"/v1/changes?run={one.run_id}") as events:
        next(events)
        start(database, other)
        start(database, one)
        assert next(events).data["run_id"] == one.run_id


def test_more_than_can_be_told_is_told_to_be_read_anew(
    http: httpx.Client, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_CHANGES", 3)
    for _ in range(5):
        make_run()
    with stream(http, "/v1/changes", "0") as events:
        reset = next(events)
    assert reset.kind == "reset"
    assert reset.id is not None
    assert int(reset.id) > 0


@pytest.mark.long
def test_it_is_told_once_and_again_when_more_has_changed(
    http: httpx.Client, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice a second for two minutes, while nothing changed any more."""
    monkeypatch.setattr(streams, "MOST_CHANGES", 3)
    monkeypatch.setattr(streams, "PAUSES_PER_COMMENT", 3)
    runs = [make_run() for _ in range(5)]
    with http.stream("GET", "/v1/changes", headers={"Last-Event-ID": "0"}) as response:
        lines = (line for line in response.iter_lines() if line.startswith((":", "event")))
        assert [next(lines), next(lines)] == ["event: reset", ": still here"]
        start(database, runs[0])
        assert "event: reset" in (next(lines), next(lines))


@pytest.mark.long
def test_of_one_run_everything_is_told_however_much_else_has_changed(
    http: httpx.Client, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_CHANGES", 3)
    one, *others = (make_run() for _ in range(6))
    with stream(http, f"/v1/changes?run={one.run_id}") as events:
        last = next(events).id
        start(database, one)
        for other in others:
            start(database, other)
        assert next(events).data["status"] == "PROCESSING"
    with stream(http, f"/v1/changes?run={one.run_id}", last) as events:
        assert next_of(events, one, "PROCESSING").kind == "run"


@pytest.mark.parametrize(("query", "has_flows"), [("", False), ("?flows=true", True)])
@pytest.mark.long
def test_runs_of_flows_come_only_if_they_are_wanted(
    http: httpx.Client, database: Database, make_run: MakeRun, query: str, has_flows: bool
) -> None:
    own, flow = make_run(), pushed(database, Workflow().add("shop", crawl("books")))
    in_flow = flow.run(flow.start_crawls(flow.start("shop")).crawls[0])
    with stream(http, f"/v1/changes{query}") as events:
        next(events)
        start(database, in_flow)
        start(database, own)
        assert next(events).data["run_id"] == (in_flow if has_flows else own).run_id
    with stream(http, f"/v1/changes?run={in_flow.run_id}", "0") as events:
        assert next_of(events, in_flow, "PROCESSING").data["flow"]["path"] == "shop"


@pytest.mark.long
def test_an_outage_of_the_database_is_told_and_outlived(
    api: Api, http: httpx.Client, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crawler_lifecycle.errors import TemporaryError

    down = threading.Event()
    store = api.app.state.api.control.context.store.records
    since = store.changed_since

    def sometimes(*arguments: object, **options: object) -> object:
        if down.is_set():
            raise TemporaryError("the database does not answer")
        return since(*arguments, **options)

    monkeypatch.setattr(store, "changed_since", sometimes)
    run = make_run()
    with stream(http, "/v1/changes") as events:
        next(events)
        down.set()
        assert (
            next(event for event in events if event.kind == "problem").data["detail"] == "the database does not answer"
        )
        start(database, run)
        down.clear()
        next_of(events, run, "PROCESSING")


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 40, "9" * 65, "١"])
@pytest.mark.long
def test_an_id_from_elsewhere_is_refused(http: httpx.Client, last: str) -> None:
    headers = httpx.Headers({"Last-Event-ID": last}, encoding="utf-8")
    problem(http.get("/v1/changes", headers=headers), 422, "Last-Event-ID")


def test_ids_are_times_to_the_microsecond() -> None:
    moment = datetime(2026, 11, 20, 9, 0, 0, 123457, tzinfo=UTC)
    assert moment_of(id_of(moment)) == moment


def test_streams_are_counted_and_end_with_the_process(database_url: str, tmp_path: Path) -> None:
    with (
        served(tmp_path, database_url, CRAWLER_API__STREAMS="1") as api,
        api.client() as http,
        stream(http, "/v1/changes") as events,
    ):
        assert next(events).kind == "ready"
        problem(http.get("/v1/changes"), 503)
        api.app.state.api.closing.set()
        assert list(events) == []
