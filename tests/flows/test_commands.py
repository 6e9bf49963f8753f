"""The commands for flows in Python, on a database: what reaches the supervisor, and what works without Temporal."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flows as flow_rows
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, Over, TemporaryError
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.commands.following import FollowedFlow, follow
from crawler_lifecycle.flows.model.records import GroupRecord
from crawler_lifecycle.flows.model.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
    StopFlow,
    StopWay,
)
from crawler_lifecycle.flows.ports.records import KeptFlow, Part
from crawler_lifecycle.flows.rules.pruning import Age
from crawler_lifecycle.managers.commands import CatalogueManagers
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.naming import flow_workflow_id
from crawler_lifecycle.model.requests import FlowLink, RunRequest, refusals_as_bad_input
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.schedules.model import ScheduleRequest
from crawler_lifecycle.settings.installation import Installation
from tests.kit.authors.work import plain
from tests.kit.data.databases import copy_of
from tests.kit.data.flows import Flow


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


def control_of(database_url: str, state: Path, temporal: str) -> Control:
    variables = {"CRAWLER_DATABASE__URL": database_url, "TEMPORAL_ADDRESS": temporal}
    return Control(Installation.with_variables(state, variables))


class NotedEngine:
    """Notes the nudges, or has no Temporal behind it."""

    address = "nowhere"

    def __init__(self) -> None:
        self.nudged: list[str] = []
        self.stopped: list[tuple[str, bool]] = []
        self.is_away = False

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None:
        if self.is_away:
            raise TemporaryError("Temporal is away")
        self.nudged.append(flow_id)

    async def flow_ended(self, flow_uid: str) -> None:
        raise NotFound("no supervisor")

    async def stop(self, workflow_id: str, stop: Any) -> str:
        self.stopped.append((workflow_id, stop.force))
        return "signal"


@pytest.fixture
def engine() -> NotedEngine:
    return NotedEngine()


@pytest.fixture
def flows(database_url: str, tmp_path: Path, engine: NotedEngine) -> Iterator[FlowCommands]:
    control = control_of(database_url, tmp_path, "127.0.0.1:1")
    noted: Any = engine
    yield FlowCommands(control.context, noted, CatalogueManagers(control.context))
    control.context.close()


def push(workflow: Workflow) -> PushFlow:
    return PushFlow(definition=workflow.definition(), actor="ann")


def two(flow: str = "two") -> Workflow:
    return Workflow("two", id=flow).add("a", plain).add("b", plain, deps="a")


async def test_every_request_nudges_the_supervisor(flows: FlowCommands, engine: NotedEngine) -> None:
    answer = await flows.push(push(two().add_approval("go")))
    assert (answer.created, answer.count, answer.nudged, answer.problem) == (True, 3, True, None)
    more = AppendMembers(key="k", fragment=two().additions("k").fragment.model_copy(update={"members": ()}))
    for request in (
        flows.append("two", more),
        flows.change("two", ApproveMember(path="go")),
        flows.change("two", HoldFlow(hold="pause")),
        flows.change("two", CancelMembers()),
        flows.change("two", RetryMembers()),
    ):
        assert (await request).nudged
    assert engine.nudged == ["two"] * 6
    assert [line.event for line in flows.lines("two")] == [
        "pushed", "appended", "approved", "paused", "cancelled", "retried",
    ]  # fmt: skip
    assert {line.actor for line in flows.lines("two")} == {"ann", None}


async def test_a_repetition_nudges_an_open_flow_alone(
    flows: FlowCommands, engine: NotedEngine, database: Database
) -> None:
    answer = await flows.push(push(two()))
    again = await flows.push(push(two()))
    assert (again.created, again.changed, again.count) == (False, False, 0)
    assert engine.nudged == ["two", "two"], "the first nudge may have been lost"
    flow = Flow(SqlStore(database), "two", answer.flow_uid)
    await flows.change("two", CancelMembers())
    flow.go_on()
    engine.nudged.clear()
    with pytest.raises(Over):
        await flows.change("two", CancelMembers())
    assert engine.nudged == []


async def test_60_without_temporal_a_request_is_on_record(flows: FlowCommands, engine: NotedEngine) -> None:
    engine.is_away = True
    answer = await flows.push(push(two()))
    assert (answer.created, answer.nudged, answer.problem) == (True, False, "Temporal is away")
    assert (await flows.change("two", CancelMembers())).count == 2
    assert flows.status("two").state is FlowState.CANCELLED
    assert (await flows.change("two", RetryMembers())).nudged is False


async def test_60_a_silent_temporal_holds_no_request_up(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts the connection and never answers."""
    monkeypatch.setattr("crawler_lifecycle.flows.commands.flow_commands.NUDGE_PATIENCE", 0.2)
    silent = await asyncio.start_server(lambda *_: asyncio.sleep(60), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    control = control_of(database_url, tmp_path, f"127.0.0.1:{port}")
    answer = await control.flows.push(push(two()))
    assert (answer.created, answer.nudged) == (True, False)
    assert "did not answer in" in (answer.problem or "")
    silent.close()
    control.context.close()


async def test_a_nudge_starts_the_supervisor(database_url: str, tmp_path: Path, real_time: WorkflowEnvironment) -> None:
    control = control_of(database_url, tmp_path, real_time.client.service_client.config.target_host)
    answer = await control.flows.push(push(two()))
    assert answer.nudged
    handle = real_time.client.get_workflow_handle(flow_workflow_id(answer.flow_uid))
    first = await handle.describe()
    assert (first.status, first.workflow_type) == (WorkflowExecutionStatus.RUNNING, "FlowWorkflow")
    await control.flows.change("two", CancelMembers())
    assert (await handle.describe()).run_id == first.run_id, "an open supervisor is signalled"
    waiting = asyncio.create_task(control.flows.wait("two"))
    await handle.terminate()
    await asyncio.sleep(0.3)
    assert not waiting.done(), "the end of a supervisor is no end of its flow"
    Flow(control.context.store, "two", answer.flow_uid).go_on()
    assert (await asyncio.wait_for(waiting, 20)).state is FlowState.CANCELLED
    control.context.close()


async def test_59_a_wait_reads_the_row(flows: FlowCommands, database: Database) -> None:
    answer = await flows.push(push(two()))
    waiting = asyncio.create_task(flows.wait("two"))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    flow = Flow(SqlStore(database), "two", answer.flow_uid)
    await flows.change("two", CancelMembers())
    flow.go_on()
    assert (await asyncio.wait_for(waiting, 20)).state is FlowState.CANCELLED
    with pytest.raises(NotFound, match="there is no flow 'nobody'"):
        await flows.wait("nobody")


def started(database: Database, workflow: Workflow, uid: str) -> tuple[Flow, dict[str, int]]:
    """The flow with its first jobs under way. Return the RunIDs of its crawls, too."""
    flow = Flow(SqlStore(database), workflow.id, uid)
    _, plan = flow.plan()
    refs = [flow.start(path) for path in flow.states if flow.row(path).number in {s.number for s in plan.starts}]
    crawls = flow.start_crawls(*refs).crawls
    paths = {row.number: row.path for row in flow.ledger.members.values()}
    return flow, {paths[crawl.start.number]: flow.run(crawl).run_id for crawl in crawls}


async def test_a_stop_cancels_and_its_force_reaches_the_runs(
    flows: FlowCommands, engine: NotedEngine, database: Database
) -> None:
    workflow = Workflow(id="shops").add("one", crawl("books")).add("two", crawl("books")).add("end", plain, deps="one")
    answer = await flows.push(push(workflow))
    _, runs = started(database, workflow, answer.flow_uid)
    stopped = await flows.stop("shops", StopFlow(reason="wrong site", actor="ann"))
    assert (stopped.count, engine.stopped) == (3, [])
    assert flows.status("shops").state is FlowState.EXECUTING, "the runs may still run"
    assert (await flows.stop("shops", StopFlow(force=True, actor="ann"))).count == 0
    assert [is_forced for _, is_forced in engine.stopped] == [True, True]
    intents = {SqlStore(database).runs.get(run_id).intent for run_id in runs.values()}
    assert intents == {"FORCE"}
    assert "3 jobs: wrong site" in [line.message for line in flows.lines("shops")]


async def test_a_drain_and_a_leaving_stop(flows: FlowCommands, database: Database) -> None:
    for flow in ("drained", "left"):
        workflow = Workflow(id=flow).add("one", crawl("books")).add("end", plain, deps="one")
        started(database, workflow, (await flows.push(push(workflow))).flow_uid)
    await flows.stop("drained", StopFlow(way=StopWay.DRAIN))
    assert flows.row("drained")[1].intent == "drain"
    assert (await flows.stop("left", StopFlow(way=StopWay.LEAVE))).count == 2
    assert [row.terminate for row in flows.kept("left").ledger.members.values()] == [False, False]


async def test_why_leads_to_the_run(flows: FlowCommands, database: Database) -> None:
    workflow = Workflow(id="w").add("shop", crawl("books")).add("load", plain, deps="shop")
    answer = await flows.push(push(workflow))
    flow, runs = started(database, workflow, answer.flow_uid)
    why = flows.why("w", "load")
    (shop,) = why.because
    (run,) = shop.because
    assert (why.cause, shop.path, shop.cause) == ("dependencies", "shop", "executing")
    assert (run.path, run.state) == (f"run {runs['shop']}", RunStatus.INITIALIZING)
    flow.close(flow.store.runs.get(runs["shop"]), RunStatus.FAILED, "too_many_failures")
    (run,) = flows.why("w", "shop").because
    assert run.state == RunStatus.FAILED
    assert flows.members("w", ["shop"])[0].run_id == runs["shop"]
    with pytest.raises(NotFound, match="flow 'w' has no job 'nobody'"):
        flows.why("w", "nobody")


async def test_members_by_path_and_state(flows: FlowCommands, database: Database) -> None:
    workflow = Workflow(id="w").add("a", plain).add_many("m", [plain, plain], deps="a")
    answer = await flows.push(push(workflow))
    assert [job.path for job in flows.members("w", ["m"])] == ["m/0", "m/1"]
    assert [job.path for job in flows.members("w", states=[MemberState.AVAILABLE])] == ["a"]
    assert [job.deps for job in flows.members("w", ["m"])] == [(), ()]
    with pytest.raises(NotFound, match="flow 'w' has no job 'x'"):
        flows.members("w", ["x"])
    flow = Flow(SqlStore(database), "w", answer.flow_uid)
    flow.go_on()
    flow.end(flow.last("a"), error="Traceback: no", reason="ValueError: no", kind="failed")  # type: ignore[arg-type]
    (attempt,) = flows.attempts("w", "a")
    assert (attempt.attempt, attempt.reason, attempt.error, attempt.host) == (
        1, "ValueError: no", "Traceback: no", "host of host",
    )  # fmt: skip


async def test_81_prune_spares_the_open_and_the_young(flows: FlowCommands, database: Database) -> None:
    for flow in ("ended", "open"):
        await flows.push(push(two(flow)))
    await flows.change("ended", CancelMembers())
    Flow(SqlStore(database), "ended", flows.row("ended")[0]).go_on()
    with database.transaction() as connection:
        connection.execute(update(flow_rows).values(created_at=datetime.now(UTC) - timedelta(days=30)))
    assert await flows.prune() == 0  # an age counts from the end
    assert await flows.prune(Age() >= timedelta(0)) == 1
    assert [flow.id for flow in flows.list()] == ["open"]


async def test_a_follower_gets_all_jobs_first_and_then_the_changed_ones(
    flows: FlowCommands, database: Database, database_url: str, tmp_path: Path
) -> None:
    answer = await flows.push(push(two()))
    view = FollowedFlow(flows, "two")
    first = view.next_change()
    assert first is not None
    assert ([job.path for job in first.jobs], first.is_over) == (["a", "b"], False)
    assert view.next_change() is None, "the elapsed time is no change"
    flow = Flow(SqlStore(database), "two", answer.flow_uid)
    flow.go_on()
    assert view.next_change() is not None
    flow.end(flow.last("a"))
    second = view.next_change()
    assert second is not None
    assert [(job.path, job.state) for job in second.jobs] == [("a", "completed")]
    context = Control(Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": database_url})).context
    changes = follow(context, "two")
    assert not (await anext(changes)).is_over
    await flows.change("two", CancelMembers())
    flow.go_on()
    assert [change.is_over async for change in changes][-1]
    context.close()


async def test_a_follower_reads_only_the_changed_members(
    flows: FlowCommands, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every read of a flow with ten thousand members took two seconds."""
    answer = await flows.push(push(Workflow(id="w").add("shop", crawl("books")).add_many("m", [plain] * 20)))
    flow = Flow(SqlStore(database), "w", answer.flow_uid)
    view = FollowedFlow(flows, "w")
    assert len(changed_jobs(view)) == 21
    reads = list[int | None]()
    kept = flows.kept

    def counting(flow: str, part: Part | None = None) -> KeptFlow:
        read = kept(flow, part)
        reads.append(len(read.ledger.members))
        return read

    monkeypatch.setattr(flows, "kept", counting)
    assert view.next_change() is None
    assert reads == []
    flow.begin_steps(flow.start("m/3"))
    assert changed_jobs(view) == [("m/3", "executing", None)]
    assert reads == [1]
    flow.act()  # the supervisor notes the begin
    assert view.next_change() is None
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    assert changed_jobs(view) == [("shop", "executing", None)]
    run = flow.run(start)
    assert changed_jobs(view) == [("shop", "executing", run.run_id)], "the member's row does not change with its run"
    flow.close(run)
    assert changed_jobs(view) == [("shop", "completed", run.run_id)], "no supervisor has noted the end"
    assert set(reads) == {1}
    await flows.change("w", HoldFlow(hold="pause"))
    paused = view.next_change()
    assert paused is not None
    assert (paused.status.state, paused.jobs) == ("paused", ())


async def test_a_follower_gets_the_dependencies_of_groups_when_they_change(flows: FlowCommands) -> None:
    def graph(*deps: str) -> Workflow:
        sub = Workflow().add("x", plain).add_many("m", [plain] * 2, deps="x")
        return Workflow(id="w").add("a", plain).add("b", plain, deps="a").add_workflow("sub", sub, deps=[*deps])

    await flows.push(push(graph("b")))
    view = FollowedFlow(flows, "w")
    first = view.next_change()
    assert first is not None
    assert first.groups == (GroupRecord(path="sub", deps=("b",)), GroupRecord(path="sub/m", deps=("sub/x",)))
    await flows.change("w", HoldFlow(hold="pause"))
    paused = view.next_change()
    assert paused is not None
    assert paused.groups is None
    await flows.push(push(graph("a", "b")))
    changed = view.next_change()
    assert changed is not None
    assert changed.groups == (GroupRecord(path="sub", deps=("a", "b")), GroupRecord(path="sub/m", deps=("sub/x",)))
    assert view.next_change() is None


async def test_a_failed_pass_loses_no_change(
    flows: FlowCommands, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await flows.push(push(two()))
    view = FollowedFlow(flows, "two")
    view.next_change()
    Flow(SqlStore(database), "two", answer.flow_uid).go_on()

    def fail(*_: object) -> None:
        raise TemporaryError("the database does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(flows, "status", fail)
        with pytest.raises(TemporaryError):
            view.next_change()
    assert changed_jobs(view) == [("a", "executing", None)]


def changed_jobs(view: FollowedFlow) -> list[tuple[str, str, int | None]]:
    change = view.next_change()
    assert change is not None
    return [(job.path, job.state.value, job.run_id) for job in change.jobs]


async def test_refusals_say_why(flows: FlowCommands) -> None:
    await flows.push(push(two()))
    with pytest.raises(Conflict, match="has the name 'two', not 'three'"):
        await flows.push(push(Workflow("three", id="two").add("c", plain)))
    with pytest.raises(NotFound, match="there is no flow 'nobody'"):
        await flows.change("nobody", HoldFlow(hold="pause"))
    with pytest.raises(NotFound, match="has no sub-workflow 'x'"):
        flows.status("two", "x")
    with pytest.raises(NotFound, match="has no sub-workflow 'x'"):
        flows.context("two", "x")


async def test_a_run_from_outside_has_no_place_in_a_flow(database_url: str, tmp_path: Path) -> None:
    link = FlowLink(flow_uid="u", flow_id="f", member=0, path="a", generation=1, attempt=1)
    request = RunRequest(crawler="books", flow=link)
    control = control_of(database_url, tmp_path, "127.0.0.1:1")
    with pytest.raises(BadInput, match="flow: is set by a flow's supervisor alone"):
        await control.runs.start(request)
    with pytest.raises(BadInput, match="only a flow's supervisor gives places"), refusals_as_bad_input():
        ScheduleRequest(schedule_id="nightly", run=request, every_seconds=60)
    control.context.close()
