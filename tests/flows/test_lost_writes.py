"""The database comes back from a backup, or without its last second, while a flow goes on: the rows decide."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows import RetryPolicy, Workflow, any_of, crawl
from crawler_lifecycle.flows.authors.dependencies import Quorum
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.states import RunStatus
from tests.flows import steps
from tests.flows.conftest import Service
from tests.kit.data.databases import copy_file
from tests.kit.data.flows import Flow
from tests.kit.temporal.graphs import shown_as
from tests.kit.waiting import eventually

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _calm() -> Iterator[None]:
    steps.CALLS.clear()
    steps.HELD.clear()
    yield
    for event in steps.HELD.values():
        event.set()


def release(*names: str) -> None:
    for name in names:
        steps.HELD[name].set()


@pytest.fixture
def file(service: Service) -> Path:
    database = service.stage.database.engine.url.database
    assert database is not None
    return Path(database)


async def begun(name: str) -> None:
    await eventually(lambda: name in steps.CALLS, f"{name} has begun")


async def results(service: Service, flow: Flow) -> Mapping[int, Any]:
    return await asyncio.to_thread(service.stage.store.flow_records.results, flow.id, range(4))


def lose_answer(*_: object) -> None:
    raise TemporaryError("the database has gone away behind the commit")


async def end(service: Service, flow: Flow) -> str:
    async with asyncio.timeout(60):
        state: str = (await service.stage.supervisor(flow).result())["state"]
    assert flow.ledger.flow.state == state
    assert "taken over" not in flow.events, "the same execution goes on, and does not try until its history is long"
    return state


@pytest.mark.parametrize(
    "max_parallel", [None, 9], ids=["the host starts followers", "the supervisor starts all steps"]
)
async def test_a_dependent_does_not_go_on_without_a_lost_result(
    service: Service, file: Path, tmp_path: Path, max_parallel: int | None
) -> None:
    """The supervisor knows the end of `b` and the start of `c`, of which the database knows nothing."""
    workflow = Workflow("chain", max_parallel=max_parallel).add("a", steps.held)
    for before, name in pairwise("abcd"):
        workflow.add(name, steps.held, deps=before)
    flow = service.stage.push(workflow)
    release("a")
    await service.stage.nudge(flow)
    await begun("b")
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    release("b")
    await begun("c")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    assert (flow.states["b"], flow.states["c"]) == ("executing", "suspended")
    release("c", "d")
    assert await end(service, flow) == "completed"
    assert list((await results(service, flow)).values()) == [["a"], ["b", "a"], ["c", "b"], ["d", "c"]]
    assert [steps.CALLS.count(name) for name in "abcd"] == [1, 2, 2, 1], "only what is lost runs again"


@pytest.mark.parametrize("deps", ["g", any_of(["g"])], ids=["a group", "a quorum"])
@pytest.mark.long
async def test_a_step_behind_a_group_or_a_quorum_waits_for_a_lost_result(
    service: Service, file: Path, tmp_path: Path, deps: str | Quorum
) -> None:
    inner = Workflow().add("a", steps.held)
    flow = service.stage.push(Workflow("w").add_workflow("g", inner).add("c", steps.held, deps=deps))
    await service.stage.nudge(flow)
    await begun("a")
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    release("a")
    await begun("c")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    assert flow.states == {"g/a": "executing", "c": "suspended"}
    release("c")
    assert await end(service, flow) == "completed"
    assert steps.CALLS == ["a", "c", "a", "c"]


@pytest.mark.long
async def test_a_crawl_does_not_start_behind_a_step_whose_end_is_lost(
    service: Service, file: Path, tmp_path: Path
) -> None:
    """The database loses the end of `a` just before the start of the crawl, which is not tried again before `a`."""
    stage, crawls = service.stage, service.stage.crawls
    starts: list[object] = []
    flow = stage.push(Workflow("w").add("a", steps.held).add("b", crawl("books"), deps="a"))
    await stage.nudge(flow)
    await begun("a")
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")

    def lose(step: object) -> None:
        steps.HELD["a"].clear()
        copy_file(tmp_path / "backup.db", file)
        note_start(step)

    def note_start(step: object) -> None:
        starts.append(step)
        stage.ledger.before["start_crawls"] = note_start

    stage.ledger.before["start_crawls"] = lose
    release("a")
    await eventually(lambda: steps.CALLS.count("a") == 2, "the lost step runs again")
    assert "b" not in crawls.runs
    assert len(starts) == 1, "the refused start is not repeated while the step runs"
    release("a")
    await crawls.end("b")
    assert await end(service, flow) == "completed"
    assert flow.states == {"a": "completed", "b": "completed"}


async def test_a_decided_approval_hides_no_lost_result(service: Service, file: Path, tmp_path: Path) -> None:
    """The database loses the end of `a` and the start of `c` just before the write about the approval."""
    stage = service.stage
    workflow = Workflow("w").add("a", steps.held).add_approval("ok", deps="a").add("c", steps.held, deps="ok")
    flow = stage.push(workflow)
    await stage.nudge(flow)
    await begun("a")
    await asyncio.to_thread(flow.approve, "ok")
    await stage.nudge(flow)
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    lost = threading.Event()
    stage.ledger.before["write"] = lambda _: lost.wait(30)
    release("a")
    await begun("c")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    assert flow.states == {"a": "executing", "ok": "suspended", "c": "suspended"}
    lost.set()
    release("c")
    assert await end(service, flow) == "completed"
    assert steps.CALLS == ["a", "c", "a", "c"]


@pytest.mark.long
async def test_a_follower_waits_for_a_lost_result_beside_the_step_before_it(
    service: Service, file: Path, tmp_path: Path
) -> None:
    """The host starts `c` after `b`. The database loses the end of `a`, on which `b` does not depend."""
    workflow = Workflow("w").add("a", steps.held).add("b", steps.held, schedule_in=2)
    flow = service.stage.push(workflow.add("c", steps.held, deps=["a", "b"]))
    await service.stage.nudge(flow)
    await begun("a")
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    release("a")
    await begun("b")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    assert flow.states == {"a": "executing", "b": "scheduled", "c": "suspended"}
    release("b", "c")
    assert await end(service, flow) == "completed"
    assert list((await results(service, flow)).values()) == [["a"], ["b"], ["c", "a", "b"]]


async def test_a_flow_does_not_end_beside_a_step_whose_end_is_lost(
    service: Service, file: Path, tmp_path: Path
) -> None:
    """Nothing depends on the step, so nothing but the flow's end asks for it."""
    flow = service.stage.push(Workflow("pair").add("a", steps.held).add("b", steps.held))
    await service.stage.nudge(flow)
    await begun("a")
    await begun("b")
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    release("a")
    await shown_as(flow, "a", "completed")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    assert flow.states == {"a": "executing", "b": "executing"}
    release("b")
    assert await end(service, flow) == "completed"
    assert list((await results(service, flow)).values()) == [["a"], ["b"]]
    assert sorted(steps.CALLS) == ["a", "a", "b"]
    assert service.stage.store.flow_records.figures().flows == {FlowState.COMPLETED: 1}


@pytest.mark.long
async def test_a_supervisor_that_the_backup_does_not_know_gives_up_and_another_begins(
    service: Service, file: Path, tmp_path: Path
) -> None:
    flow = service.stage.push(Workflow("old").add("a", steps.held).add("b", steps.held, deps="a"))
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    await service.stage.nudge(flow)
    await begun("a")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    release("a", "b")
    with pytest.raises(WorkflowFailureError) as failure:
        await service.stage.supervisor(flow).result()
    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.type == "Fenced"
    assert flow.states == {"a": "available", "b": "suspended"}
    await service.stage.nudge(flow)  # as the next request at a door or the audit does
    assert await end(service, flow) == "completed"
    assert list((await results(service, flow)).values()) == [["a"], ["b", "a"]]
    assert steps.CALLS == ["a", "a", "b"]


@pytest.mark.parametrize("comes_again", [True, False])
@pytest.mark.long
async def test_lost_members_are_no_members(service: Service, file: Path, tmp_path: Path, *, comes_again: bool) -> None:
    """The database has lost an append. Another append may have its number."""
    stage, late = service.stage, Workflow().add("late", steps.held)
    flow = stage.push(Workflow("grows").add("a", steps.held))
    await stage.nudge(flow)
    await begun("a")
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    await asyncio.to_thread(flow.append, "lost", Workflow().add("lost", steps.held))
    await stage.nudge(flow)
    await begun("lost")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    if comes_again:
        await asyncio.to_thread(flow.append, "late", late)
        await stage.nudge(flow)
    release("lost", "a", "late")
    assert await end(service, flow) == "completed"
    assert flow.states == dict.fromkeys(("a", "late") if comes_again else ("a",), "completed")
    assert (steps.CALLS.count("a"), steps.CALLS.count("late")) == (1, int(comes_again))


@pytest.mark.parametrize("is_retry", [False, True], ids=["of the next crawl", "of the next attempt"])
@pytest.mark.long
async def test_a_lost_crawl_begins_anew_if_temporal_has_forgotten_its_workflow(
    service: Service, file: Path, tmp_path: Path, *, is_retry: bool
) -> None:
    """The supervisor knows the end of a run and the start behind it, and waits for the end of a run that is lost."""
    stage, crawls = service.stage, service.stage.crawls
    workflow = Workflow("crawls").add("a", crawl("books"), retry=RetryPolicy(max_attempts=2, pause_seconds=0.1))
    if not is_retry:
        workflow.add("b", crawl("books"), deps="a")
    status = RunStatus.FAILED if is_retry else RunStatus.COMPLETED
    flow = stage.push(workflow)
    await stage.nudge(flow)
    await crawls.run_of("a")
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    await crawls.end("a", status)
    path, before = ("a", 1) if is_retry else ("b", 0)
    await crawls.run_of(path, before + 1)
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    await crawls.end("a", status)  # as the next supervisor of the run does, which the audit has started
    await crawls.end(path, number=before + 2)
    assert await end(service, flow) == "completed"
    lost, last = crawls.runs[path][before:]
    assert lost.workflow_id == last.workflow_id, "a workflow that Temporal still knows would not start again"


@pytest.mark.parametrize("is_approved_at_once", [False, True])
@pytest.mark.parametrize("was_executing", [False, True], ids=["its start is lost, too", "its start is not lost"])
@pytest.mark.long
async def test_a_lost_end_of_a_crawl_is_noticed_while_no_crawl_is_under_way(
    service: Service, file: Path, tmp_path: Path, *, was_executing: bool, is_approved_at_once: bool
) -> None:
    """The supervisor knows that `a` has completed, and waits for a person. On record the approval waits for `a`."""
    stage, crawls = service.stage, service.stage.crawls
    workflow = Workflow("approved").add("first", crawl("books")).add("a", crawl("books"), deps="first")
    flow = stage.push(workflow.add_approval("ok", deps="a").add("b", crawl("books"), deps="ok"))
    await stage.nudge(flow)
    path = "a" if was_executing else "first"
    if was_executing:
        await crawls.end("first")
    await crawls.run_of(path)
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    for ended in ("a",) if was_executing else ("first", "a"):
        await crawls.end(ended)
    await shown_as(flow, "ok", "available")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    if is_approved_at_once:
        await asyncio.to_thread(flow.approve, "ok")
        await stage.nudge(flow)
    await crawls.end(path)  # as the next supervisor of the run does, which the audit has started
    if not was_executing:
        await crawls.end("a", number=2)
    if not is_approved_at_once:
        await shown_as(flow, "ok", "available")
        await asyncio.to_thread(flow.approve, "ok")
        await stage.nudge(flow)
    await crawls.run_of("b")
    assert flow.states["a"] == "completed", "nothing starts before what it depends on"
    await crawls.end("b")
    assert await end(service, flow) == "completed"
    assert len(crawls.runs["b"]) == 1


@pytest.mark.long
async def test_a_lost_cancel_stops_no_crawl(service: Service, file: Path, tmp_path: Path) -> None:
    """The request to `b` to end waits for the request to `a`, and the database loses the cancel of `b` meanwhile."""
    stage, crawls, is_asking, may_ask = service.stage, service.stage.crawls, threading.Event(), threading.Event()
    readings: list[str] = []
    flow = stage.push(Workflow("pair").add("a", crawl("books")).add("b", crawl("books")))
    await stage.nudge(flow)
    lost = await crawls.run_of("b")
    await crawls.run_of("a")

    def ask_later(*_: object) -> None:
        is_asking.set()
        may_ask.wait(30)

    def note_reading(*_: object) -> None:
        readings.append("reading")
        stage.ledger.after["read"] = note_reading

    async def nudge_after(act: Callable[[], object], count: int) -> None:
        due = len(readings) + count
        await asyncio.to_thread(act)
        await stage.nudge(flow)
        await eventually(lambda: len(readings) >= due, f"{due} readings")

    stage.ledger.before["crawls_to_stop"] = ask_later
    stage.ledger.after["read"] = note_reading
    await asyncio.to_thread(flow.cancel, "a")
    await stage.nudge(flow)
    await asyncio.to_thread(is_asking.wait, 30)
    await asyncio.to_thread(copy_file, file, tmp_path / "backup.db")
    await nudge_after(lambda: flow.cancel("b"), 1)
    await nudge_after(lambda: copy_file(tmp_path / "backup.db", file), 2)  # behind an older reading comes a whole one
    may_ask.set()
    await eventually(lambda: crawls.stopped, "the request to a")
    await crawls.end("a", RunStatus.FAILED)
    await crawls.end("b")
    assert await end(service, flow) == "cancelled"
    assert flow.states == {"a": "cancelled", "b": "completed"}
    assert lost.workflow_id not in crawls.stopped


@pytest.mark.parametrize("is_answer_lost", [False, True])
@pytest.mark.long
async def test_a_lost_start_is_noticed_although_a_write_was_under_way_beside_it(
    service: Service, file: Path, tmp_path: Path, *, is_answer_lost: bool
) -> None:
    """The end of `a` is written beside the start of `b`, which the database loses before the write is made.

    The write may be made twice, because the answer to its first try is lost.
    """
    stage, crawls, is_restored = service.stage, service.stage.crawls, threading.Event()
    workflow = Workflow("pair").add("a", crawl("books")).add("b", crawl("books"), deps="a")
    flow = stage.push(workflow)
    await stage.nudge(flow)
    await crawls.run_of("a")
    stage.ledger.before["start_crawls"] = lambda _: copy_file(file, tmp_path / "backup.db")
    stage.ledger.before["write"] = lambda _: is_restored.wait(30)
    if is_answer_lost:
        stage.ledger.after["write"] = lose_answer
    await crawls.end("a")
    await crawls.run_of("b")
    await asyncio.to_thread(copy_file, tmp_path / "backup.db", file)
    is_restored.set()
    await crawls.end("b", number=2)
    assert await end(service, flow) == "completed"
    assert flow.states == {"a": "completed", "b": "completed"}
