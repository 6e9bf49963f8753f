"""Rules for requests by people: the named members, and the effect of a cancel, a retry, an approval or a hold.

A retry keeps the results of all other members. Named jobs without a change are left out, with the reasons.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from crawler_lifecycle.base.names import did_you_mean
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, Over
from crawler_lifecycle.flows.model.records import LeftOut
from crawler_lifecycle.flows.model.requests import Downstream, RetryMembers
from crawler_lifecycle.flows.rules.rows import FlowRow, Ledger, MemberRow, NeedRow, targets_of
from crawler_lifecycle.flows.rules.states import standing
from crawler_lifecycle.flows.rules.words import BY_REQUEST
from crawler_lifecycle.model.flow_states import FAILED, FlowIntent, FlowState, GroupGrowth, MemberKind, MemberState

NOT_ENDED = "a retry is for jobs that have failed, were cancelled, or wait for a retry"
COMPLETED = "a retry with `completed` (--completed) takes completed jobs, too"


def selected(ledger: Ledger, paths: Iterable[str] | None) -> list[MemberRow]:
    """Return the members for the paths in the order of their numbers; all members if there are no paths.

    A group's path selects all its members, and a graft's path also for its grafter.
    """
    if paths is None:
        return [ledger.members[number] for number in sorted(ledger.members)]
    numbers = set[int]().union(*numbers_by_path(ledger, paths).values())
    return [ledger.members[number] for number in sorted(numbers)]


def numbers_by_path(ledger: Ledger, paths: Iterable[str]) -> dict[str, set[int]]:
    """Return the members' numbers by path. NotFound for an unknown path."""
    members, groups = ledger.paths_of_members(), ledger.paths_of_groups()
    inside = _members_by_group(ledger)
    numbers: dict[str, set[int]] = {}
    for path in paths:
        if path not in members and path not in groups:
            raise no_job(ledger, path)
        of_member = {members[path]} if path in members else set()
        numbers[path] = of_member.union(inside.get(groups[path], ()) if path in groups else ())
    return numbers


def no_job(ledger: Ledger, path: str) -> NotFound:
    """Return the error for a path without a member or group, with a near path."""
    hint = did_you_mean(path, (*ledger.paths_of_members(), *ledger.paths_of_groups()))
    return NotFound(f"flow {ledger.flow.id!r} has no job {path!r}{hint}")


def descendants(ledger: Ledger, numbers: Iterable[int]) -> set[int]:
    """Return all direct and indirect dependents for the members with these numbers."""
    inside = _members_by_group(ledger)
    dependents = _dependents(ledger, inside)
    collected: set[int] = set()
    waiting = list(numbers)
    while waiting:
        for dependent in dependents.get(waiting.pop(), ()):
            if dependent not in collected:
                collected.add(dependent)
                waiting.append(dependent)
    return {number for number in collected if number >= 0}


def left_out(
    ledger: Ledger, paths: Iterable[str] | None, changed: Collection[int], advice: Callable[[MemberState], str | None]
) -> tuple[LeftOut, ...]:
    """Return the paths without a changed member. `advice`: help for a member in the state, or None."""
    named = {} if paths is None else numbers_by_path(ledger, paths)
    unchanged = {path: numbers for path, numbers in named.items() if numbers.isdisjoint(changed)}
    return tuple(
        LeftOut(job=path, reason=_reason(Counter(ledger.members[number].state for number in numbers), advice))
        for path, numbers in unchanged.items()
    )


def advice_after_retry(state: MemberState) -> str:
    return COMPLETED if state is MemberState.COMPLETED else NOT_ENDED


def advice_after_cancel(_: MemberState) -> None:
    """Return no advice: the state says enough."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Rows to write for a request, and the number for its author."""

    members: tuple[MemberRow, ...] = ()
    flow: FlowRow | None = None
    count: int = 0
    left_out: tuple[LeftOut, ...] = ()  # named jobs without a change

    @property
    def changes_rows(self) -> bool:
        return bool(self.members) or self.flow is not None

    def apply(self, ledger: Ledger) -> None:
        """Write the rows into a ledger in memory."""
        ledger.put(self.members)
        if self.flow is not None:
            ledger.flow = self.flow


def cancel(ledger: Ledger, paths: Collection[str] | None, at: datetime, *, terminate: bool = True) -> Effect:
    """Return the cancelled members. Without paths, the flow takes no further members until a retry.

    The rows are effective: the end of an attempt counts although its member's row still shows the attempt. Dependents
    of the cancelled members follow with the next plan, and do not count. A flow that has ended is open again if a run
    was reopened since: otherwise no audit would look for the supervisor that stops the run.
    """
    cancelled = tuple(
        row._replace(
            state=MemberState.CANCELLED,
            cause=None,
            reason=BY_REQUEST,
            since=at,
            due=None,
            terminate=terminate,
            ended_at=at,
        )
        for row in selected(ledger, paths)
        if not row.state.is_final
    )
    flow = replace(ledger.flow, state=ledger.flow.open_state) if cancelled else ledger.flow
    if paths is None and not flow.state.is_final:
        flow = replace(flow, accepts_members=False)
    # a repeated cancel is no failure: the first answer may be lost
    as_wanted = {number for number, row in ledger.members.items() if row.state is MemberState.CANCELLED}
    unchanged = left_out(ledger, paths, as_wanted.union(row.number for row in cancelled), advice_after_cancel)
    return Effect(cancelled, None if flow == ledger.flow else flow, len(cancelled), unchanged)


def approve(ledger: Ledger, path: str, *, approved: bool) -> Effect:
    """Return the approval with the decision, which may come before the flow reaches the approval.

    Conflict for another decision: the first decision holds.
    """
    number = ledger.paths_of_members().get(path)
    if number is None:
        raise no_job(ledger, path)
    row = ledger.members[number]
    if row.kind is not MemberKind.APPROVAL:
        raise BadInput("name", f"{path!r} is no approval")
    if row.decision is approved:
        return Effect()
    if row.state.is_final:
        raise Conflict(f"approval {path!r} is {row.state} already")
    if row.decision is not None:
        raise Conflict(f"approval {path!r} is {'approved' if row.decision else 'rejected'} already")
    return Effect((row._replace(decision=approved),), count=1)


def hold(ledger: Ledger, intent: FlowIntent) -> Effect:
    """Return the flow's row with the requested intent: pause, drain, or run."""
    flow = ledger.flow
    if flow.state.is_final:
        raise Over(f"flow {flow.id!r} is {flow.state} already")
    if flow.intent is intent:
        return Effect()
    state = FlowState.PAUSED if intent is FlowIntent.PAUSE else FlowState.EXECUTING
    return Effect(flow=replace(flow, intent=intent, state=state), count=1)


def retry(ledger: Ledger, request: RetryMembers, at: datetime) -> Effect:
    """Return the members that a retry brings back: in a new generation, or at once if they wait for a retry already."""
    named = selected(ledger, request.paths)
    _check_arguments(request, named)
    with_all = request.downstream is Downstream.ALL
    states = _states(completed=request.completed or (with_all and request.paths is not None))
    renewed = {row.number: row for row in named if row.state in states}
    if with_all:
        behind = (ledger.members[number] for number in sorted(descendants(ledger, renewed)))
        renewed |= {row.number: row for row in behind if row.state in _states(completed=True)}
    rows = tuple(_again(row, ledger, at) for row in renewed.values())
    unchanged = left_out(ledger, request.paths, renewed.keys(), advice_after_retry)
    return Effect(rows, _reopened(ledger.flow) if rows else None, len(rows), unchanged)


def _members_by_group(ledger: Ledger) -> dict[int, list[int]]:
    """Return all members' numbers by group, inner groups included."""
    inside: dict[int, list[int]] = {}
    for member in ledger.members.values():
        group: int | None = member.group
        while group is not None:
            inside.setdefault(group, []).append(member.number)
            group = ledger.groups[group].parent
    return inside


def _dependents(ledger: Ledger, inside: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return the direct dependents by member. Groups are nodes of their own, with negative numbers."""
    dependents: dict[int, list[int]] = {}

    def sources(needs: Iterable[NeedRow]) -> Iterator[int]:
        return (_end(target.number) if target.is_group else target.number for target in targets_of(needs))

    for member in ledger.members.values():
        for source in sources(member.needs):
            dependents.setdefault(source, []).append(member.number)
        dependents.setdefault(member.number, []).append(_end(member.group))
    for group in ledger.groups.values():
        behind = inside.get(group.number, [])
        for source in sources(group.needs):
            dependents.setdefault(source, []).extend(behind)
        if group.growth is GroupGrowth.GRAFT and group.grower is not None:
            dependents.setdefault(group.grower, []).extend(behind)
        if group.parent is not None:
            dependents.setdefault(_end(group.number), []).append(_end(group.parent))
    return dependents


def _end(group: int) -> int:
    return -1 - group


def _reason(states: Counter[MemberState], advice: Callable[[MemberState], str | None]) -> str:
    """Return for example `is completed already: ...`, or for a sub-workflow `its jobs are 2 completed: ...`."""
    if not states:
        return "has no jobs"
    ordered = [state for state in MemberState if states[state]]
    already = " already" if all(state.is_final for state in ordered) else ""
    if states.total() == 1:
        present = f"is {ordered[0]}{already}"
    else:
        present = f"has {', '.join(f'{states[state]} {state}' for state in ordered)} jobs{already}"
    advices = dict.fromkeys(filter(None, map(advice, ordered)))
    return ": ".join([present, "; ".join(advices)]) if advices else present


def _states(*, completed: bool) -> Collection[MemberState]:
    states = {*FAILED, MemberState.RETRYABLE}
    return {*states, MemberState.COMPLETED} if completed else states


def _again(row: MemberRow, ledger: Ledger, at: datetime) -> MemberRow:
    if row.state is MemberState.RETRYABLE:
        return row._replace(due=at)
    renewed = row._replace(
        generation=row.generation + 1,
        tries=0,
        tries_by_outcome=(),
        state=MemberState.SUSPENDED,
        cause=None,
        reason=None,
        outcome=None,
        decision=None,
        ended_at=None,
    )
    return standing(renewed, ledger.groups, at)


def _check_arguments(request: RetryMembers, named: list[MemberRow]) -> None:
    if request.arguments is None:
        return
    if request.paths is None:
        raise BadInput("arguments", "only together with the names of the jobs that get them")
    approval = next((row for row in named if row.kind is MemberKind.APPROVAL), None)
    if approval is not None:
        raise BadInput("arguments", f"{approval.path!r} is an approval, which takes no arguments")


def _reopened(flow: FlowRow) -> FlowRow:
    """Return the flow's row, which is open again in the same transaction. A drain is over; a pause holds on."""
    intent = FlowIntent.PAUSE if flow.intent is FlowIntent.PAUSE else FlowIntent.RUN
    return replace(flow, state=flow.open_state, intent=intent, accepts_members=True)
