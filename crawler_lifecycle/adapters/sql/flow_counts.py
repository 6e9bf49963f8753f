"""Counts of members by state for lists of flows. The end of a run counts before the supervisor notes the end."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, and_, func, select, union

from crawler_lifecycle.adapters.sql.flow_reading import effective_rows, read_members
from crawler_lifecycle.adapters.sql.flow_schema import flow_attempts, flow_members, flows
from crawler_lifecycle.adapters.sql.flow_sights import HAS_NEWS, IS_LAST_ATTEMPT
from crawler_lifecycle.adapters.sql.schema import histories
from crawler_lifecycle.contract.flows.states import MemberState
from crawler_lifecycle.domain.flows.rows import MemberKind

members, attempts, runs = flow_members.c, flow_attempts.c, histories.c


def member_counts(connection: Connection, uids: Mapping[int, str]) -> dict[int, Counter[MemberState]]:
    """Return the counts by flow. `uids`: the flows' uids by their primary keys."""
    counts: dict[int, Counter[MemberState]] = {flow: Counter() for flow in uids}
    query = select(members.flow, members.state, func.count()).where(members.flow.in_(uids))
    for flow, state, count in connection.execute(query.group_by(members.flow, members.state)):
        counts[flow][state] = count
    for flow, numbers in _with_news(connection, uids).items():
        rows = read_members(connection, flow, numbers)
        for number, row in effective_rows(connection, flow, uids[flow], rows).items():
            counts[flow][rows[number].state] -= 1
            counts[flow][row.state] += 1
    return counts


def _with_news(connection: Connection, uids: Mapping[int, str]) -> dict[int, list[int]]:
    """Return the crawls by flow whose row may be older than their run, or than their refused start."""
    is_its_run = and_(
        runs.flow_uid == flows.c.uid, runs.flow_member == members.number, runs.flow_attempt == members.attempt
    )
    crawls = select(members.flow, members.number).join_from(flow_members, flows, flows.c.id == members.flow)
    crawls = crawls.where(members.flow.in_(uids), members.kind == MemberKind.CRAWL)
    ended = crawls.join(histories, is_its_run).where(HAS_NEWS)
    refused = crawls.join(flow_attempts, IS_LAST_ATTEMPT).where(members.in_flight, attempts.ended_at.is_not(None))
    numbers: dict[int, list[int]] = {}
    for flow, number in connection.execute(union(ended, refused)) if uids else ():
        numbers.setdefault(flow, []).append(number)
    return numbers
