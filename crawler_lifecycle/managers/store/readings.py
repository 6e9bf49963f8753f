"""Readings for people: the items of crawl managers."""

from typing import Any

from sqlalchemy import Connection, Row, select

from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.database.transactions import reading
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.model.item_filter import ALL_ITEMS, ItemFilter
from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, OutputLine
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM, Counts
from crawler_lifecycle.flows.rules.manager_renewing import changed_arguments
from crawler_lifecycle.flows.store.door import uid_of
from crawler_lifecycle.managers.store.late_ends import has_state, shown_state
from crawler_lifecycle.managers.store.life import counts_of
from crawler_lifecycle.managers.store.lists import IS_LAST_ATTEMPT
from crawler_lifecycle.managers.store.locks import READ
from crawler_lifecycle.managers.store.rows import DELAYED, NOT_STARTED, NOT_TRIED_AGAIN
from crawler_lifecycle.managers.store.statuses import ManagerStatuses, member_of
from crawler_lifecycle.model.manager_items import ItemState, Verdict

items, attempts = manager_items.c, manager_attempts.c
ROWS_FOR_A_FILTER = 1000
RECORDS = (
    select(
        manager_items,
        *(attempts.outcome, attempts.run_id, attempts.began_at, attempts.ended_at),
        *(attempts.is_failed, attempts.reacted_at),
        attempts.request.label("last_request"),
    )
    .join_from(manager_items, manager_attempts, IS_LAST_ATTEMPT, isouter=True)
    .order_by(items.number)
)


class ManagerReadings(ManagerStatuses):
    """The readings of items in `flows.ports.ManagerDoors`."""

    @reading
    def items(
        self, connection: Connection, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int
    ) -> list[ItemRecord]:
        flow_number = self.number(connection, uid_of(connection, flow))
        of_manager = member_of(connection, flow_number, chosen.manager).number
        query = RECORDS.where(items.flow == flow_number, items.manager == of_manager)
        closed_at = select(managers.c.closed_at).filter_by(flow=flow_number, manager=of_manager)
        is_closed = connection.scalar(closed_at) is not None
        if chosen.states:
            query = query.where(has_state(chosen.states, is_closed=is_closed))
        if chosen.outcome is not None:
            query = query.where(attempts.outcome == chosen.outcome)
        if chosen.numbers is not None:
            query = query.where(items.number.in_(chosen.numbers))
        records: list[ItemRecord] = []
        while len(records) < limit:
            size = limit if chosen.tag is None else ROWS_FOR_A_FILTER
            rows = connection.execute(query.where(items.number > after).limit(size)).all()
            shown = [row for row in rows if chosen.tag is None or _has(row, chosen.tag)]
            records += [_record(row, shown_state(row, is_closed=is_closed)) for row in shown]
            if len(rows) < size:
                break
            after = rows[-1].number
        return records[:limit]

    @reading
    def item_attempts(
        self, connection: Connection, flow: str, number: int, manager: str | None = None
    ) -> list[ItemAttempt]:
        flow_number = self.number(connection, uid_of(connection, flow))
        key = {"flow": flow_number, "manager": member_of(connection, flow_number, manager).number, "number": number}
        if connection.scalar(select(items.number).filter_by(**key)) is None:
            raise NotFound(f"the manager has no item {number}")
        rows = connection.execute(select(manager_attempts).filter_by(**key).order_by(attempts.attempt)).all()
        return [_attempt(row, before) for row, before in zip(rows, [None, *rows], strict=False)]

    @reading
    def output(self, connection: Connection, flow: str, manager: str | None = None) -> list[OutputLine]:
        number = self.number(connection, uid_of(connection, flow))
        key = {"flow": number, "manager": member_of(connection, number, manager).number}
        lines = connection.execute(select(managers.c.output).filter_by(**key)).scalar_one_or_none()
        return [OutputLine.model_validate(line) for line in lines or ()]

    @reading
    def item_counts(self, connection: Connection, flow: str, manager: str | None = None) -> Counts:
        number = self.number(connection, uid_of(connection, flow))
        key = {"of_flow": number, "of_manager": member_of(connection, number, manager).number}
        row = connection.execute(READ, key).one_or_none()
        return Counts() if row is None else counts_of(connection, row, self._db.clock())

    @reading
    def runs_under_way(self, connection: Connection, flow: str) -> list[int]:
        number = self.number(connection, uid_of(connection, flow))
        query = select(attempts.run_id).where(attempts.flow == number, attempts.run_id.is_not(None))
        return list(connection.scalars(query.where(attempts.reacted_at.is_(None), attempts.ended_at.is_(None))))


def _has(row: Row[Any], tag: str) -> bool:
    """Return whether the item's last request has the tag or the label."""
    request = row.last_request or row.request
    return request is not None and tag in (*request.tags, *request.labels)


def _attempt(row: Row[Any], before: Row[Any] | None) -> ItemAttempt:
    """Return the attempt. `before`: the attempt before."""
    return ItemAttempt(
        number=row.number,
        attempt=row.attempt,
        generation=row.generation,
        crawler=row.request.crawler,
        run_id=row.run_id,
        outcome=row.outcome,
        is_failed=None if row.verdict is None else row.verdict is Verdict.BAD,
        started_at=row.began_at,
        ended_at=row.ended_at,
        changed={} if before is None else changed_arguments(before.request.arguments, row.request.arguments),
    )


def _record(row: Row[Any], state: ItemState) -> ItemRecord:
    last = row.request and (row.last_request or row.request)
    next_or_last = row.request if state is ItemState.WAITING else last
    return ItemRecord(
        number=row.number,
        state=state,
        origin=row.origin,
        is_delayed=row.place == DELAYED and row.state is ItemState.WAITING,
        due=row.due,
        crawler=None if row.request is None else row.request.crawler,
        override=row.override,
        arguments=next_or_last and next_or_last.arguments,
        tags=last.tags if last else (),
        labels=last.labels if last else (),
        generation=row.generation,
        attempt=row.attempt,
        tries=row.tries,
        problem=NOT_TRIED_AGAIN if row.attempt and row.problem == NOT_STARTED else row.problem,
        is_filtered=row.problem == FILTERED_PROBLEM,
        outcome=row.outcome,
        run_id=row.run_id,
        started_at=row.began_at,
        ended_at=row.ended_at,
    )
