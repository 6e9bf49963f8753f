"""A manager's life: its beginning, people's requests, news, effects, problems and its end."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, exists, func, insert, select, update

from crawler_lifecycle.base.names import last_name
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.flow_schema import attempt_begins, flow_members, flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import Fenced
from crawler_lifecycle.flows.model.definition import MemberDefinition, StepWork
from crawler_lifecycle.flows.model.manager_records import MOST_LINES, OutputLine
from crawler_lifecycle.flows.model.turns import GENERATOR_CHANGED, Begun, Counts, Effects, ManagerIntent
from crawler_lifecycle.flows.store.locks import LOCKED, SHARED, add_line
from crawler_lifecycle.managers.ports import ManagerNews, ManagerRef, Setbacks
from crawler_lifecycle.managers.store.ends import cancel_waiting, ends_of, settle_ends
from crawler_lifecycle.managers.store.locks import LOCK, OF_MANAGER, OnManagers
from crawler_lifecycle.managers.store.rows import DELAYED, NOT_STARTED
from crawler_lifecycle.model.flow_states import FlowIntent, MemberState
from crawler_lifecycle.model.manager_items import CodeProblem, ItemState

MOST_CHARACTERS = 20_000  # in all lines of a manager's output
members, begins, items, attempts = flow_members.c, attempt_begins.c, manager_items.c, manager_attempts.c
WISH = (
    *(members.state, members.terminate, members.generation, members.attempt_generation),
    members.attempt.label("noted_attempt"),  # older than the manager's until the supervisor notes the begin
)
MEMBER: Select[Any] = select(members.path, members.definition, *WISH).where(
    members.flow == bindparam("of_flow"), members.number == bindparam("of_manager")
)
LAST_BEGIN = (
    select(begins.token)
    .where(
        begins.flow == bindparam("of_flow"),
        begins.member == bindparam("of_manager"),
        begins.attempt == bindparam("of_attempt"),
    )
    .order_by(begins.number.desc())
    .limit(1)
)
WHOLE = select(managers).where(managers.c.flow == bindparam("of_flow"), managers.c.manager == bindparam("of_manager"))
OUTPUT = select(managers.c.output).where(
    managers.c.flow == bindparam("of_flow"), managers.c.manager == bindparam("of_manager")
)
HAS_ENDS = exists().where(
    attempts.flow == managers.c.flow,
    attempts.manager == managers.c.manager,
    attempts.reacted_at.is_(None),
    attempts.ended_at.is_not(None),
)
HAS_DUE = exists().where(
    items.flow == managers.c.flow,
    items.manager == managers.c.manager,
    items.state == ItemState.WAITING,
    items.due > bindparam("since"),
    items.due <= bindparam("now"),
)
NEWS = (
    select(
        *(flows.c.uid, managers.c.manager, managers.c.attempt, managers.c.items_door),
        *(flows.c.intent, *WISH),
        managers.c.problem.is_not(None).label("has_problem"),
        HAS_ENDS.label("has_ends"),
        HAS_DUE.label("has_due"),
    )
    .join_from(managers, flows, flows.c.id == managers.c.flow)
    .join(flow_members, and_(members.flow == managers.c.flow, members.number == managers.c.manager))
    .where(managers.c.token == bindparam("of_token"), managers.c.closed_at.is_(None))
)
COUNTS = (
    select(items.place, items.due > bindparam("now"), func.count())
    .where(*OF_MANAGER, items.state == ItemState.WAITING)
    .group_by(items.place, items.due > bindparam("now"))
)
RUNNING = select(func.count()).where(
    attempts.flow == bindparam("of_flow"), attempts.manager == bindparam("of_manager"), attempts.reacted_at.is_(None)
)
WAIT_AGAIN = update(manager_items).where(*OF_MANAGER, items.state == ItemState.CANCELLED, items.problem == NOT_STARTED)
ALONE = "manager"  # path of a manager that is the only job; in a graph, the name in the path is the manager's
HOLDS = {
    FlowIntent.RUN: ManagerIntent.RUN,
    FlowIntent.PAUSE: ManagerIntent.PAUSE,
    FlowIntent.DRAIN: ManagerIntent.DRAIN,
}


class ManagerLife(OnManagers):
    """The methods in `managers.ports.ManagerLedger` for the manager itself."""

    @transaction
    def begin(self, tx: Connection, ref: ManagerRef, child: str) -> Begun:
        head, now = self.head(tx, ref.flow_uid, SHARED), self._db.clock()
        key = {"of_flow": head.id, "of_manager": ref.member, "of_attempt": ref.attempt}
        known = tx.execute(LOCK, key).one_or_none()
        _refuse_without_begin(tx, ref, key)
        values = {"attempt": ref.attempt, "token": ref.token, "child": child}
        if known is None:
            tx.execute(insert(managers), {"flow": head.id, "manager": ref.member, **values, **beginning(now)})
        elif known.child != child:
            if not known.incarnation or (known.closed_at is not None and known.attempt != ref.attempt):
                waiting = tx.execute(WAIT_AGAIN.values(state=ItemState.WAITING, problem=None), key).rowcount
                values |= {"first_began_at": now, "close_reason": None, "closed_at": None}
                values["cancelled"] = known.cancelled - waiting
            this_manager = (managers.c.flow == head.id, managers.c.manager == ref.member)
            tx.execute(update(managers).where(*this_manager).values(incarnation=known.incarnation + 1, **values))
        row = tx.execute(WHOLE, key).one()
        if row.closed_at is None and (known is None or known.child != child):
            add_line(tx, head.id, now, "begun", _beginning_line(row.incarnation), door="manager")
        return _begun(head, tx.execute(MEMBER, key).one(), row)

    @reading
    def intent(self, connection: Connection, ref: ManagerRef) -> ManagerIntent:
        row = self.fenced(connection, ref)
        head = self.head(connection, ref.flow_uid)
        member = connection.execute(MEMBER, {"of_flow": row.flow, "of_manager": ref.member}).one()
        return intent_of(head.intent, member, ref.attempt)

    @reading
    def news(self, connection: Connection, token: str, since: datetime) -> list[ManagerNews]:
        key = {"of_token": token, "since": since, "now": self._db.clock()}
        return [
            ManagerNews(
                ref=ManagerRef(row.uid, row.manager, row.attempt, token),
                intent=intent_of(row.intent, row, row.attempt),
                has_ends=bool(row.has_ends),
                has_due=bool(row.has_due),
                items_door=row.items_door,
                has_problem=bool(row.has_problem),
            )
            for row in connection.execute(NEWS, key)
        ]

    @transaction
    def commit(
        self, tx: Connection, ref: ManagerRef, effects: Effects, call: str, setbacks: Setbacks | None = None
    ) -> list[int]:
        mine = self.mine(tx, ref, [effects])
        if mine.row.last_call == call:
            return list(mine.row.last_numbers or [])
        numbers = mine.apply(effects)
        mine.values |= {"last_call": call, "last_numbers": numbers}
        mine.take_setbacks(setbacks)
        mine.save()
        return numbers

    @reading
    def counts(self, connection: Connection, ref: ManagerRef) -> Counts:
        row = self.fenced(connection, ref)
        return counts_of(connection, row, self._db.clock())

    @transaction
    def pause(self, tx: Connection, ref: ManagerRef, problem: CodeProblem) -> None:
        mine = self.mine(tx, ref, flow=SHARED)
        if mine.row.problem == problem:
            return
        mine.values["problem"] = problem
        if problem.phase == GENERATOR_CHANGED:
            mine.values["digest"] = None  # who resumes the flow accepts the new parameter sets
        mine.line("failing", f"{problem.phase} failed {counted(problem.failures, 'time')}: {_last_line(problem.error)}")
        mine.save()

    @transaction
    def keep_output(self, tx: Connection, ref: ManagerRef, lines: Sequence[OutputLine]) -> None:
        mine = self.mine(tx, ref)
        former = tx.execute(OUTPUT, mine.bound).scalar_one() or ()
        kept = _last_lines([OutputLine.model_validate(line) for line in former], lines)
        mine.values["output"] = [line.model_dump(mode="json") for line in kept]
        mine.save()

    @reading
    def problem(self, connection: Connection, ref: ManagerRef) -> CodeProblem | None:
        problem: CodeProblem | None = self.fenced(connection, ref).problem
        return problem

    @transaction
    def close(self, tx: Connection, ref: ManagerRef, reason: str, effects: Effects, items_door: int) -> int | None:
        mine = self.mine(tx, ref, [effects], LOCKED)
        assert mine.head is not None
        if mine.row.closed_at is not None:
            return None
        member = tx.execute(MEMBER, mine.bound).one()
        intent = intent_of(mine.head.intent, member, ref.attempt)
        if intent in (ManagerIntent.RUN, ManagerIntent.PAUSE) and mine.row.items_door > items_door:
            return int(mine.row.items_door)
        mine.apply(effects)
        if not _is_renewed(member, ref.attempt):  # otherwise the next attempt has the items and the ends
            if intent is ManagerIntent.STOP:
                settle_ends(mine)
            cancel_waiting(mine)
        mine.close(reason)
        mine.save()
        return None


def intent_of(held: FlowIntent, member: Any, attempt: int) -> ManagerIntent:
    """Return people's intent for the attempt under way. `member`: a row with the columns in WISH."""
    is_cancelled = member.state is MemberState.CANCELLED and member.noted_attempt >= attempt
    if is_cancelled or _is_renewed(member, attempt):
        return ManagerIntent.STOP if member.terminate else ManagerIntent.LEAVE
    return HOLDS[held]


def _is_renewed(member: Row[Any], attempt: int) -> bool:
    """Return whether people have retried the member since a cancel. Its attempt under way keeps the cancel."""
    return bool(member.noted_attempt >= attempt and member.generation != member.attempt_generation)


def counts_of(connection: Connection, row: Row[Any], now: datetime) -> Counts:
    """Return the counts. `row`: the manager's row."""
    key = {"of_flow": row.flow, "of_manager": row.manager}
    waiting = delayed = retrying = 0
    for place, is_paused, number in connection.execute(COUNTS, {**key, "now": now}):
        if is_paused:
            retrying += number
        elif place == DELAYED:
            delayed += number
        else:
            waiting += number
    ends = ends_of(connection, row)
    return Counts(
        waiting=waiting,
        delayed=delayed,
        retrying=retrying,
        running=(connection.scalar(RUNNING, key) or 0) - sum(ends.values()),
        completed=row.completed + ends.get(ItemState.COMPLETED, 0),
        failed=row.failed + ends.get(ItemState.FAILED, 0),
        cancelled=row.cancelled + ends.get(ItemState.CANCELLED, 0),
        refused=row.refused,
        repeated=max(0, row.repeated),  # below 0 while sets of an earlier reading are still to come
    )


def _last_lines(former: Sequence[OutputLine], new: Sequence[OutputLine]) -> list[OutputLine]:
    """Return the last lines. A new line among the previous lines comes from a repeated call."""
    known = {(line.at, line.text) for line in former}
    lines = [*former, *(line for line in new if (line.at, line.text) not in known)][-MOST_LINES:]
    rest = MOST_CHARACTERS
    for place in range(len(lines) - 1, -1, -1):
        rest -= len(lines[place].text)
        if rest < 0:
            return lines[place + 1 :]
    return lines


def _refuse_without_begin(tx: Connection, ref: ManagerRef, key: dict[str, int]) -> None:
    """Raise Fenced unless the attempt's last begin has the token.

    The begin is read after the lock on the manager: a host that begins the attempt later also begins the manager later.
    """
    if tx.scalar(LAST_BEGIN, key) != ref.token:
        raise Fenced(f"another host brings manager {ref.member} of flow {ref.flow_uid} on")


def beginning(now: datetime) -> dict[str, Any]:
    """Return the further values for a new manager."""
    numbers = ("read_sets", "repeated", "last_item", "completed", "failed", "cancelled", "refused", "items_door")
    return {
        "incarnation": 1,
        "first_began_at": now,
        "tags": [],
        "stats": {},
        "is_exhausted": False,
        **dict.fromkeys(numbers, 0),
    }


def _beginning_line(incarnation: int) -> str:
    return "the manager begins" if incarnation == 1 else f"process {incarnation} has taken the manager over"


def _begun(head: Row[Any], member: Row[Any], row: Row[Any]) -> Begun:
    work = MemberDefinition.model_validate_json(member.definition).work
    arguments = work.arguments if isinstance(work, StepWork) else None
    return Begun(
        flow_uid=head.uid,
        flow_id=head.flow_id,
        name=head.name if head.name and member.path == ALONE else last_name(member.path),
        family=head.family or head.flow_id,
        arguments=tuple(map(str, arguments)) if isinstance(arguments, list) else (),
        incarnation=row.incarnation,
        first_began_at=row.first_began_at,
        tags=tuple(row.tags),
        state=row.state or {},
        setbacks=row.setbacks or {},
        cursor=row.cursor,
        read=row.read_sets,
        digest=row.digest,
        is_exhausted=row.is_exhausted,
        close_reason=row.close_reason,
        is_closed=row.closed_at is not None,
        stats=row.stats,
        items_door=row.items_door,
    )


def _last_line(error: str) -> str:
    lines = error.strip().splitlines()
    return lines[-1] if lines else "without a message"
