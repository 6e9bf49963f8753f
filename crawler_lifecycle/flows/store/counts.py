"""Counts members by state. A run's end counts before the supervisor notes the end."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select, union

from crawler_lifecycle.database.flow_schema import flow_attempts, flow_members, flows
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.flows.rules.rows import MemberRow, ancestors
from crawler_lifecycle.flows.rules.tallies import Tallies, Tally, depended_on, empty_groups, tallies_of_empty, tally
from crawler_lifecycle.flows.store.reading import effective_rows, read_groups, read_ledger, read_members
from crawler_lifecycle.flows.store.rows import NO_NEEDS, flow_row, needs_of
from crawler_lifecycle.flows.store.sights import IS_LAST_ATTEMPT, NEWS_AFTER_END, NEWS_UNDER_WAY
from crawler_lifecycle.model.flow_states import FAILED, MemberKind, MemberState

members, attempts, runs = flow_members.c, flow_attempts.c, histories.c
TALLIED = [members.group_number, members.state, members.in_flight]
TALLY_COLUMNS = [*TALLIED, func.count(), func.min(members.started_at), func.max(members.ended_at)]
Key = tuple[int, MemberState, bool]  # group, state, whether an attempt is under way


def member_counts(connection: Connection, uids: Mapping[int, str]) -> dict[int, Counter[MemberState]]:
    """Return the counts by flow. `uids`: the flows' uids by their primary keys."""
    counts: dict[int, Counter[MemberState]] = {flow: Counter() for flow in uids}
    query = select(members.flow, members.state, func.count()).where(members.flow.in_(uids))
    for flow, state, count in connection.execute(query.group_by(members.flow, members.state)):
        counts[flow][state] = count
    for flow, numbers in with_news(connection, uids).items():
        rows = read_members(connection, flow, numbers)
        for number, row in effective_rows(connection, flow, uids[flow], rows).items():
            counts[flow][rows[number].state] -= 1
            counts[flow][row.state] += 1
    return counts


def flow_tallies(connection: Connection, head: Row[Any]) -> Tallies:
    """Return the flow's members counted by group and state."""
    groups = read_groups(connection, head.id)
    query = select(*TALLY_COLUMNS).where(members.flow == head.id).group_by(*TALLIED)
    counted = [Tally(*row) for row in connection.execute(query)]
    tallies = {_key(tally): tally for tally in counted}
    rows = read_members(connection, head.id, with_news(connection, {head.id: head.uid}).get(head.id, ()))
    effective = effective_rows(connection, head.id, head.uid, rows)
    for number, row in effective.items():
        _move(tallies, tally(rows[number]), tally(row))
    flow = Tallies(flow_row(head), groups, list(tallies.values()))
    of_empty = _tallies_of_empty(connection, head, flow)
    if _needs_leaves(replace(flow, tallies=flow.tallies + of_empty)):
        flow = _with_leaves(connection, head.id, flow, effective)
    return replace(flow, tallies=flow.tallies + of_empty)


def _tallies_of_empty(connection: Connection, head: Row[Any], flow: Tallies) -> list[Tally]:
    """Return the tallies of empty groups. Their states follow from the members, so all rows of such a flow are read."""
    if not empty_groups(flow.groups, {tally.group for tally in flow.tallies}):
        return []
    return tallies_of_empty(read_ledger(connection, head))


def with_news(connection: Connection, uids: Mapping[int, str]) -> dict[int, list[int]]:
    """Return the crawls by flow whose row may be older than their run, or than their refused start."""
    is_its_run = and_(
        runs.flow_uid == flows.c.uid, runs.flow_member == members.number, runs.flow_attempt == members.attempt
    )
    crawls = select(members.flow, members.number).join_from(flow_members, flows, flows.c.id == members.flow)
    crawls = crawls.where(members.flow.in_(uids), members.kind == MemberKind.CRAWL)
    # MySQL finds few rows by an index only with the uids as values
    with_runs = crawls.join(histories, is_its_run).where(runs.flow_uid.in_(uids.values()))
    refused = crawls.join(flow_attempts, IS_LAST_ATTEMPT).where(members.in_flight, attempts.ended_at.is_not(None))
    news = union(with_runs.where(NEWS_UNDER_WAY), with_runs.where(NEWS_AFTER_END), refused)
    numbers: dict[int, list[int]] = {}
    for flow, number in connection.execute(news) if uids else ():
        numbers.setdefault(flow, []).append(number)
    return numbers


def _key(tally: Tally) -> Key:
    return tally.group, tally.state, tally.in_flight


def _move(tallies: dict[Key, Tally], before: Tally, after: Tally) -> None:
    """Count a member in another tally than before. Times only grow: an open tally's last end is not shown."""
    old = tallies[_key(before)]
    tallies[_key(before)] = replace(old, count=old.count - before.count)
    if not tallies[_key(before)].count:
        del tallies[_key(before)]
    known = tallies.get(_key(after))
    if known is None:
        tallies[_key(after)] = after
        return
    started = min(filter(None, (known.started_at, after.started_at)), default=None)
    ended = max(filter(None, (known.ended_at, after.ended_at)), default=None)
    tallies[_key(after)] = replace(known, count=known.count + after.count, started_at=started, ended_at=ended)


def _needs_leaves(flow: Tallies) -> bool:
    """Return whether an ended group may have a failure: the status of an open group does not depend on leaves."""
    unsettled = (tally.group for tally in flow.tallies if not tally.is_settled)
    is_open = {group for inner in unsettled for group in ancestors(flow.groups, inner)}
    return any(tally.state in FAILED and tally.group not in is_open for tally in flow.tallies)


def _with_leaves(connection: Connection, flow: int, tallies: Tallies, effective: Mapping[int, MemberRow]) -> Tallies:
    """Return the tallies with the knowledge whether members without dependents have failed."""
    different = select(members.needs).where(members.flow == flow, members.needs != NO_NEEDS).distinct()
    needs = map(needs_of, connection.scalars(different))
    with_dependents, groups = depended_on(tallies.groups, needs, {tally.group for tally in tallies.tallies})
    failed = select(members.number, *TALLIED).where(members.flow == flow, members.state.in_(FAILED))
    keys: dict[int, Key] = {
        number: (group, state, flight) for number, group, state, flight in connection.execute(failed)
    }
    keys |= {number: _key(tally(row)) for number, row in effective.items()}
    leaves = {key for number, key in keys.items() if number not in with_dependents and key[1] in FAILED}
    marked = [replace(tally, has_leaf=_key(tally) in leaves) for tally in tallies.tallies]
    return replace(tallies, tallies=marked, groups_with_dependents=groups)
