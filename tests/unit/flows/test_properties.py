"""Random graphs, ends, requests and observations: no job starts too early or twice, none is lost, every flow ends.

`allowed` is a second, naive statement of the rules for dependencies. The planner and `allowed` share the rows only.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler_lifecycle.contract.flows.requests import AppendMembers, Downstream
from crawler_lifecycle.contract.flows.states import FlowIntent, GroupGrowth, MemberState
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.domain.flows.crawls import RunSeen
from crawler_lifecycle.domain.flows.ends import AttemptEnd
from crawler_lifecycle.domain.flows.planner import Planner
from crawler_lifecycle.domain.flows.rows import GroupRow, Ledger, MemberKind, MemberRow, NeedRow, Target
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.flows import RetryPolicy, Workflow, any_of, crawl
from crawler_lifecycle.flows.building import fragment_of
from tests.unit.flows.plays import CANCELLED, COMPLETED, FAILED, Play
from tests.unit.flows.work import graft_function, plain

OPEN, FINE, BAD = "open", "fine", "bad"


# the naive rules


def allowed(ledger: Ledger, row: MemberRow) -> str:
    """Return whether the member's dependencies are open, let it start, or cancel it."""
    answers = [_need(ledger, need, row) for need in row.needs]
    group = ledger.groups[row.group]
    needs = row.needs
    while not any(_inside(ledger, target, group) for need in needs for target in need.on):
        if group.growth is GroupGrowth.GRAFT:
            answers.append({MemberState.COMPLETED: FINE}.get(ledger.members[group.grower or 0].state, BAD))
            if not ledger.members[group.grower or 0].state.is_final:
                answers[-1] = OPEN
            break
        answers += [_need(ledger, need, group if need.is_quorum else row) for need in group.needs]
        if group.parent is None:
            break
        needs, group = group.needs, ledger.groups[group.parent]
    return BAD if BAD in answers else OPEN if OPEN in answers else FINE


def _need(ledger: Ledger, need: NeedRow, row: MemberRow | GroupRow) -> str:
    ignored = [MemberState.COMPLETED]
    ignored += [MemberState.CANCELLED] if row.ignore_cancelled else []
    ignored += [MemberState.DISCARDED] if row.ignore_discarded else []
    if not need.is_quorum:
        state = _state(ledger, need.on[0])
        return OPEN if not state.is_final else FINE if state in ignored else BAD
    numbers = [number for target in need.on for number in _leaves(ledger, target)]
    states = [ledger.members[number].state for number in numbers]
    good = sum(state in ignored for state in states)
    open_ = sum(not state.is_final for state in states)
    groups = [_state(ledger, target) for target in need.on if target.is_group]
    if not numbers and need.share is not None:
        return OPEN if any(_grows(ledger, t) for t in need.on) or any(not s.is_final for s in groups) else FINE
    for share_enough in range(len(states) + 1):
        if need.share is not None and share_enough + 1e-9 >= need.share * len(states):
            break
    enough = need.count or share_enough
    growing = any(_grows(ledger, target) for target in need.on)
    if need.wait and (open_ or growing):
        return OPEN
    if good >= enough and not (growing and need.share is not None):
        return FINE
    return OPEN if good + open_ >= enough or growing else BAD


def _state(ledger: Ledger, target: Target) -> MemberState:
    if not target.is_group:
        return ledger.members[target.number].state
    group = ledger.groups[target.number]
    states = [ledger.members[number].state for number in _leaves(ledger, target)]
    states += [_state(ledger, Target(inner.number, True)) for inner in _inner(ledger, group)]
    if group.growth is GroupGrowth.GRAFT:
        states.append(ledger.members[group.grower or 0].state)
    if not states:
        states = _states_before(ledger, group)
    for state in (MemberState.SUSPENDED, MemberState.DISCARDED, MemberState.CANCELLED):
        if any(known is state or (state is MemberState.SUSPENDED and not known.is_final) for known in states):
            return state
    return MemberState.COMPLETED


def _states_before(ledger: Ledger, group: GroupRow) -> list[MemberState]:
    """Return the states that an empty group has from its needs, or from the needs of the groups around it."""
    words = {OPEN: MemberState.SUSPENDED, FINE: MemberState.COMPLETED, BAD: MemberState.DISCARDED}
    around: GroupRow | None = group
    while around is not None:
        if around.growth is GroupGrowth.GRAFT and around is not group:
            state = ledger.members[around.grower or 0].state
            return [MemberState.DISCARDED if state is MemberState.CANCELLED else state]
        if around.needs:
            return [
                words[_need(ledger, need, around)] if need.is_quorum else _state(ledger, need.on[0])
                for need in around.needs
            ]
        around = None if around.parent is None else ledger.groups[around.parent]
    return []


def _grows(ledger: Ledger, target: Target) -> bool:
    if not target.is_group:
        return False
    group = ledger.groups[target.number]
    own = group.growth is not None and not ledger.members[group.grower or 0].state.is_final
    return own or any(_grows(ledger, Target(inner.number, True)) for inner in _inner(ledger, group))


def _inner(ledger: Ledger, group: GroupRow) -> list[GroupRow]:
    return [row for row in ledger.groups.values() if row.parent == group.number]


def _leaves(ledger: Ledger, target: Target) -> list[int]:
    if not target.is_group:
        return [target.number]
    group = ledger.groups[target.number]
    own = [row.number for row in ledger.members.values() if row.group == group.number]
    return own + [n for inner in _inner(ledger, group) for n in _leaves(ledger, Target(inner.number, True))]


def _inside(ledger: Ledger, target: Target, group: GroupRow) -> bool:
    if group.parent is None:
        return False
    current = ledger.groups[target.number].parent if target.is_group else ledger.members[target.number].group
    while current is not None:
        if current == group.number:
            return True
        current = ledger.groups[current].parent
    return False


# random graphs


SHARES = (0.5, 0.9, 1.0)


def build(random: Random, at_least: Sequence[float] = (*SHARES, 1), level: int = 0) -> Workflow:
    workflow = Workflow(
        ignore_cancelled=random.random() < 0.2,
        ignore_discarded=random.random() < 0.2,
        max_parallel=random.choice([None, None, 1, 3]),
    )
    names: list[str] = []
    for number in range(random.randint(1, 6)):
        add(random, workflow, f"j{number}", names, at_least, level)
        names.append(f"j{number}")
    return workflow


def add(random: Random, workflow: Workflow, name: str, names: list[str], at_least: Sequence[float], level: int) -> None:
    deps: Any = random.sample(names, random.randint(0, min(3, len(names))))
    if deps and random.random() < 0.2:
        deps = [any_of(deps, at_least=random.choice(at_least), wait=random.random() < 0.3)]
    policy = RetryPolicy(max_attempts=random.randint(1, 2), pause_seconds=random.choice([0, 60]))
    flags: Any = random.choice([{}, {}, {"ignore_cancelled": True}, {"ignore_discarded": True}])
    kind = random.randrange(7)
    if kind == 0 and level < 2:
        workflow.add_workflow(name, build(random, at_least, level + 1), deps=deps)
    elif kind == 1:
        jobs = [plain] * random.randint(0, 3)
        workflow.add_many(name, jobs, deps=deps, max_parallel=random.choice([None, 1]), retry=policy)
    elif kind == 2:
        workflow.add_graft(name, graft_function, deps=deps)
    elif kind == 3:
        workflow.add_approval(name, deps=deps, timeout=random.choice([None, 300]))
    elif kind == 4:
        workflow.add(name, crawl("books"), deps=deps, retry=policy, **flags)
    else:
        delay: Any = {"schedule_in": 30} if random.random() < 0.2 else {}
        workflow.add(name, plain, deps=deps, retry=policy, **flags, **delay)


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
        for row in self.ledger.members.values():
            self.check(row)
        assert self.planner.advance(self.now).is_empty
        self.check_limits()
        return plan

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
            inside = set(_leaves(self.ledger, Target(group.number, True)))
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
        from crawler_lifecycle.contract.flows.requests import GraftMembers

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
                if row.kind is MemberKind.APPROVAL and not row.state.is_final:
                    self.approve(row.path)
            if plan.wake_at is not None and not in_flight:
                self.now = max(self.now, plan.wake_at)
        raise AssertionError(f"the flow does not end: {self.states}")


@settings(max_examples=300, deadline=None)
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
