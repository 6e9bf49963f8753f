"""Reads of flows for people and doors: lists with waits, single flows, results, attempts and timelines."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, exists, false, func, not_, or_, select, union

from crawler_lifecycle.database.flow_schema import (
    attempt_begins,
    attempt_ends,
    flow_attempts,
    flow_groups,
    flow_logs,
    flow_members,
    flows,
)
from crawler_lifecycle.database.manager_schema import REFUSED_AS_FAILED, managers
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import reading
from crawler_lifecycle.database.types import is_text
from crawler_lifecycle.flows.ports.records import (
    AttemptRecord,
    FlowFigures,
    FlowLine,
    FlowRecord,
    ScheduledFlow,
    SilentFlow,
)
from crawler_lifecycle.flows.rules import words
from crawler_lifecycle.flows.rules.ends import as_end
from crawler_lifecycle.flows.rules.rows import FlowRow
from crawler_lifecycle.flows.rules.words import HOST_PATIENCE
from crawler_lifecycle.flows.store.door import uid_of
from crawler_lifecycle.flows.store.locks import HEAD_COLUMNS, snapshot
from crawler_lifecycle.flows.store.parts import FlowParts, member_counts
from crawler_lifecycle.flows.store.reading import IS_OPEN, SIGHT_COLUMNS, UNREAD, run_sight, runs
from crawler_lifecycle.flows.store.results import read_results, refuse_too_many
from crawler_lifecycle.flows.store.rows import flow_row, members
from crawler_lifecycle.flows.store.writing import FIRST_BEGIN
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, MemberKind, MemberState
from crawler_lifecycle.model.naming import host_of
from crawler_lifecycle.runs.rules.outcome import FAILURES_SHOWN

OPEN_STATES = [state for state in FlowState if not state.is_final]
IS_AVAILABLE = (
    flows.c.state.in_(OPEN_STATES),
    members.state == MemberState.AVAILABLE,
    members.in_flight == false(),
)
MOST_WITHOUT_HOST = 500  # flows with a step that waits, of which flows without a host are counted
MOST_SEARCHED = 1000  # flows for a page: an index cannot find a text within ids and names
attempts, begins, ends = flow_attempts.c, attempt_begins.c, attempt_ends.c
OF_END = {name: ends[name].label(f"end_{name}") for name in ("kind", "ended_at", "outcome", "reason", "error")}
STARTED_AT = case((flows.c.started_at.is_(None), FIRST_BEGIN), else_=flows.c.started_at).label("first_start")
IS_UNDECIDED = and_(members.kind == MemberKind.APPROVAL, members.decision.is_(None))


class SqlFlowRecords(FlowParts):
    """Flows as people and doors read them."""

    @reading
    def uid_of(self, connection: Connection, flow: str) -> str:
        return uid_of(connection, flow)

    @snapshot
    def page(
        self,
        connection: Connection,
        *,
        limit: int,
        before: str | None = None,
        states: Collection[FlowState] | None = None,
        ids: Collection[str] | None = None,
        family: str | None = None,
        search: str | None = None,
        down_to: str | None = None,
        in_need: bool = False,
    ) -> list[FlowRecord]:
        query = select(*HEAD_COLUMNS, STARTED_AT).order_by(flows.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(flows.c.id < self.number(connection, before))
        if down_to is not None:
            query = query.where(flows.c.id >= self.number(connection, down_to))
        if states is not None:
            query = query.where(flows.c.state.in_(states))
        if ids is not None:
            query = query.where(or_(false(), *(is_text(flows.c.flow_id, flow_id) for flow_id in ids)))
        if family is not None:
            query = query.where(is_text(flows.c.family, family))
        if search is not None:
            texts = (func.lower(column) for column in (flows.c.flow_id, flows.c.name))
            query = query.where(or_(*(text.contains(search.lower(), autoescape=True) for text in texts)))
        if in_need:
            query = query.where(flows.c.id.in_(_in_need(connection, self._db.clock())))
        rows: Sequence[Any] = connection.execute(query).all()
        counts = member_counts(connection, {row.id: row.uid for row in rows})
        waits = flow_waits(connection, rows, self._db.clock())
        return [_record(row, counts[row.id], waits.get(row.id, ())) for row in rows]

    @reading
    def end_of_search(self, connection: Connection, before: str | None) -> str | None:
        query = select(flows.c.uid).order_by(flows.c.id.desc()).offset(MOST_SEARCHED - 1).limit(1)
        if before is not None:
            query = query.where(flows.c.id < self.number(connection, before))
        return connection.scalar(query)

    @reading
    def between(self, connection: Connection, first: str, last: str) -> list[ScheduledFlow]:
        query = select(flows.c.flow_id, flows.c.state, flows.c.created_at, flows.c.stopped_at)
        rows = connection.execute(query.where(flows.c.flow_id.between(first, last)).order_by(flows.c.id))
        return [flow for flow in (ScheduledFlow(*row) for row in rows) if first <= flow.id <= last]

    @reading
    def row(self, connection: Connection, flow: str) -> tuple[str, FlowRow]:
        head = self._head(connection, flow)
        return head.uid, flow_row(head)

    @snapshot
    def results(self, connection: Connection, flow: str, numbers: Collection[int]) -> Mapping[int, JsonValue]:
        head = self._head(connection, flow)
        refuse_too_many(connection, head.id, numbers)
        return read_results(connection, head.id, head.uid, numbers)

    @snapshot
    def attempts(self, connection: Connection, flow: str, number: int) -> list[AttemptRecord]:
        head = self._head(connection, flow)
        return attempt_records(connection, head.id, head.uid, number)

    @reading
    def lines(self, connection: Connection, flow: str, *, after: int, limit: int) -> list[FlowLine]:
        head, line = self._head(connection, flow), flow_logs.c
        query = select(flow_logs).where(line.flow == head.id, line.id > after).order_by(line.id).limit(limit)
        return [
            FlowLine(row.at, row.event, row.message, row.actor, row.door, row.id) for row in connection.execute(query)
        ]

    @reading
    def figures(self, connection: Connection) -> FlowFigures:
        by_state = select(flows.c.state, func.count(), func.min(flows.c.changed_at)).group_by(flows.c.state)
        rows = connection.execute(by_state).all()
        open_members = (
            select(members.state, func.count())
            .join_from(flow_members, flows, flows.c.id == members.flow)
            .where(flows.c.state.in_(OPEN_STATES))
            .group_by(members.state)
        )
        return FlowFigures(
            flows={row[0]: row[1] for row in rows},
            members={row[0]: row[1] for row in connection.execute(open_members)},
            silent_since=next((row[2] for row in rows if row[0] is FlowState.EXECUTING), None),
        )

    @reading
    def awaiting_approval(self, connection: Connection, *, limit: int) -> tuple[int, list[str]]:
        return _flows_in(connection, _awaiting_approval(), limit)

    @reading
    def without_host(self, connection: Connection, before: datetime, *, limit: int) -> tuple[int, list[str]]:
        return _flows_in(connection, _without_host(connection, before), limit)

    @reading
    def with_failed_items(self, connection: Connection, since: datetime, *, limit: int) -> tuple[int, list[str]]:
        return _flows_in(connection, _with_failed_items(since), limit)

    @reading
    def silent(self, connection: Connection, since: datetime, *, after: str = "", limit: int) -> list[SilentFlow]:
        is_silent = (flows.c.state.in_(OPEN_STATES), flows.c.changed_at < since, flows.c.uid > after)
        query = select(flows.c.uid, flows.c.flow_id, flows.c.state).where(*is_silent).order_by(flows.c.uid)
        return [SilentFlow(*row) for row in connection.execute(query.limit(limit))]

    @reading
    def reopened(self, connection: Connection, before: datetime, *, after: str = "", limit: int) -> list[SilentFlow]:
        is_last = (members.flow == flows.c.id, members.number == runs.flow_member, members.attempt == runs.flow_attempt)
        query = (
            select(flows.c.uid, flows.c.flow_id, flows.c.state)
            .join_from(histories, flows, flows.c.uid == runs.flow_uid)
            .join(flow_members, and_(*is_last))
            .where(runs.flow_uid > after, flows.c.state.notin_(OPEN_STATES), UNREAD)
            .where(case((IS_OPEN, runs.begun_at), else_=runs.finished_at) < before)
            .distinct()
            .order_by(flows.c.uid)
        )
        return [SilentFlow(*row) for row in connection.execute(query.limit(limit))]

    @reading
    def unstarted(self, connection: Connection, before: datetime, *, limit: int) -> list[SilentFlow]:
        is_unstarted = (
            flows.c.state.in_(OPEN_STATES),
            flows.c.supervisor_run_id.is_(None),
            flows.c.created_at < before,
        )
        query = select(flows.c.uid, flows.c.flow_id, flows.c.state).where(*is_unstarted).order_by(flows.c.id)
        return [SilentFlow(*row) for row in connection.execute(query.limit(limit))]


def _record(row: Row[Any], counts: Mapping[Any, int], waits_for: tuple[str, ...]) -> FlowRecord:
    return FlowRecord(
        uid=row.uid,
        id=row.flow_id,
        name=row.name,
        family=row.family,
        state=row.state,
        intent=row.intent,
        counts={state: count for state, count in counts.items() if count},
        created_at=row.created_at,
        updated_at=row.updated_at,
        started_at=row.first_start,
        stopped_at=row.stopped_at,
        created_by=row.created_by,
        waits_for=waits_for,
    )


def _awaiting_approval() -> Select[Any]:
    return _with_member(*IS_AVAILABLE, members.kind == MemberKind.APPROVAL, members.decision.is_(None))


def _without_host(connection: Connection, before: datetime) -> Select[Any]:
    is_step_of_a_running_flow = (flows.c.intent == FlowIntent.RUN, members.kind == MemberKind.STEP)
    with_step = _with_member(*IS_AVAILABLE, *is_step_of_a_running_flow, members.since < before).distinct()
    # first these: in a single statement, the database would read the members under way of all flows
    candidates = connection.scalars(with_step.order_by(flows.c.id).limit(MOST_WITHOUT_HOST)).all()
    other = flow_members.alias()
    limited_group = exists().where(flow_groups.c.flow == flows.c.id, flow_groups.c.max_parallel.is_not(None))
    has_limit = or_(flows.c.max_parallel.is_not(None), limited_group)
    is_step = other.c.kind == MemberKind.STEP
    # a limit may hold the step back, or a host may be busy with the flow's other steps
    is_held = exists().where(other.c.flow == flows.c.id, other.c.in_flight, or_(is_step, has_limit))
    has_begun = exists().where(begins.flow == flows.c.id, begins.noted.is_(False))
    return select(flows.c.id).where(flows.c.id.in_(candidates), not_(is_held), not_(has_begun))


def _with_failed_items(since: datetime) -> Select[Any]:
    is_ended = (flows.c.stopped_at >= since, flows.c.state != FlowState.CANCELLED)
    joined = select(flows.c.id).join_from(managers, flows, flows.c.id == managers.c.flow)
    return joined.where(*is_ended, managers.c.failed + REFUSED_AS_FAILED > 0)


def _in_need(connection: Connection, now: datetime) -> Sequence[int]:
    """Return the numbers of all flows that `attention` counts."""
    needs = (
        _awaiting_approval(),
        _without_host(connection, now - HOST_PATIENCE),
        _with_failed_items(now - FAILURES_SHOWN),
    )
    return connection.scalars(union(*needs)).all()


def _with_member(*where: ColumnElement[bool]) -> Select[Any]:
    # the primary key would read all members of each open flow
    joined = select(flows.c.id).with_hint(flow_members, "FORCE INDEX (ix_flow_members_state)", "mysql")
    return joined.join_from(flow_members, flows, flows.c.id == members.flow).where(*where)


def _flows_in(connection: Connection, joined: Select[Any], limit: int) -> tuple[int, list[str]]:
    """Return the number of the flows, and the first of their ids."""
    ids = joined.with_only_columns(flows.c.flow_id)
    with_total = ids.add_columns(func.count().over()).group_by(flows.c.id, flows.c.flow_id)
    rows = connection.execute(with_total.order_by(flows.c.id).limit(max(limit, 1))).all()
    return (rows[0][1] if rows else 0), [row[0] for row in rows[:limit]]


def attempt_records(connection: Connection, flow: int, flow_uid: str, number: int) -> list[AttemptRecord]:
    """Return the member's attempts, oldest first."""
    steps = (
        select(attempt_begins, *OF_END.values())
        .join_from(attempt_begins, attempt_ends, _is_end_of(begins), isouter=True)
        .where(begins.flow == flow, begins.member == number)
        .order_by(begins.attempt, begins.number)
    )
    tries = [list(rows) for _, rows in groupby(connection.execute(steps), key=lambda row: row.attempt)]
    is_its_run = and_(
        runs.flow_uid == flow_uid, runs.flow_member == attempts.member, runs.flow_attempt == attempts.attempt
    )
    crawls = (
        select(attempts.attempt, attempts.generation, attempts.created_at, *OF_END.values())
        .add_columns(*SIGHT_COLUMNS, runs.id, runs.run_uid)
        .join_from(flow_attempts, histories, is_its_run, isouter=True)
        .join(attempt_ends, _is_end_of(attempts), isouter=True)
        .where(attempts.flow == flow, attempts.member == number)
        .order_by(attempts.attempt)
    )
    return [*map(_step_record, tries), *map(_crawl_record, connection.execute(crawls))]


def _is_end_of(attempt: Any) -> ColumnElement[bool]:
    return and_(ends.flow == attempt.flow, ends.member == attempt.member, ends.attempt == attempt.attempt)


def _step_record(tries: Sequence[Row[Any]]) -> AttemptRecord:
    last = tries[-1]
    return AttemptRecord(
        attempt=last.attempt,
        generation=last.generation,
        created_at=tries[0].begun_at,
        ended_at=last.end_ended_at,
        kind=last.end_kind,
        outcome=last.end_outcome,
        reason=last.end_reason,
        error=last.end_error,
        host=last.host,
        code_version=last.code_version,
        deaths=max(0, last.counted - 1),
    )


def _crawl_record(row: Any) -> AttemptRecord:
    end = as_end(run_sight(row)) if row.id is not None and row.status.is_over else None
    return AttemptRecord(
        attempt=row.attempt,
        generation=row.generation,
        created_at=row.created_at,
        ended_at=row.end_ended_at if end is None else end.at,
        kind=row.end_kind if end is None else end.kind,
        outcome=row.end_outcome if end is None else end.outcome,
        reason=row.end_reason if end is None else end.reason,
        error=row.end_error,
        run_id=row.id,
        run_uid=row.run_uid,
    )


def flow_waits(connection: Connection, heads: Sequence[Row[Any]], now: datetime) -> dict[int, tuple[str, ...]]:
    """Return the waits by flow, such as `approval:release` or `host:my_project.flows`.

    A flow waits for a host only if no attempt is under way: otherwise a limit may hold the step back.
    """
    is_open = {row.id: row.intent for row in heads if not row.state.is_final}
    if not is_open:
        return {}
    in_flight = select(members.flow).where(members.flow.in_(is_open), members.in_flight)
    has_begun = select(begins.flow).where(begins.flow.in_(is_open), begins.noted.is_(False))
    under_way = set(connection.scalars(union(in_flight, has_begun)))
    is_untaken = and_(members.kind == MemberKind.STEP, members.since < now - words.HOST_PATIENCE)
    query = (
        select(members.flow, members.kind, func.min(members.path), func.min(members.route))
        .where(members.flow.in_(is_open), members.in_flight.is_(False), members.state == MemberState.AVAILABLE)
        .where(or_(IS_UNDECIDED, is_untaken))
        .group_by(members.flow, members.kind)
        .order_by(members.flow, members.kind)
    )
    waits: dict[int, tuple[str, ...]] = {}
    for flow, kind, path, route in connection.execute(query):
        if kind is MemberKind.APPROVAL:
            waits[flow] = (*waits.get(flow, ()), f"{words.APPROVAL}:{path}")
        elif flow not in under_way and is_open[flow] == FlowIntent.RUN:
            waits[flow] = (*waits.get(flow, ()), f"{words.HOST}:{host_of(route)}")
    return waits
