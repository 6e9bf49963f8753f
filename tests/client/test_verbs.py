"""Graphs 1d, 1e and 1f by a workflow's own verbs, with Temporal away and no worker."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from crawler_lifecycle.client import Flows
from crawler_lifecycle.errors import BadInput, NotFound, Over, PermanentError
from crawler_lifecycle.flows import RunningJob, Workflow, blocking, crawl
from crawler_lifecycle.model.flow_states import FlowState
from tests.client.conftest import GetHand
from tests.kit.authors.work import MOMENT, SlowWorker, UserNotifier, plain, process_user, with_context


def graph() -> Workflow:
    inner = Workflow().add_context({"level": 2}).add("x", plain).add("y", plain, deps="x")
    return (
        Workflow("graph", id="graph")
        .add_context({"batch_id": 7})
        .add("setup", SlowWorker.new({"size": 3}))
        .add_workflow("sub", inner, deps="setup")
        .add_cascade("process", ([1, 2], process_user), deps="setup")
        .add("end", with_context, deps=["sub", "process"])
    )


async def test_051_status_has_sums_times_and_subs(flows: Flows, hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        assert (await workflow.status()).state is FlowState.UNKNOWN
        await workflow.push()
        before = await workflow.status()
        assert (before.id, before.name, before.state, before.total) == ("graph", "graph", "executing", 6)
        assert before.counts == {"suspended": 5, "available": 1}
        assert (before.started_at, before.stopped_at, before.duration) == (None, None, None)
        hand("graph").play()
        after = await workflow.status()
        assert (after.state, after.counts, after.ok) == ("completed", {"completed": 6}, True)
        assert after.started_at is not None
        assert after.stopped_at is not None
        assert after.duration == after.stopped_at - after.started_at == after.elapsed
        assert {name: (sub.state, sub.total) for name, sub in after.subs.items()} == {
            "sub": ("completed", 2),
            "process": ("completed", 2),
        }


async def test_055_a_retry_takes_the_stop_back(hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()
        hand("graph").play(fails=("sub/x",))
        assert (await workflow.status()).state is FlowState.DISCARDED
        assert await workflow.retry_jobs() == 3
        status = await workflow.status()
        assert (status.state, status.stopped_at, status.duration) == ("executing", None, None)
        assert status.started_at is not None
        hand("graph").play()
        assert (await workflow.status()).state is FlowState.COMPLETED


async def test_056_a_handle_for_a_running_job_is_its_level(hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed):
        await graph().push()
        hand("graph").play()
        for path, names, context in (
            ("setup", ["setup", "end"], {"batch_id": 7}),
            ("sub/x", ["x", "y"], {"batch_id": 7, "level": 2}),
        ):
            handle = Workflow.for_job(RunningJob("graph", path))
            assert [job.name for job in await handle.all_jobs()] == names
            assert await handle.get_context() == context
        sub = Workflow.for_job(RunningJob("graph", "sub/x"))
        assert ((await sub.status()).name, (await sub.status()).total) == ("sub", 2)
        assert (await sub.root().status()).total == 6


async def test_057_jobs_by_names_and_dependencies(hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()
        setup = await workflow.get_job("setup")
        assert setup is not None
        assert (setup.name, setup.title, setup.args, setup.queue) == ("setup", "SlowWorker", {"size": 3}, "slow")
        assert (setup.state, setup.attempt, setup.priority, setup.max_attempts) == ("available", 0, 3, 2)
        assert setup.meta == {"name": "setup", "workflow_id": "graph", "path": "setup"}
        assert await workflow.get_job("nobody") is None
        assert await workflow.get_job("sub") is None, "a sub-workflow is no job"

        def paths(jobs: object) -> list[str]:
            return [job.path for job in jobs]  # type: ignore[attr-defined]

        assert paths(await workflow.all_jobs()) == ["setup", "end"]
        everything = ["setup", "sub/x", "sub/y", "process/0", "process/1", "end"]
        assert paths(await workflow.all_jobs(subs=True)) == everything
        assert paths(await workflow.all_jobs(names=["end", "setup", "nobody"])) == ["setup", "end"]
        assert paths(await workflow.all_jobs(names="process")) == ["process/0", "process/1"]
        assert paths(await workflow.all_jobs(names=["process/1"])) == ["process/1"]
        end = await workflow.get_job("end")
        assert end is not None
        assert paths(await workflow.all_jobs(deps_of=end)) == everything[1:5]
        assert paths(await workflow.all_jobs(deps_of=RunningJob("graph", "sub/y"))) == ["sub/x"]
        assert paths(await workflow.all_jobs(deps_of=end, names=["sub"])) == ["sub/x", "sub/y"]
        for first in (RunningJob("graph", "sub/x"), RunningJob("graph", "process/1")):
            assert paths(await Workflow.for_job(first).all_jobs(deps_of=first)) == ["setup"]
        assert await workflow.all_jobs(deps_of=setup) == []
        assert await workflow.all_jobs(names=[]) == []
        assert await Workflow(id="nobody").all_jobs() == []


async def test_046_recorded_results_are_nested_and_keep_their_types(hand: GetHand, installed: Path) -> None:
    results: dict[str, object] = {
        "setup": {"at": MOMENT, "price": Decimal("1.50"), 3: (1, {2})},
        "sub/x": None,
        "sub/y": "why",
        "process/0": {"user_id": 1},
        "process/1": {"user_id": 2},
        "end": 5,
    }
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()
        assert await workflow.all_recorded() == {"sub": {}, "process": {}}
        hand("graph").play(results)
        assert await workflow.get_recorded("setup") == results["setup"]
        assert await workflow.get_recorded("sub") == {"y": "why"}
        assert await workflow.get_recorded("process/1") == {"user_id": 2}
        assert await workflow.get_recorded("nobody") is None
        assert await workflow.all_recorded() == {
            "setup": results["setup"],
            "end": 5,
            "sub": {"y": "why"},
            "process": {"0": {"user_id": 1}, "1": {"user_id": 2}},
        }
        assert await workflow.all_recorded(names=["end", "sub", "nobody"]) == {"end": 5, "sub": {"y": "why"}}
        end = await workflow.get_job("end")
        assert end is not None
        assert sorted(await workflow.all_recorded(deps_of=end)) == ["process", "sub"]
        assert await workflow.all_recorded(deps_of=end, names=["process", "setup"]) == {
            "process": {"0": {"user_id": 1}, "1": {"user_id": 2}}
        }
        sub = Workflow.for_job(RunningJob("graph", "sub/x"))
        assert await sub.all_recorded() == {"y": "why"}
        assert await sub.get_recorded("y") == "why"
        assert await sub.all_recorded(names="y") == {"y": "why"}
        assert await sub.all_recorded(deps_of=RunningJob("graph", "sub/x")) == {"setup": results["setup"]}
        assert await sub.all_recorded(deps_of=RunningJob("graph", "setup")) == {}
        assert await Workflow(id="nobody").all_recorded() == {}


async def test_047_a_context_is_given_back(installed: Path) -> None:
    async with Flows.open(installed):
        with_values = Workflow().add_context({"day": MOMENT, "n": {1, 2}}).add("a", plain)
        without = Workflow().add("a", plain)
        await with_values.push()
        await without.push()
        assert await with_values.get_context() == {"day": MOMENT, "n": {1, 2}}
        assert await without.get_context() is None
        assert await Workflow(id="nobody").get_context() is None


async def test_061_jobs_are_cancelled_once_and_counted(hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()
        hand("graph").go_on()
        assert await workflow.cancel_jobs(names=["sub", "end"], reason="not today") == 3
        assert await workflow.cancel_jobs(names="sub") == 0
        assert await workflow.cancel_jobs() == 3, "setup, which runs, and both of process"
        assert await workflow.cancel_jobs() == 0
        assert {job.state for job in await workflow.all_jobs(subs=True)} == {"cancelled"}
        assert (await workflow.status()).state is FlowState.EXECUTING, "setup may still run"
        with pytest.raises(NotFound, match="flow 'graph' has no job 'nobody'"):
            await workflow.cancel_jobs(names=["nobody"])
        with pytest.raises(NotFound, match="there is no flow 'nobody'"):
            await Workflow(id="nobody").cancel_jobs()


async def test_061_a_handle_for_a_sub_workflow_cancels_and_retries_its_own_jobs(installed: Path) -> None:
    async with Flows.open(installed):
        await graph().push()
        sub = Workflow.for_job(RunningJob("graph", "sub/x"))
        assert await sub.cancel_jobs(names="y") == 1
        assert await sub.cancel_jobs() == 1
        assert await sub.retry_jobs() == 2
        assert await sub.retry_jobs() == 0


async def test_064_retries_of_failed_named_and_completed_jobs(hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()
        hand("graph").play(fails=("process/1",))
        states = {job.path: job.state for job in await workflow.all_jobs(subs=True)}
        assert (states["process/1"], states["end"], states["setup"]) == ("discarded", "cancelled", "completed")
        assert await workflow.retry_jobs(names=["setup"]) == 0
        assert await workflow.retry_jobs(names=["process/1"]) == 1
        hand("graph").play({"end": 1})
        assert (await workflow.status()).state is FlowState.COMPLETED
        assert await workflow.retry_jobs(names=["sub"], completed=True) == 2
        hand("graph").play()
        assert await workflow.retry_jobs(names=["process"], downstream="all") == 3
        hand("graph").play({"end": 2})
        assert await workflow.get_recorded("end") == 2
        with pytest.raises(BadInput, match="downstream: expected cancelled or all, not 'some'"):
            await workflow.retry_jobs(downstream="some")
        with pytest.raises(BadInput, match="arguments: only together with the names"):
            await workflow.retry_jobs(arguments={"size": 4})


async def test_064_a_retry_changes_arguments(hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()
        hand("graph").play(fails=("setup",))
        assert await workflow.retry_jobs(names=["setup"], arguments={"size": 4, "at": MOMENT}) == 1
        setup = await workflow.get_job("setup")
        assert setup is not None
        assert setup.args == {"size": 4, "at": MOMENT}


async def test_068_cancel_and_retry_at_once_have_one_order(installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()
        cancels = await asyncio.gather(*(workflow.cancel_jobs() for _ in range(4)), return_exceptions=True)
        assert [answer for answer in cancels if not isinstance(answer, Over)] == [6], "the flow is over for the others"
        assert sorted(await asyncio.gather(*(workflow.retry_jobs() for _ in range(4)))) == [0, 0, 0, 6]
        counts = await asyncio.gather(workflow.cancel_jobs(), workflow.retry_jobs())
        assert list(counts) in ([6, 0], [6, 6])


async def test_069_a_graft_is_attached_by_the_client(hand: GetHand, installed: Path) -> None:
    async with Flows.open(installed) as flows:
        workflow = (
            Workflow(id="g").add_graft("mails", UserNotifier.new({"account_id": 2})).add("end", plain, deps="mails")
        )
        await workflow.push()
        engine = hand("g")
        engine.go_on()
        job = RunningJob("g", "mails", attempt=1, generation=1, flow_uid=engine.uid, is_grafter=True)
        sub = Workflow().add_context({"who": "all"}).add("0", plain).add("1", plain, deps="0")
        assert await flows.enqueue_many(Workflow.apply_graft(job, sub)) == "g"
        assert [job.path for job in await workflow.all_jobs(names="mails")] == ["mails", "mails/0", "mails/1"]
        engine.play({"mails/1": "sent"})
        assert await workflow.get_recorded("mails") == {"1": "sent"}
        assert (await workflow.status()).subs["mails"].total == 2


async def test_in_code_that_is_not_async_a_verb_blocks(installed: Path) -> None:
    async with Flows.open(installed):
        workflow = graph()
        await workflow.push()

        def function() -> int:
            return blocking(workflow.status()).total

        assert await asyncio.to_thread(function) == 6
        with pytest.raises(PermanentError, match="use `await` in an async function"):
            function()


async def test_a_crawl_is_a_job_with_its_arguments(installed: Path) -> None:
    async with Flows.open(installed):
        workflow = Workflow().add("shop", crawl("books", arguments={"lang": "de"}, tasks=3), priority=2)
        await workflow.push()
        shop = await workflow.get_job("shop")
        assert shop is not None
        assert (shop.kind, shop.title, shop.args, shop.run_id) == ("crawl", "books", {"lang": "de"}, None)
        assert shop.since is not None
        assert datetime.now(UTC) - shop.since < timedelta(minutes=1)
