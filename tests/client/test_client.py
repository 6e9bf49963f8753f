"""Graphs 1b and 1i: push, wait, fetch, update and prune by the client, with Temporal away and no worker."""

import asyncio
import inspect
import logging
import time
from datetime import timedelta
from pathlib import Path

import pytest

import crawler_lifecycle
from crawler_lifecycle.client import Age, Flows, SyncFlows, WorkflowClient, WorkflowPlugin
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, NotReady
from crawler_lifecycle.flows import RunningJob, Sequence, StepState, Workflow, WorkflowState, crawl, open_client
from crawler_lifecycle.flows.authors.running import running
from crawler_lifecycle.model.flow_states import EndKind
from tests.client import typed_program
from tests.client.conftest import GetHand
from tests.kit.authors.work import greet, marked, plain, with_context


def diamond(name: str = "diamond", flow_id: str | None = None) -> Workflow:
    workflow = Workflow(name, id=flow_id).add("top", plain).add("left", plain, deps="top")
    return workflow.add("right", plain, deps="top").add("bottom", plain, deps=["left", "right"])


async def test_025_a_pushed_workflow_is_on_record_without_temporal(
    flows: Flows, caplog: pytest.LogCaptureFixture
) -> None:
    workflow = diamond()
    with caplog.at_level(logging.WARNING):
        assert await flows.push(workflow) == workflow.id
    assert "recorded and takes effect later: Temporal does not answer" in caplog.text
    fetched = await flows.fetch_one(workflow.id)
    assert fetched is not None
    assert (fetched.id, fetched.name, fetched.state) == (workflow.id, "diamond", WorkflowState.PENDING)
    assert [step_id for step_id, _ in fetched] == ["top", "left", "right", "bottom"]
    assert fetched.created_at is not None
    assert fetched.to_mermaid() == workflow.to_mermaid()


async def test_025_a_refused_push_leaves_nothing_behind(flows: Flows) -> None:
    cycle = Workflow("cycle", check_deps=False).add("a", plain, deps="b").add("b", plain, deps="a")
    with pytest.raises(BadInput, match=r"deps: form a cycle: (a -> b -> a|b -> a -> b)"):
        await flows.push(cycle)
    with pytest.raises(BadInput, match="'a' depends on 'c', which is not in the flow"):
        await flows.push(Workflow("unknown", check_deps=False).add("a", plain, deps="c"))
    with pytest.raises(BadInput, match="has no jobs"):
        await flows.push(Workflow("empty"))
    with pytest.raises(BadInput, match="expected a Workflow"):
        await flows.push("diamond")  # type: ignore[arg-type]
    assert await flows.fetch() == []


async def test_026_a_push_of_a_fetched_workflow_is_an_update(flows: Flows, hand: GetHand) -> None:
    workflow = Workflow("w", ignore_discarded=True).add_context({"day": 1}).add("a", plain).add("b", plain, deps="a")
    await flows.push(workflow)
    hand(workflow.id).go_on()
    fetched = await flows.fetch_one(workflow.id)
    assert fetched is not None
    assert await flows.push(fetched) == workflow.id, "equal content changes nothing"
    await flows.push(fetched.add("c", greet.job.with_kwargs(name="x"), deps="b"))
    again = await flows.fetch_one(workflow.id)
    assert again is not None
    assert [step_id for step_id, _ in again] == ["a", "b", "c"]
    assert again.ignore_discarded
    assert again["c"].ignore_discarded
    del fetched.parts["a"]
    with pytest.raises(Conflict, match="job 'a' cannot change any more: it is executing"):
        await flows.push(Workflow("w", id=workflow.id).add("a", marked))
    with pytest.raises(Conflict, match="has the name 'w', not 'v'"):
        await flows.push(Workflow("v", id=workflow.id).add("d", plain))


async def test_027_a_final_flow_executes_again_with_new_jobs(flows: Flows, hand: GetHand) -> None:
    workflow = Workflow("w", id="w-1").add("a", plain)
    await flows.push(workflow)
    hand("w-1").play()
    ended = await flows.wait("w-1", timeout=5)
    assert ended.is_complete
    await flows.push(workflow)
    assert (await workflow_of(flows, "w-1")).is_complete, "the same content again opens nothing"
    await flows.push(workflow.add("b", plain, deps="a"))
    assert (await workflow_of(flows, "w-1")).state is WorkflowState.RUNNING


async def workflow_of(flows: Flows, flow: str) -> Workflow:
    workflow = await flows.fetch_one(flow)
    assert workflow is not None
    return workflow


async def test_027_pushes_at_once_make_one_flow(flows: Flows) -> None:
    ids = await asyncio.gather(*(flows.push(diamond(flow_id="same")) for _ in range(5)))
    assert set(ids) == {"same"}
    assert [workflow.id for workflow in await flows.fetch()] == ["same"]


async def test_029_a_sequence_is_pushed_with_or_without_a_client(flows: Flows, installed: Path) -> None:
    sequence = Sequence("nightly", [plain]).add(marked)
    first = await sequence.push(flows)
    async with Flows.open(installed):
        second = await sequence.push()
    assert first != second
    assert [list((await workflow_of(flows, flow)).steps) for flow in (first, second)] == [["step_0", "step_1"]] * 2
    assert await flows.push(sequence) not in (first, second)


async def test_056_the_innermost_open_client_serves_the_verbs(flows: Flows, installed: Path) -> None:
    workflow = diamond()
    with pytest.raises(NotReady, match=r"no client for flows is open here: use `async with Flows\.open\(\)"):
        await workflow.status()
    async with Flows.open(installed) as outer:
        assert open_client() is Flows.current() is outer
        async with Flows.open(installed) as inner:
            await workflow.push()
            assert open_client() is inner
        assert open_client() is outer
        assert (await workflow.status()).total == 4
    with pytest.raises(NotReady):
        open_client()


async def test_058_workflows_are_fetched_by_state_and_id(flows: Flows, hand: GetHand) -> None:
    for name in ("a", "b", "c", "d"):
        await flows.push(diamond(name, name))
    hand("b").go_on()
    hand("c").play()
    hand("d").play(fails=("top",))

    async def fetched(**filters: object) -> list[str]:
        return [workflow.id for workflow in await flows.fetch(**filters)]  # type: ignore[arg-type]

    assert await fetched() == ["d", "c", "b", "a"]
    assert await fetched(limit=2) == ["d", "c"]
    assert await fetched(limit=2, before="d") == ["c", "b"]
    assert await fetched(states=["executing"], before="b") == ["a"]
    with pytest.raises(KeyError, match="nobody"):
        await fetched(before="nobody")
    assert await fetched(states=["executing"]) == ["b", "a"]
    assert await fetched(states=["pending"]) == ["a"]
    assert await fetched(states=["running"], limit=1) == ["b"]
    assert await fetched(states=["completed", "failed"]) == ["d", "c"]
    assert await fetched(states=["discarded"], ids=["d", "a"]) == ["d"]
    assert await fetched(ids=[]) == await fetched(states=[]) == []
    with pytest.raises(BadInput, match=r"states: expected some of executing, .*, not 'done'"):
        await flows.fetch(states=["done"])
    for unknown in ("nobody", "", "x" * 1000, "\0", 7):
        assert await flows.fetch_one(unknown) is None  # type: ignore[arg-type]


async def test_059_a_wait_ends_with_the_flow(flows: Flows, hand: GetHand) -> None:
    workflow = diamond()
    await flows.push(workflow)
    waiting = asyncio.create_task(flows.wait(workflow.id, timeout=20))
    await asyncio.sleep(0)
    await asyncio.to_thread(hand(workflow.id).play, None, ("left",))
    ended = await waiting
    assert ended.state is WorkflowState.FAILED
    assert {name: step.state for name, step in ended} == {
        "top": StepState.SUCCEEDED,
        "left": StepState.FAILED,
        "right": StepState.SUCCEEDED,
        "bottom": StepState.FAILED,
    }
    began = time.monotonic()
    assert (await flows.wait(workflow.id)).id == workflow.id
    assert time.monotonic() - began < 1, "an ended flow is not waited for"


async def test_059_a_wait_has_a_timeout_and_needs_a_flow(flows: Flows) -> None:
    workflow = diamond()
    await flows.push(workflow)
    for timeout in (0.1, timedelta(milliseconds=100)):
        with pytest.raises(asyncio.TimeoutError):
            await flows.wait(workflow.id, timeout=timeout)
    assert (await workflow_of(flows, workflow.id)).state is WorkflowState.PENDING
    with pytest.raises(KeyError, match="nobody"):
        await flows.wait("nobody")


async def test_a_timeout_of_nothing_is_over_at_once(flows: Flows, hand: GetHand) -> None:
    workflow = diamond()
    await flows.push(workflow)
    hand(workflow.id).play()
    for timeout in (0, timedelta(0)):
        with pytest.raises(asyncio.TimeoutError):
            await flows.wait(workflow.id, timeout=timeout)


async def test_073_jobs_are_appended_once_under_a_key(flows: Flows, installed: Path) -> None:
    async with Flows.open(installed):
        workflow = diamond(flow_id="open")
        await workflow.push()
        more = Workflow(check_deps=False).add("extra", plain, deps="bottom").add("last", plain, deps="extra")
        assert await workflow.append("more", more) == 2
        assert await workflow.append("more", more) == 0
        handle = Workflow(id="open", check_deps=False).add("by_handle", plain, deps="last")
        assert await handle.append("handle") == 1
        assert [job.path for job in await workflow.all_jobs()][4:] == ["extra", "last", "by_handle"]
        with pytest.raises(Conflict, match="'extra' is already in flow 'open'"):
            await workflow.append("other", more)
        with pytest.raises(NotFound, match="there is no flow 'nobody'"):
            await Workflow(id="nobody").append("k", more)


async def test_081_ended_workflows_are_pruned_by_their_age(flows: Flows, hand: GetHand) -> None:
    for name in ("ended", "open"):
        await flows.push(diamond(name, name))
    hand("ended").play()
    assert await flows.prune() == 0
    assert await flows.prune((Age() > timedelta(days=1)) | (Age() >= 0)) == 1
    assert [workflow.id for workflow in await flows.fetch()] == ["open"]


async def test_chancys_names_do_the_same(flows: Flows, hand: GetHand) -> None:
    plugin = WorkflowPlugin(polling_interval=5, max_workflows_per_run=3, pruning_rule=WorkflowPlugin.Rules.Age() >= 0)
    flow = await WorkflowPlugin.push(flows, diamond(flow_id="chancy"))
    assert (await workflow_of(flows, flow)).name == "diamond"
    fetched = await WorkflowPlugin.fetch_workflow(flows, flow)
    assert fetched is not None
    assert [workflow.id for workflow in await WorkflowPlugin.fetch_workflows(flows, states=["pending"])] == [flow]
    with pytest.raises(TimeoutError):
        await WorkflowPlugin.wait_for_workflow(flows, flow, interval=1, timeout=0.1)
    assert await plugin.cleanup(flows) is None
    hand(flow).play()
    assert (await WorkflowPlugin.wait_for_workflow(flows, flow)).is_complete
    assert await plugin.cleanup(flows) == 1
    assert await WorkflowPlugin.fetch_workflow(flows, flow) is None
    with pytest.raises(KeyError):
        await WorkflowPlugin.wait_for_workflow(flows, flow, timeout=60)


async def test_an_approval_and_holds_by_the_client(flows: Flows, hand: GetHand) -> None:
    await flows.push(
        Workflow("w", id="w").add("a", with_context).add_approval("go", deps="a").add("b", plain, deps="go")
    )
    await flows.pause("w")
    assert (await flows.status("w")).state == "paused"
    await flows.resume("w")
    await flows.approve("w", "go", note="fine")
    hand("w").play()
    assert (await flows.results("w", ["go"]))["go"]["note"] == "fine"
    with pytest.raises(Conflict, match="is completed already"):
        await flows.drain("w")


async def test_061_a_stop_has_four_ways(flows: Flows, hand: GetHand) -> None:
    for way in ({}, {"leave": True}, {"force": True}, {"drain": True}):
        flow = next(iter(way), "plain")
        await flows.push(diamond(flow, flow))
        hand(flow).go_on()
        await flows.stop(flow, reason="enough", **way)
    assert [hand(flow).states["top"] for flow in ("plain", "leave", "force", "drain")] == [
        "cancelled", "cancelled", "cancelled", "executing",
    ]  # fmt: skip
    assert [hand(flow).row("top").terminate for flow in ("plain", "leave", "force")] == [True, False, True]
    with pytest.raises(BadInput, match="drain, leave and force exclude each other"):
        await flows.stop("plain", drain=True, force=True)
    with pytest.raises(NotFound, match="there is no flow 'nobody'"):
        await flows.stop("nobody")


async def test_061_a_stop_waits_for_its_proof(flows: Flows, hand: GetHand) -> None:
    await flows.push(diamond("w", "w"))
    hand("w").go_on()
    await flows.stop("w")
    stopping = asyncio.create_task(flows.stop("w", wait=True))
    await asyncio.wait([stopping], timeout=0.2)
    assert not stopping.done(), "the step still runs"
    await asyncio.to_thread(hand("w").play)
    await stopping
    assert (await flows.status("w")).state == "cancelled"
    with running(RunningJob("w", "top")), pytest.raises(Conflict, match="'top' cannot wait for the end of its own"):
        await flows.stop("w", wait=True)


async def test_a_client_says_why_and_shows_attempts(flows: Flows, hand: GetHand) -> None:
    await flows.push(diamond("w", "w"))
    hand("w").go_on()
    why = await flows.why("w", "bottom")
    assert why is not None
    assert (why.cause, [inner.path for inner in why.because]) == ("dependencies", ["left", "right"])
    hand("w").end(hand("w").last("top"), kind=EndKind.FAILED, reason="ValueError: no", error="Traceback ...")
    assert [(item.attempt, item.reason, item.error) for item in await flows.attempts("w", "top")] == [
        (1, "ValueError: no", "Traceback ...")
    ]
    assert await flows.attempts("w", "left") == []
    for flow, name in (("nobody", "top"), ("w", "nothing")):
        assert await flows.why(flow, name) is None
        assert await flows.attempts(flow, name) == []


async def test_a_program_without_a_loop_has_the_same_methods(flows: Flows, installed: Path) -> None:
    asynchronous = {name for name, _ in inspect.getmembers(WorkflowClient, inspect.iscoroutinefunction)}
    by_run = {"push_definition", "append", "graft", "change", "close"}
    by_run |= {"status", "jobs", "dependencies", "results", "context"}
    missing = asynchronous - by_run - {name for name in vars(SyncFlows) if not name.startswith("_")}
    assert {name for name in missing if not name.startswith("_")} == set()
    await flows.push(diamond("w", "w"))

    def program() -> list[object]:
        with Flows.open_sync(installed) as client:
            client.stop("w")
            why = client.why("w", "top")
            return [why and why.cause, client.attempts("w", "top")]

    assert await asyncio.to_thread(program) == ["cancel_requested", []]


async def test_without_a_database_the_opening_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_DATABASE__URL", f"sqlite:///{tmp_path}/none/x.db")
    with pytest.raises(NotReady):
        async with Flows.open(tmp_path):
            raise AssertionError("never reached")


async def test_a_crawl_is_checked_before_it_is_on_record(flows: Flows) -> None:
    with pytest.raises(BadInput, match="tasks"):
        crawl("books", tasks=0)
    assert await flows.push(Workflow().add("shop", crawl("books", tasks=2))) is not None


async def test_authors_may_check_their_programs_strictly() -> None:
    """The lint checks `typed_program.py`, as the type checker of an author would."""
    assert Path(crawler_lifecycle.__file__).with_name("py.typed").exists()
    assert inspect.iscoroutinefunction(typed_program.main)
