"""Reads a flow's members: the whole flow, a part, numbers by state, and changes since a time.

A stored row lags until the supervisor notes its member's news: an attempt's begin or end, or a run's end or reopening.
Counts by the database count stored rows. So the lagging rows are read, and are counted by their effective rows instead.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVarTuple

from sqlalchemy import Connection, Row, Select, and_, bindparam, func, select, union, union_all

from crawler_lifecycle.database.flow_schema import (
    attempt_begins,
    attempt_ends,
    flow_attempts,
    flow_members,
    flows,
    step_leases,
)
from crawler_lifecycle.database.pages import ROWS_IN_A_PAGE, pages
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import reading
from crawler_lifecycle.database.types import is_text
from crawler_lifecycle.flows.model.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.ports.records import FlowNews, KeptFlow, Part
from crawler_lifecycle.flows.rules.explanation import with_silent_host
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow, ancestors
from crawler_lifecycle.flows.rules.summary import Tallies, Tally, depended_on, empty_groups, tallies_of_empty, tally
from crawler_lifecycle.flows.rules.words import START_REFUSED
from crawler_lifecycle.flows.store.door import no_flow
from crawler_lifecycle.flows.store.locks import HEAD_COLUMNS, OnFlows, snapshot
from crawler_lifecycle.flows.store.reading import (
    IS_LAST_END,
    IS_NEW_BEGIN,
    NEWS_AFTER_END,
    NEWS_UNDER_WAY,
    effective_rows,
    read_groups,
    read_ledger,
    read_members,
)
from crawler_lifecycle.flows.store.rows import NO_NEEDS, flow_row, groups, members, needs_of, path_uid
from crawler_lifecycle.model.flow_states import FAILED, MemberKind, MemberState

begins, ends = attempt_begins.c, attempt_ends.c
runs = histories.c
TALLIED = [members.group_number, members.state, members.in_flight]
TALLY_COLUMNS = [*TALLIED, func.count(), func.min(members.started_at), func.max(members.ended_at)]
Key = tuple[int, MemberState, bool]  # group, state, whether an attempt is under way
Columns = TypeVarTuple("Columns")
# the statements for `FlowParts.kept`: definitions, last runs, first starts after a retry, refusals, and living hosts
DEFINITIONS = select(members.number, members.definition, members.arguments)
LAST_RUNS = (
    select(members.number, histories.c.id)
    .join_from(
        flow_members,
        histories,
        (histories.c.flow_member == members.number) & (histories.c.flow_attempt == members.attempt),
    )
    .order_by(members.number)
)
# a retry begins another generation; the start in the member's row is its first start of all
FIRST_STARTS = [
    select(table.member, table.generation, func.min(at))
    .where(table.flow == bindparam("of_flow"), table.generation > 1)
    .group_by(table.member, table.generation)
    for table, at in ((flow_attempts.c, flow_attempts.c.created_at), (begins, begins.begun_at))
]
FIRST_STARTS_OF_ALL = union_all(*FIRST_STARTS)
FIRST_STARTS_OF_SOME = union_all(
    *(query.where(query.selected_columns.member.in_(bindparam("numbers", expanding=True))) for query in FIRST_STARTS)
)
WAS_REFUSED = and_(members.reason == START_REFUSED, ends.error.is_not(None))
LIVE_BEGINS = (
    select(begins.member, begins.attempt)
    .join_from(attempt_begins, step_leases, step_leases.c.token == begins.token)
    .where(
        begins.flow == bindparam("of_flow"),
        begins.member.in_(bindparam("numbers", expanding=True)),
        step_leases.c.expires_at >= bindparam("now"),
    )
)


def member_counts(connection: Connection, uids: Mapping[int, str]) -> dict[int, Counter[MemberState]]:
    """Return the counts by flow. `uids`: the flows' uids by their primary keys."""
    counts: dict[int, Counter[MemberState]] = {flow: Counter() for flow in uids}
    query = select(members.flow, members.state, func.count()).where(members.flow.in_(uids))
    for flow, state, count in connection.execute(query.group_by(members.flow, members.state)):
        counts[flow][state] = count
    for flow, numbers in lagging_members(connection, uids).items():
        rows = read_members(connection, flow, numbers)
        for number, row in effective_rows(connection, flow, uids[flow], rows).items():
            counts[flow][rows[number].state] -= 1
            counts[flow][row.state] += 1
    return counts


def flow_tallies(connection: Connection, head: Row[Any]) -> Tallies:
    """Return the flow's members counted by group and state.

    The database counts the stored rows. Each lagging member then moves from its stored row's tally to its effective
    row's. Empty groups, which no row counts, get tallies of their own.

    An ended group is `ok` if no member without dependents has failed: other failures are judged by the dependents,
    which may ignore them. An open group is not `ok`. So the members' needs are read only after a failure.
    """
    groups = read_groups(connection, head.id)
    query = select(*TALLY_COLUMNS).where(members.flow == head.id).group_by(*TALLIED)
    counted = [Tally(*row) for row in connection.execute(query)]
    tallies = {_key(tally): tally for tally in counted}
    stored = read_members(connection, head.id, _lagging(connection, head))
    effective = effective_rows(connection, head.id, head.uid, stored)
    for number, row in effective.items():
        _move(tallies, tally(stored[number]), tally(row))
    flow = Tallies(flow_row(head), groups, list(tallies.values()))
    of_empty = _tallies_of_empty(connection, head, flow)
    if _has_failures_in_ended_groups(replace(flow, tallies=flow.tallies + of_empty)):
        flow = _with_marks(connection, head.id, flow, effective)  # empty groups' tallies have their marks already
    return replace(flow, tallies=flow.tallies + of_empty)


def _lagging(connection: Connection, head: Row[Any]) -> list[int]:
    return lagging_members(connection, {head.id: head.uid}).get(head.id, [])


def lagging_members(connection: Connection, uids: Mapping[int, str]) -> dict[int, list[int]]:
    """Return the members by flow whose stored row may be older than their run, or than an attempt's begin or end.

    `uids`: the flows' uids by their primary keys.
    """
    is_its_run = and_(
        runs.flow_uid == flows.c.uid, runs.flow_member == members.number, runs.flow_attempt == members.attempt
    )
    of_flows = select(members.flow, members.number).join_from(flow_members, flows, flows.c.id == members.flow)
    of_flows = of_flows.where(members.flow.in_(uids))
    # MySQL finds few rows by an index only with the uids as values
    crawls = of_flows.where(members.kind == MemberKind.CRAWL, runs.flow_uid.in_(uids.values()))
    with_runs = crawls.join(histories, is_its_run)
    ended = of_flows.join(attempt_ends, IS_LAST_END).where(members.in_flight)
    begun = select(begins.flow, begins.member).where(begins.flow.in_(uids), IS_NEW_BEGIN)
    news = union(with_runs.where(NEWS_UNDER_WAY), with_runs.where(NEWS_AFTER_END), ended, begun)
    numbers: dict[int, list[int]] = {}
    for flow, number in connection.execute(news) if uids else ():
        numbers.setdefault(flow, []).append(number)
    return numbers


class FlowParts(OnFlows):
    """The methods in `flows.ports.records.FlowRecords` for a flow's members."""

    @snapshot
    def kept(self, connection: Connection, flow: str, part: Part | None = None, *, defined: bool = True) -> KeptFlow:
        head = self._head(connection, flow)
        numbers = None if part is None else _numbers(connection, head, part)
        of_groups = select(groups.number, groups.definition).where(groups.flow == head.id)
        of_members = DEFINITIONS.where(members.flow == head.id)
        definitions = _of_members(connection, of_members, numbers) if defined else []
        last_runs = LAST_RUNS.where(members.flow == head.id, histories.c.flow_uid == head.uid)
        ledger = read_ledger(connection, head, numbers)
        ledger.put(map(with_silent_host, _silent(connection, head.id, ledger, self._db.clock())))
        return KeptFlow(
            uid=head.uid,
            ledger=ledger,
            created_at=head.created_at,
            updated_at=head.updated_at,
            context=connection.scalar(select(flows.c.context).where(flows.c.id == head.id)),
            definitions={number: MemberDefinition.model_validate_json(text) for number, text, _ in definitions},
            groups={
                number: GroupDefinition.model_validate_json(text) for number, text in connection.execute(of_groups)
            },
            last_runs=dict(_of_members(connection, last_runs, numbers)),
            restarts=_first_starts_since_retry(connection, head.id, ledger) if defined else {},
            problems={number: problem or "" for number, problem in _of_members(connection, _refused(head.id), numbers)},
            has_supervisor=head.supervisor_run_id is not None,
            arguments={number: arguments for number, _, arguments in definitions if arguments is not None},
        )

    @snapshot
    def tallies(self, connection: Connection, flow: str) -> Tallies:
        return flow_tallies(connection, self._head(connection, flow))

    @snapshot
    def news(self, connection: Connection, flow: str, since: datetime | None) -> FlowNews:
        head = self._head(connection, flow)
        query = select(members.number, members.changed_at).where(members.flow == head.id)
        changed = connection.execute(query if since is None else query.where(members.changed_at >= since))
        lagging = _lagging(connection, head)
        return FlowNews(head.uid, flow_row(head), head.door, head.removal, dict(iter(changed)), lagging)

    @reading
    def numbers(self, connection: Connection, flow: str, paths: Collection[str]) -> Mapping[str, int]:
        head, uids = self._head(connection, flow), {path_uid(path): path for path in paths}
        query = select(members.path_uid, members.number).where(members.flow == head.id)
        answers = (connection.execute(query.where(members.path_uid.in_(page))) for page in pages(list(uids)))
        return {uids[uid]: number for rows in answers for uid, number in rows}

    def _head(self, connection: Connection, flow: str) -> Row[Any]:
        """Return the flow's row without its context; raise NotFound without a flow with the id."""
        row = connection.execute(select(*HEAD_COLUMNS).where(is_text(flows.c.flow_id, flow))).one_or_none()
        if row is None:
            raise no_flow(connection, flow)
        return row


def _tallies_of_empty(connection: Connection, head: Row[Any], flow: Tallies) -> list[Tally]:
    """Return the tallies of empty groups. Their states follow from the members, so all rows of such a flow are read."""
    if not empty_groups(flow.groups, {tally.group for tally in flow.tallies}):
        return []
    return tallies_of_empty(read_ledger(connection, head))


def _key(tally: Tally) -> Key:
    return tally.group, tally.state, tally.in_flight


def _move(tallies: dict[Key, Tally], before: Tally, after: Tally) -> None:
    """Count a member in the tally `after` in place of the tally `before`.

    The old tally keeps the member's times. A status takes the first start and the last end over a group's tallies, so
    these times change nothing: a start stays, and an end only becomes later. A member that runs again after an end
    opens its group, and an open group's end is not shown.
    """
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


def _has_failures_in_ended_groups(flow: Tallies) -> bool:
    """Return whether members have failed in a group that is not open."""
    unsettled = (tally.group for tally in flow.tallies if not tally.is_settled)
    is_open = {group for inner in unsettled for group in ancestors(flow.groups, inner)}
    return any(tally.state in FAILED and tally.group not in is_open for tally in flow.tallies)


def _with_marks(connection: Connection, flow: int, tallies: Tallies, effective: Mapping[int, MemberRow]) -> Tallies:
    """Return the tallies, marked by `prevents_ok` where a member without dependents has failed."""
    different = select(members.needs).where(members.flow == flow, members.needs != NO_NEEDS).distinct()
    needs = map(needs_of, connection.scalars(different))
    with_dependents, groups_with_dependents = depended_on(
        tallies.groups, needs, {tally.group for tally in tallies.tallies}
    )
    failed = select(members.number, *TALLIED).where(members.flow == flow, members.state.in_(FAILED))
    keys: dict[int, Key] = {
        number: (group, state, flight) for number, group, state, flight in connection.execute(failed)
    }
    keys |= {number: _key(tally(row)) for number, row in effective.items()}
    preventing = {key for number, key in keys.items() if number not in with_dependents and key[1] in FAILED}
    marked = [replace(tally, prevents_ok=_key(tally) in preventing) for tally in tallies.tallies]
    return replace(tallies, tallies=marked, groups_with_dependents=groups_with_dependents)


def _refused(flow: int) -> Select[int, str | None]:
    """Select the refused crawls with their problem."""
    return (
        select(members.number, ends.error)
        .join_from(flow_members, attempt_ends, IS_LAST_END)
        .where(members.flow == flow, WAS_REFUSED)
    )


def _silent(connection: Connection, flow: int, ledger: Ledger, now: datetime) -> list[MemberRow]:
    """Return the steps under way without a live host."""
    steps = [row for row in ledger.members.values() if row.kind is MemberKind.STEP]
    under_way = {row.number: row for row in steps if row.state is MemberState.EXECUTING and row.in_flight}
    live: set[tuple[int, int]] = set()
    for page in pages(list(under_way)):
        key = {"of_flow": flow, "now": now, "numbers": page}
        live.update((member, attempt) for member, attempt in connection.execute(LIVE_BEGINS, key))
    return [row for row in under_way.values() if (row.number, row.attempt) not in live]


def _first_starts_since_retry(connection: Connection, flow: int, ledger: Ledger) -> dict[int, datetime]:
    """Return when retried members first started after their last retry. Their rows have the start before all retries.

    For many members, the whole flow's starts are read in one statement.
    """
    retried = {row.number: row.generation for row in ledger.members.values() if row.generation > 1}
    if not retried:
        return {}
    if len(retried) > ROWS_IN_A_PAGE:
        rows = connection.execute(FIRST_STARTS_OF_ALL, {"of_flow": flow})
    else:
        rows = connection.execute(FIRST_STARTS_OF_SOME, {"of_flow": flow, "numbers": [*retried]})
    return {number: at for number, generation, at in rows if retried.get(number) == generation}


def _of_members(
    connection: Connection, query: Select[*Columns], numbers: Collection[int] | None
) -> list[Row[*Columns]]:
    """Return the query's rows for the members with the numbers; for all members without numbers."""
    if numbers is None:
        return list(connection.execute(query))
    answers = (connection.execute(query.where(members.number.in_(page))) for page in pages(sorted(numbers)))
    return [row for rows in answers for row in rows]


def _numbers(connection: Connection, head: Row[Any], part: Part) -> set[int]:
    """Return the numbers for the part's members, and those of all lagging members: their stored states do not count."""
    numbers = {*part.numbers, *_lagging(connection, head)}
    of_flow = select(members.number).where(members.flow == head.id)
    if part.states:
        numbers.update(connection.scalars(of_flow.where(members.state.in_(part.states))))
    if part.in_flight:
        numbers.update(connection.scalars(of_flow.where(members.in_flight)))
    for page in pages([path_uid(path) for path in part.paths]):
        numbers.update(connection.scalars(of_flow.where(members.path_uid.in_(page))))
    of_groups = _groups_at(connection, head.id, {*part.paths}) if part.paths else []
    for inside in pages(of_groups):
        numbers.update(connection.scalars(of_flow.where(members.group_number.in_(inside))))
    return numbers


def _groups_at(connection: Connection, flow: int, paths: set[str]) -> list[int]:
    """Return the numbers of the groups with the paths, and of all groups inside."""
    rows = read_groups(connection, flow)
    return [number for number in rows if any(rows[around].path in paths for around in ancestors(rows, number))]
