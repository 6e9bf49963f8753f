"""Attempts to stop, and crawls without a run."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, or_, select, update

from crawler_lifecycle.database.flow_schema import flow_attempts, flow_members
from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES, reading, transaction
from crawler_lifecycle.flows.ports.ledger import CrawlToStop
from crawler_lifecycle.flows.rules.messages import FlowRef
from crawler_lifecycle.flows.store.locks import OnFlows, fence
from crawler_lifecycle.flows.store.sights import IS_LAST_ATTEMPT
from crawler_lifecycle.model.flow_states import MemberKind
from crawler_lifecycle.model.naming import crawl_workflow_id

members, attempts, runs = flow_members.c, flow_attempts.c, histories.c
KEY = [attempts.flow, attempts.member, attempts.attempt]

ASK_STOPS = PagedStatement(
    KEY, lambda new: update(flow_attempts).where(attempts.attempt == new.attempt).values(stop_asked=True)
)
of_item = manager_attempts.c
CRAWLS_OF_MANAGERS = (
    select(of_item.manager, of_item.member, of_item.attempt, of_item.run_id)
    .where(
        of_item.flow == bindparam("of_flow"),
        of_item.manager.in_(bindparam("numbers", expanding=True)),
        of_item.reacted_at.is_(None),
        of_item.ended_at.is_(None),
    )
    .order_by(of_item.member)
)


class CrawlStops(OnFlows):
    """The methods in `flows.ports.FlowLedger` for attempts to stop."""

    @transaction
    def crawls_to_stop(self, tx: Connection, flow: FlowRef, numbers: Collection[int]) -> list[CrawlToStop]:
        head = self.lock_for_supervisor(tx, flow)
        under_way = _under_way(head).where(or_(runs.id.is_(None), runs.status.in_(OPEN_STATUSES)))
        wanted = set(numbers)
        rows = [row for row in tx.execute(under_way) if row.number in wanted]
        for page in pages(rows):
            ASK_STOPS(tx, [(head.id, row.number, row.attempt) for row in page])
        steps = {row.number: row.stop_reason for row in rows if row.kind is MemberKind.STEP}
        crawls = [_to_stop(row) for row in rows if row.kind is MemberKind.CRAWL]
        return crawls + (_crawls_of_managers(tx, head, steps) if steps else [])

    @reading
    def unlinked_crawls(self, connection: Connection, flow: FlowRef, before: datetime) -> list[CrawlToStop]:
        head = self.head(connection, flow.uid)
        fence(head, flow)
        is_unlinked = (members.kind == MemberKind.CRAWL, runs.id.is_(None), attempts.created_at < before)
        return [_to_stop(row) for row in connection.execute(_under_way(head).where(*is_unlinked))]


def _under_way(head: Row[Any]) -> Select[Any]:
    """Return the statement for the flow's attempts under way, by member, with their runs."""
    is_its_run = and_(
        runs.flow_uid == head.uid, runs.flow_member == attempts.member, runs.flow_attempt == attempts.attempt
    )
    return (
        select(
            members.number,
            members.kind,
            attempts.attempt,
            attempts.workflow_id,
            attempts.stop_reason,
            runs.id.label("run_id"),
        )
        .join_from(flow_members, flow_attempts, IS_LAST_ATTEMPT)
        .join(histories, is_its_run, isouter=True)
        .where(members.flow == head.id, members.in_flight, attempts.ended_at.is_(None))
        .order_by(members.number)
    )


def _crawls_of_managers(tx: Connection, head: Row[Any], steps: Mapping[int, str | None]) -> list[CrawlToStop]:
    """Return the crawls under way of the managers among the steps. `steps`: reasons for their stops by number."""
    rows = tx.execute(CRAWLS_OF_MANAGERS, {"of_flow": head.id, "numbers": sorted(steps)})
    return [
        CrawlToStop(
            row.member,
            row.attempt,
            crawl_workflow_id(head.uid, row.member, row.attempt),
            row.run_id,
            steps[row.manager],
        )
        for row in rows
    ]


def _to_stop(row: Row[Any]) -> CrawlToStop:
    return CrawlToStop(row.number, row.attempt, row.workflow_id, row.run_id, row.stop_reason)
