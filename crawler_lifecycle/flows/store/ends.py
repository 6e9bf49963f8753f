"""Flows' ends: an end is written with the flow's final state, and stays owed until its announcement."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, case, func, insert, select, update

from crawler_lifecycle.database.flow_schema import flow_ends, flow_members, flows
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.ports.ledger import Delivery, OwedEnd, UnannouncedFlow
from crawler_lifecycle.flows.store.locks import OnFlows, add_line
from crawler_lifecycle.flows.store.rows import members
from crawler_lifecycle.model.flow_announcements import MOST_FAILURES, FlowEnd, FlowFailure
from crawler_lifecycle.model.flow_states import FAILED, FlowState, MemberState

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


def insert_end(tx: Connection, head: Row[Any], state: FlowState, now: datetime) -> None:
    """Write the end as owed. The caller holds the lock on the flow's row, and has written the members."""
    last = tx.scalar(select(func.max(ends.number)).where(ends.flow == head.id)) or 0
    content = _content(tx, head, state, now, last + 1)
    owed = {column.name: True for column in (*OWED.values(), ends.is_owed)}
    tx.execute(insert(flow_ends), {"flow": head.id, "number": last + 1, "content": content, "ended_at": now, **owed})


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


class SqlFlowEnds(OnFlows):
    """Announcements of flows' ends on record."""

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
        still = {kind for kind, column in OWED.items() if row._mapping[column.name] and kind not in settled}
        problem = "; ".join(f"{kind} of end {end}: {message}" for kind, message in problems.items()) or None
        values = {column.name: kind in still for kind, column in OWED.items()}
        tx.execute(update(flow_ends).where(*this_end).values(is_owed=bool(still), problem=problem, **values))
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
