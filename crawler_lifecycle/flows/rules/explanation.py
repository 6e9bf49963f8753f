"""Explain why a member, a sub-workflow or a flow is in its state, down to the blocking members."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice

from crawler_lifecycle.base.names import ROOT
from crawler_lifecycle.flows.model.records import FlowStatus, Why
from crawler_lifecycle.flows.rules import words
from crawler_lifecycle.flows.rules.network import FAILURES, OPEN, Node
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow, Target, ancestors, targets_of
from crawler_lifecycle.flows.rules.turns import MOST_CRAWLS
from crawler_lifecycle.flows.rules.wiring import ignored_by
from crawler_lifecycle.model.flow_states import FlowIntent, MemberKind, MemberState
from crawler_lifecycle.model.naming import host_of

MOST_BLOCKERS = 5  # in an explanation for a member; further blockers are counted
MOST_LINES = 50  # in the whole explanation
# failures come first, then members under way, then members that wait
ORDER = (
    MemberState.DISCARDED, MemberState.CANCELLED, MemberState.RETRYABLE, MemberState.EXECUTING, MemberState.AVAILABLE,
    MemberState.SCHEDULED, MemberState.SUSPENDED,
)  # fmt: skip
HOLDS = {FlowIntent.PAUSE: words.PAUSED, FlowIntent.DRAIN: words.DRAINING}


def why(planner: Planner, number: int) -> Why:
    """Return the explanation for the member. A member with several blocked dependents is explained once."""
    return _why(planner, planner.rows[number], set())


def explained_beside(planner: Planner, rows: Iterable[MemberRow]) -> tuple[Why, ...]:
    """Return the explanations for several members. A member that blocks several members is explained once."""
    chosen = list(rows)
    explained = {row.number for row in chosen}
    return tuple(_why(planner, row, explained) for row in chosen)


def _why(planner: Planner, row: MemberRow, explained: set[int]) -> Why:
    explained.add(row.number)
    blockers: list[int] = []
    more = 0
    for number in _blockers(planner, row):
        if number in explained or number in blockers:
            continue
        if len(blockers) < MOST_BLOCKERS and len(explained) + len(blockers) < MOST_LINES:
            blockers.append(number)
        else:
            more += 1
    explained.update(blockers)
    return Why(
        path=row.path,
        state=row.state,
        cause=_cause(planner, row),
        since=row.since,
        until=None if row.state.is_final else row.due,
        more=more,
        because=tuple(_why(planner, planner.rows[number], explained) for number in blockers),
    )


def _cause(planner: Planner, row: MemberRow) -> str | None:
    """Return the word for the present wait, or the reason for the end."""
    if row.state.is_final:
        return _reason_and_settling(row) if row.in_flight else row.reason
    if row.state is MemberState.EXECUTING:
        return row.cause or words.EXECUTING
    if _waits_for_supervisor(planner, row):
        return words.NO_SUPERVISOR
    if row.state is not MemberState.AVAILABLE or row.kind is MemberKind.APPROVAL:
        return row.cause
    return words.SETTLING if row.in_flight else _cause_of_available(planner, row)


def _waits_for_supervisor(planner: Planner, row: MemberRow) -> bool:
    """Return whether the member waits for nothing in the flow, so that only a worker can continue the flow."""
    if row.state is MemberState.SUSPENDED:
        return not planner.node(row.number).open
    return row.state is MemberState.AVAILABLE and row.decision is not None


def _reason_and_settling(row: MemberRow) -> str | None:
    """Return the reason for the end of a member whose attempt has not ended, with the wait for the attempt."""
    if not row.route:
        return row.reason  # a crawl is explained by its run
    host = host_of(row.route)
    settling = f"{words.SETTLING}: a host has to end its attempt (crawlctl host {host})"
    return f"{row.reason}, {settling}" if row.reason else settling


def _cause_of_available(planner: Planner, row: MemberRow) -> str:
    if planner.flow.intent is not FlowIntent.RUN:
        return words.PAUSED if planner.flow.intent is FlowIntent.PAUSE else words.DRAINING
    full = planner.turns.full_group(row)
    if full is None:
        return row.cause or _cause_to_start(row)  # a host's cause, such as an unknown function
    path = planner.wiring.groups[full].path
    return words.PARALLEL_LIMIT if path == ROOT else f"{words.PARALLEL_LIMIT}:{path}"


def cause_alone(ledger: Ledger, row: MemberRow) -> str | None:
    """Return the row's cause as far as the flow and the groups know the cause, without a planner."""
    if row.cause or row.state is not MemberState.AVAILABLE or row.kind is MemberKind.APPROVAL:
        return row.cause
    if row.in_flight:
        return words.SETTLING
    if ledger.flow.intent is not FlowIntent.RUN:
        return words.PAUSED if ledger.flow.intent is FlowIntent.PAUSE else words.DRAINING
    return None if _may_be_held_back(ledger, row) else _cause_to_start(row)


def _may_be_held_back(ledger: Ledger, row: MemberRow) -> bool:
    """Return whether a limit of the flow or of a group, or the limit for crawls, may hold the member back."""
    is_limited = any(group.max_parallel is not None for group in ledger.groups.values())
    is_among_many_crawls = row.kind is MemberKind.CRAWL and len(ledger.members) > MOST_CRAWLS
    return is_limited or is_among_many_crawls or ledger.flow.max_parallel is not None


def _cause_to_start(row: MemberRow) -> str:
    return f"{words.HOST}:{host_of(row.route)}" if row.route else words.START


def needs_of(ledger: Ledger, row: MemberRow) -> Iterator[Target]:
    """Yield what the member waits for, itself or by one of its groups."""
    needs = [
        *row.needs,
        *(need for group in ancestors(ledger.groups, row.group) for need in ledger.groups[group].needs),
    ]
    return targets_of(needs)


def waiting_for_supervisor(ledger: Ledger, needed: Ledger) -> set[int]:
    """Return the suspended members whose dependencies have all ended: only a worker can continue the flow.

    `needed`: has at least the dependencies. Groups without members count as open.
    """
    members = {row.number: row.is_settled for row in needed.members.values()}
    groups: dict[int, bool] = {}
    for row in needed.members.values():
        for group in ancestors(needed.groups, row.group):
            groups[group] = groups.get(group, True) and row.is_settled

    def has_ended(target: Target) -> bool:
        return (groups if target.is_group else members).get(target.number, False)

    suspended = (row for row in ledger.members.values() if row.state is MemberState.SUSPENDED)
    return {row.number for row in suspended if all(map(has_ended, needs_of(ledger, row)))}


def with_silent_host(row: MemberRow) -> MemberRow:
    """Return the row for a step under way whose host gives no sign of life."""
    return row._replace(cause=f"{words.SILENT_HOST}:{host_of(row.route)}")


def _blockers(planner: Planner, row: MemberRow) -> Iterator[int]:
    node = planner.node(row.number)
    if row.state is MemberState.SUSPENDED:
        yield from _members_behind(node, None)
    elif row.is_cancelled_by_dependency:
        yield from islice(_members_behind(node, FAILURES & ~ignored_by(row)), MOST_BLOCKERS)


def _members_behind(node: Node, failures: int | None) -> Iterator[int]:
    """Yield the open members among the inputs, or the members with these failures."""
    for source in node.inputs:
        if source.value & (OPEN if failures is None else failures):
            if source.member is not None:
                yield source.member
            else:
                yield from _members_in(source, None if failures is None else FAILURES)


def _members_in(group: Node, failures: int | None) -> Iterator[int]:
    """Yield the members behind a group's end; for a group without jobs, the crawl with the tasks."""
    if group.grower is not None and not (group.total if failures else group.open):
        yield group.grower
    else:
        yield from _members_behind(group, failures)


def explained_without_jobs(planner: Planner, group: int) -> tuple[Why, ...]:
    """Return the explanations for a group without jobs: its open or failed dependencies, or its crawl."""
    end = planner.wiring.end(group)
    if not end.value:
        return ()
    behind = islice(_members_in(end, None if end.value & OPEN else FAILURES), MOST_BLOCKERS)
    return explained_beside(planner, [planner.rows[number] for number in dict.fromkeys(behind)])


def overview(planner: Planner, path: str, numbers: Collection[int], status: FlowStatus) -> Why:
    """Return the explanation for a sub-workflow with the members, or for the flow if the path is ROOT."""
    rows = [planner.rows[number] for number in numbers]
    if not rows and path != ROOT:
        return _without_jobs(planner, path, status)
    nearest = sorted(filter(_explains, rows), key=lambda row: (ORDER.index(row.state), row.number))
    if path == ROOT:
        nearest = _without_dependents(nearest)
    shown = nearest[:MOST_BLOCKERS]
    return Why(
        path=path or status.id,
        state=status.state,
        cause=_cause_of_flow(planner, status),
        since=_since(rows, status),
        more=len(nearest) - len(shown),
        because=explained_beside(planner, shown),
    )


def _without_jobs(planner: Planner, path: str, status: FlowStatus) -> Why:
    """Return the explanation for a group without jobs, such as a crawl's tasks before the crawl has tasks."""
    group = next(row.number for row in planner.wiring.groups.values() if row.path == path)
    return Why(
        path=path,
        state=status.state,
        cause="no jobs" if status.state.is_final else "no jobs yet",
        because=explained_without_jobs(planner, group),
    )


def _explains(row: MemberRow) -> bool:
    """Return whether the member is a cause. A member after a failure follows from the failure."""
    return row.state is not MemberState.COMPLETED and not row.is_cancelled_by_dependency


def _without_dependents(rows: list[MemberRow]) -> list[MemberRow]:
    """Return the rows without suspended members, unless only suspended members are open."""
    nearest = [row for row in rows if row.state is not MemberState.SUSPENDED]
    return nearest if any(not row.state.is_final for row in nearest) else rows


def _cause_of_flow(planner: Planner, status: FlowStatus) -> str:
    counts = ", ".join(f"{status.counts[state]} {state}" for state in MemberState if status.counts.get(state))
    hold = None if status.state.is_final else HOLDS.get(planner.flow.intent)
    return ": ".join(filter(None, (hold, counts or "no jobs")))


def _since(rows: Collection[MemberRow], status: FlowStatus) -> datetime | None:
    """Return the time of the end; without an end, of the first start, or else of the oldest wait."""
    first = min((row.since for row in rows if row.since is not None), default=None)
    return status.stopped_at or status.started_at or first
