"""Doors that add members: push, append and graft; and the pruning of ended flows."""

from collections.abc import Collection
from datetime import datetime
from uuid import uuid4

from sqlalchemy import Connection, delete, insert, select, update

from crawler_lifecycle.base.limits import LARGEST_CONTEXT
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.flow_schema import (
    flow_appends,
    flow_attempts,
    flow_ends,
    flow_groups,
    flow_logs,
    flow_members,
    flow_results,
    flows,
)
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, manager_keys, managers
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import Conflict, NotFound
from crawler_lifecycle.flows.model.requests import AppendMembers, GraftMembers, PushFlow
from crawler_lifecycle.flows.model.values import check_encoded
from crawler_lifecycle.flows.ports.ledger import DoorAnswer
from crawler_lifecycle.flows.rules import merging
from crawler_lifecycle.flows.rules.merging import Merged
from crawler_lifecycle.flows.rules.requesting import check_crawl
from crawler_lifecycle.flows.store.door import Door, OnDoors, find_uid
from crawler_lifecycle.flows.store.requests import FlowRequests
from crawler_lifecycle.flows.store.rows import FLOW_FIELDS
from crawler_lifecycle.flows.store.sights import has_run_to_read

# members first: an end of a step locks its member before the end writes a result
WITH_FLOW = (
    *(flow_members, flow_attempts, flow_results, flow_groups, flow_appends, flow_ends, flow_logs),
    *(managers, manager_items, manager_attempts, manager_keys),
)


class FlowAdditions(OnDoors):
    """The methods in `flows.ports.FlowDoors` that add members."""

    def push(self, request: PushFlow) -> DoorAnswer:
        definition = request.definition
        for member in definition.members:
            check_crawl(member)
        new = None
        if self._find(definition.id) is None:  # a new flow is computed before SQLite's only write lock is taken
            new = merging.push(merging.new_ledger(definition, request.own_host), definition, self._db.clock())
        try:
            return self._push(request, new)
        except Conflict:  # another push may have inserted the flow at the same moment
            return self._push(request, new)

    @reading
    def _find(self, connection: Connection, flow_id: str) -> str | None:
        return find_uid(connection, flow_id)

    @transaction
    def _push(self, tx: Connection, request: PushFlow, new: Merged | None) -> DoorAnswer:
        """Push the definition. `new`: the rows for a new flow."""
        definition = request.definition
        known = find_uid(tx, definition.id)
        door = self.open(tx, known or self._insert(tx, request), request)
        merged = new if known is None and new else merging.push(door.ledger, definition, door.at)
        family = door.head.family or definition.family
        if not merged.is_empty or family != door.head.family:
            door.merge(merged, family=family)
            door.log("pushed", f"added or changed {counted(len(merged.members), 'job')}")
        return door.answer(len(merged.members), created=known is None, changed=not merged.is_empty)

    def _insert(self, tx: Connection, request: PushFlow) -> str:
        """Insert the flow's row, without members. Return the flow's uid."""
        definition, now, uid = request.definition, self._db.clock(), str(uuid4())
        row = merging.new_ledger(definition, request.own_host).flow
        values = {
            **{name: getattr(row, name) for name in FLOW_FIELDS},
            "uid": uid,
            "flow_id": definition.id,
            "family": definition.family,
            "context": definition.context,
            "last_member": -1,
            "last_group": 0,
            "door": 0,
            "removal": 0,
            "epoch": 0,
            "writes": 0,
            "starts": 0,
            "created_by": request.actor,
            "created_at": now,
            "updated_at": now,
        }
        tx.execute(insert(flows), values)
        return uid

    @transaction
    def append(self, tx: Connection, flow: str, request: AppendMembers) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        same_key = select(flow_appends.c.key).where(
            flow_appends.c.flow == door.head.id, flow_appends.c.key == request.key
        )
        door.ledger.keys.update(tx.scalars(same_key))
        merged = _checked(merging.append(door.ledger, request, door.at))
        if merged.key is not None:
            door.merge(merged)
            door.log("appended", f"added {counted(len(merged.members), 'job')} under the key {request.key!r}")
        return door.answer(len(merged.members), changed=merged.key is not None)

    @transaction
    def graft(self, tx: Connection, flow_uid: str, request: GraftMembers) -> DoorAnswer:
        check_encoded("context", request.context, LARGEST_CONTEXT)
        door = self.open(tx, flow_uid, request)
        merged = _checked(merging.graft(door.ledger, request, door.at))
        _write_context(door, request)
        if not merged.is_empty:
            door.merge(merged)
            door.log("grafted", f"{request.grafter!r} added {counted(len(merged.members), 'job')}")
        return door.answer(len(merged.members), changed=not merged.is_empty)


def _checked(merged: Merged) -> Merged:
    """Return the rows; raise BadInput for a crawl whose run would be refused."""
    for _, definition in merged.members:
        check_crawl(definition)
    return merged


def _write_context(door: Door, request: GraftMembers) -> None:
    """Write the graft's context. The supervisor does not read contexts, so the row gets no new door."""
    group = door.ledger.paths_of_groups()[request.grafter]
    this_group = (flow_groups.c.flow == door.head.id, flow_groups.c.number == group)
    door.tx.execute(update(flow_groups).where(*this_group).values(context=request.context or None))


class SqlFlowDoors(FlowAdditions, FlowRequests):
    """Requests for flows. The base classes add and change members; this class deletes flows. Runs stay."""

    def prune(self, flow_uids: Collection[str], ended_before: datetime | None = None) -> int:
        return sum(self._prune(uid, ended_before) for uid in flow_uids)

    @transaction
    def _prune(self, tx: Connection, flow_uid: str, ended_before: datetime | None) -> bool:
        """Delete the flow if it has ended, and no run was reopened since. Return whether the flow was deleted."""
        try:
            head = self.lock(tx, flow_uid)
        except NotFound:
            return False
        if ended_before is not None and (head.stopped_at is None or head.stopped_at >= ended_before):
            return False  # the flow has ended again since
        if not head.state.is_final or has_run_to_read(tx, head.id, head.uid):
            return False
        for table in WITH_FLOW:
            tx.execute(delete(table).where(table.c.flow == head.id))
        tx.execute(delete(flows).where(flows.c.id == head.id))
        return True
