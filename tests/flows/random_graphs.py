"""Random graphs, and a second, naive statement of the rules for dependencies, which shares the rows alone."""

from collections.abc import Sequence
from random import Random
from typing import Any

from crawler_lifecycle.flows import RetryPolicy, Workflow, any_of, crawl
from crawler_lifecycle.flows.rules.rows import GroupRow, Ledger, MemberRow, NeedRow, Target
from crawler_lifecycle.model.flow_states import GroupGrowth, MemberState
from tests.kit.authors.work import graft_function, plain

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
    numbers = [number for target in need.on for number in leaves(ledger, target)]
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
    states = [ledger.members[number].state for number in leaves(ledger, target)]
    states += [_state(ledger, Target(inner.number, True)) for inner in _inner(ledger, group)]
    if group.growth is GroupGrowth.GRAFT:
        states.append(ledger.members[group.grower or 0].state)
    if not states:
        return _state_of_empty(ledger, group)
    for state in (MemberState.SUSPENDED, MemberState.DISCARDED, MemberState.CANCELLED):
        if any(known is state or (state is MemberState.SUSPENDED and not known.is_final) for known in states):
            return state
    return MemberState.COMPLETED


def _state_of_empty(ledger: Ledger, group: GroupRow) -> MemberState:
    """Return the state of the group as if it had a job without dependencies of its own, and with the group's flags."""
    job = MemberRow(-1, "job", group.number)
    job = job._replace(ignore_cancelled=group.ignore_cancelled, ignore_discarded=group.ignore_discarded)
    words = {OPEN: MemberState.SUSPENDED, FINE: MemberState.COMPLETED, BAD: MemberState.CANCELLED}
    return words[allowed(ledger, job)]


def _grows(ledger: Ledger, target: Target) -> bool:
    if not target.is_group:
        return False
    group = ledger.groups[target.number]
    own = group.growth is not None and not ledger.members[group.grower or 0].state.is_final
    return own or any(_grows(ledger, Target(inner.number, True)) for inner in _inner(ledger, group))


def _inner(ledger: Ledger, group: GroupRow) -> list[GroupRow]:
    return [row for row in ledger.groups.values() if row.parent == group.number]


def leaves(ledger: Ledger, target: Target) -> list[int]:
    if not target.is_group:
        return [target.number]
    group = ledger.groups[target.number]
    own = [row.number for row in ledger.members.values() if row.group == group.number]
    return own + [n for inner in _inner(ledger, group) for n in leaves(ledger, Target(inner.number, True))]


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


def build_steps(random: Random) -> Workflow:
    """Return a graph with long ways of steps, so that hosts start steps by themselves."""
    workflow = Workflow(max_parallel=random.choice([None] * 5 + [2]))
    names: list[str] = []
    for number in range(random.randint(3, 9)):
        deps: Any = random.sample(names[-3:], min(len(names), random.choice([0, 1, 1, 1, 2])))
        work: Any = crawl("books") if random.random() < 0.15 else plain
        ignores = random.random() < 0.2
        policy = RetryPolicy(max_attempts=random.randint(1, 2), pause_seconds=random.choice([0, 60]))
        workflow.add(f"j{number}", work, deps=deps, retry=policy, ignore_cancelled=ignores, ignore_discarded=ignores)
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
