"""Random graphs, ends, requests and observations: no job starts too early or twice, none is lost, every flow ends.

`allowed` is a second, naive statement of the rules for dependencies. The planner and `allowed` share the rows only.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler_lifecycle.base.ranges import from_ranges_by_value
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.requests import AppendMembers, Downstream
from crawler_lifecycle.flows.rules.contexts import Source, sources
from crawler_lifecycle.flows.rules.ends import AttemptEnd, RunSeen
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import MemberRow, Target
from crawler_lifecycle.flows.rules.slicing import reads
from crawler_lifecycle.model.flow_states import FlowIntent, MemberKind, MemberState
from crawler_lifecycle.model.states import RunStatus
from tests.flows.plays import CANCELLED, COMPLETED, FAILED, Play
from tests.flows.random_graphs import BAD, FINE, OPEN, SHARES, allowed, build, leaves
from tests.kit.authors.work import plain
from tests.kit.samples import examples


def numbers_in(known: Mapping[str, Source]) -> Iterator[int]:
    for source in known.values():
        if isinstance(source, int):
            yield source
        else:
            yield from numbers_in(source)


class Chaos(Play):
    """A play that checks every start, with people and observations that come as they like."""

    def __init__(self, workflow: Workflow, random: Random) -> None:
        super().__init__(workflow)
        self.random = random
        self.seen_before: list[AttemptEnd | RunSeen] = []
        self.attempts: set[tuple[str, int]] = set()
        self.runs: dict[int, RunSeen] = {}  # the newest sight of each member's run

    def advance(self) -> Any:
        in_flight = self.planner.in_flight
        plan = self.planner.advance(self.now)
        while self.is_refused(plan):
            self.rebuild()
            in_flight = self.planner.in_flight
            plan = self.planner.advance(self.now)
        self.write(plan)
        for start in plan.starts:
            row = self.ledger.members[start.number]
            assert start.number not in in_flight, f"{row.path} starts twice at once"
            assert (row.path, start.attempt) not in self.attempts
            self.attempts.add((row.path, start.attempt))
            assert allowed(self.ledger, row) == FINE, f"{row.path} starts too early"
            assert self.ledger.flow.intent is FlowIntent.RUN
            self.check_reads(row)
        for row in self.ledger.members.values():
            self.check(row)
        assert self.planner.advance(self.now).is_empty
        self.check_limits()
        return plan

    def check_reads(self, row: MemberRow) -> None:
        """A start names every result that its function sees: the write of a dependency's end may come later."""
        named = from_ranges_by_value(reads(self.planner, [row.number]))
        seen = numbers_in(sources(self.ledger, row))
        completed = {number for number in seen if self.ledger.members[number].state is MemberState.COMPLETED}
        assert completed <= named.keys(), row.path

    def check(self, row: MemberRow) -> None:
        """Compare the state of a job that has not started with the naive rules."""
        if row.state is MemberState.SUSPENDED:
            assert allowed(self.ledger, row) == OPEN, row
        elif row.state in (MemberState.AVAILABLE, MemberState.SCHEDULED):
            assert allowed(self.ledger, row) == FINE, row
        elif row.is_cancelled_by_dependency:
            assert allowed(self.ledger, row) == BAD, row

    def check_limits(self) -> None:
        running = [row for row in self.ledger.members.values() if row.in_flight]
        for group in self.ledger.groups.values():
            limit = self.ledger.flow.max_parallel if group.parent is None else group.max_parallel
            inside = set(leaves(self.ledger, Target(group.number, True)))
            # a run that a person reopened executes beyond the limits
            reopened = any(row.kind is MemberKind.CRAWL for row in running)
            assert limit is None or reopened or sum(row.number in inside for row in running) <= limit

    def act(self) -> None:
        acts = [self.end_one] * 6 + [self.repeat, self.cancel_some, self.retry_some, self.retry_some, self.decide]
        acts += [self.hold_or_go, self.wait, self.wait, self.rebuild, self.append_one, self.reopen, self.update]
        self.random.choice(acts)()

    def end_one(self) -> None:
        in_flight = [row for row in self.ledger.members.values() if row.in_flight]
        if in_flight:
            self.finish(self.random.choice(in_flight), self.random.choice([COMPLETED, COMPLETED, FAILED, CANCELLED]))

    def finish(self, row: MemberRow, kind: Any) -> None:
        if row.kind is MemberKind.CRAWL:
            status = RunStatus.COMPLETED if kind is COMPLETED else RunStatus.FAILED
            reason = "stopped" if kind is CANCELLED else None
            seen: Any = RunSeen(row.number, row.attempt, status, row.end + 1, self.now, reason)
            self.runs[row.number] = seen
            self.planner.observe(seen)
        else:
            grafts = any(group.grower == row.number for group in self.ledger.groups.values())
            is_open = self.ledger.flow.accepts_members and row.state is MemberState.EXECUTING
            if grafts and is_open and self.random.random() < 0.7:
                self.attach(row)
            seen = AttemptEnd(row.number, row.attempt, kind, self.now)
            self.end(row.path, kind)
        self.seen_before.append(seen)

    def attach(self, row: MemberRow) -> None:
        from crawler_lifecycle.flows.model.requests import GraftMembers

        sub = Workflow()
        for number in range(self.random.randint(0, 3)):
            sub.add(f"x{number}", plain, deps=[f"x{number - 1}"] if number else [])
        fragment = fragment_of(sub)
        self.graft(GraftMembers(grafter=row.path, generation=row.generation, attempt=row.attempt, fragment=fragment))

    def repeat(self) -> None:
        if self.seen_before:
            old = self.random.choice(self.seen_before)
            row = self.ledger.members[old.number]
            if old.attempt < row.attempt or not row.in_flight:
                self.planner.observe(old)

    def paths(self) -> list[str]:
        every = [*self.ledger.paths_of_members(), *filter(None, self.ledger.paths_of_groups())]
        return self.random.sample(every, min(len(every), self.random.randint(1, 3)))

    def cancel_some(self) -> None:
        if self.random.random() < 0.15:
            self.cancel()
        else:
            self.cancel(*self.paths(), terminate=self.random.random() < 0.8)

    def retry_some(self) -> None:
        downstream = self.random.choice(list(Downstream))
        names = [] if self.random.random() < 0.3 else self.paths()
        self.retry(*names, completed=self.random.random() < 0.3, downstream=downstream)

    def decide(self) -> None:
        approvals = [row.path for row in self.ledger.members.values() if row.kind is MemberKind.APPROVAL]
        if approvals:
            try:
                self.approve(self.random.choice(approvals), approved=self.random.random() < 0.7)
            except Conflict:
                return

    def hold_or_go(self) -> None:
        try:
            self.hold(self.random.choice(list(FlowIntent)))
        except Conflict:
            return

    def wait(self) -> None:
        self.later(seconds=self.random.choice([1, 60, 3600]))

    def rebuild(self) -> None:
        """Go on with a planner from the rows and the present sights of runs."""
        super().rebuild()
        for seen in self.runs.values():
            self.planner.observe(seen)

    def append_one(self) -> None:
        number = len(self.ledger.keys)
        paths = list(self.ledger.paths_of_members())
        if not paths:
            return
        target = self.random.choice(paths)
        sub = Workflow(check_deps=False).add(f"extra{number}", plain, deps=target)
        try:
            self.append(AppendMembers(key=str(number), fragment=fragment_of(sub)))
        except Conflict:
            return

    def update(self) -> None:
        """Push a changed or a new job under the known id."""
        paths = [path for path in self.ledger.paths_of_members() if "/" not in path]
        if not paths:
            return
        name = self.random.choice([*paths, f"new{len(self.ledger.members)}"])
        deps = self.random.sample(paths, min(len(paths), self.random.randint(0, 2)))
        changed = Workflow(id=self.ledger.flow.id, check_deps=False).add(name, plain, deps=deps)
        try:
            self.push(changed)
        except (Conflict, BadInput):
            return

    def reopen(self) -> None:
        ended = [row for row in self.ledger.members.values() if row.end and not row.in_flight]
        if ended:
            row = self.random.choice(ended)
            seen = RunSeen(row.number, row.attempt, RunStatus.PROCESSING, row.end + 1, self.now)
            self.runs[row.number] = seen
            self.planner.observe(seen)
            self.seen_before.append(seen)

    def finish_everything(self) -> None:
        """Let everything end: people go on, decide and wait, and attempts succeed."""
        for _ in range(2_000):
            if self.ledger.flow.intent is not FlowIntent.RUN and not self.ledger.flow.state.is_final:
                self.hold(FlowIntent.RUN)
            plan = self.advance()
            if self.ledger.flow.state.is_final:
                return
            in_flight = [row for row in self.ledger.members.values() if row.in_flight]
            for row in in_flight:
                self.finish(row, COMPLETED)
            for row in self.ledger.members.values():
                if row.kind is MemberKind.APPROVAL and not row.state.is_final and row.decision is None:
                    self.approve(row.path)
            if plan.wake_at is not None and not in_flight:
                self.now = max(self.now, plan.wake_at)
        raise AssertionError(f"the flow does not end: {self.states}")


@settings(max_examples=examples(75), deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_no_job_starts_too_early_and_every_flow_ends(random: Random, acts: int) -> None:
    chaos = Chaos(build(random), random)
    for _ in range(acts):
        chaos.act()
        if random.random() < 0.8:
            chaos.advance()
    chaos.finish_everything()
    assert all(row.is_settled for row in chaos.ledger.members.values())
    fresh = Planner(chaos.ledger)
    assert fresh.advance(chaos.now).is_empty


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_flow_without_failures_completes_every_job_once(random: Random) -> None:
    chaos = Chaos(build(random, SHARES), random)  # an empty graft never gives a number of completed jobs
    chaos.finish_everything()
    assert {row.state for row in chaos.ledger.members.values()} <= {MemberState.COMPLETED}
    assert len(set(chaos.order)) == len(chaos.order)
    started = {row.path for row in chaos.ledger.members.values() if row.kind is not MemberKind.APPROVAL}
    assert set(chaos.order) == started


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(6)), st.sampled_from([COMPLETED, FAILED]))
def test_sights_of_a_run_in_any_order_end_at_the_last(order: list[int], kind: Any) -> None:
    play = Play(Workflow().add("shop", crawl("books")))
    play.advance()
    last = RunStatus.COMPLETED if kind is COMPLETED else RunStatus.FAILED
    statuses = [
        RunStatus.PROCESSING,
        RunStatus.FAILED,
        RunStatus.PROCESSING,
        RunStatus.COMPLETED,
        RunStatus.PROCESSING,
        last,
    ]
    sights = [RunSeen(0, 1, status, 1 + number // 2, play.now) for number, status in enumerate(statuses)]
    for number in order:
        play.planner.observe(sights[number])
        play.advance()
    if order.index(4) > order.index(5):  # the reopening is older than the end, so nothing more may happen
        assert play.row("shop").in_flight is False
    expected = MemberState.COMPLETED if kind is COMPLETED else MemberState.DISCARDED
    assert play.row("shop").state is expected
    assert play.row("shop").end == 3
