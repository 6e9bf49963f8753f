"""Requests by people for a manager's items."""

from dataclasses import replace

from sqlalchemy import Connection, insert, select, update

from crawler_lifecycle.database.flow_schema import flow_appends
from crawler_lifecycle.database.manager_schema import manager_items
from crawler_lifecycle.database.transactions import transaction
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows.model.item_requests import AddItems, CancelItems
from crawler_lifecycle.flows.ports.ledger import DoorAnswer
from crawler_lifecycle.managers.store.left_out import AFTER_CANCEL, left_out
from crawler_lifecycle.managers.store.retries import ManagerRetries
from crawler_lifecycle.managers.store.rows import NOT_STARTED
from crawler_lifecycle.managers.store.selecting import IS_NOT_FILTERED, chosen, managed_by, refuse_unknown, written
from crawler_lifecycle.model.manager_items import ItemState, Origin

items = manager_items.c


class SqlManagerDoors(ManagerRetries):
    """The requests in `flows.ports.ManagerDoors`."""

    @transaction
    def add_items(self, tx: Connection, flow: str, request: AddItems) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        mine = managed_by(door, request)
        key = {"flow": door.head.id, "key": request.key}
        if tx.scalar(select(flow_appends.c.key).filter_by(**key)) is not None:
            return door.answer(0, changed=False)
        if door.ledger.members[mine.row.manager].state.is_final or mine.row.closed_at is not None:
            raise Conflict(f"the manager of flow {flow!r} has ended: retry its items, or start another flow")
        tx.execute(insert(flow_appends), {**key, "made_at": door.at})
        mine.add([item.model_copy(update={"origin": Origin.ADDED}) for item in request.items])
        return written(door, mine, "items added", len(request.items), len(request.items))

    @transaction
    def cancel_items(self, tx: Connection, flow: str, request: CancelItems) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        mine = managed_by(door, request)
        refuse_unknown(mine, request.numbers)
        unchanged = left_out(mine, request.numbers, AFTER_CANCEL)
        # items cancelled by a close come first: the statements below cancel further items
        kept = chosen(update(manager_items), mine, request.numbers, [ItemState.CANCELLED])
        count: int = tx.execute(kept.where(items.problem == NOT_STARTED).values(problem=None)).rowcount
        waiting = chosen(update(manager_items), mine, request.numbers, [ItemState.WAITING])
        new: int = tx.execute(waiting.values(state=ItemState.CANCELLED, due=None)).rowcount
        if request.numbers is not None:
            refused = chosen(update(manager_items), mine, request.numbers, [ItemState.REFUSED]).where(IS_NOT_FILTERED)
            dismissed: int = tx.execute(refused.values(state=ItemState.CANCELLED)).rowcount
            mine.count("refused", -dismissed)
            new += dismissed
        mine.count("cancelled", new)
        count += new
        return replace(written(door, mine, "items cancelled", count, count), left_out=unchanged)
