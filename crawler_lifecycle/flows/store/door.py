"""A door: one transaction on a flow's effective rows for a request, with the writes of its outcome."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from crawler_lifecycle.database.flow_schema import flow_appends, flows
from crawler_lifecycle.database.types import is_text
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.model.records import FlowAnswer, LeftOut
from crawler_lifecycle.flows.model.requests import FlowRequest
from crawler_lifecycle.flows.rules.interventions import Effect
from crawler_lifecycle.flows.rules.merging import Merged
from crawler_lifecycle.flows.rules.rows import FlowRow, Ledger
from crawler_lifecycle.flows.store.locks import OnFlows, add_line
from crawler_lifecycle.flows.store.reading import read_ledger
from crawler_lifecycle.flows.store.rows import FLOW_FIELDS
from crawler_lifecycle.flows.store.writing import (
    delete_groups,
    delete_members,
    insert_groups,
    insert_members,
    note_begins,
    replace_groups,
    replace_members,
    write_states,
)

MOST_IN_A_HINT = 3  # flows


@dataclass(slots=True)
class Door:
    """An open door. The flow's row is locked."""

    tx: Connection
    head: Row[Any]
    ledger: Ledger
    at: datetime
    request: FlowRequest

    @property
    def number(self) -> int:
        """Number of the door, for the changed rows."""
        return int(self.head.door) + 1

    def apply(self, effect: Effect) -> None:
        """Write changed members and the flow's row."""
        write_states(self.tx, self.head.id, effect.members, self.number)
        note_begins(self.tx, self.head)
        self.write_flow(effect.flow)

    def merge(self, merged: Merged, **values: Any) -> None:
        """Write new, changed and removed members and groups, and the flow's row with the given values."""
        flow, number = self.head.id, self.number
        known_groups, known_members = self.ledger.groups, self.ledger.members
        delete_members(self.tx, flow, merged.removed_members)
        delete_groups(self.tx, flow, merged.removed_groups)
        replace_groups(self.tx, flow, [new for new in merged.groups if new[0].number in known_groups], number)
        insert_groups(self.tx, flow, [new for new in merged.groups if new[0].number not in known_groups], number)
        replace_members(self.tx, flow, [new for new in merged.members if new[0].number in known_members], number)
        insert_members(self.tx, flow, [new for new in merged.members if new[0].number not in known_members], number)
        if known_members:
            note_begins(self.tx, self.head)
        if merged.key is not None:
            self.tx.execute(insert(flow_appends), {"flow": flow, "key": merged.key, "made_at": self.at})
        if merged.removed_members or merged.removed_groups:
            values["removal"] = number
        last_member = max([self.head.last_member, *(row.number for row, _ in merged.members)])
        last_group = max([self.head.last_group, *(row.number for row, _ in merged.groups)])
        self.write_flow(merged.flow, last_member=last_member, last_group=last_group, **values)

    def write_flow(self, row: FlowRow | None = None, **values: Any) -> None:
        """Write the door's number and the given values into the flow's row."""
        if row is not None:
            values |= {name: getattr(row, name) for name in FLOW_FIELDS}
            values |= {} if row.state.is_final else {"stopped_at": None}
        this_flow = update(flows).where(flows.c.id == self.head.id)
        self.tx.execute(this_flow.values(door=self.number, updated_at=self.at, **values))

    def log(self, event: str, message: str) -> None:
        add_line(self.tx, self.head.id, self.at, event, message, actor=self.request.actor, door=self.request.door)

    def answer(
        self, count: int, *, created: bool = False, changed: bool = True, left_out: tuple[LeftOut, ...] = ()
    ) -> FlowAnswer:
        id_, uid = self.head.flow_id, self.head.uid
        return FlowAnswer(flow_id=id_, flow_uid=uid, count=count, created=created, changed=changed, left_out=left_out)


class OnDoors(OnFlows):
    """Base class for doors."""

    def open(self, tx: Connection, flow_uid: str, request: FlowRequest) -> Door:
        """Lock the flow, and read the ledger."""
        head = self.lock(tx, flow_uid)
        return Door(tx, head, read_ledger(tx, head), self._db.clock(), request)

    def open_by_id(self, tx: Connection, flow_id: str, request: FlowRequest) -> Door:
        return self.open(tx, uid_of(tx, flow_id), request)


def uid_of(connection: Connection, flow_id: str) -> str:
    """Return the flow's uid; raise NotFound without a flow with the id."""
    uid = find_uid(connection, flow_id)
    if uid is None:
        raise no_flow(connection, flow_id)
    return uid


def no_flow(connection: Connection, flow_id: str) -> NotFound:
    return NotFound(f"there is no flow {flow_id!r}{_hint(connection, flow_id)}")


def _hint(connection: Connection, family: str) -> str:
    """Return the hint for the name of a family in place of a flow's id; empty without flows in the family."""
    newest = select(flows.c.flow_id).where(is_text(flows.c.family, family)).order_by(flows.c.id.desc())
    ids = connection.scalars(newest.limit(MOST_IN_A_HINT)).all()
    return f": it is the family of {', '.join(map(repr, ids))}" if ids else ""


def find_uid(connection: Connection, flow_id: str) -> str | None:
    uid: str | None = connection.scalar(select(flows.c.uid).where(is_text(flows.c.flow_id, flow_id)))
    return uid
