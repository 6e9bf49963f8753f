"""Requests by people for a manager's items, and readings of the items."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, Row, Select, insert, select, update

from crawler_lifecycle.adapters.sql.flow_door import Door, OnDoors, uid_of
from crawler_lifecycle.adapters.sql.flow_rows import members
from crawler_lifecycle.adapters.sql.flow_schema import flow_appends
from crawler_lifecycle.adapters.sql.manager_life import beginning, counts_of
from crawler_lifecycle.adapters.sql.manager_lists import IS_LAST_ATTEMPT
from crawler_lifecycle.adapters.sql.manager_locks import LOCK, READ, Managed
from crawler_lifecycle.adapters.sql.manager_rows import ADDED, DELAYED
from crawler_lifecycle.adapters.sql.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.adapters.sql.transactions import reading, transaction
from crawler_lifecycle.contract.flows.definition import MemberDefinition
from crawler_lifecycle.contract.flows.requests import RetryMembers
from crawler_lifecycle.contract.flows.work import CallForm, StepWork
from crawler_lifecycle.contract.managers.items import ItemState, Origin
from crawler_lifecycle.contract.managers.records import ItemRecord
from crawler_lifecycle.contract.managers.requests import AddItems, CancelItems, ItemsRequest, RetryItems
from crawler_lifecycle.contract.managers.turns import Counts
from crawler_lifecycle.domain.flows.renewing import retry
from crawler_lifecycle.domain.managers.renewing import renewed
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.ports import DoorAnswer

items, attempts = manager_items.c, manager_attempts.c
SETTLED = {ItemState.FAILED: "failed", ItemState.CANCELLED: "cancelled", ItemState.REFUSED: "refused"}  # columns
FORM = f'"form":"{CallForm.MANAGER}"'
RECORDS = (
    select(manager_items, attempts.outcome, attempts.run_id, attempts.began_at, attempts.ended_at)
    .join_from(manager_items, manager_attempts, IS_LAST_ATTEMPT, isouter=True)
    .order_by(items.number)
)


class SqlManagerDoors(OnDoors):
    """The requests in `ports.ManagerDoors`."""

    @transaction
    def add_items(self, tx: Connection, flow: str, request: AddItems) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        mine = _managed(door, request)
        key = {"flow": door.head.id, "key": request.key}
        if tx.scalar(select(flow_appends.c.key).filter_by(**key)) is not None:
            return door.answer(0, changed=False)
        if door.ledger.members[mine.row.manager].state.is_final or mine.row.closed_at is not None:
            raise Conflict(f"the manager of flow {flow!r} has ended: retry its items, or start another flow")
        tx.execute(insert(flow_appends), {**key, "made_at": door.at})
        mine.add([item.model_copy(update={"origin": Origin.ADDED}) for item in request.items])
        return _written(door, mine, "items added", len(request.items))

    @transaction
    def retry_items(self, tx: Connection, flow: str, request: RetryItems) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        mine = _managed(door, request)
        wanted = [ItemState.FAILED] if request.numbers is None else [*SETTLED, ItemState.WAITING]
        rows = [row for row in _locked(mine, request.numbers, wanted) if row.request is not None]
        for row in rows:
            if row.state in SETTLED:
                mine.count(SETTLED[row.state], -1)
            _write(mine, row.number, _again(row, request.arguments))
        if rows:
            _reopen(door, mine)
        return _written(door, mine, "items retried", len(rows))

    @transaction
    def cancel_items(self, tx: Connection, flow: str, request: CancelItems) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        mine = _managed(door, request)
        rows = _locked(mine, request.numbers, [ItemState.WAITING])
        for row in rows:
            _write(mine, row.number, {"state": ItemState.CANCELLED, "due": None})
        mine.count("cancelled", len(rows))
        return _written(door, mine, "items cancelled", len(rows))

    @reading
    def items(
        self,
        connection: Connection,
        flow: str,
        *,
        manager: str | None = None,
        states: Collection[ItemState] = (),
        outcome: str | None = None,
        after: int = 0,
        limit: int,
    ) -> list[ItemRecord]:
        number = self.number(connection, uid_of(connection, flow))
        of_manager = _member(connection, number, manager).number
        query = RECORDS.where(items.flow == number, items.manager == of_manager, items.number > after)
        if states:
            query = query.where(items.state.in_(list(states)))
        if outcome is not None:
            query = query.where(attempts.outcome == outcome)
        return [_record(row) for row in connection.execute(query.limit(limit))]

    @reading
    def item_counts(self, connection: Connection, flow: str, manager: str | None = None) -> Counts:
        number = self.number(connection, uid_of(connection, flow))
        key = {"of_flow": number, "of_manager": _member(connection, number, manager).number}
        row = connection.execute(READ, key).one_or_none()
        return Counts() if row is None else counts_of(connection, row, self._db.clock())

    @reading
    def runs_under_way(self, connection: Connection, flow: str) -> list[int]:
        number = self.number(connection, uid_of(connection, flow))
        query = select(attempts.run_id).where(attempts.flow == number, attempts.run_id.is_not(None))
        return list(connection.scalars(query.where(attempts.reacted_at.is_(None), attempts.ended_at.is_(None))))


def _managed(door: Door, request: ItemsRequest) -> Managed:
    """Lock the manager. A manager that has not begun gets its row."""
    number = _member(door.tx, door.head.id, request.manager).number
    key = {"of_flow": door.head.id, "of_manager": number}
    row = door.tx.execute(LOCK, key).one_or_none()
    if row is None:
        unbegun = {"attempt": 0, "token": "", "child": "", **beginning(door.at), "incarnation": 0}
        door.tx.execute(insert(managers), {"flow": door.head.id, "manager": number, **unbegun})
        row = door.tx.execute(LOCK, key).one()
    return Managed(door.tx, row, door.head.uid, door.at, door.head)


def _member(connection: Connection, flow: int, path: str | None) -> Row[Any]:
    """Return the member with the manager; raise BadInput without such a member."""
    query: Select[Any] = select(members.number, members.path, members.definition).where(members.flow == flow)
    query = query.where(members.definition.contains(FORM))  # a large flow has few managers
    chosen = [row for row in connection.execute(query) if row.path == path or (path is None and _is_manager(row))]
    if len(chosen) != 1 or not _is_manager(chosen[0]):
        expected = "the flow has no crawl manager" if not chosen else "name one of the flow's crawl managers"
        raise BadInput("manager", expected)
    return chosen[0]


def _is_manager(row: Row[Any]) -> bool:
    work = MemberDefinition.model_validate_json(row.definition).work
    return isinstance(work, StepWork) and work.form is CallForm.MANAGER


def _locked(mine: Managed, numbers: Collection[int] | None, states: Collection[ItemState]) -> list[Row[Any]]:
    """Lock and return the items with these states, by number. None: of all numbers."""
    query = select(manager_items).filter_by(**mine.key).where(items.state.in_(list(states))).order_by(items.number)
    if numbers is not None:
        query = query.where(items.number.in_(sorted(numbers)))
    return list(mine.tx.execute(query.with_for_update()))


def _write(mine: Managed, number: int, values: Mapping[str, Any]) -> None:
    mine.tx.execute(update(manager_items).filter_by(**mine.key, number=number).values(**values))


def _again(row: Row[Any], arguments: Mapping[str, JsonValue] | None) -> dict[str, Any]:
    override, request = renewed(row.override, row.request, arguments)
    return {
        "state": ItemState.WAITING,
        "place": ADDED,
        "due": None,
        "problem": None,
        "generation": row.generation + 1,
        "tries": 0,
        "override": override,
        "request": request,
    }


def _reopen(door: Door, mine: Managed) -> None:
    """Let a manager that has ended go on, in a further attempt of its member."""
    row = door.ledger.members[mine.row.manager]
    if row.state.is_final:
        door.apply(retry(door.ledger, RetryMembers(paths=(row.path,), completed=True), door.at))


def _written(door: Door, mine: Managed, event: str, count: int) -> DoorAnswer:
    if count:
        mine.count("items_door")
        mine.save()
        door.log(event, counted(count, "item"))
    return door.answer(count, changed=bool(count))


def _record(row: Row[Any]) -> ItemRecord:
    return ItemRecord(
        number=row.number,
        state=row.state,
        origin=row.origin,
        is_delayed=row.place == DELAYED and row.state is ItemState.WAITING,
        due=row.due,
        crawler=None if row.request is None else row.request.crawler,
        override=row.override,
        generation=row.generation,
        attempt=row.attempt,
        tries=row.tries,
        problem=row.problem,
        outcome=row.outcome,
        run_id=row.run_id,
        started_at=row.began_at,
        ended_at=row.ended_at,
    )
