"""Waits of whole flows for lists: for a person's decision, or for a host of steps."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, func, or_, select

from crawler_lifecycle.adapters.sql.flow_rows import members
from crawler_lifecycle.contract.flows.states import FlowIntent, MemberState
from crawler_lifecycle.domain.flows import words
from crawler_lifecycle.domain.flows.rows import MemberKind
from crawler_lifecycle.domain.naming import host_of

IS_UNDECIDED = and_(members.kind == MemberKind.APPROVAL, members.decision.is_(None))


def flow_waits(connection: Connection, heads: Sequence[Row[Any]], now: datetime) -> dict[int, tuple[str, ...]]:
    """Return the waits by flow, such as `approval:release` or `host:my_project.flows`.

    A flow waits for a host only if no attempt is under way: otherwise a limit may hold the step back.
    """
    is_open = {row.id: row.intent for row in heads if not row.state.is_final}
    if not is_open:
        return {}
    under_way = set(
        connection.scalars(select(members.flow).where(members.flow.in_(is_open), members.in_flight).distinct())
    )
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
