"""Doors that change members: cancel, retry, approve and hold."""

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from crawler_lifecycle.base.limits import LARGEST_RESULT
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.flow_schema import flow_attempts, flow_members, flow_results
from crawler_lifecycle.database.manager_schema import managers
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.transactions import transaction
from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.model.records import Decision
from crawler_lifecycle.flows.model.requests import ApproveMember, CancelMembers, HoldFlow, RetryMembers
from crawler_lifecycle.flows.model.values import to_text
from crawler_lifecycle.flows.ports.ledger import DoorAnswer
from crawler_lifecycle.flows.rules.cancelling import Effect, cancel
from crawler_lifecycle.flows.rules.deciding import approve, hold
from crawler_lifecycle.flows.rules.renewing import retry
from crawler_lifecycle.flows.rules.requesting import changed_arguments, changes_in_words, changes_of_jobs
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow
from crawler_lifecycle.flows.rules.selecting import selected
from crawler_lifecycle.flows.store.door import Door, OnDoors, uid_of
from crawler_lifecycle.flows.store.rows import flow_row, members
from crawler_lifecycle.model.flow_states import FlowIntent

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
BY_A_DECISION = 0  # a decision's result has no attempt
HOLDS = {FlowIntent.RUN: "resumed", FlowIntent.PAUSE: "paused", FlowIntent.DRAIN: "drained"}  # events
attempts = flow_attempts.c
KEEP_REASON = (
    update(flow_attempts)
    .where(
        attempts.flow == bindparam("of_flow"),
        attempts.member.in_(bindparam("numbers", expanding=True)),
        attempts.ended_at.is_(None),
    )
    .values(stop_reason=bindparam("note"))
)


class FlowRequests(OnDoors):
    """The methods in `flows.ports.FlowDoors` that change members."""

    @transaction
    def cancel(self, tx: Connection, flow: str, request: CancelMembers) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        effect = cancel(door.ledger, request.paths, door.at, terminate=request.terminate)
        keep_reason(door, effect, request.reason)
        return _applied(door, effect, "cancelled", _with_note(counted(effect.count, "job"), request.reason))

    @transaction
    def retry(self, tx: Connection, flow: str, request: RetryMembers) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        effect = retry(door.ledger, request, door.at)
        changes = _write_arguments(door, effect, request) if request.changes_arguments else {}
        message = counted(effect.count, "job") + changes_of_jobs(changes)
        return _applied(door, effect, "retried", message)

    @transaction
    def approve(self, tx: Connection, flow: str, request: ApproveMember) -> DoorAnswer:
        door = self.open_by_id(tx, flow, request)
        effect = approve(door.ledger, request.path, approved=request.approved)
        for row in effect.members:
            _write_decision(door, row, request)
        event = "approved" if request.approved else "rejected"
        return _applied(door, effect, event, _with_note(repr(request.path), request.note))

    @transaction
    def hold(self, tx: Connection, flow: str, request: HoldFlow) -> DoorAnswer:
        head = self.lock(tx, uid_of(tx, flow))
        door = Door(tx, head, Ledger(flow_row(head)), self._db.clock(), request)
        intent = FlowIntent(request.hold)
        effect = hold(door.ledger, intent)
        if intent is FlowIntent.RUN and tx.execute(CLEAR_PROBLEMS, {"of_flow": head.id}).rowcount:
            door.log("cleared", "crawl managers continue after a failure")
            if effect.flow is None:
                return door.answer(1)
        if effect.flow is not None and door.ledger.flow.intent is FlowIntent.DRAIN:
            tx.execute(TELL_MANAGERS, {"of_flow": head.id})
        return _applied(door, effect, HOLDS[intent], f"by a hold {request.hold!r}")


def _applied(door: Door, effect: Effect, event: str, message: str) -> DoorAnswer:
    """Write the effect with its line in the timeline, unless the request changes nothing."""
    has_effect = bool(effect.members or effect.flow)
    if has_effect:
        door.apply(effect)
        door.log(event, message)
    return door.answer(effect.count, changed=has_effect, left_out=effect.left_out)


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
    """Write the decision as the approval's result. A later decision replaces an earlier decision."""
    decision = Decision(approved=request.approved, actor=request.actor, note=request.note, at=door.at)
    value = to_text("decision", decision, LARGEST_RESULT)
    key = {"flow": door.head.id, "member": row.number, "generation": row.generation}
    door.tx.execute(delete(flow_results).filter_by(**key))
    result = {**key, "attempt": BY_A_DECISION, "value": value, "size": len(value)}
    door.tx.execute(insert(flow_results), result)


def keep_reason(door: Door, effect: Effect, reason: str | None) -> None:
    """Keep the reason with the attempts under way for the cancelled members."""
    under_way = [row.number for row in effect.members if row.in_flight] if reason else []
    for numbers in pages(under_way):
        door.tx.execute(KEEP_REASON, {"of_flow": door.head.id, "numbers": list(numbers), "note": reason})
