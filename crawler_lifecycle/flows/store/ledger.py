"""The ledger for a flow's supervisor: to begin, read and write, to add members for a crawl's tasks, and to end.

The flow's row counts its supervisors (`epoch`), the supervisor's acts (`version`), and other requests (`door`). A write
with another epoch is fenced; a write planned before the last door is stale. An end is written with the flow's final
state, and stays pending until its announcement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, case, func, insert, select, update

from crawler_lifecycle.base.ranges import from_ranges, from_ranges_by_value
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flow_ends, flow_groups, flow_members, flows
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import Fenced, NotFound
from crawler_lifecycle.flows.model.definition import GroupDefinition
from crawler_lifecycle.flows.model.requests import FlowRequest
from crawler_lifecycle.flows.ports.ledger import Delivery, OwedEnd, UnannouncedFlow
from crawler_lifecycle.flows.rules import merging
from crawler_lifecycle.flows.rules.ends import AttemptBegun, in_order
from crawler_lifecycle.flows.rules.messages import (
    FlowRef,
    GrowGroup,
    LedgerPage,
    PackedRows,
    ReadFlow,
    WriteFlow,
    Written,
)
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow
from crawler_lifecycle.flows.rules.states import effective
from crawler_lifecycle.flows.store.crawls import FlowCrawls
from crawler_lifecycle.flows.store.door import Door
from crawler_lifecycle.flows.store.locks import OnFlows, add_line, fence, has_lost_acts, number_act, snapshot
from crawler_lifecycle.flows.store.reading import (
    ALL_MEMBERS,
    are_on_record,
    news_of_runs,
    read_ledger,
    read_members,
    run_sights,
    task_sights,
    unnoted,
)
from crawler_lifecycle.flows.store.rows import GROUP_COLUMNS, flow_row, group_row, groups, member_row, members
from crawler_lifecycle.flows.store.writing import note_begins, write_planned
from crawler_lifecycle.model.flow_states import (
    FAILED,
    FINAL,
    MOST_FAILURES,
    FlowEnd,
    FlowFailure,
    FlowState,
    MemberState,
)
from crawler_lifecycle.runs.ports import SupervisorExecution

LONGEST_REASON = 300  # characters in an announcement
ends = flow_ends.c
OWED = {Delivery.NOTICE: ends.notice_owed, Delivery.EVENT: ends.event_owed}
COUNTS = select(members.state, func.count(), func.min(members.started_at)).select_from(flow_members)
DISCARDED_FIRST = case((members.state == MemberState.DISCARDED, 0), else_=1)
FAILURES = (
    select(members.path, members.state, members.reason)
    .where(members.state.in_(sorted(FAILED)))
    .order_by(DISCARDED_FIRST, members.number)
    .limit(MOST_FAILURES)
)
BY_SUPERVISOR = FlowRequest(door="flow")
MEMBERS_IN_A_PAGE = 5000
BYTES_IN_A_PAGE = 1_000_000  # packed, before the encoding as text; Temporal refuses a payload over 2 MB
NEWS = (
    ALL_MEMBERS.where(members.door > bindparam("since"), members.number > bindparam("after"))
    .order_by(members.number)
    .limit(MEMBERS_IN_A_PAGE + 1)
)
GROUP_NEWS = (
    select(*GROUP_COLUMNS)
    .where(groups.flow == bindparam("of_flow"), groups.door > bindparam("since"))
    .order_by(groups.number)
)
OPEN_MEMBER = (
    select(members.number).where(members.flow == bindparam("of_flow"), members.state.notin_([*FINAL])).limit(1)
)
# closes the managers that end with their flow, in the same transaction; passed in, as managers build on flows
CloseManagers = Callable[[Connection, Row[Any], datetime], None]


def insert_end(tx: Connection, head: Row[Any], state: FlowState, now: datetime) -> None:
    """Write the end with pending deliveries. The caller has locked the flow's row, and has written the members."""
    last = tx.scalar(select(func.max(ends.number)).where(ends.flow == head.id)) or 0
    content = _content(tx, head, state, now, last + 1)
    owed = {column.name: True for column in (*OWED.values(), ends.is_owed)}
    tx.execute(insert(flow_ends), {"flow": head.id, "number": last + 1, "content": content, "ended_at": now, **owed})


class SqlFlowEnds(OnFlows):
    """Flows' ends, until their notice and their event are delivered."""

    @reading
    def owed(self, connection: Connection, flow_uid: str) -> list[OwedEnd]:
        query = select(ends.content, *OWED.values()).join_from(flow_ends, flows, flows.c.id == ends.flow)
        rows = connection.execute(query.where(flows.c.uid == flow_uid, ends.is_owed).order_by(ends.number))
        return [
            OwedEnd(row.content, frozenset(kind for kind, column in OWED.items() if row._mapping[column.name]))
            for row in rows
        ]

    @transaction
    def settle(
        self, tx: Connection, flow_uid: str, end: int, settled: Sequence[Delivery], problems: Mapping[Delivery, str]
    ) -> None:
        try:
            head = self.lock(tx, flow_uid)
        except NotFound:  # the flow was pruned
            return
        this_end = (ends.flow == head.id, ends.number == end)
        row = tx.execute(select(ends.problem, *OWED.values()).where(*this_end)).one()
        pending = {kind for kind, column in OWED.items() if row._mapping[column.name] and kind not in settled}
        problem = "; ".join(f"{kind} of end {end}: {message}" for kind, message in problems.items()) or None
        values = {column.name: kind in pending for kind, column in OWED.items()}
        tx.execute(update(flow_ends).where(*this_end).values(is_owed=bool(pending), problem=problem, **values))
        if problem is not None and row.problem is None:
            add_line(tx, head.id, self._db.clock(), "undelivered", problem)
        elif problem is None and row.problem is not None:
            add_line(tx, head.id, self._db.clock(), "delivered", f"end {end}, sent again")

    @reading
    def unannounced(
        self, connection: Connection, since: datetime, before: datetime, *, after: str = "", limit: int
    ) -> list[UnannouncedFlow]:
        is_owing = (ends.is_owed, ends.ended_at > since, ends.ended_at < before)
        is_over = flows.c.state.in_([state for state in FlowState if state.is_final])
        query = (
            select(flows.c.uid, flows.c.flow_id, func.max(ends.ended_at), func.max(ends.problem))
            .join_from(flow_ends, flows, flows.c.id == ends.flow)
            .where(*is_owing, is_over, flows.c.uid > after)
            .group_by(flows.c.uid, flows.c.flow_id)
            .order_by(flows.c.uid)
        )
        return [UnannouncedFlow(*row) for row in connection.execute(query.limit(limit))]


class _Stale(Exception):
    """A flow that is to end has an open member: the transaction is rolled back."""


class FlowSupervision(OnFlows):
    """The methods in `flows.ports.ledger.FlowLedger` for the rows of a flow."""

    def __init__(self, db: Database, close_managers: CloseManagers) -> None:
        super().__init__(db)
        self._close_managers = close_managers

    @transaction
    def begin(self, tx: Connection, flow_uid: str, execution: SupervisorExecution) -> FlowRef:
        head = self.lock(tx, flow_uid)
        if head.supervisor_run_id == execution.run_id:
            return FlowRef(uid=flow_uid, epoch=head.epoch, version=head.version)
        _refuse_earlier_execution(head, execution)
        values = {
            "epoch": head.epoch + 1,
            "supervisor_workflow_id": execution.workflow_id,
            "supervisor_run_id": execution.run_id,
            "supervisor_began_at": execution.began_at,
        }
        tx.execute(update(flows).where(flows.c.id == head.id).values(values))
        if head.supervisor_run_id is not None:
            message = f"its workflow continues in execution {execution.run_id}"
            add_line(tx, head.id, self._db.clock(), "taken over", message)
        return FlowRef(uid=flow_uid, epoch=head.epoch + 1, version=head.version)

    @snapshot
    def read(self, connection: Connection, step: ReadFlow) -> LedgerPage:
        head = self.head(connection, step.flow.uid)
        fence(head, step.flow)
        rows, has_more = _rows(connection, head.id, step)
        packed, is_cut = _packed(rows, _groups(connection, head.id, step))
        has_more = has_more or is_cut
        page = LedgerPage(
            door=head.door,
            removal=head.removal,
            version=head.version,
            row=flow_row(head),
            rows=packed,
            has_more=has_more,
        )
        return page if has_more else page.model_copy(update=_sights(connection, head, step))

    def write(self, step: WriteFlow) -> Written:
        try:
            return self._write(step)
        except _Stale:  # the database has lost what the supervisor knows
            return Written(stale=True, has_lost=True)

    @transaction
    def _write(self, tx: Connection, step: WriteFlow) -> Written:
        head = self.lock_for_supervisor(tx, step.flow)
        if head.version > step.flow.version:  # an earlier try has made the act
            return Written(version=step.flow.version + 1)
        if head.door != step.door:
            return Written(stale=True)
        ended = from_ranges_by_value(step.ended)
        if has_lost_acts(head, step.flow) or not are_on_record(tx, head.id, head.uid, ended):
            return Written(stale=True, has_lost=True)
        # hosts may have begun attempts since the plan: the write notes these begins in its rows, too
        planned = {row.number: row for row in step.rows.unpacked()[0]}
        begins, ends = unnoted(tx, head.id)
        unplanned = [begun for begun in begins if _is_unplanned(begun, planned.get(begun.number))]
        numbers = {begun.number for begun in unplanned}
        rows = read_members(tx, head.id, numbers - planned.keys()) | planned
        last = {begun.number: begun.attempt for begun in unplanned}
        ends_between = [end for end in ends if end.attempt < last.get(end.number, 0)]
        for seen in in_order(unplanned, ends_between):
            rows[seen.number] = effective(rows[seen.number], [seen])
        write_planned(tx, head.id, [*rows.values()])
        if begins:
            note_begins(tx, head)
        self._write_state(tx, head, step.state)
        return Written(version=number_act(tx, head, step.flow), begins=tuple(unplanned))

    def _write_state(self, tx: Connection, head: Row[Any], state: FlowState | None) -> None:
        if state is None or state is head.state:
            return
        this_flow = update(flows).where(flows.c.id == head.id)
        if state.is_final and tx.scalar(OPEN_MEMBER, {"of_flow": head.id}) is not None:
            raise _Stale
        now = self._db.clock()
        tx.execute(this_flow.values(state=state, stopped_at=now if state.is_final else None))
        if state.is_final:
            self._close_managers(tx, head, now)
            add_line(tx, head.id, now, "ended", f"the flow is {state}")
            insert_end(tx, head, state, now)
        elif head.state.is_final:
            add_line(tx, head.id, now, "reopened", "a run of the flow was reopened")

    @transaction
    def grow(self, tx: Connection, step: GrowGroup) -> None:
        head = self.lock_for_supervisor(tx, step.flow)
        door = Door(tx, head, read_ledger(tx, head), self._db.clock(), BY_SUPERVISOR)
        group = door.ledger.groups.get(step.group)
        if group is None:
            raise NotFound(f"flow {head.flow_id!r} has no sub-workflow with the number {step.group}")
        if group.expected >= step.expected:
            return
        grown = replace(group, expected=step.expected)
        this_group = (groups.flow == head.id, groups.number == step.group)
        text = tx.scalar(select(groups.definition).where(*this_group))
        definition = GroupDefinition.model_validate_json(text or "")
        door.ledger.put(groups=[grown])
        merged = merging.grow(door.ledger, grown, definition, door.at)
        door.merge(merged)
        tx.execute(update(flow_groups).where(*this_group).values(expected=step.expected, door=door.number))
        door.log("grown", f"added {counted(len(merged.members), 'job')} for the tasks of {definition.grower!r}")


class SqlFlowLedger(FlowSupervision, FlowCrawls):
    """The ledger for supervisors; every base class has a single duty."""


def _content(tx: Connection, head: Row[Any], state: FlowState, now: datetime, number: int) -> FlowEnd:
    rows = tx.execute(COUNTS.where(members.flow == head.id).group_by(members.state)).all()
    counts = {row[0]: row[1] for row in sorted(rows)}
    started_at = min((row[2] for row in rows if row[2] is not None), default=None)
    failures = tx.execute(FAILURES.where(members.flow == head.id)).all() if counts.keys() & FAILED else []
    return FlowEnd(
        end=number,
        flow_id=head.flow_id,
        flow_uid=head.uid,
        name=head.name,
        family=head.family,
        state=state,
        total=sum(counts.values()),
        counts=counts,
        started_at=started_at,
        elapsed_seconds=None if started_at is None else (now - started_at).total_seconds(),
        failures=tuple(
            FlowFailure(path=path, state=member_state, reason=reason and reason[:LONGEST_REASON])
            for path, member_state, reason in failures
        ),
        at=now,
    )


def _refuse_earlier_execution(head: Row[Any], execution: SupervisorExecution) -> None:
    """Raise Fenced if the execution began before the present supervisor: its call comes too late."""
    present, began_at = head.supervisor_began_at, execution.began_at
    if present is not None and began_at is not None and began_at < present:
        raise Fenced(f"flow {head.flow_id!r} has a later supervisor already, execution {head.supervisor_run_id}")


def _is_unplanned(begun: AttemptBegun, planned: MemberRow | None) -> bool:
    return planned is None or planned.attempt < begun.attempt


def _rows(connection: Connection, flow: int, step: ReadFlow) -> tuple[list[MemberRow], bool]:
    """Return a page of members, and whether further pages follow."""
    key = {"of_flow": flow, "since": step.since, "after": step.after_member}
    rows = {values[0]: member_row(values) for values in connection.execute(NEWS, key)}
    wanted = [number for number in from_ranges(step.members) if number > step.after_member and number not in rows]
    rows |= read_members(connection, flow, sorted(wanted)[: MEMBERS_IN_A_PAGE + 1])
    ordered = [rows[number] for number in sorted(rows)]
    return ordered[:MEMBERS_IN_A_PAGE], len(ordered) > MEMBERS_IN_A_PAGE


def _packed(rows: list[MemberRow], groups: list[GroupRow]) -> tuple[PackedRows, bool]:
    """Return as many of the rows as fit into a payload, and whether rows are left out. Paths may be long.

    A planner needs no fingerprints, which take half of the bytes.
    """
    rows = [row._replace(fingerprint="") for row in rows]
    groups = [replace(row, context="", fingerprint="") for row in groups]
    packed, size = PackedRows.from_rows(rows, groups), len(rows)
    while len(packed.packed) > BYTES_IN_A_PAGE and size > 1:
        size //= 2
        packed = PackedRows.from_rows(rows[:size], groups)
    return packed, size < len(rows)


def _groups(connection: Connection, flow: int, step: ReadFlow) -> list[GroupRow]:
    """Return the groups, which are all on the first page."""
    if step.after_member >= 0:
        return []
    return [group_row(values) for values in connection.execute(GROUP_NEWS, {"of_flow": flow, "since": step.since})]


def _sights(connection: Connection, head: Row[Any], step: ReadFlow) -> dict[str, Any]:
    """Return the ends and sights for the last page, by field. A group may grow with the tasks of an open run."""
    growers = from_ranges(step.tasks_of)
    runs = [*news_of_runs(connection, head.id, head.uid), *run_sights(connection, head.id, head.uid, growers)]
    begins, ends = unnoted(connection, head.id)
    return {
        "begins": tuple(begins),
        "ends": tuple(ends),
        "runs": tuple({seen.number: seen for seen in runs}.values()),
        "tasks": tuple(task_sights(connection, head.id, head.uid, growers)),
    }
