"""Random graphs, ends, requests and deaths: after each round, the rows on record equal those of the flow in memory.

The flow in memory has the pure rules alone. On record, each round has a planner of its own, supervisors replace each
other, and hosts die with their claims.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows.model.requests import Downstream
from crawler_lifecycle.flows.rules.ends import AttemptEnd, RunSeen
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.model.flow_states import EndKind, FlowIntent, MemberKind
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.testing.memory import MemoryFlow
from tests.flows.random_graphs import build
from tests.kit.data.flows import CANCELLED, COMPLETED, FAILED, MINUTE, Flow, pushed
from tests.kit.samples import few

RUN_ENDS = {
    COMPLETED: (RunStatus.COMPLETED, "all_succeeded"),
    FAILED: (RunStatus.FAILED, "all_failed"),
    CANCELLED: (RunStatus.FAILED, "stopped"),
}
SEEDS = 12
A_DAY = timedelta(days=1)  # between two rounds: longer than each pause and each timeout


@dataclass
class Pair:
    """A flow in memory and the same flow on record, which see the same."""

    memory: MemoryFlow
    flow: Flow
    random: Random

    def go_on(self) -> None:
        """Plan on both sides, and compare all rows."""
        if self.random.random() < 0.3:
            self.flow.begin(str(uuid4()))
        self.memory.advance()
        self.flow.go_on()
        ledger = self.flow.ledger
        on_record = {row.path: _shown(row) for row in ledger.members.values()}
        assert on_record == {row.path: _shown(row) for row in self.memory.ledger.members.values()}
        flow = self.memory.ledger.flow
        assert (ledger.flow.state, ledger.flow.intent) == (flow.state, flow.intent)
        self.memory.now += A_DAY
        self.flow.ahead += A_DAY

    def ask(self) -> None:
        """Ask for the same at both doors."""
        names = self.random.sample(sorted(self.memory.states), self.random.randint(0, min(2, len(self.memory.states))))
        terminate, completed = self.random.random() < 0.8, self.random.random() < 0.3
        downstream, intent = self.random.choice(list(Downstream)), self.random.choice(list(FlowIntent))
        options: dict[str, Any] = {"completed": completed, "downstream": downstream}
        doors: list[tuple[Callable[[], object], Callable[[], object]]] = [
            (
                lambda: self.memory.cancel(*names, terminate=terminate),
                lambda: self.flow.cancel(*names, terminate=terminate).count,
            ),
            (lambda: self.memory.retry(*names, **options), lambda: self.flow.retry(*names, **options).count),
            (lambda: self.memory.hold(intent), lambda: self.flow.hold(intent.value).count),
        ]
        in_memory, on_record = self.random.choice(doors)
        ahead, self.memory.now = self.memory.now, self._now
        assert _answer(in_memory) == _answer(on_record)
        self.memory.now = ahead

    def decide(self, *, always: bool = False) -> None:
        for row in self._rows(lambda row: row.kind is MemberKind.APPROVAL and not row.state.is_final):
            if always or self.random.random() < 0.3:
                self._decide(row.path, approved=always or self.random.random() < 0.7)

    def _decide(self, path: str, *, approved: bool) -> None:
        in_memory = _answer(lambda: self.memory.approve(path, approved=approved))
        assert in_memory == _answer(lambda: self.flow.approve(path, approved=approved).count)

    def end_some(self, *, all_completed: bool = False) -> None:
        for row in self._rows(lambda row: row.in_flight):
            if all_completed or self.random.random() < 0.7:
                kind = COMPLETED if all_completed else self.random.choice([COMPLETED, COMPLETED, FAILED, CANCELLED])
                (self._end_run if row.kind is MemberKind.CRAWL else self._end_step)(row, kind)

    def _end_step(self, row: MemberRow, kind: EndKind) -> None:
        attempt, token = self.flow.last(row.path), "host"
        if self.random.random() < 0.3:  # the host dies, another one takes the step, and the first one's end comes late
            self.flow.store.step_ledger.renew("host", timedelta(seconds=-1))
            token = "second"
            assert not self.flow.begin_steps(attempt, token=token).stale
            self.flow.store.step_ledger.renew("host", MINUTE)
            self.flow.end(attempt, kind=FAILED, token="host", reason="too late")
        self.flow.end(attempt, kind=kind, token=token, reason="why")
        self.memory.settle(AttemptEnd(row.number, row.attempt, kind, self._now, reason="why"))

    def _end_run(self, row: MemberRow, kind: EndKind) -> None:
        status, reason = RUN_ENDS[kind]
        (start,) = self.flow.start_crawls(self.flow.last(row.path)).crawls
        self.flow.close(self.flow.run(start), status, reason)
        seen = RunSeen(row.number, row.attempt, status, row.end + 1, self._now, reason)
        self.memory.observe(seen)

    @property
    def _now(self) -> datetime:
        """The time of people, hosts and runs, which the supervisors' clocks are ahead of."""
        return self.memory.now - self.flow.ahead

    def _rows(self, chosen: Callable[[MemberRow], bool]) -> list[MemberRow]:
        return [row for row in self.memory.ledger.members.values() if chosen(row)]


def _shown(row: MemberRow) -> tuple[Any, ...]:
    """Return what both sides must agree on. Of several failed dependencies, the reason names any."""
    reason = row.reason and row.reason.partition(":")[0]
    return row.state, row.attempt, row.generation, row.in_flight, row.terminate, row.tries, row.cause, reason


def _answer(door: Callable[[], object]) -> object:
    try:
        return door()
    except Conflict:
        return Conflict


@pytest.mark.parametrize("seed", few(range(SEEDS), range(4)))
def test_the_rows_on_record_equal_those_of_the_model(database: Database, seed: int) -> None:
    random = Random(seed)
    rounds = random.randint(0, 10)
    workflow = build(random)
    pair = Pair(MemoryFlow(workflow.definition()), pushed(database, workflow), random)
    for _ in range(rounds):
        pair.go_on()
        if random.random() < 0.3:
            pair.ask()
        pair.decide()
        pair.end_some()
    for _ in range(100):
        pair.go_on()
        if pair.memory.ledger.flow.state.is_final:
            break
        if pair.memory.ledger.flow.intent is not FlowIntent.RUN:
            pair.memory.hold(FlowIntent.RUN)
            pair.flow.hold(FlowIntent.RUN)
        pair.decide(always=True)
        pair.end_some(all_completed=True)
    assert pair.flow.ledger.flow.state.is_final
