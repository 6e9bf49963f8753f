"""The supervisor's side of the ledger: beginnings, readings and writes, called once and called twice."""

from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Fenced, NotFound
from crawler_lifecycle.flows import Workflow, crawl, each_task
from crawler_lifecycle.flows.ports.records import SilentFlow
from crawler_lifecycle.flows.rules.messages import FlowRef, GrowGroup, ReadFlow
from crawler_lifecycle.flows.rules.plan import MemberChange
from crawler_lifecycle.flows.rules.states import started
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.kit.authors.work import item_and_context, plain, with_context
from tests.kit.data.flows import FAILED, Flow, paths, pushed, rows_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def diamond() -> Workflow:
    return (
        Workflow("diamond", id="diamond")
        .add("top", plain)
        .add("left", crawl("books"), deps="top")
        .add("right", plain, deps="top")
        .add_cascade("bottom", with_context, deps=["left", "right"])
    )


def change(flow: Flow, path: str, **fields: object) -> MemberChange:
    row = flow.row(path)
    return MemberChange(row, row._replace(**fields))  # type: ignore[arg-type]


def test_a_flow_goes_to_its_end(database: Database) -> None:
    flow = pushed(database, diamond())
    flow.go_on()
    assert flow.states == {"top": "executing", "left": "suspended", "right": "suspended", "bottom": "suspended"}
    flow.end(flow.last("top"), result='"up"')
    flow.go_on()
    flow.end(flow.last("right"), result="[1, 2]")
    (start,) = flow.start_crawls(flow.last("left")).crawls
    flow.close(flow.run(start))
    flow.go_on()
    (step,) = flow.begin_steps(flow.last("bottom")).mine
    assert step.path == "bottom"
    flow.end(step.start)
    flow.go_on()
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.state, record.counts) == ("completed", {"completed": 4})
    assert record.started_at
    assert record.stopped_at
    assert record.started_at <= record.stopped_at
    assert flow.events == ["pushed", "ended"]
    assert flow.go_on().is_empty


def test_a_beginning_raises_the_epoch_once_for_an_execution(database: Database) -> None:
    flow = pushed(database, diamond())
    assert flow.begin("first", NOW).epoch == 1
    assert flow.begin("first", NOW).epoch == 1
    assert flow.begin("second", NOW + timedelta(minutes=1)).epoch == 2
    with pytest.raises(Fenced, match="has a later supervisor already, execution second"):
        flow.begin("late", NOW)
    with pytest.raises(NotFound, match="no flow with the uid"):
        flow.store.flow_ledger.begin("unknown", SupervisorExecution("flow-unknown", "first"))
    assert flow.events == ["pushed", "taken over"]


def test_an_outdated_supervisor_is_refused(database: Database) -> None:
    flow = pushed(database, diamond())
    former = flow.begin("first")
    ledger = flow.store.flow_ledger
    flow.begin("second")
    start = flow.start("top")
    row = change(flow, "top", cause="start")
    flow.ref = former
    for act in (
        flow.read,
        lambda: flow.write(row, door=1),
        lambda: flow.begin_steps(start, door=1),
        lambda: flow.start_crawls(flow.start("left"), door=1),
        lambda: ledger.end_attempts(former, (), {}),
        lambda: ledger.crawls_to_stop(former, [0]),
        lambda: ledger.unlinked_crawls(former, NOW),
        lambda: ledger.grow(GrowGroup(flow=former, group=1, expected=1)),
    ):
        with pytest.raises(Fenced, match="has another supervisor now"):
            act()
    with pytest.raises(NotFound):
        ledger.read(ReadFlow(flow=FlowRef(uid="unknown", epoch=1)))


def test_readings_have_the_news_since_a_door(database: Database) -> None:
    flow = pushed(database, diamond())
    assert paths(rows_of(flow.read())) == ["top", "left", "right", "bottom"]
    assert rows_of(flow.read(since=1)) == []
    flow.cancel("right")
    flow.append("k", Workflow().add_many("many", [plain, plain]))
    page = flow.read(since=1)
    members, groups = page.rows.unpacked()
    assert (page.door, page.has_more, paths(members)) == (3, False, ["right", "many/0", "many/1"])
    assert [group.path for group in groups] == ["many"]
    members, groups = flow.read(since=2).rows.unpacked()
    assert (paths(members), [group.path for group in groups]) == (["many/0", "many/1"], ["many"])
    assert paths(rows_of(flow.read(since=2, members="0-1,3"))) == ["top", "left", "bottom", "many/0", "many/1"]
    assert paths(rows_of(flow.read(since=2, after_member=3, members="0-4"))) == ["many/0", "many/1"]


def test_readings_are_as_on_record_and_sights_come_beside(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")).add("step", plain))
    flow.go_on()
    flow.end(flow.last("step"), kind=FAILED, outcome="Oops", reason="no luck")
    (start,) = flow.start_crawls(flow.last("shop")).crawls
    assert flow.read().runs == ()
    run = flow.run(start, tasks=3)
    assert flow.read().runs == ()  # an open run is no news
    flow.close(run, RunStatus.FAILED, "main_job_failed")
    page = flow.read()
    assert [row.state for row in rows_of(page)] == ["executing", "available"]
    assert [(begun.number, begun.attempt) for begun in page.begins] == [(1, 1)]
    (seen,) = page.runs
    assert (seen.number, seen.attempt, seen.status, seen.end, seen.tasks) == (0, 1, RunStatus.FAILED, 1, 3)
    assert (seen.reason, seen.outcome, seen.archived) == ("main_job_failed", "failed", False)
    (end,) = page.ends
    assert (end.number, end.attempt, end.kind, end.outcome, end.reason) == (1, 1, FAILED, "Oops", "no luck")
    assert end.at.tzinfo is UTC


def test_a_reopened_run_is_news_although_its_member_has_ended(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")))
    flow.go_on()
    (start,) = flow.start_crawls(flow.last("shop")).crawls
    run = flow.run(start)
    flow.close(run, RunStatus.FAILED, "main_job_failed")
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.DISCARDED
    assert flow.read().runs == ()
    flow.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "again"))
    assert flow.states["shop"] == "executing"
    (seen,) = flow.read().runs
    assert (seen.status, seen.end) == (RunStatus.INITIALIZING, 2)
    flow.go_on()
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.state, record.stopped_at) == (FlowState.EXECUTING, None)
    assert flow.events[-1] == "reopened"
    flow.close(run)
    flow.go_on()
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.state, flow.events[-1]) == (FlowState.COMPLETED, "ended")


def test_a_write_is_made_once_and_may_come_twice(database: Database) -> None:
    flow = pushed(database, diamond())
    changes = [change(flow, "top", cause="no_host"), change(flow, "left", state=MemberState.AVAILABLE, cause=None)]
    assert flow.write(*changes)
    assert (flow.row("top").cause, flow.row("left").state) == ("no_host", "available")
    assert flow.write(*changes)
    assert flow.row("left").state is MemberState.AVAILABLE


def test_a_write_behind_a_door_is_stale(database: Database) -> None:
    flow = pushed(database, diamond())
    change_of_left = change(flow, "left", state=MemberState.AVAILABLE)
    flow.cancel("top")
    assert not flow.write(change_of_left, state=FlowState.COMPLETED, door=1)
    assert flow.states["left"] == "suspended"
    assert flow.ledger.flow.state is FlowState.EXECUTING


def test_the_supervisors_own_start_overtakes_its_write(database: Database) -> None:
    flow = pushed(database, diamond())
    row = flow.row("top")
    flow.begin_steps(flow.start("top"))
    assert flow.write(
        MemberChange(row, row._replace(cause="no_host")), change(flow, "right", state=MemberState.AVAILABLE)
    )
    assert (flow.row("top").state, flow.row("top").cause) == ("executing", None)
    assert flow.states["right"] == "available"


def test_a_member_with_a_start_that_the_supervisor_does_not_know_is_not_ended(database: Database) -> None:
    """A host has started the step by itself: the flow must not end beside the step."""
    flow = pushed(database, diamond())
    row = flow.row("top")
    flow.begin_steps(flow.start("top"))
    cancelled = MemberChange(row, row._replace(state=MemberState.CANCELLED, reason="drained"))
    assert not flow.write(cancelled, state=FlowState.CANCELLED)
    assert (flow.states["top"], flow.ledger.flow.state) == ("executing", FlowState.EXECUTING)


def test_a_write_from_before_a_begin_leaves_the_attempt(database: Database) -> None:
    """The supervisor shows a step as available, after the write before has written its begin."""
    flow = pushed(database, diamond())
    available = MemberChange(flow.row("top"), flow.row("top")._replace(cause="no_host"))
    flow.begin_steps(flow.start("top"))
    assert [begun.number for begun in flow.written().begins] == [0]
    flow.note(1)
    flow.act(available, change(flow, "right", state=MemberState.AVAILABLE))
    assert (flow.row("top").state, flow.row("top").attempt, flow.states["right"]) == ("executing", 1, "available")


def test_a_write_does_not_undo_the_end_of_a_step(database: Database) -> None:
    """The former attempt may end between the supervisor's reading and its write about the next generation."""
    flow = pushed(database, Workflow(id="w").add("a", plain))
    flow.begin_steps(flow.start("a"))
    flow.cancel("a")
    flow.retry("a")
    before = flow.row("a")
    assert (before.in_flight, before.generation) == (True, 2)
    flow.end(flow.last("a"))
    assert flow.write(MemberChange(before, before._replace(cause="settling")))
    row = flow.row("a")
    assert (row.in_flight, row.cause, row.state) == (False, "settling", "available")


def test_acts_of_supervisors_raise_the_version(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("step", plain).add("shop", crawl("books")))
    assert flow.flow.version == flow.read().version == 0
    available = MemberChange(flow.row("step"), flow.row("step")._replace(state=MemberState.AVAILABLE))
    assert (flow.write(available), flow.write(available)) == (1, 1), "all tries have one number"
    flow.ref = flow.flow.model_copy(update={"version": 1})
    assert flow.start_crawls(flow.start("shop")).version == 2
    flow.end(*(step.start for step in flow.begin_steps(flow.start("step")).mine))
    assert flow.read().version == 2, "a host is no supervisor"
    flow.ref = flow.ref.model_copy(update={"version": 2})
    assert flow.write() == 3
    flow.ref = flow.ref.model_copy(update={"version": 0})
    assert (flow.write(available), flow.read().version) == (1, 3), "a late try writes nothing"
    assert flow.row("step").state is MemberState.COMPLETED
    flow.ref = None
    assert flow.begin("second").version == 3


def test_an_end_is_written_only_if_its_attempt_has_ended(database: Database) -> None:
    """Otherwise the database has lost the end, and with it the result."""
    flow = pushed(database, Workflow(id="w").add("step", plain))
    flow.go_on()
    before, row = flow.read().version, flow.row("step")
    ended = MemberChange(row, row._replace(state=MemberState.COMPLETED, in_flight=False))
    refused = flow.written(ended)
    assert (refused.stale, refused.has_lost) == (True, True)
    after_a_door = flow.written(ended, door=0)
    assert (after_a_door.stale, after_a_door.has_lost) == (True, False)
    assert (flow.states, flow.read().version) == ({"step": "executing"}, before)
    flow.end(flow.last("step"))
    assert flow.write(ended)
    assert (flow.states, flow.read().ends) == ({"step": "completed"}, ())


def test_nothing_starts_and_nothing_is_written_after_a_loss(database: Database) -> None:
    """The supervisor knows an act that the database does not have, as after a restore from a backup."""
    flow = pushed(database, Workflow(id="w").add("step", plain).add("shop", crawl("books")))
    known = flow.flow
    lost = flow.ref = known.model_copy(update={"version": 1})
    available = MemberChange(flow.row("step"), flow.row("step")._replace(state=MemberState.AVAILABLE))
    assert flow.written(available).has_lost
    starts = flow.start_crawls(flow.start("shop"))
    assert (starts.crawls, starts.stale, starts.has_lost, starts.version) == ([], [1], True, 0)
    claimed = flow.begin_steps(flow.start("step"))
    assert (claimed.mine, claimed.stale, claimed.has_lost) == ([], [0], True)
    assert flow.read().version == 0
    flow.ref = known
    assert flow.write(available) == 1
    flow.ref = lost
    assert flow.start_crawls(flow.start("shop")).stale == []
    assert not flow.begin_steps(flow.start("step")).has_lost
    flow.ref = known.model_copy(update={"version": 3})
    again = flow.start_crawls(flow.last("shop"))
    assert (len(again.crawls), again.has_lost, again.version) == (1, True, 0), "the loss stays visible"
    assert flow.read().version == 2


def test_a_crawl_starts_only_behind_completed_steps(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("step", plain).add("shop", crawl("books")))
    (claimed,) = flow.begin_steps(flow.start("step")).mine
    refused = flow.start_crawls(flow.start("shop"), reads="1:0")
    assert (refused.crawls, refused.stale, refused.has_lost) == ([], [1], True)
    flow.end(claimed.start)
    started = flow.start_crawls(flow.start("shop"), reads="1:0")
    assert (len(started.crawls), started.stale, started.has_lost) == (1, [], False)
    again = flow.start_crawls(flow.last("shop"), reads="1:1")
    assert (len(again.crawls), again.has_lost) == (1, False), "a start on record comes again"


def test_a_flow_ends_once(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("a", plain))
    assert flow.write(change(flow, "a", state=MemberState.CANCELLED), state=FlowState.CANCELLED)
    (record,) = flow.store.flow_records.page(limit=9)
    assert flow.write(state=FlowState.CANCELLED)
    assert flow.store.flow_records.page(limit=9) == [record]
    assert flow.events == ["pushed", "ended"]
    assert flow.store.flow_records.silent(datetime.now(UTC), limit=9) == []


def test_a_flow_with_an_open_member_on_record_does_not_end(database: Database) -> None:
    """The supervisor may know an end that the database has lost."""
    flow = pushed(database, Workflow(id="w").add("a", plain).add("b", plain))
    assert not flow.write(change(flow, "a", state=MemberState.CANCELLED), state=FlowState.CANCELLED)
    assert (flow.states["a"], flow.events) == ("available", ["pushed"])


def test_a_silent_open_flow_is_found(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("a", plain))
    records = flow.store.flow_records
    assert records.silent(datetime.now(UTC), limit=9) == [SilentFlow(flow.uid, "w", FlowState.EXECUTING)]
    assert records.silent(datetime.now(UTC), after=flow.uid, limit=9) == []
    (record,) = records.page(limit=9)
    assert records.silent(record.updated_at, limit=9) == []
    before = datetime.now(UTC)
    assert flow.write(change(flow, "a", cause="no_host"))
    assert records.silent(before, limit=9) == []


def test_an_ended_flow_with_a_reopened_run_is_found(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")))
    flow.go_on()
    run = flow.run(flow.start_crawls(flow.last("shop")).crawls[0])
    flow.close(run, RunStatus.FAILED, "all_failed")
    flow.go_on()
    records, found = flow.store.flow_records, [SilentFlow(flow.uid, "w", FlowState.DISCARDED)]

    def reopened(before: datetime | None = None, after: str = "") -> list[SilentFlow]:
        return records.reopened(before or datetime.now(UTC), after=after, limit=9)

    assert reopened() == []
    before = datetime.now(UTC)
    flow.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "again", before))
    assert (reopened(), reopened(before), reopened(after=flow.uid)) == (found, [], [])
    between = datetime.now(UTC)
    flow.close(run, RunStatus.FAILED, "all_failed")
    assert (reopened(), reopened(between)) == (found, [])
    flow.go_on()
    assert reopened() == []
    flow.retry("shop")
    flow.cancel()
    flow.go_on()
    flow.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "once more", datetime.now(UTC)))
    assert reopened() == []  # a retry has replaced the attempt


def test_a_group_grows_with_the_tasks_of_its_crawl(database: Database) -> None:
    workflow = Workflow(id="w").add("shop", crawl("books")).add_cascade("parse", each_task("shop", item_and_context))
    flow = pushed(database, workflow)
    flow.go_on()
    (start,) = flow.start_crawls(flow.last("shop")).crawls
    assert start.request.flow is not None
    assert start.request.flow.tells_tasks
    run = flow.run(start, tasks=3)
    (seen,) = flow.read(tasks_of="0").runs
    assert seen.tasks == 3
    step = GrowGroup(flow=flow.flow, group=1, expected=3)
    flow.store.flow_ledger.grow(step)
    page = flow.read(since=1)
    members, groups = page.rows.unpacked()
    assert (page.door, paths(members)) == (2, ["parse/0", "parse/1", "parse/2"])
    assert [group.expected for group in groups] == [3]
    flow.store.flow_ledger.grow(step)
    flow.store.flow_ledger.grow(GrowGroup(flow=flow.flow, group=1, expected=2))
    assert flow.read(since=2).door == 2
    with pytest.raises(NotFound, match="no sub-workflow with the number 9"):
        flow.store.flow_ledger.grow(GrowGroup(flow=flow.flow, group=9, expected=2))
    (tasks,) = flow.read(tasks_of="0").tasks
    assert (tasks.number, tasks.ends) == (0, {})  # so a supervisor learns that no task has succeeded
    flow.close(run)
    (tasks,) = flow.read(tasks_of="0").tasks
    assert (tasks.number, tasks.generation, tasks.ends) == (0, 1, {0: "STOPPED", 1: "STOPPED", 2: "STOPPED"})
    assert flow.events == ["pushed", "grown"]
    (_, grown) = flow.store.flow_records.lines("w", after=0, limit=9)
    assert grown.message == "added 3 jobs for the tasks of 'shop'"


def test_a_start_is_written_as_the_rules_say(database: Database) -> None:
    flow = pushed(database, diamond())
    row = flow.row("top")
    flow.begin_steps(flow.start("top"))
    begun = flow.row("top")
    assert begun.since is not None
    assert begun == started(row, 1, begun.since)
