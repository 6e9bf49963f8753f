"""Doors of flows: push, append, graft, cancel, retry, approve and hold. A repeated request changes nothing."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from sqlalchemy import create_engine, func, literal_column, select, text, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import attempt_ends, flow_groups, flows
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.model.requests import Downstream, GraftMembers, PushFlow
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.rules.merging import new_ledger, push
from crawler_lifecycle.flows.rules.pruning import Age, Rule
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, MemberState
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.kit.authors.wide_flow import wide
from tests.kit.authors.work import SlowWorker, graft_function, item_and_context, plain, with_context
from tests.kit.data.disguise import CONNECT_ARGS
from tests.kit.data.flows import FAILED, Flow, paths, pushed, rows_of


def chain(*names: str, flow: str = "chain") -> Workflow:
    workflow = Workflow(flow, id=flow)
    for name, before in zip(names, (None, *names), strict=False):
        workflow.add(name, plain, deps=before)
    return workflow


def sub(*names: str) -> Workflow:
    workflow = Workflow()
    for name in names:
        workflow.add(name, plain)
    return workflow


def fail(flow: Flow, path: str) -> None:
    """The next attempt of the member fails."""
    start = flow.start(path)
    assert flow.begin_steps(start).mine
    flow.end(start, kind=FAILED, reason="no luck")


def door_of(flow: Flow) -> int:
    """The number of the flow's last door."""
    return flow.door


def test_a_ledger_comes_back_as_it_was_pushed(database: Database) -> None:
    workflow = wide()
    flow = pushed(database, workflow, actor="ann")
    definition = workflow.definition()
    expected = new_ledger(definition)
    push(expected, definition, flow.row("shop").since or datetime.now(UTC)).apply(expected)
    assert flow.ledger == expected
    kept = flow.store.flow_records.kept("wide")
    assert [kept.definitions[number] for number in sorted(kept.definitions)] == list(definition.members)
    assert [kept.groups[number] for number in sorted(kept.groups)] == list(definition.groups)
    assert decode(dict(kept.context or {})) == {"day": datetime(2026, 1, 1, tzinfo=UTC)}
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.id, record.name, record.family) == ("wide", "nightly", "shops")
    assert (record.created_by, record.total) == ("ann", len(definition.members))


def test_a_second_push_of_the_same_content_changes_nothing(database: Database) -> None:
    flow = pushed(database, wide())
    before, door = flow.ledger, door_of(flow)
    again = flow.push(wide())
    assert (again.flow_uid, again.created, again.changed, again.count) == (flow.uid, False, False, 0)
    assert (flow.ledger, door_of(flow), flow.events) == (before, door, ["pushed"])


def test_a_push_of_a_known_id_adds_and_replaces(database: Database) -> None:
    """Graphs 26."""
    flow = pushed(database, chain("a", "b", "c"))
    flow.retry("a")  # a retry of an unstarted member has no effect
    workflow = Workflow("chain", id="chain").add("b", SlowWorker.new({"size": 2}), priority=7).add("d", plain, deps="b")
    answer = flow.push(workflow)
    assert (answer.created, answer.changed, answer.count) == (False, True, 2)
    page = flow.read(since=1)
    assert (page.door, paths(rows_of(page))) == (2, ["b", "d"])
    kept = flow.store.flow_records.kept("chain")
    assert (kept.ledger.members[1].priority, kept.ledger.members[1].needs, kept.ledger.last_member) == (7, (), 3)
    assert kept.definitions[1] == workflow.definition().members[0]
    with pytest.raises(Conflict, match="has the name 'chain', not 'other'"):
        flow.push(Workflow("other", id="chain").add("x", plain))


def test_a_final_flow_takes_further_members_by_a_push(database: Database) -> None:
    """Graphs 27."""
    flow = pushed(database, chain("a"))
    flow.go_on()
    flow.end(flow.last("a"))
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.COMPLETED
    flow.push(chain("a", "b"))
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.state, record.stopped_at) == (FlowState.EXECUTING, None)


def test_a_refused_push_leaves_nothing_behind(database: Database) -> None:
    store = SqlStore(database)
    for workflow, message in (
        (Workflow(id="none"), "has no jobs"),
        (Workflow(id="ring", check_deps=False).add("a", plain, deps="b").add("b", plain, deps="a"), "form a cycle"),
        (Workflow(id="label").add("a", crawl("books", label="no kind")), r"'a', labels"),
    ):
        with pytest.raises(BadInput, match=message):
            store.flow_doors.push(PushFlow(definition=workflow.definition()))
    assert store.flow_records.page(limit=9) == []


def test_two_pushes_at_once_make_one_flow(database: Database) -> None:
    """Graphs 27."""
    barrier = Barrier(4)

    def push_at_once(number: int) -> bool:
        barrier.wait()
        definition = chain("a", f"b{number}", flow="at once").definition()
        return SqlStore(database).flow_doors.push(PushFlow(definition=definition)).created

    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(push_at_once, range(4)))
    assert sorted(created) == [False, False, False, True]
    (record,) = SqlStore(database).flow_records.page(limit=9)
    assert record.total == 5
    ledger = SqlStore(database).flow_records.kept("at once").ledger
    assert sorted(ledger.paths_of_members()) == ["a", "b0", "b1", "b2", "b3"]
    assert ledger.last_member == 4


def test_ids_differ_by_case_and_blanks(database: Database) -> None:
    for flow in ("shop", "Shop", "shop "):
        try:
            pushed(database, chain("a", flow=flow))
        except Conflict:
            assert flow == "shop "  # MySQL's index ignores the blank
    with pytest.raises(NotFound, match="there is no flow 'SHOP'"):
        SqlStore(database).flow_records.kept("SHOP")
    assert pushed(database, chain("a", flow="Shop")).uid == SqlStore(database).flow_records.uid_of("Shop")


def test_an_append_is_made_once_under_its_key(database: Database) -> None:
    """Graphs 73."""
    flow = pushed(database, chain("a"))
    answer = flow.append("first", Workflow().add("x", plain).add("y", plain, deps="x"), actor="bob")
    assert (answer.count, answer.changed) == (2, True)
    before, door = flow.ledger, door_of(flow)
    again = flow.append("first", Workflow().add("z", plain))
    assert (again.count, again.changed) == (0, False)
    assert (flow.ledger, door_of(flow)) == (before, door)
    assert flow.append("empty", Workflow()).changed
    assert not flow.append("empty", Workflow()).changed
    with pytest.raises(Conflict, match="'x' is already in flow"):
        flow.append("second", Workflow().add("x", plain))
    assert flow.events == ["pushed", "appended", "appended"]
    last = flow.store.flow_records.lines("chain", after=0, limit=9)[1]
    assert (last.message, last.actor, last.door) == ("added 2 jobs under the key 'first'", "bob", "python")


def test_a_cancelled_flow_takes_no_further_members(database: Database) -> None:
    """Graphs 61 and 63."""
    flow = pushed(database, chain("a", "b"))
    assert flow.cancel(reason="wrong day", actor="ann").count == 2
    assert flow.states == {"a": "cancelled", "b": "cancelled"}
    door = door_of(flow)
    again = flow.cancel()
    assert (again.count, again.changed, door_of(flow)) == (0, False, door)
    with pytest.raises(Conflict, match="was cancelled and takes no further jobs"):
        flow.append("k", Workflow().add("x", plain))
    line = flow.store.flow_records.lines("chain", after=0, limit=9)[-1]
    assert (line.event, line.message, line.actor) == ("cancelled", "2 jobs: wrong day", "ann")


def test_a_cancel_names_members_and_groups(database: Database) -> None:
    """Graphs 61."""
    flow = pushed(database, wide())
    assert flow.cancel("many", "shop", terminate=False).count == 3
    assert not flow.row("shop").terminate
    assert flow.states["many/0"] == "cancelled"
    assert flow.ledger.flow.accepts_members
    with pytest.raises(NotFound, match="has no job 'nobody'"):
        flow.cancel("nobody")
    with pytest.raises(NotFound, match="there is no flow 'nowhere'"):
        Flow(flow.store, "nowhere", "").cancel()


def test_a_cancel_leaves_out_a_crawl_whose_run_has_ended(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")).add("after", plain, deps="shop"))
    flow.go_on()
    (start,) = flow.start_crawls(flow.last("shop")).crawls
    flow.close(flow.run(start))
    assert flow.cancel().count == 1
    assert flow.states == {"shop": "completed", "after": "cancelled"}


def test_a_retry_starts_a_new_generation(database: Database) -> None:
    """Graphs 64, 65 and 67."""
    flow = pushed(database, chain("a", "b"))
    fail(flow, "a")
    flow.go_on()
    assert flow.states == {"a": "discarded", "b": "cancelled"}
    assert flow.ledger.flow.state is FlowState.DISCARDED
    answer = flow.retry()
    assert (answer.count, answer.changed) == (2, True)
    row = flow.row("a")
    assert (row.state, row.generation, row.attempt, row.tries) == (MemberState.AVAILABLE, 2, 1, 0)
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.state, record.stopped_at) == (FlowState.EXECUTING, None)
    assert record.started_at
    again = flow.retry()
    assert (again.count, again.changed) == (0, False)


def test_a_retry_with_arguments_changes_the_next_attempt(database: Database) -> None:
    workflow = Workflow(id="w").add("a", SlowWorker.new({"size": 2, "name": "x"}), max_attempts=1)
    workflow.add("b", plain, deps="a").add("shop", crawl("books", arguments={"lang": "de"}), deps="b")
    flow = pushed(database, workflow)
    fail(flow, "a")
    flow.go_on()
    flow.retry("a", arguments={"size": 3})
    (step,) = flow.begin_steps(flow.start("a")).mine
    assert step.arguments == {"size": 3, "name": "x"}
    flow.end(flow.last("a"))
    flow.retry("a", completed=True, downstream=Downstream.ALL, arguments={"name": "y"})
    (step,) = flow.begin_steps(flow.start("a")).mine
    assert step.arguments == {"size": 3, "name": "y"}
    flow.cancel("shop")
    with pytest.raises(BadInput, match="arguments"):
        flow.retry("shop", arguments={"lang": 5})
    flow.append("k", Workflow().add_cascade("items", (["text"], item_and_context)))
    flow.cancel("items/0")
    with pytest.raises(BadInput, match="takes no arguments by name"):
        flow.retry("items/0", arguments={"x": 1})
    assert flow.row("shop").state is MemberState.CANCELLED
    flow.retry("shop", arguments={"lang": "fr"})
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    assert start.request.arguments == {"lang": "fr"}


def test_a_decision_is_on_record_before_the_flow_comes_to_its_approval(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("a", plain).add_approval("release", deps="a"))
    answer = flow.approve("release", actor="ann", note="fine")
    assert (answer.count, answer.changed) == (1, True)
    assert not flow.approve("release", actor="ann").changed
    with pytest.raises(Conflict, match="approval 'release' is approved already"):
        flow.approve("release", approved=False, actor="bob")
    flow.begin_steps(flow.start("a"))
    flow.end(flow.last("a"))
    flow.go_on()
    assert flow.states["release"] == "completed"
    decision = decode(flow.store.flow_records.results("w", [1])[1])
    assert (decision["approved"], decision["actor"], decision["note"]) == (True, "ann", "fine")
    assert decision["at"].tzinfo is UTC
    with pytest.raises(Conflict, match="is completed already"):
        flow.approve("release", approved=False)
    with pytest.raises(BadInput, match="'a' is no approval"):
        flow.approve("a")
    assert flow.events == ["pushed", "approved", "ended"]


def test_holds(database: Database) -> None:
    flow = pushed(database, chain("a", "b"))
    assert flow.hold("pause").changed
    assert not flow.hold("pause").changed
    assert flow.store.flow_records.row("chain")[1].state is FlowState.PAUSED
    flow.hold("run")
    flow.hold("drain")
    assert flow.store.flow_records.row("chain")[1].intent is FlowIntent.DRAIN
    assert flow.events == ["pushed", "paused", "resumed", "drained"]
    assert flow.read(since=0).row.intent is FlowIntent.DRAIN
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.CANCELLED
    with pytest.raises(Conflict, match="is cancelled already"):
        flow.hold("run")


def graft(workflow: Workflow, day: int = 1) -> GraftMembers:
    return GraftMembers(grafter="g", generation=1, attempt=1, fragment=fragment_of(workflow), context={"day": day})


def test_a_graft_replaces_its_unstarted_members(database: Database) -> None:
    """Graphs 71."""
    flow = pushed(
        database, Workflow(id="w").add_graft("g", graft_function).add_cascade("after", with_context, deps="g")
    )
    doors = flow.store.flow_doors
    with pytest.raises(Fenced, match="may attach no sub-workflow"):
        doors.graft(flow.uid, graft(sub("x")))
    (step,) = flow.begin_steps(flow.start("g")).mine
    assert step.is_grafter
    answer = doors.graft(flow.uid, graft(sub("x", "y")))
    assert (answer.count, answer.changed) == (2, True)
    again = doors.graft(flow.uid, graft(sub("x", "y")))
    assert (again.count, again.changed) == (0, False)
    assert flow.read(since=0).removal == 0
    doors.graft(flow.uid, graft(sub("y", "z"), day=2))
    page = flow.read()
    assert (page.removal, page.door) == (3, 3)
    assert sorted(flow.states) == ["after", "g", "g/y", "g/z"]
    assert flow.ledger.last_member == 4
    with database.read() as connection:
        contexts = dict(iter(connection.execute(select(flow_groups.c.path, flow_groups.c.context))))
    assert contexts == {"g": {"day": 2}}
    flow.end(flow.last("g"))
    with pytest.raises(Fenced, match="attempt 1 of 'g' is over"):
        doors.graft(flow.uid, graft(sub("late")))
    with pytest.raises(NotFound, match="no flow with the uid"):
        doors.graft("unknown", graft(sub("late")))
    assert flow.events == ["pushed", "grafted", "grafted"]


def test_a_flow_is_pruned_with_all_its_rows(database: Database) -> None:
    flow = pushed(database, wide())
    flow.append("k", Workflow().add("more", plain))
    flow.begin_steps(flow.start("more"))
    flow.end(flow.last("more"), result="1")
    doors = flow.store.flow_doors
    assert doors.prune([flow.uid, "unknown"]) == 0  # the flow is open
    flow.cancel()
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.CANCELLED
    other = pushed(database, chain("a"))
    assert doors.prune([flow.uid, other.uid]) == 1
    assert doors.prune([flow.uid]) == 0
    with pytest.raises(NotFound):
        flow.read()
    with database.read() as connection:
        assert list(connection.scalars(select(flows.c.flow_id))) == ["chain"]
        assert list(connection.scalars(select(attempt_ends.c.flow))) == []
    assert pushed(database, wide()).uid != flow.uid


def test_081_a_flow_with_an_open_or_unread_run_is_not_pruned(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")).add("load", plain, deps="shop"))
    flow.go_on()
    run = flow.run(flow.start_crawls(flow.last("shop")).crawls[0])
    flow.close(run, RunStatus.FAILED, "main_job_failed")
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.DISCARDED
    flow.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "again", datetime.now(UTC)))
    doors = flow.store.flow_doors
    assert doors.prune([flow.uid]) == 0  # the run is open
    flow.close(run, RunStatus.FAILED, "main_job_failed")
    assert doors.prune([flow.uid]) == 0  # the supervisor has not read the run's second end
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.DISCARDED
    assert doors.prune([flow.uid]) == 1


def test_the_run_of_a_pruned_flow_stays(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")))
    flow.go_on()
    (start,) = flow.start_crawls(flow.last("shop")).crawls
    run = flow.run(start)
    flow.close(run, RunStatus.FAILED, "main_job_failed")
    flow.go_on()
    assert flow.store.flow_doors.prune([flow.uid]) == 1
    shown = flow.store.runs.get(run.run_id)
    assert shown.flow is not None
    assert (shown.flow.id, shown.flow.path, shown.flow.attempt) == ("w", "shop", 1)
    page = flow.store.records.page(RunFilter(flow=flow.uid), limit=9)
    assert [line.run_id for line in page] == [run.run_id]


def test_a_definition_is_read_as_it_was_written() -> None:
    """JSON keeps empty values in arguments, which a leaner form would drop."""
    for member in wide().definition().members:
        assert MemberDefinition.model_validate_json(member.model_dump_json()) == member


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        (Age() > 60, True),
        (Age() < timedelta(hours=2), True),
        ((Age() >= 60) & (Age() <= 3000), False),
        ((Age() == 60) | (Age() != 60), True),
    ],
)
def test_a_rule_for_pruning_is_also_sql(database: Database, rule: Rule, holds: bool) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("the text is for MySQL and MariaDB")
    flow = pushed(database, chain("a"))
    flow.cancel()
    flow.go_on()
    with database.transaction() as connection:
        connection.execute(update(flows).values(stopped_at=datetime.now(UTC) - timedelta(hours=1)))
    # another engine: the check of reserved names does not know the function's name
    engine = create_engine(database.engine.url, connect_args=CONNECT_ARGS)
    with engine.connect() as connection:
        assert bool(connection.scalar(select(func.count()).select_from(flows).where(text(rule.to_sql())))) is holds
        age = connection.scalar(select(literal_column(Age().to_sql())).select_from(flows))
    engine.dispose()
    assert 3590 < float(age or 0) < 3700
    assert rule.holds(timedelta(hours=1)) is holds
