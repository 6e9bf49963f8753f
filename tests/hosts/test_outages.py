"""The database is away, refuses, or loses its answer, in each call of a host."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotFound, Refused, TemporaryError
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.ports.steps import StepEnd
from crawler_lifecycle.hosts.runners import AuthorsThreads
from tests.hosts import authors
from tests.hosts.attempts import attempts, expire, has_begun, until
from tests.hosts.supervised import hosted, single

AWAY = TemporaryError("the database is away")


@dataclass
class Faults:
    """Faults by a method's name: errors before the call, and errors in place of the answer."""

    before: dict[str, list[Exception | None]] = field(default_factory=dict)
    after: dict[str, list[Exception | None]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def around(self, port: Any) -> "FaultyPort":
        return FaultyPort(port, self)

    def store(self, database: Database) -> Any:
        store = SqlStore(database)
        store.step_ledger = self.around(store.step_ledger)
        store.flow_doors = self.around(store.flow_doors)
        return store


@dataclass
class FaultyPort:
    port: Any
    faults: Faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.port, name)

        def call(*args: Any, **options: Any) -> Any:
            self.faults.calls[name] += 1
            _raise_next(self.faults.before.get(name))
            answer = method(*args, **options)
            _raise_next(self.faults.after.get(name))
            return answer

        return call


def _raise_next(errors: list[Exception | None] | None) -> None:
    error = errors.pop(0) if errors else None
    if error is not None:
        raise error


@pytest.fixture
def faults() -> Faults:
    authors.reset()
    return Faults()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", ["begin", "end", "inputs", "results", "graft"])
@pytest.mark.long
async def test_an_outage_repeats_no_function(
    flows_database: Database, faults: Faults, method: str, moment: str
) -> None:
    getattr(faults, moment)[method] = [AWAY, AWAY]
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.play(
            Workflow("outage")
            .add_context({"word": "calm"})
            .add_cascade("first", authors.noted_word)
            .add_cascade("second", authors.noted_first, deps="first")
            .add_graft("graft", authors.noted_graft, deps="second")
        )
        assert set(flow.states.values()) == {"completed"}
        assert await host.result(flow, "second") == "calm weather"
    assert authors.calls == ["first", "second", "graft", "graft/inside"]
    assert faults.calls[method] > 2


@pytest.mark.long
async def test_attempts_are_kept_although_renewals_fail(flows_database: Database, faults: Faults) -> None:
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.push(single(authors.wait))
        playing = asyncio.create_task(host.go_on(flow))
        await has_begun()
        faults.before["renew"], renewals = [AWAY] * 30, faults.calls["renew"]
        await until(lambda: faults.calls["renew"] > renewals + 14)  # the lease lasts for ten renewals
        authors.gate.set()
        await playing
        assert await host.result(flow, "step") == "through the gate"


async def test_a_withdrawal_that_fails_ends_the_host_all_the_same(flows_database: Database, faults: Faults) -> None:
    faults.before["withdraw"] = [AWAY] * 9
    async with hosted(flows_database, store=faults.store(flows_database), drain_seconds=0.2) as host:
        flow = await host.push(single(authors.async_wait))
        playing = asyncio.create_task(host.go_on(flow))
        await has_begun()
        playing.cancel()
    assert faults.calls["withdraw"] == 1
    assert authors.calls == ["step", "finally"]


async def test_an_end_that_the_database_refuses_fails_the_attempt(flows_database: Database, faults: Faults) -> None:
    faults.before["end"] = [Refused("the packet is larger than max_allowed_packet")]
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.play(single(authors.cancel_by_return, max_attempts=3))
        assert (flow.row("step").state, flow.row("step").reason) == ("discarded", "result_unusable")
        [attempt] = await attempts(flow)
        assert attempt.error == "the database refused the end: the packet is larger than max_allowed_packet"


async def test_a_refused_end_harms_no_end_beside_it(
    flows_database: Database, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During the pause after the first fault, the other ends gather."""

    def refuse_together(ends: Sequence[StepEnd], token: str) -> Any:
        if len(ends) > 1:
            raise Refused("one of them is too large")
        return end(ends, token)

    faults.before["end"] = [AWAY]
    store = faults.store(flows_database)
    end = store.step_ledger.end
    monkeypatch.setattr(store.step_ledger, "end", refuse_together, raising=False)
    async with hosted(flows_database, store=store) as host:
        flow = await host.play(Workflow("many").add_cascade("many", (list(range(10)), authors.number)))
        assert set(flow.states.values()) == {"completed"}
    assert faults.calls["end"] == 11


async def test_an_outage_at_the_beginning_of_a_suspect(flows_database: Database, faults: Faults) -> None:
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.push(single(authors.process))
        steps = await host.starting(flow)
        await expire(flow, "step")
        faults.before["begin"] = [AWAY, None, AWAY]
        await host.host.run(steps)
        assert flow.row("step").state == "completed"


@pytest.mark.regression("a function was called without end if its host failed after each call")
async def test_a_fault_of_the_host_after_the_call_counts_as_a_death(flows_database: Database, faults: Faults) -> None:
    faults.before["graft"] = [RuntimeError("unexpected")]
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.push(Workflow("fault").add_graft("graft", authors.noted_graft))
        steps = await host.starting(flow)
        with pytest.raises(RuntimeError, match="unexpected"):
            await host.host.run(steps)
        assert host.host.slots.busy == 0
        taken = await asyncio.to_thread(flow.begin_steps, *steps.starts, token="another")
        assert [step.deaths for step in taken.mine] == [1], "another host may take the attempt at once"
        await asyncio.to_thread(flow.end, *steps.starts, token="another")
        await host.host.run(steps)
        assert flow.row("graft").state == "completed"
    assert authors.calls == ["graft"]


@pytest.mark.parametrize("deaths", [0, 1], ids=["isolated", "suspect"])
@pytest.mark.long
async def test_a_fault_at_the_beginning_ends_the_process(flows_database: Database, faults: Faults, deaths: int) -> None:
    faults.before["begin"] = [None, NotFound("there is no such flow")]
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.push(single(authors.process, isolate=not deaths))
        steps = await host.starting(flow)
        await expire(flow, "step", deaths)
        with pytest.raises(NotFound, match="there is no such flow"):
            await asyncio.wait_for(host.host.run(steps), 30)
        assert host.host.slots.busy == 0
        await host.host.run(steps)
        assert flow.row("step").state == "completed"


@pytest.mark.long
async def test_a_process_that_cannot_be_started_costs_no_slot(
    flows_database: Database, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.push(single(authors.process, isolate=True))
        steps = await host.starting(flow)
        with monkeypatch.context() as patch:
            patch.setattr("subprocess.Popen", _no_memory)
            with pytest.raises(OSError, match="Cannot allocate memory"):
                await host.host.run(steps)
        assert host.host.slots.busy == 0
        await host.host.run(steps)
        assert flow.row("step").state == "completed"


def _no_memory(*_: Any, **__: Any) -> Any:
    raise OSError(12, "Cannot allocate memory")


async def test_a_fault_before_the_call_withdraws_the_attempt(
    flows_database: Database, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the host lives, no other host could begin the attempt."""
    faults.before["withdraw"] = [AWAY, AWAY]
    async with hosted(flows_database, store=faults.store(flows_database)) as host:
        flow = await host.push(single(authors.nothing))
        steps = await host.starting(flow)
        with monkeypatch.context() as patch:
            patch.setattr(AuthorsThreads, "start", _no_memory)
            with pytest.raises(OSError, match="Cannot allocate memory"):
                await host.host.run(steps)
        assert faults.calls["withdraw"] == 3
        taken = await asyncio.to_thread(flow.begin_steps, *steps.starts, token="another")
        assert [step.deaths for step in taken.mine] == [0]
