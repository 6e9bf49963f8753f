"""Flows as people read them: lists, waits, attempts, timelines, and the runs of flows."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, Conflict, NotFound
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.rules import words
from crawler_lifecycle.flows.store import results as flow_results
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.manager_items import Item, Verdict
from crawler_lifecycle.model.records import FlowPlace, RunFilter
from crawler_lifecycle.model.states import RunStatus
from tests.kit.authors.work import plain
from tests.kit.data.databases import MakeRun
from tests.kit.data.flows import CANCELLED, FAILED, Flow, pushed
from tests.kit.data.managers import managed, over
from tests.kit.data.statements import counted

MIB = 1024 * 1024


def shop(flow: str = "w", family: str | None = None) -> Workflow:
    return Workflow(flow, id=flow, family=family).add("shop", crawl("books")).add("step", plain, max_attempts=2)


def test_lists_are_filtered_and_paged(database: Database) -> None:
    """Graphs 58."""
    first, second, third = (pushed(database, shop(name, "shops" if name != "c" else None)) for name in "abc")
    second.cancel()
    second.go_on()
    records = SqlStore(database).flow_records

    def ids(**filters: object) -> list[str]:
        return [record.id for record in records.page(limit=9, **filters)]  # type: ignore[arg-type]

    assert ids() == ["c", "b", "a"]
    assert [record.id for record in records.page(limit=2)] == ["c", "b"]
    assert ids(before=second.uid) == ["a"]
    assert ids(states=[FlowState.CANCELLED]) == ["b"]
    assert ids(states=[FlowState.EXECUTING], family="shops") == ["a"]
    assert ids(states=[]) == []
    assert ids(ids=["a", "c", "unknown", "A"]) == ["c", "a"]
    assert ids(ids=[]) == []
    assert ids(family="Shops") == []
    assert ids(search="B") == ["b"]
    assert ids(search="%") == []
    with pytest.raises(NotFound):
        ids(before="unknown")
    assert (records.uid_of("a"), records.row("c")) == (first.uid, (third.uid, third.ledger.flow))


def test_flows_that_wait_for_a_person_or_a_host_are_named(database: Database) -> None:
    """A flow with a limit counts only while nothing of it is under way: the limit may hold the step back. A flow whose
    other steps are under way has a host, which is busy."""
    records = SqlStore(database).flow_records
    asks = pushed(database, Workflow("asks", id="asks").add_approval("check"))
    pushed(database, Workflow("lone", id="lone").add("step", plain))
    limited = pushed(database, Workflow("full", id="full", max_parallel=1).add("a", plain).add("b", plain))
    paused = pushed(database, Workflow("held", id="held").add("step", plain))
    asks.go_on()
    paused.hold("pause")
    assert [record.id for record in records.page(limit=9, in_need=True)] == ["asks"], "hosts have a moment"
    later = datetime.now(UTC) + timedelta(seconds=5)
    assert records.awaiting_approval(limit=9) == (1, ["asks"])
    assert records.without_host(later, limit=9) == (2, ["lone", "full"])
    assert records.without_host(later, limit=1) == (2, ["lone"])
    assert records.without_host(later - timedelta(hours=1), limit=9) == (0, [])
    busy = pushed(database, Workflow("busy", id="busy").add("a", plain).add("b", plain))
    busy.begin_steps(busy.start("a"))
    limited.begin_steps(limited.start("a"))
    assert records.without_host(later, limit=9) == (1, ["lone"])
    asks.approve("check")
    assert records.awaiting_approval(limit=9) == (0, [])


def test_flows_in_need_are_counted_by_the_database(database: Database) -> None:
    """All ids were loaded, and all but the first ten were thrown away."""
    records, later = SqlStore(database).flow_records, datetime.now(UTC) + timedelta(seconds=5)
    for name in "abc":
        pushed(database, Workflow(id=name).add("step", plain))
    with counted(database) as statements:
        assert records.without_host(later, limit=2) == (3, ["a", "b"])
    (statement,) = (text for text in statements if "SELECT flows.flow_id" in text)
    assert "LIMIT" in statement


def test_flows_that_ended_with_failed_items_are_named(database: Database) -> None:
    records = SqlStore(database).flow_records
    earlier = datetime.now(UTC) - timedelta(seconds=5)
    bad, good, stopped = (managed(database, name) for name in ("shops/bad", "shops/good", "shops/stopped"))
    for flow, verdict in ((bad, Verdict.BAD), (good, Verdict.OK), (stopped, Verdict.BAD)):
        flow.offer("a")
        flow.ended_run(flow.started())
        flow.react(flow.ended()[0], verdict)
    assert records.with_failed_items(earlier, limit=9) == (0, []), "open flows still retry their items"
    stopped.cancel()
    for flow in (bad, good, stopped):
        over(flow, "finished_with_failures" if flow is bad else "finished")
    assert stopped.ledger.flow.state is FlowState.CANCELLED
    assert records.with_failed_items(earlier, limit=9) == (1, ["shops/bad"])
    assert records.with_failed_items(earlier, limit=0) == (1, [])
    assert records.with_failed_items(datetime.now(UTC) + timedelta(hours=1), limit=9) == (0, [])


def test_refused_items_are_failures_unless_the_manager_closed_as_finished(database: Database) -> None:
    """A manager whose filter had refused sets was amber; one with refused parameters needed nobody's attention."""
    store, earlier = SqlStore(database), datetime.now(UTC) - timedelta(seconds=5)
    failures = {}
    for name, reason in (("bad", "finished_with_failures"), ("filtered", "finished")):
        flow = managed(database, name)
        flow.commit(Item(override={"shop": None}, problem="the parameters name no spider"))
        over(flow, reason)
        (status,) = store.manager_doors.statuses(flow.id)
        sums = store.manager_doors.sums([flow.uid])[flow.uid]
        assert (sums.refused, sums.failures) == (1, status.failures)
        failures[flow.id] = status.failures
    assert failures == {"bad": 1, "filtered": 0}
    assert store.flow_records.with_failed_items(earlier, limit=9) == (1, ["bad"])


def test_lists_count_members_by_state(database: Database) -> None:
    flow, other = pushed(database, shop()), pushed(database, shop("other"))
    flow.begin_steps(flow.start("step"))
    flow.end(flow.last("step"))
    later, earlier = SqlStore(database).flow_records.page(limit=9)
    assert (later.id, later.counts) == (other.id, {MemberState.AVAILABLE: 2})
    assert (earlier.total, earlier.counts) == (2, {MemberState.AVAILABLE: 1, MemberState.COMPLETED: 1})
    assert (later.started_at, later.stopped_at) == (None, None)
    assert earlier.started_at == flow.row("step").started_at


def test_lists_name_the_person_and_the_host_that_a_flow_waits_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = pushed(database, Workflow(id="asks").add_approval("go").add("later", plain, deps="go"))
    steps, taken = (pushed(database, Workflow(id=name).add("a", plain).add("b", plain)) for name in ("steps", "taken"))
    taken.begin_steps(taken.start("a"))

    def waits() -> dict[str, tuple[str, ...]]:
        return {record.id: record.waits_for for record in SqlStore(database).flow_records.page(limit=9)}

    assert waits() == {"taken": (), "steps": (), "asks": ("approval:go",)}, "a host has some seconds to take a step"
    monkeypatch.setattr(words, "HOST_PATIENCE", timedelta(seconds=-1))
    assert waits() == {"taken": (), "steps": (f"host:{plain.__module__}",), "asks": ("approval:go",)}
    asks.approve("go")
    steps.hold("pause")
    assert waits() == {"taken": (), "steps": (), "asks": ()}


def test_a_flow_starts_once_and_stays_started(database: Database) -> None:
    """Graphs 55."""
    flow = pushed(database, shop())
    flow.begin_steps(flow.start("step"))
    (before,) = flow.store.flow_records.page(limit=9)
    flow.end(flow.last("step"), kind=FAILED)
    flow.start_crawls(flow.start("shop"))
    flow.begin_steps(flow.start("step"))
    flow.cancel()
    flow.retry()
    (after,) = flow.store.flow_records.page(limit=9)
    assert after.started_at == before.started_at
    assert after.updated_at > before.updated_at


def test_attempts_are_shown_with_their_ends(database: Database) -> None:
    flow = pushed(database, shop())
    flow.begin_steps(flow.start("step"), token="1")
    flow.end(flow.last("step"), token="1", kind=FAILED, reason="no luck", outcome="Oops", error="Traceback")
    flow.begin_steps(flow.start("step"), token="2")
    flow.end(flow.last("step"), token="2", kind=CANCELLED)
    flow.retry("step")
    flow.begin_steps(flow.start("step"), token="3")
    first, second, third = flow.store.flow_records.attempts("w", 1)
    assert (first.attempt, first.generation, first.kind, first.host) == (1, 1, FAILED, "host of 1")
    assert (first.reason, first.outcome, first.error) == ("no luck", "Oops", "Traceback")
    assert (second.attempt, second.generation, second.kind) == (2, 1, CANCELLED)
    assert (third.attempt, third.generation, third.kind, third.ended_at) == (3, 2, None, None)
    assert flow.store.flow_records.attempts("w", 7) == []


def test_a_crawls_attempt_shows_its_run(database: Database) -> None:
    flow = pushed(database, shop())
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    (attempt,) = flow.store.flow_records.attempts("w", 0)
    assert (attempt.run_id, attempt.kind) == (None, None)
    run = flow.run(start)
    (attempt,) = flow.store.flow_records.attempts("w", 0)
    assert (attempt.run_id, attempt.run_uid, attempt.ended_at) == (run.run_id, run.run_uid, None)
    flow.close(run, RunStatus.FAILED, "stopped")
    (attempt,) = flow.store.flow_records.attempts("w", 0)
    assert (attempt.kind, attempt.outcome) == (CANCELLED, "cancelled")
    assert attempt.ended_at == flow.store.runs.get(run.run_id).finished_at
    assert flow.states["shop"] == "cancelled"


def test_the_timeline_is_read_page_by_page(database: Database) -> None:
    flow = pushed(database, shop(), actor="ann", door="cli")
    flow.hold("pause")
    flow.hold("run")
    records = flow.store.flow_records
    first, second = records.lines("w", after=0, limit=2)
    assert (first.event, first.message, first.actor, first.door) == ("pushed", "added or changed 2 jobs", "ann", "cli")
    assert first.at.tzinfo is UTC
    (third,) = records.lines("w", after=second.number, limit=9)
    assert (second.event, third.event) == ("paused", "resumed")
    assert records.lines("w", after=third.number, limit=9) == []


def test_arguments_of_a_retry_are_shown(database: Database) -> None:
    flow = pushed(database, shop())
    flow.cancel("shop")
    flow.retry("shop", arguments={"lang": "fr"})
    assert flow.store.flow_records.kept("w").arguments == {0: {"lang": "fr"}}


def test_more_results_than_fit_are_refused_by_number(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = pushed(database, Workflow(id="w").add("a", plain).add("b", plain))
    flow.go_on()
    for path in "ab":
        flow.end(flow.last(path), result=f'"{"r" * MIB}"')
    flow.go_on()
    records = flow.store.flow_records
    monkeypatch.setattr(flow_results, "LARGEST_READING", MIB + 2)
    assert records.results("w", [0]) == {0: "r" * MIB}
    with pytest.raises(BadInput, match="job: the results have 2 MiB, and 1 MiB are read at once: name single jobs"):
        records.results("w", [0, 1])


def test_an_unknown_flow_is_refused_everywhere(database: Database) -> None:
    records = SqlStore(database).flow_records
    for read in (
        lambda: records.uid_of("x"),
        lambda: records.row("x"),
        lambda: records.kept("x"),
        lambda: records.results("x", [0]),
        lambda: records.attempts("x", 0),
        lambda: records.lines("x", after=0, limit=1),
    ):
        with pytest.raises(NotFound, match="there is no flow 'x'"):
            read()


# runs of flows


def runs_of(store: SqlStore, **filters: object) -> list[int]:
    page = store.records.page(RunFilter.model_validate(filters), limit=9)
    return [run.run_id for run in page]


def test_a_run_knows_its_place_in_its_flow(database: Database) -> None:
    flow = pushed(database, shop())
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    run = flow.run(start)
    place = FlowPlace(id="w", path="shop", attempt=1)
    assert (run.flow, flow.store.runs.get(run.run_id).flow) == (place, place)
    assert run.request.flow == start.request.flow
    (line,) = flow.store.records.page(RunFilter(flows=True), limit=9)
    assert line.flow == place
    assert flow.store.records.summaries([run.run_id])[0].flow == place


def test_lists_leave_out_runs_of_flows_unless_asked(database: Database, make_run: MakeRun) -> None:
    own = make_run()
    runs = []
    for name in ("w", "other"):
        flow = pushed(database, shop(name))
        runs.append(flow.run(flow.start_crawls(flow.start("shop")).crawls[0]).run_id)
    store = SqlStore(database)
    assert runs_of(store) == [own.run_id]
    assert runs_of(store, flows=True) == [*runs[::-1], own.run_id]
    assert runs_of(store, flow="w") == [runs[0]]
    assert runs_of(store, flow=store.flow_records.uid_of("other")) == [runs[1]]
    assert runs_of(store, flow="unknown") == []
    assert own.flow is None


def test_runs_are_found_by_their_tags(database: Database, make_run: MakeRun) -> None:
    one, both = make_run(tags=["nightly", "nightly"]), make_run(tags=["nightly", "shops"])
    make_run()
    store = SqlStore(database)
    assert runs_of(store, tag="nightly") == [both.run_id, one.run_id]
    assert runs_of(store, tag="shops") == [both.run_id]
    assert runs_of(store, tag="Shops") == runs_of(store, tag="shops ") == []
    (line,) = store.records.page(RunFilter(tag="shops"), limit=9)
    assert line.tags == both.tags == ["nightly", "shops"]


def test_two_workflows_at_once_make_one_run_for_an_attempt(database: Database) -> None:
    """The check before the insert does not see a run that is not committed yet; the unique key does."""
    flow = pushed(database, shop())
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    barrier = Barrier(3)

    def make(number: int) -> int | str:
        other = Flow(SqlStore(database), flow.id, flow.uid)
        barrier.wait()
        try:
            return other.run(start, f"execution-{number}").run_id
        except Conflict as error:
            return error.message

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(make, range(3)))
    (run_id,) = (answer for answer in answers if isinstance(answer, int))
    refusal = f"attempt 1 of 'shop' in flow 'w' has run {run_id} already"
    assert sorted(str(answer) for answer in answers if answer != run_id) == [refusal, refusal]
