"""Attempts of a manager's items: their starts, their ends with the manager's reaction, and lists.

A judgement is stored with the item's next state, and with all effects.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, and_, bindparam, insert, or_, select, update

from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.flows.model.turns import SCHEDULED, ManagerIntent, Reaction, Start
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.flows.store.locks import IN_ORDER, SHARED, locking
from crawler_lifecycle.managers.ports import ManagerRef, ManagerStart, ManagerStarts, Setbacks
from crawler_lifecycle.managers.store.life import MEMBER, intent_of
from crawler_lifecycle.managers.store.locks import OF_ATTEMPTS, OF_MANAGER, Managed, OnManagers
from crawler_lifecycle.managers.store.rows import ADDED, JOB_COLUMNS, WITH_RUNS, job_of, place_of_job
from crawler_lifecycle.model.manager_items import ItemState, Job, Verdict
from crawler_lifecycle.model.requests import FlowLink, RunRequest

T = TypeVar("T", bound=Hashable)
items, attempts = manager_items.c, manager_attempts.c
NUMBERS: Any = bindparam("numbers", expanding=True)
THESE_ATTEMPTS = (
    attempts.flow == bindparam("of_flow"),
    attempts.manager == bindparam("of_manager"),
    attempts.number.in_(NUMBERS),
)
STATES_LOCKED: Select[Any] = locking(
    select(items.number, items.state, items.attempt).where(*OF_MANAGER, items.number.in_(NUMBERS)), manager_items
)
ENDED_LOCKED = locking(
    select(attempts.number, attempts.attempt, attempts.ended_at, attempts.reacted_at.is_not(None)).where(
        *THESE_ATTEMPTS, attempts.ended_at.is_not(None)
    ),
    manager_attempts,
)
JUDGE = (
    update(manager_attempts)
    .with_hint(IN_ORDER, dialect_name="mysql")
    .where(*THESE_ATTEMPTS, attempts.attempt == bindparam("of_attempt"))
)
SETTLE = update(manager_items).with_hint(IN_ORDER, dialect_name="mysql").where(*OF_MANAGER, items.number.in_(NUMBERS))
RETRY = (
    update(manager_items)
    .where(*OF_MANAGER, items.number == bindparam("of_number"))
    .values(
        state=ItemState.WAITING,
        place=ADDED,
        due=bindparam("new_due"),
        override=bindparam("new_override"),
        request=bindparam("new_request"),
    )
)
SETTLED = {Verdict.OK: (ItemState.COMPLETED, "completed"), Verdict.BAD: (ItemState.FAILED, "failed")}
THIS_ITEM = (*OF_MANAGER, items.number == bindparam("of_number"))
THIS_ATTEMPT = (*OF_ATTEMPTS, attempts.number == bindparam("of_number"), attempts.attempt == bindparam("of_attempt"))
JOBS = select(*JOB_COLUMNS).select_from(WITH_RUNS).where(*OF_ATTEMPTS)
ENDED = (
    JOBS.where(attempts.reacted_at.is_(None), attempts.ended_at.is_not(None))
    .order_by(attempts.ended_at, attempts.number)
    .limit(bindparam("most"))
)
RUNNING = JOBS.where(attempts.reacted_at.is_(None), attempts.ended_at.is_(None)).order_by(attempts.number)
ITEMS_LOCKED = select(manager_items).where(*OF_MANAGER, items.number.in_(NUMBERS)).with_for_update()
OPEN_ATTEMPTS = RUNNING.where(attempts.number.in_(NUMBERS))
ITEM_LOCKED: Select[Any] = select(items.state, items.attempt).where(*THIS_ITEM).with_for_update()
ATTEMPT_LOCKED = select(manager_attempts).where(*THIS_ATTEMPT).with_for_update()
BEGIN = (
    update(manager_items)
    .with_hint(IN_ORDER, dialect_name="mysql")
    .where(*OF_MANAGER, items.number.in_(NUMBERS))
    .values(state=ItemState.RUNNING, due=None, attempt=items.attempt + 1, tries=items.tries + 1)
)
WRITE_ITEM, WRITE_ATTEMPT = update(manager_items).where(*THIS_ITEM), update(manager_attempts).where(*THIS_ATTEMPT)
REFUSAL = {"is_failed": True, "verdict": Verdict.BAD}


def put_on_record(mine: Managed, reactions: Sequence[Reaction]) -> int:
    """Store the reactions, up to a reopened run's reaction. Return their number.

    A repeated reaction changes nothing.
    """
    on_record = 0
    for page in pages(reactions):
        key = {**mine.bound, "numbers": sorted({reaction.number for reaction in page})}
        # the items' locks come first: a door that cancels or retries an item waits
        rows = {row.number: row for row in mine.tx.execute(STATES_LOCKED, key)}
        ends = {tuple(end): bool(has_reaction) for *end, has_reaction in mine.tx.execute(ENDED_LOCKED, key)}
        current = list(takewhile(lambda reaction: _end_of(reaction) in ends, page))  # noqa: B023 - taken at once
        new = [reaction for reaction in _without_repeats(current) if not ends[_end_of(reaction)]]
        _judge(mine, new)
        counted = [reaction for reaction in new if is_open(rows.get(reaction.number), reaction.attempt)]
        _settle(mine, [reaction for reaction in counted if reaction.retry is None])
        _try_again(mine, counted)
        for reaction in new:
            before = mine.added
            numbers = mine.apply(reaction.effects)
            mine.count("repeated", len(numbers) - (mine.added - before))
        on_record += len(current)
        if len(current) < len(page):
            break
    return on_record


def is_open(item: Row[Any] | None, attempt: int) -> bool:
    """Return whether the attempt counts for the locked item: people may have cancelled or renewed the item."""
    return item is not None and item.state is ItemState.RUNNING and item.attempt == attempt


class ManagerJobs(OnManagers):
    """The methods in `managers.ports.ManagerLedger` for attempts."""

    @transaction
    def start(self, tx: Connection, ref: ManagerRef, starts: Sequence[Start]) -> ManagerStarts:
        mine = self.mine(tx, ref, flow=SHARED)
        assert mine.head is not None
        member = tx.execute(MEMBER, mine.bound).one()
        allowed = intent_of(mine.head.intent, member, ref.attempt) is ManagerIntent.RUN
        numbers = {"numbers": [start.number for start in starts]}
        rows = {row.number: row for row in tx.execute(ITEMS_LOCKED, {**mine.bound, **numbers})}
        known = {(row.number, row.attempt) for row in tx.execute(OPEN_ATTEMPTS, {**mine.bound, **numbers})}
        new = [
            start
            for start in starts
            if (start.number, start.attempt) not in known
            and allowed
            and _may_start(rows.get(start.number), start, mine.at)
        ]
        self._insert(mine, new, rows)
        wanted = known | {(start.number, start.attempt) for start in new}
        begun = [
            row for row in tx.execute(OPEN_ATTEMPTS, {**mine.bound, **numbers}) if (row.number, row.attempt) in wanted
        ]
        requested = {(start.number, start.attempt) for start in starts}
        return ManagerStarts(
            started=[
                start_of(mine.head, member.path, mine.row, row)
                for row in begun
                if (row.number, row.attempt) in requested
            ],
            stale=[start.number for start in starts if (start.number, start.attempt) not in wanted],
        )

    def _insert(self, mine: Managed, new: Sequence[Start], rows: Mapping[int, Row[Any]]) -> None:
        """Record new attempts. `rows`: the locked items by number."""
        values = [_attempt_values(mine, start, rows[start.number]) for start in new]
        if values:
            mine.tx.execute(insert(manager_attempts), values)
        for page in pages(new):
            mine.tx.execute(BEGIN, {**mine.bound, "numbers": [start.number for start in page]})
        if new:
            mine.add_to_stat(SCHEDULED, len(new))
            mine.save()

    @reading
    def unstarted(self, connection: Connection, ref: ManagerRef, before: datetime | None = None) -> list[ManagerStart]:
        row, head = self.fenced(connection, ref), self.head(connection, ref.flow_uid)
        key = {"of_flow": row.flow, "of_manager": row.manager}
        query = RUNNING.where(attempts.run_id.is_(None))
        if before is not None:
            query = query.where(attempts.began_at < before)
        path = connection.execute(MEMBER, key).one().path
        return [start_of(head, path, row, attempt) for attempt in connection.execute(query, key)]

    @transaction
    def refuse(self, tx: Connection, ref: ManagerRef, number: int, attempt: int, refusal: Refusal) -> None:
        mine = self.mine(tx, ref)
        refuse_attempt(mine, number, attempt, refusal)
        mine.save()

    @reading
    def ended(self, connection: Connection, ref: ManagerRef, limit: int, *, without: Collection[str] = ()) -> list[Job]:
        row = self.fenced(connection, ref)
        key = {"of_flow": row.flow, "of_manager": row.manager, "most": limit + len(without)}
        jobs = (job_of(ref.flow_uid, attempt) for attempt in connection.execute(ENDED, key))
        return [job for job in jobs if job.key not in without][:limit]

    @transaction
    def react(
        self, tx: Connection, ref: ManagerRef, reactions: Sequence[Reaction], setbacks: Setbacks | None = None
    ) -> int:
        mine = self.mine(tx, ref, [reaction.effects for reaction in reactions])
        on_record = put_on_record(mine, reactions)
        if on_record == len(reactions):
            mine.take_setbacks(setbacks)
        mine.save()
        return on_record

    @reading
    def running(self, connection: Connection, ref: ManagerRef) -> list[Job]:
        row = self.fenced(connection, ref)
        return _jobs(connection, ref.flow_uid, RUNNING, {"of_flow": row.flow, "of_manager": row.manager})

    @reading
    def find(self, connection: Connection, ref: ManagerRef, keys: Collection[str]) -> list[Job]:
        row = self.fenced(connection, ref)
        wanted = [place for place in map(place_of_job, keys) if place is not None and place[0] == ref.flow_uid]
        jobs: list[Job] = []
        for page in pages(wanted):
            these = or_(*(and_(attempts.member == place[1], attempts.attempt == place[2]) for place in page))
            query = JOBS.where(these).order_by(attempts.number, attempts.attempt)
            jobs += _jobs(connection, ref.flow_uid, query, {"of_flow": row.flow, "of_manager": row.manager})
        return jobs


def refuse_attempt(mine: Managed, number: int, attempt: int, refusal: Refusal) -> bool:
    """End an attempt without a run, and its item. Return whether the attempt had neither a run nor a reaction."""
    key = {**mine.bound, "of_number": number, "of_attempt": attempt}
    item = mine.tx.execute(ITEM_LOCKED, key).one_or_none()
    row = mine.tx.execute(ATTEMPT_LOCKED, key).one_or_none()
    if row is None:
        is_refused = item is not None and item.state is ItemState.WAITING and item.attempt == attempt - 1
    elif row.reacted_at is not None or row.run_id is not None:
        return False
    else:
        end = {**REFUSAL, "outcome": refusal.outcome, "ended_at": mine.at, "reacted_at": mine.at}
        mine.tx.execute(WRITE_ATTEMPT.values(end), key)
        mine.add_to_stat(SCHEDULED, -1)
        is_refused = is_open(item, attempt)
    if is_refused:
        mine.tx.execute(WRITE_ITEM.values(state=ItemState.REFUSED, due=None, problem=refusal.problem), key)
        mine.count("refused")
    return True


def start_of(head: Row[Any], path: str, manager: Row[Any], row: Row[Any]) -> ManagerStart:
    """Return the start. `row`: the attempt, with JOB_COLUMNS."""
    job = job_of(head.uid, row)
    link = FlowLink(
        flow_uid=head.uid,
        flow_id=head.flow_id,
        member=row.member,
        path=f"{path}/{row.number}",
        generation=row.generation,
        attempt=row.attempt,
        manager=manager.manager,
    )
    fields = job.request.model_dump(exclude_none=True)
    return ManagerStart(job, RunRequest.model_validate({**fields, "flow": link}))


def _without_repeats(page: Sequence[Reaction]) -> Iterable[Reaction]:
    return {_end_of(reaction): reaction for reaction in page}.values()


def _end_of(reaction: Reaction) -> tuple[int, int, datetime | None]:
    return reaction.number, reaction.attempt, reaction.ended_at


def _judge(mine: Managed, reactions: Sequence[Reaction]) -> None:
    """Write the verdicts into the attempts, with a statement for each verdict, own word and number of attempt."""
    groups = _grouped(((r.verdict, r.outcome, r.attempt), r.number) for r in reactions)
    for (verdict, outcome, attempt), numbers in groups.items():
        judged = JUDGE.values(reacted_at=mine.at, verdict=verdict)
        if outcome is not None:
            judged = judged.values(outcome=outcome)
        mine.tx.execute(judged, {**mine.bound, "of_attempt": attempt, "numbers": numbers})


def _settle(mine: Managed, reactions: Sequence[Reaction]) -> None:
    """End the items, and count the ends."""
    for verdict, numbers in _grouped((r.verdict, r.number) for r in reactions).items():
        state, column = SETTLED[verdict]
        mine.tx.execute(SETTLE.values(state=state, due=None), {**mine.bound, "numbers": numbers})
        mine.count(column, len(numbers))


def _try_again(mine: Managed, reactions: Sequence[Reaction]) -> None:
    """Let the items wait for their next attempts."""
    again = [
        {
            **mine.bound,
            "of_number": reaction.number,
            "new_due": mine.at + timedelta(seconds=retry.delay_seconds) if retry.delay_seconds else None,
            "new_override": retry.override,
            "new_request": retry.request,
        }
        for reaction in reactions
        if (retry := reaction.retry) is not None
    ]
    if again:
        mine.tx.execute(RETRY, again)


def _grouped(numbers: Iterable[tuple[T, int]]) -> Mapping[T, list[int]]:
    groups = defaultdict[T, list[int]](list)
    for group, number in numbers:
        groups[group].append(number)
    return groups


def _jobs(connection: Connection, flow_uid: str, query: Select[Any], key: Mapping[str, Any]) -> list[Job]:
    return [job_of(flow_uid, row) for row in connection.execute(query, key)]


def _may_start(row: Row[Any] | None, start: Start, now: datetime) -> bool:
    """Return whether the start is the item's next attempt in its generation, and the item's pause is over."""
    if row is None or row.state is not ItemState.WAITING:
        return False
    if (row.generation, row.attempt) != (start.generation, start.attempt - 1):  # people may have changed the arguments
        return False
    return row.due is None or row.due <= now


def _attempt_values(mine: Managed, start: Start, row: Row[Any]) -> dict[str, Any]:
    return {
        **mine.key,
        "number": start.number,
        "attempt": start.attempt,
        "member": row.member,
        "generation": row.generation,
        "tries": row.tries + 1,
        "override": row.override,
        "request": start.request,
        "began_at": mine.at,
        "is_failed": False,
    }
