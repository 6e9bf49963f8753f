"""Chosen items of a manager: candidates from indexes, and the page of items among them.

As for runs, a page follows the index whose first MOST_READ items reach furthest, and reads only these, however many
items are stored. A page may be short although further items fit: the next page continues there.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, select

from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.database.pages import first_numbers
from crawler_lifecycle.flows.model.manager_records import ItemRecord
from crawler_lifecycle.flows.model.requests import ItemFilter
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM
from crawler_lifecycle.flows.ports.ledger import FoundItems
from crawler_lifecycle.managers.store.ends import has_state, shown_state
from crawler_lifecycle.managers.store.lists import IS_LAST_ATTEMPT
from crawler_lifecycle.managers.store.rows import ADDED, DELAYED, GENERATED, NOT_STARTED, NOT_TRIED_AGAIN
from crawler_lifecycle.model.manager_items import ItemState

items, attempts = manager_items.c, manager_attempts.c
MOST_READ = 800  # candidates from an index; for a list with a thousand numbers, MariaDB makes a temporary table
PLACES = (DELAYED, ADDED, GENERATED)
RECORDS = (
    select(
        manager_items,
        *(attempts.outcome, attempts.run_id, attempts.began_at, attempts.ended_at),
        *(attempts.is_failed, attempts.reacted_at),
        attempts.request.label("last_request"),
    )
    .join_from(manager_items, manager_attempts, IS_LAST_ATTEMPT, isouter=True)
    .with_hint(manager_items, "FORCE INDEX (PRIMARY)", "mysql")
    .order_by(items.number)
)
Numbers = Select[Any]


class ItemChoice:
    def __init__(self, connection: Connection, flow: int, manager: int, chosen: ItemFilter, *, is_closed: bool) -> None:
        self._connection = connection
        self._key = {"flow": flow, "manager": manager}
        self._chosen = chosen
        self._is_closed = is_closed

    def page(self, after: int, limit: int) -> FoundItems:
        """Return the first items after the number."""
        chosen, is_closed = self._chosen, self._is_closed
        numbers, rest = self._candidates(after)
        query = RECORDS.where(items.flow == self._key["flow"], items.manager == self._key["manager"])
        query = query.where(items.number.in_(numbers))
        if chosen.states:
            query = query.where(has_state(chosen.states, is_closed=is_closed))
        if chosen.outcome is not None:
            query = query.where(attempts.outcome == chosen.outcome)
        if chosen.tag is None:
            query = query.limit(limit + 1)
        rows = [row for row in self._connection.execute(query) if chosen.tag is None or _has(row, chosen.tag)]
        if len(rows) > limit:
            rest = rows[limit - 1].number
        return FoundItems([_record(row, shown_state(row, is_closed=is_closed)) for row in rows[:limit]], rest)

    def _candidates(self, after: int) -> tuple[Collection[int], int | None]:
        """Return the numbers of all items that may fit, up to the last number; no last number: these are all."""
        if self._chosen.numbers is not None:
            named = sorted({number for number in self._chosen.numbers if number > after})
            return named[:MOST_READ], named[MOST_READ - 1] if len(named) > MOST_READ else None
        candidates, rest = self._first(self._all, after)
        for statements in self._ways():
            if rest is not None:
                others, end = self._first(statements, after)
                if end is None or end > rest:
                    candidates, rest = others, end
        return candidates, rest

    def _first(self, statements: Sequence[Numbers], after: int) -> tuple[Collection[int], int | None]:
        later = [statement.where(statement.selected_columns[0] > after) for statement in statements]
        return first_numbers(self._connection, later, MOST_READ)

    @property
    def _all(self) -> Sequence[Numbers]:
        return [self._by("PRIMARY", manager_items)]

    def _ways(self) -> Iterator[Sequence[Numbers]]:
        """Yield the statements for every filter with an index."""
        if self._chosen.states:
            # in a closed manager, the end of a late item's run decides on the state
            states = {*self._chosen.states, *([ItemState.RUNNING] if self._is_closed else [])}
            of_state = self._by("ix_manager_items_state", manager_items)
            yield [of_state.filter_by(state=state, place=place) for state in states for place in PLACES]
        if self._chosen.outcome is not None:
            of_attempts = self._by("ix_manager_attempts_outcome", manager_attempts)
            yield [of_attempts.where(attempts.outcome == self._chosen.outcome)]

    def _by(self, index: str, table: Table) -> Numbers:
        """Return the statement for the manager's numbers, which the index has in order."""
        return select(table.c.number).with_hint(table, f"FORCE INDEX ({index})", "mysql").filter_by(**self._key)


def _has(row: Row[Any], tag: str) -> bool:
    """Return whether the item's last request has the tag or the label."""
    request = row.last_request or row.request
    return request is not None and tag in (*request.tags, *request.labels)


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
