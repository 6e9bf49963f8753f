"""Flows read in part: numbers by state that the database counts, chosen members, and news for followers."""

from datetime import UTC, datetime

from sqlalchemy import event, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flow_members
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.ports.records import Part
from crawler_lifecycle.flows.rules.summary import status, status_of
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.kit.authors.work import plain
from tests.kit.data.flows import CANCELLED, FAILED, Flow, pushed

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def graph() -> Workflow:
    """A crawl, a sub-workflow behind the crawl with a leaf and a member with a dependent, and a last step."""
    sub = Workflow(ignore_discarded=True).add("a", plain).add("b", plain, deps="a").add("leaf", plain)
    graph = Workflow(id="w", ignore_discarded=True).add("shop", crawl("books")).add_workflow("sub", sub, deps="shop")
    return graph.add("last", plain, deps="sub")


def counted(flow: Flow) -> FlowStatus:
    """Return the status from the database's counts, after a comparison with the status of the whole ledger."""
    records = flow.store.flow_records
    by_database = status_of(records.tallies(flow.id), NOW)
    assert by_database == status(records.kept(flow.id).ledger, NOW)
    return by_database


def paths(flow: Flow, part: Part) -> list[str]:
    return [row.path for row in flow.store.flow_records.kept(flow.id, part).ledger.members.values()]


def test_counts_are_those_of_the_whole_ledger(database: Database) -> None:
    flow = pushed(database, graph())
    assert counted(flow).counts == {"suspended": 4, "available": 1}
    flow.go_on()
    flow.close(flow.run(flow.start_crawls(flow.last("shop")).crawls[0]))
    assert counted(flow).counts == {"suspended": 4, "completed": 1}, "the run's end counts before a supervisor notes it"
    flow.go_on()
    flow.end(flow.last("sub/a"), flow.last("sub/leaf"), kind=FAILED, reason="no luck")
    assert counted(flow).subs["sub"].counts == {"suspended": 1, "discarded": 2}
    flow.go_on()
    flow.end(flow.last("sub/b"))
    flow.go_on()
    flow.end(flow.last("last"))
    flow.go_on()
    ended = counted(flow)
    assert (ended.state, ended.ok, ended.subs["sub"].ok) == ("discarded", True, False)


def test_a_leaf_that_failed_is_not_ok(database: Database) -> None:
    flow = pushed(database, Workflow(id="w", ignore_discarded=True).add("a", plain).add("b", plain, deps="a"))
    flow.go_on()
    flow.end(flow.last("a"), kind=FAILED)
    flow.go_on()
    flow.end(flow.last("b"))
    flow.go_on()
    assert (counted(flow).state, counted(flow).ok) == ("discarded", True)
    flow.retry("b", completed=True)
    flow.go_on()
    flow.end(flow.last("b"), kind=CANCELLED)
    flow.go_on()
    assert counted(flow).ok is False


def test_a_reopened_run_opens_the_counts(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")).add("other", crawl("books")))
    flow.go_on()
    runs = [flow.run(start) for start in flow.start_crawls(flow.last("shop"), flow.last("other")).crawls]
    for run in runs:
        flow.close(run, RunStatus.FAILED, "stopped")
    assert counted(flow).counts == {"cancelled": 2}
    flow.go_on()
    flow.store.runs.reopen(runs[0].run_id, SupervisorExecution(runs[0].workflow_id, "again"))
    assert counted(flow).counts == {"executing": 1, "cancelled": 1}
    page = flow.read(since=flow.door)
    assert [(seen.number, seen.end) for seen in page.runs] == [(0, 2)]
    flow.go_on()
    flow.close(runs[0], RunStatus.FAILED, "stopped")
    assert [(seen.number, seen.end) for seen in flow.read(since=flow.door).runs] == [(0, 2)]
    assert counted(flow).counts == {"cancelled": 2}


def test_a_part_has_the_wanted_members(database: Database) -> None:
    flow = pushed(database, graph())
    assert paths(flow, Part(states=[MemberState.AVAILABLE])) == ["shop"]
    numbers = flow.store.flow_records.numbers("w", ["sub/b", "sub", "unknown"])
    assert paths(flow, Part(numbers=numbers.values())) == ["sub/b"]
    assert paths(flow, Part(in_flight=True)) == []
    flow.go_on()
    assert paths(flow, Part(in_flight=True)) == ["shop"]
    run = flow.run(flow.start_crawls(flow.last("shop")).crawls[0])
    part = flow.store.flow_records.kept("w", Part(states=[MemberState.EXECUTING]))
    assert (part.last_runs, list(part.definitions), len(part.ledger.groups)) == ({0: run.run_id}, [0], 2)
    flow.close(run)
    assert paths(flow, Part(states=[MemberState.DISCARDED])) == ["shop"], "the row is older than its run's end"


def test_a_part_has_the_members_of_its_groups_with_all_groups_inside(database: Database) -> None:
    inner = Workflow().add("x", plain)
    sub = Workflow().add("a", plain).add_workflow("inner", inner)
    whole = (
        Workflow(id="w")
        .add_workflow("sub", sub)
        .add("subject", plain)
        .add_workflow("other", Workflow().add("a", plain))
    )
    flow = pushed(database, whole)
    assert paths(flow, Part(paths=["sub"])) == ["sub/a", "sub/inner/x"]
    assert paths(flow, Part(paths=["sub/inner", "subject", "unknown"])) == ["sub/inner/x", "subject"]
    assert len(paths(flow, Part(paths=[""]))) == 4
    assert paths(flow, Part()) == []
    kept = flow.store.flow_records.kept("w", Part(paths=["subject"]), defined=False)
    assert (kept.definitions, kept.arguments, [*kept.ledger.members]) == (
        {},
        {},
        [kept.ledger.paths_of_members()["subject"]],
    )


def test_news_are_the_changed_members(database: Database) -> None:
    flow = pushed(database, graph())
    records = flow.store.flow_records
    first = records.news("w", None)
    assert (len(first.changed), first.removal, list(first.lagging)) == (5, 0, [])
    flow.go_on()
    second = records.news("w", max(first.changed.values()))
    assert [number for number, at in second.changed.items() if first.changed[number] != at] == [0]
    flow.close(flow.run(flow.start_crawls(flow.last("shop")).crawls[0]))
    assert list(records.news("w", None).lagging) == [0]
    flow.go_on()
    flow.act()
    third = records.news("w", second.changed[0])
    assert list(third.lagging) == []
    assert third.changed[0] > second.changed[0]


def test_a_change_grows_although_clocks_differ(database: Database) -> None:
    flow = pushed(database, graph())
    ahead = datetime(2100, 1, 1, tzinfo=UTC)
    with database.transaction() as tx:
        tx.execute(update(flow_members).values(changed_at=ahead))
    flow.cancel()
    assert min(flow.store.flow_records.news("w", None).changed.values()) > ahead


def test_a_status_reads_no_members(database: Database) -> None:
    """A status of ten thousand members took two seconds."""
    flow = pushed(database, Workflow(id="w").add_many("many", [plain] * 50))
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    counted_rows = flow.store.flow_records.tallies("w").tallies
    assert [tally.count for tally in counted_rows] == [50]
    assert not [sql for sql in statements if "flow_members.definition" in sql or "flow_members.retry" in sql]
    with database.read() as connection:
        assert connection.scalar(select(flow_members.c.changed_at).limit(1)).tzinfo is UTC  # type: ignore[union-attr]
