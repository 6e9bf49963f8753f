"""Begins: several activities and several hosts want the same attempt."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.flows import RetryPolicy, StepJob, Workflow
from crawler_lifecycle.flows.activities.steps import TryAgain
from crawler_lifecycle.flows.authors.modules import load
from crawler_lifecycle.flows.cli.lines import cause_in_words
from crawler_lifecycle.flows.model.definition import CallForm
from crawler_lifecycle.flows.ports.steps import StepEnd
from crawler_lifecycle.flows.rules.messages import RunSteps
from crawler_lifecycle.hosts import attempts as host_attempts
from crawler_lifecycle.hosts import functions as host_functions
from crawler_lifecycle.hosts import slices as host_slices
from crawler_lifecycle.hosts.functions import StepProcess
from crawler_lifecycle.hosts.outcomes import Ended
from crawler_lifecycle.hosts.runners import StepCall
from crawler_lifecycle.model.flow_states import EndKind
from tests.hosts import authors, managing
from tests.hosts.attempts import attempts, expire, has_begun, take_over, until
from tests.hosts.supervised import MODULE, Hosted, hosted, single
from tests.kit.data.flows import Flow
from tests.kit.temporal.flow_stage import Watched

SHORT = timedelta(milliseconds=1)


async def in_thread(function: Any, *args: Any, **options: Any) -> Any:
    return await asyncio.to_thread(function, *args, **options)


def end_elsewhere(flow: Flow, path: str, token: str) -> None:
    end = StepEnd(flow.uid, flow.last(path), EndKind.COMPLETED, datetime.now(UTC), result='"elsewhere"')
    assert flow.store.step_ledger.end([end], token)


async def test_two_activities_for_an_attempt_share_one_call(host: Hosted) -> None:
    flow = await host.push(single(authors.wait))
    steps = await host.starting(flow)
    first = asyncio.create_task(host.host.run(steps))
    await has_begun()
    second = asyncio.create_task(host.host.run(steps))
    authors.gate.set()
    assert (await first).ends == (await second).ends
    assert authors.calls == ["step"]
    assert (await host.host.run(steps)).ends == (await first).ends, "an end on record is returned"


async def test_a_second_activity_ends_with_the_first_and_not_at_its_next_look(
    host: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_slices, "HELD", Backoff(timedelta(minutes=1), timedelta(minutes=1)))
    flow = await host.push(single(authors.wait))
    steps = await host.starting(flow)
    first = asyncio.create_task(host.host.run(steps))
    await has_begun()
    second = asyncio.create_task(host.host.run(steps))
    await asyncio.wait([second], timeout=0.5)  # the second activity waits for its next look
    authors.gate.set()
    async with asyncio.timeout(20):
        assert (await first).ends == (await second).ends


async def test_a_cancelled_activity_ends_no_function(host: Hosted) -> None:
    flow = await host.push(single(authors.wait))
    steps = await host.starting(flow)
    first = asyncio.create_task(host.host.run(steps))
    await has_begun()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(host.host.run(steps))
    authors.gate.set()
    [end] = (await second).ends
    assert end.kind is EndKind.COMPLETED
    assert authors.calls == ["step"]


async def test_an_attempt_elsewhere_is_waited_for(host: Hosted) -> None:
    flow = await host.push(single(authors.wait))
    steps = await host.starting(flow)
    await in_thread(flow.begin_steps, *steps.starts, token="other")
    waiting = asyncio.create_task(host.host.run(steps))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await in_thread(end_elsewhere, flow, "step", "other")
    assert (await waiting).ends[0].kind is EndKind.COMPLETED
    assert await host.result(flow, "step") == "elsewhere"
    assert not authors.calls
    assert host.host.slots.busy == 0


async def test_a_lost_attempt_ends_the_function_and_drops_its_result(
    host: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_attempts, "GRACE_SECONDS", 0.3)
    flow = await host.push(
        Workflow("lost").add_cascade("loop", authors.async_wait).add_cascade("thread", authors.wait_for_cancel)
    )
    playing = asyncio.create_task(host.go_on(flow))
    await until(lambda: authors.calls == ["loop"])
    await has_begun()
    await in_thread(take_over, host.database, "other")
    await until(lambda: len(authors.calls) == 3)
    assert sorted(authors.calls) == ["cancelled", "finally", "loop"]
    for path in ("loop", "thread"):
        assert flow.row(path).state == "executing"
        await in_thread(end_elsewhere, flow, path, "other")
    await playing
    assert await host.result(flow, "thread") == "elsewhere"
    assert [attempt.deaths for attempt in await attempts(flow, "loop")] == [1]


async def test_a_function_whose_host_died_runs_apart(host: Hosted) -> None:
    flow = await host.push(Workflow("apart").add_cascade("step", authors.process))
    steps = await host.starting(flow)
    await expire(flow, "step")
    await host.host.run(steps)
    assert await host.result(flow, "step") != os.getpid()
    [attempt] = await attempts(flow)
    assert attempt.deaths == 1


async def test_three_deaths_discard_the_step(host: Hosted, tmp_path: Path) -> None:
    flow = await host.push(
        Workflow("deadly").add_context({"folder": str(tmp_path)}).add_cascade("step", authors.die, max_attempts=5)
    )
    steps = await host.starting(flow)
    await expire(flow, "step")
    await host.host.run(steps)
    assert (tmp_path / "deaths").read_text() == "xx", "the first death was the host's"
    assert (flow.row("step").state, flow.row("step").reason) == ("discarded", "process_died")
    assert host.host.slots.busy == 0


@pytest.mark.long
async def test_a_process_that_ends_before_the_call_is_no_death(
    host: Hosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function has been called once, so it is not to blame: the attempt fails, and another one follows."""
    policy = RetryPolicy(max_attempts=2, pause_seconds=0)
    flow = await host.push(single(authors.process, retry=policy))
    steps = await host.starting(flow)
    await expire(flow, "step")
    with monkeypatch.context() as patch:
        patch.setenv("AUTHORS_END_THE_PROCESS", "1")
        await host.host.run(steps)
    [attempt] = await attempts(flow)
    assert (attempt.deaths, attempt.outcome) == (1, "process_died")
    assert attempt.reason == "the process with the function ended with status 7"
    assert flow.row("step").state == "retryable"
    await host.go_on(flow)
    assert flow.row("step").state == "completed"


@pytest.mark.parametrize("options", [{}, {"isolate": True}], ids=["suspect", "isolated"])
async def test_a_host_that_dies_before_the_call_counts_no_death(
    flows_database: Database, options: dict[str, Any]
) -> None:
    """The attempt begins when its process is ready. The process takes a second to start."""
    authors.reset()
    store: Any = SqlStore(flows_database)
    store.step_ledger = Watched(store.step_ledger)
    async with hosted(flows_database, store=store) as host:
        flow = await host.push(single(authors.process, **options))
        steps = await host.starting(flow)
        deaths = 0 if options else 1
        await expire(flow, "step", deaths)
        asked, answer = threading.Event(), threading.Event()

        def die(*_: Any) -> None:
            asked.set()
            answer.wait(20)

        def wait_for_process(*_: Any) -> None:
            store.step_ledger.before["begin"] = die

        store.step_ledger.after["begin"] = wait_for_process
        running = asyncio.create_task(host.host.run(steps))
        await asyncio.to_thread(asked.wait, 20)
        (taken,) = (await asyncio.to_thread(flow.begin_steps, *steps.starts, token="another")).mine
        assert taken.deaths == deaths
        answer.set()
        await asyncio.to_thread(flow.end, *steps.starts, token="another", result='"elsewhere"')
        await running
        assert await host.result(flow, "step") == "elsewhere", "the first host has not called the function"


class CountedProcess(StepProcess):
    started: ClassVar[list["CountedProcess"]] = []

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.started.append(self)
        self.calls = 0

    def call(self, call: StepCall) -> "asyncio.Task[Ended]":
        self.calls += 1
        return super().call(call)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[CountedProcess]:
    """The processes that hosts start for functions."""
    monkeypatch.setattr(host_functions, "StepProcess", CountedProcess)
    CountedProcess.started.clear()
    return CountedProcess.started


@asynccontextmanager
async def refused_in_process(database: Database) -> AsyncIterator[tuple[Hosted, Flow, RunSteps]]:
    """A host with an isolated step whose begin was refused, because a request came while its process loaded."""
    store: Any = SqlStore(database)
    store.step_ledger = Watched(store.step_ledger)
    async with hosted(database, store=store) as host:
        flow = await host.push(single(authors.process, isolate=True))
        steps = await host.starting(flow)
        store.step_ledger.after["begin"] = lambda *_: flow.append("more", Workflow().add("later", authors.nothing))
        assert (await host.host.run(steps)).stale == "0"
        yield host, flow, steps.model_copy(update={"door": flow.door})


@pytest.mark.regression("an isolated step never began in a flow that got requests faster than a process loads")
@pytest.mark.long
async def test_a_loaded_process_serves_the_next_plan(flows_database: Database, processes: list[CountedProcess]) -> None:
    async with refused_in_process(flows_database) as (host, flow, planned_again):
        await host.host.run(planned_again)
        assert flow.row("step").state == "completed"
        assert len(processes) == 1


@pytest.mark.long
async def test_an_unused_process_ends_after_some_time(
    flows_database: Database, processes: list[CountedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_functions, "SPARE_SECONDS", 0.0)
    async with refused_in_process(flows_database) as (host, flow, planned_again):
        await until(lambda: not processes[0].is_alive)
        await host.host.run(planned_again)
        assert flow.row("step").state == "completed"
        assert len(processes) == 2


@pytest.mark.long
async def test_an_unused_process_ends_with_its_host(flows_database: Database, processes: list[CountedProcess]) -> None:
    async with refused_in_process(flows_database):
        assert processes[0].is_alive
    assert not processes[0].is_alive


@pytest.mark.long
async def test_a_lost_attempt_is_called_in_no_further_process(
    host: Hosted, tmp_path: Path, processes: list[CountedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host takes the attempt over after the death of its process."""
    flow = await host.push(Workflow("deadly").add_context({"folder": str(tmp_path)}).add_cascade("step", authors.die))
    steps = await host.starting(flow)
    await expire(flow, "step")
    under_way, ready_process = host.host._under_way, host.host._functions.ready_process

    def taken() -> bool:
        flow.store.step_ledger.renew(under_way._token, -SHORT)
        return bool(flow.begin_steps(*steps.starts, token="other").mine)

    async def lose() -> StepProcess:
        for execution in under_way.executions:
            while not await in_thread(taken):
                pass
            await until(lambda execution=execution: execution.is_gone)
            await in_thread(end_elsewhere, flow, "step", "other")
        return await ready_process()

    monkeypatch.setattr(host.host._functions, "ready_process", lose)
    await host.host.run(steps)
    assert [process.calls for process in processes] == [1, 0]
    assert await host.result(flow, "step") == "elsewhere"


async def test_news_reach_no_later_begin_of_the_attempt(host: Hosted) -> None:
    """The host gives the attempt up and begins it again during a renewal."""
    flow, under_way = await host.push(single(authors.nothing)), host.host._under_way
    [step] = (await in_thread(flow.begin_steps, flow.start("step"))).mine
    first, second = (under_way.execute(step, host.host.slots) for _ in range(2))
    under_way._take_news(time.monotonic(), {first.key: first}, {})
    assert (first.is_gone, second.is_gone) == (True, False)
    under_way.forget(second.key)


@pytest.mark.long
async def test_the_class_of_a_manager_as_a_step_gives_its_slot_back(flows_database: Database) -> None:
    modules = load([managing.__name__])
    async with hosted(flows_database, modules=modules) as host:
        job = StepJob(function=f"{managing.__name__}:Shops", form=CallForm.CONTEXT, isolate=True)
        await host.play(Workflow("wrong").add("step", job))
        assert (host.host.slots.busy, host.host.manager_slots.busy) == (0, 0)


@pytest.mark.long
async def test_three_dead_hosts_discard_the_step_without_a_call(host: Hosted) -> None:
    flow = await host.push(single(authors.nothing))
    steps = await host.starting(flow)
    await expire(flow, "step", 3)
    await host.host.run(steps)
    assert (flow.row("step").state, flow.row("step").reason) == ("discarded", "process_died")
    assert not authors.calls


async def test_a_slice_shares_the_slots(flows_database: Database) -> None:
    authors.reset()
    async with hosted(flows_database, slots=3) as host:
        flow = await host.push(Workflow("slice").add_cascade("many", (list(range(10)), authors.wait_item)))
        playing = asyncio.create_task(host.go_on(flow))
        await until(lambda: len(authors.calls) == 3)
        await asyncio.sleep(0.2)
        assert len(authors.calls) == 3
        assert host.host.slots.busy == 3
        authors.gate.set()
        await playing
        assert set(flow.states.values()) == {"completed"}
        assert len(authors.calls) == 10


async def test_a_slow_item_holds_up_no_dependents(host: Hosted) -> None:
    flow = await host.push(Workflow("slice").add_cascade("many", ([0, 5, 0], authors.wait_if)))
    steps = await host.starting(flow)
    ended = await host.host.run(steps)
    assert {end.number for end in ended.ends} == {0, 2}
    rest = steps.model_copy(update={"starts": steps.starts[1:2]})
    authors.gate.set()
    assert [end.number for end in (await host.host.run(rest)).ends] == [1]


@pytest.mark.long
async def test_suspects_of_a_slice_run_apart(host: Hosted) -> None:
    flow = await host.push(Workflow("slice").add_cascade("many", (list(range(4)), authors.process_of_item)))
    steps = await host.starting(flow)
    for path in ("many/0", "many/2"):
        await expire(flow, path)
    ended = await host.host.run(steps)
    assert sorted(end.number for end in ended.ends[:2]) == [1, 3]
    while len((await host.host.run(steps)).ends) < 4:
        pass
    first, second, third, last = [await host.result(flow, f"many/{number}") for number in range(4)]
    assert second == last == os.getpid()
    assert len({first, second, third}) == 3


async def test_an_unknown_function_waits_visibly(host: Hosted) -> None:
    gone = StepJob(function=f"{MODULE}:gone", form=CallForm.CONTEXT)
    flow = await host.push(Workflow("unknown").add("step", gone))
    steps = await host.starting(flow)
    with pytest.raises(TryAgain, match="has no function gone"):
        await host.host.run(steps)
    assert (flow.row("step").state, flow.row("step").cause) == ("available", "unknown_step")
    assert host.host.slots.busy == 0


async def test_a_step_of_a_broken_module_waits_with_the_file_and_the_line(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "broken_steps.py"
    path.write_text("x = 1\ny = (\n")
    async with hosted(database, modules=load([MODULE, str(path)])) as host:
        lost = StepJob(function="broken_steps:load", form=CallForm.CONTEXT)
        flow = await host.push(Workflow("broken").add("step", lost))
        with pytest.raises(TryAgain, match="cannot be imported"):
            await host.host.run(await host.starting(flow))
    cause = flow.row("step").cause
    assert str(cause).startswith(f"broken_module:{path} cannot be imported: SyntaxError")
    assert str(cause_in_words(cause)).endswith("line 2); the step starts once the module is repaired")


async def test_only_functions_of_the_modules_are_called(host: Hosted) -> None:
    for name in ("Path", "not_a_function", "threading"):
        flow = await host.push(Workflow("unknown").add("step", StepJob(function=f"{MODULE}:{name}")))
        with pytest.raises(TryAgain):
            await host.host.run(await host.starting(flow))


async def test_a_door_makes_starts_stale(host: Hosted) -> None:
    flow = await host.push(single(authors.nothing))
    steps = await host.starting(flow)
    await in_thread(flow.hold, "pause")
    assert (await host.host.run(steps)).stale == "0"
    assert not authors.calls
    assert host.host.slots.busy == 0


# the end of a host


async def test_a_drained_host_lets_functions_end_and_releases_the_others(flows_database: Database) -> None:
    authors.reset()
    async with hosted(flows_database, drain_seconds=1) as host:
        flow = await host.push(
            Workflow("drain").add_cascade("ends", authors.wait).add_cascade("hangs", authors.async_wait)
        )
        steps = await asyncio.to_thread(host.starts_of, flow)
        running = [asyncio.create_task(host.host.run(part)) for part in steps]
        await until(lambda: len(authors.calls) == 2)
        draining = asyncio.create_task(host.host.drain())
        authors.gate.set()
        await draining
        [again, ended] = await asyncio.gather(*running, return_exceptions=True)
    assert not isinstance(ended, BaseException)
    assert ended.ends[0].kind is EndKind.COMPLETED
    assert isinstance(again, TryAgain)
    assert again.cause == "Draining"
    begun = await in_thread(flow.begin_steps, flow.start("hangs"), token="next")
    assert [step.deaths for step in begun.mine] == [0], "a withdrawn begin is no death"


async def test_a_drained_host_begins_no_waiting_item(flows_database: Database) -> None:
    authors.reset()
    async with hosted(flows_database, slots=1, drain_seconds=5) as host:
        flow = await host.push(Workflow("drain").add_cascade("many", (list(range(3)), authors.wait_item)))
        [steps] = await asyncio.to_thread(host.starts_of, flow)
        running = asyncio.create_task(host.host.run(steps))
        await until(lambda: len(authors.calls) == 1)
        draining = asyncio.create_task(host.host.drain())
        await until(lambda: len(flow.begin_steps(*steps.starts, token="next").mine) == 2)
        with pytest.raises(TryAgain):
            await running
        authors.gate.set()
        await draining
    assert len(authors.calls) == 1
    assert flow.row("many/0").state == "completed"


async def test_a_drained_host_begins_nothing_after_a_wait_for_a_slot(flows_database: Database) -> None:
    begun: list[object] = []
    store: Any = SqlStore(flows_database)
    store.step_ledger = Watched(store.step_ledger)
    store.step_ledger.before["begin"] = lambda *_: begun.append(_)
    async with hosted(flows_database, store=store, slots=1) as host:
        flow, slots = await host.push(single(authors.nothing)), host.host.slots
        await slots.take()
        running = asyncio.create_task(host.host.run(await host.starting(flow)))
        await until(lambda: slots._free._waiters)
        await host.host.drain()
        slots.give_back()
        with pytest.raises(TryAgain, match="the host ends"):
            await running
        assert slots.busy == 0
    assert not begun


async def test_a_cancelled_item_is_not_called_after_its_wait_for_a_slot(flows_database: Database) -> None:
    authors.reset()
    async with hosted(flows_database, slots=1) as host:
        flow = await host.push(Workflow("cancel").add_cascade("many", (list(range(3)), authors.wait_item)))
        [steps] = await asyncio.to_thread(host.starts_of, flow)
        running = asyncio.create_task(host.host.run(steps))
        await until(lambda: len(authors.calls) == 1)
        await in_thread(flow.cancel, terminate=True)
        executions = host.host._under_way.executions
        await until(lambda: all(execution.link.is_cancelled for execution in executions))
        authors.gate.set()
        answer = await running
    assert {end.kind for end in answer.ends} <= {EndKind.CANCELLED, EndKind.COMPLETED}
    assert len(answer.ends) == 3
    assert len(authors.calls) == 1


async def test_begins_are_withdrawn_after_a_refusal(flows_database: Database) -> None:
    """An earlier try may have begun the attempt, if its answer was lost."""

    def refuse(*_: object) -> None:
        raise Refused("the folder is a link")

    store = SqlStore(flows_database)
    ledger = Watched(store.step_ledger)
    ledger.after["begin"] = refuse
    store.step_ledger = ledger
    async with hosted(flows_database, store=store) as host:
        flow = await host.push(single(authors.nothing))
        steps = await host.starting(flow)
        with pytest.raises(Refused):
            await host.host.run(steps)
        begun = await in_thread(flow.begin_steps, *steps.starts, token="next")
    assert [step.deaths for step in begun.mine] == [0]


@pytest.mark.long
async def test_a_host_without_a_lease_calls_no_waiting_item(
    flows_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host has begun the items meanwhile."""

    def fail(*_: object) -> None:
        raise TemporaryError("the database is away")

    authors.reset()
    store = SqlStore(flows_database)
    ledger = Watched(store.step_ledger)
    store.step_ledger = ledger
    async with hosted(flows_database, store=store, slots=1) as host:
        flow = await host.push(Workflow("many").add_cascade("many", (list(range(8)), authors.wait_item)))
        [steps] = await asyncio.to_thread(host.starts_of, flow)
        running = asyncio.create_task(host.host.run(steps))
        await until(lambda: len(authors.calls) == 1)
        under_way = host.host._under_way
        monkeypatch.setattr(ledger, "renew", fail, raising=False)
        await until(lambda: time.monotonic() > under_way._holds_until)
        await in_thread(take_over, flows_database, "next")
        authors.gate.set()
        await until(lambda: host.host.slots.busy == 1 and len(under_way.executions) == 7)
        monkeypatch.undo()
        await until(lambda: not under_way.executions)
        running.cancel()
    assert len(authors.calls) == 1
