"""Doors that add members: push, append and graft. Doors that change members: cancel, retry, approve, hold. Pruning."""

from collections.abc import Collection
from datetime import datetime
from uuid import uuid4

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from crawler_lifecycle.base.limits import LARGEST_CONTEXT, LARGEST_RESULT
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.flow_schema import (
    attempt_begins,
    attempt_ends,
    flow_appends,
    flow_attempts,
    flow_ends,
    flow_groups,
    flow_logs,
    flow_members,
    flows,
)
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, manager_keys, managers
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import Conflict, NotFound
from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.model.records import Decision, FlowAnswer
from crawler_lifecycle.flows.model.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    ChangeFlow,
    GraftMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
)
from crawler_lifecycle.flows.model.values import check_encoded, to_text
from crawler_lifecycle.flows.rules import merging
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.interventions import Effect, approve, cancel, hold, retry, selected
from crawler_lifecycle.flows.rules.merging import Merged
from crawler_lifecycle.flows.rules.requesting import changed_arguments, changes_in_words, changes_of_jobs, check_crawl
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow
from crawler_lifecycle.flows.store.door import Door, OnDoors, find_uid, uid_of
from crawler_lifecycle.flows.store.reading import has_run_to_read
from crawler_lifecycle.flows.store.rows import FLOW_FIELDS, flow_row, members
from crawler_lifecycle.flows.store.writing import end_values
from crawler_lifecycle.model.flow_states import EndKind, FlowIntent

CLEAR_PROBLEMS = (
    update(managers)
    .where(managers.c.flow == bindparam("of_flow"), managers.c.problem.is_not(None))
    .values(problem=None)
)
# a manager about to close as drained learns of the resume, and continues
TELL_MANAGERS = (
    update(managers)
    .where(managers.c.flow == bindparam("of_flow"), managers.c.closed_at.is_(None))
    .values(items_door=managers.c.items_door + 1)
)
HOLDS = {FlowIntent.RUN: "resumed", FlowIntent.PAUSE: "paused", FlowIntent.DRAIN: "drained"}  # events
KEEP_REASON = (
    update(flow_members)
    .where(members.flow == bindparam("of_flow"), members.number.in_(bindparam("numbers", expanding=True)))
    .values(stop_reason=bindparam("note"))
)
WITH_FLOW = (
    *(flow_members, flow_attempts, attempt_begins, attempt_ends, flow_groups, flow_appends, flow_ends, flow_logs),
    *(managers, manager_items, manager_attempts, manager_keys),
)


class FlowRequests(OnDoors):
    """The method in `flows.ports.ledger.FlowDoors` that changes members."""

    @transaction
    def change(self, tx: Connection, flow: str, request: ChangeFlow) -> FlowAnswer:
        match request:
            case CancelMembers():
                return self._cancel(self.open_by_id(tx, flow, request), request)
            case RetryMembers():
                return self._retry(self.open_by_id(tx, flow, request), request)
            case ApproveMember():
                return self._approve(self.open_by_id(tx, flow, request), request)
            case HoldFlow():
                head = self.lock(tx, uid_of(tx, flow))
                return self._hold(Door(tx, head, Ledger(flow_row(head)), self._db.clock(), request), request)

    def _cancel(self, door: Door, request: CancelMembers) -> FlowAnswer:
        effect = cancel(door.ledger, request.paths, door.at, terminate=request.terminate)
        keep_reason(door, effect, request.reason)
        return _applied(door, effect, "cancelled", _with_note(counted(effect.count, "job"), request.reason))

    def _retry(self, door: Door, request: RetryMembers) -> FlowAnswer:
        effect = retry(door.ledger, request, door.at)
        if effect.changes_rows:
            door.apply(effect)  # first: it stores earlier begins' arguments, which the request changes
            changes = _write_arguments(door, effect, request) if request.changes_arguments else {}
            door.log("retried", counted(effect.count, "job") + changes_of_jobs(changes))
        return _answer(door, effect)

    def _approve(self, door: Door, request: ApproveMember) -> FlowAnswer:
        effect = approve(door.ledger, request.path, approved=request.approved)
        for row in effect.members:
            _write_decision(door, row, request)
        event = "approved" if request.approved else "rejected"
        return _applied(door, effect, event, _with_note(repr(request.path), request.note))

    def _hold(self, door: Door, request: HoldFlow) -> FlowAnswer:
        tx, head = door.tx, door.head
        intent = FlowIntent(request.hold)
        effect = hold(door.ledger, intent)
        if intent is FlowIntent.RUN and tx.execute(CLEAR_PROBLEMS, {"of_flow": head.id}).rowcount:
            door.log("cleared", "crawl managers continue after a failure")
            if effect.flow is None:
                return door.answer(1)  # problems are cleared, and the flow itself was not held
        if effect.flow is not None and door.ledger.flow.intent is FlowIntent.DRAIN:
            tx.execute(TELL_MANAGERS, {"of_flow": head.id})
        return _applied(door, effect, HOLDS[intent], f"by a hold {request.hold!r}")


def keep_reason(door: Door, effect: Effect, reason: str | None) -> None:
    """Keep the reason with the cancelled members that have an attempt under way."""
    under_way = [row.number for row in effect.members if row.in_flight]
    for numbers in pages(under_way):
        door.tx.execute(KEEP_REASON, {"of_flow": door.head.id, "numbers": list(numbers), "note": reason})


class FlowAdditions(OnDoors):
    """The methods in `flows.ports.ledger.FlowDoors` that add members."""

    def push(self, request: PushFlow) -> FlowAnswer:
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
    def _push(self, tx: Connection, request: PushFlow, new: Merged | None) -> FlowAnswer:
        """Push the definition. `new`: the rows for a new flow."""
        definition = request.definition
        known = find_uid(tx, definition.id)
        door = self.open(tx, known, request) if known else self._insert(tx, request)
        merged = new if known is None and new else merging.push(door.ledger, definition, door.at)
        family = door.head.family or definition.family
        if not merged.is_empty or family != door.head.family:
            door.merge(merged, family=family)
            door.log("pushed", f"added or changed {counted(len(merged.members), 'job')}")
        return door.answer(len(merged.members), created=known is None, changed=not merged.is_empty)

    def _insert(self, tx: Connection, request: PushFlow) -> Door:
        """Insert the flow's row, without members. Return its door."""
        definition, now, uid = request.definition, self._db.clock(), str(uuid4())
        ledger = merging.new_ledger(definition, request.own_host)
        values = {
            **{name: getattr(ledger.flow, name) for name in FLOW_FIELDS},
            "uid": uid,
            "flow_id": definition.id,
            "family": definition.family,
            "context": definition.context,
            "last_member": -1,
            "last_group": 0,
            "door": 0,
            "removal": 0,
            "epoch": 0,
            "version": 0,
            "created_by": request.actor,
            "created_at": now,
            "updated_at": now,
        }
        tx.execute(insert(flows), values)
        return Door(tx, self.lock(tx, uid), ledger, now, request)

    @transaction
    def append(self, tx: Connection, flow: str, request: AppendMembers) -> FlowAnswer:
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
    def graft(self, tx: Connection, flow_uid: str, request: GraftMembers) -> FlowAnswer:
        check_encoded("context", request.context, LARGEST_CONTEXT)
        door = self.open(tx, flow_uid, request)
        merged = _checked(merging.graft(door.ledger, request, door.at))
        _write_context(door, request)
        if not merged.is_empty:
            door.merge(merged)
            door.log("grafted", f"{request.grafter!r} added {counted(len(merged.members), 'job')}")
        return door.answer(len(merged.members), changed=not merged.is_empty)


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


def _applied(door: Door, effect: Effect, event: str, message: str) -> FlowAnswer:
    """Write the effect with its line in the timeline, unless the request changes nothing."""
    if effect.changes_rows:
        door.apply(effect)
        door.log(event, message)
    return _answer(door, effect)


def _answer(door: Door, effect: Effect) -> FlowAnswer:
    return door.answer(effect.count, changed=effect.changes_rows, left_out=effect.left_out)


def _with_note(message: str, note: str | None) -> str:
    return f"{message}: {note}" if note else message


def _write_arguments(door: Door, effect: Effect, request: RetryMembers) -> dict[str, str]:
    """Write the new arguments of the named members, and return the changes in words, by path.

    Members behind them keep their arguments.
    """
    changes: dict[str, str] = {}
    given, removed = request.arguments or {}, request.removed_arguments
    named = {row.number for row in selected(door.ledger, request.paths)}
    chosen = [row for row in effect.members if row.number in named]
    for row in chosen:
        this_member = (members.flow == door.head.id, members.number == row.number)
        text, former = door.tx.execute(select(members.definition, members.arguments).where(*this_member)).one()
        work = MemberDefinition.model_validate_json(text).work
        arguments = changed_arguments(row.path, work, former, given, removed)
        door.tx.execute(update(flow_members).where(*this_member).values(arguments=arguments))
        changes[row.path] = changes_in_words(work, former, given, removed)
    return changes


def _write_decision(door: Door, row: MemberRow, request: ApproveMember) -> None:
    """Write the decision as the approval's end. A later decision in the same generation replaces an earlier decision.

    An approval has no attempts: in its end, the generation stands for the attempt's number.
    """
    decision = Decision(approved=request.approved, actor=request.actor, note=request.note, at=door.at)
    value = to_text("decision", decision, LARGEST_RESULT)
    end = AttemptEnd(row.number, row.generation, EndKind.COMPLETED, door.at)
    this_end = {"flow": door.head.id, "member": row.number, "attempt": row.generation}
    door.tx.execute(delete(attempt_ends).filter_by(**this_end))
    door.tx.execute(insert(attempt_ends), end_values(door.head.id, end) | {"value": value, "size": len(value)})


def _checked(merged: Merged) -> Merged:
    """Return the rows; raise BadInput for a crawl whose run would be refused."""
    for _, definition in merged.members:
        check_crawl(definition)
    return merged


def _write_context(door: Door, request: GraftMembers) -> None:
    """Write the graft's context. The supervisor does not read contexts, so the row's `door` stays."""
    group = door.ledger.paths_of_groups()[request.grafter]
    this_group = (flow_groups.c.flow == door.head.id, flow_groups.c.number == group)
    door.tx.execute(update(flow_groups).where(*this_group).values(context=request.context or None))
