"""Readings for people: crawl managers with their numbers, their items, and the sums for lists of flows."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, select

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import REFUSED_AS_FAILED, manager_attempts, manager_items, managers
from crawler_lifecycle.database.transactions import reading
from crawler_lifecycle.errors import BadInput, NotFound
from crawler_lifecycle.flows.model.definition import CallForm, MemberDefinition, StepWork
from crawler_lifecycle.flows.model.manager_records import (
    ItemAttempt,
    ItemRecord,
    ItemSums,
    ManagerProblem,
    ManagerStatus,
    OutputLine,
)
from crawler_lifecycle.flows.model.requests import ALL_ITEMS, ItemFilter
from crawler_lifecycle.flows.model.turns import BREAKERS, HELD, OURS
from crawler_lifecycle.flows.ports.ledger import FoundItems
from crawler_lifecycle.flows.store.door import OnDoors, uid_of
from crawler_lifecycle.flows.store.rows import members
from crawler_lifecycle.managers.store.ends import ends_in_flows
from crawler_lifecycle.managers.store.finding import ItemChoice
from crawler_lifecycle.managers.store.life import counts_of
from crawler_lifecycle.managers.store.locks import COLUMNS, OF_MANAGER, THIS_MANAGER
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.manager_items import ItemState, Verdict
from crawler_lifecycle.model.outcome_words import FINISHED

items, attempts = manager_items.c, manager_attempts.c
FORM = f'"form":"{CallForm.MANAGER}"'
OF_A_MANAGER: Select[Any] = (
    select(members.number, members.path, members.definition, members.state, members.attempt)
    .where(members.definition.contains(FORM))  # a large flow has few managers
    .order_by(members.number)
)
STATE = select(managers.c.state).where(*THIS_MANAGER)
NEXT_ATTEMPT = select(func.min(items.due)).where(
    *OF_MANAGER, items.state == ItemState.WAITING, items.due > bindparam("now")
)
SUMMED = ("last_item", "completed", "failed", "cancelled", "refused", "repeated")
SUMS = (
    select(
        flows.c.uid,
        *(func.sum(managers.c[name]) for name in SUMMED),
        func.sum(REFUSED_AS_FAILED),
        func.count(managers.c.problem),
        func.min(managers.c.is_exhausted),
    )
    .join_from(managers, flows, flows.c.id == managers.c.flow)
    .group_by(flows.c.uid)
)


class ManagerStatuses(OnDoors):
    """The readings of managers in `flows.ports.ledger.ManagerDoors`."""

    @reading
    def statuses(self, connection: Connection, flow: str) -> list[ManagerStatus]:
        number = self.number(connection, uid_of(connection, flow))
        begun = {row.manager: row for row in connection.execute(select(*COLUMNS).where(managers.c.flow == number))}
        statuses = []
        for row in connection.execute(OF_A_MANAGER.where(members.flow == number)):
            if work := _work(row):
                known = begun.get(row.number)
                statuses.append(_new(row.path, work) if known is None else self._status(connection, row, work, known))
        return statuses

    @reading
    def sums(self, connection: Connection, flow_uids: Collection[str]) -> Mapping[str, ItemSums]:
        sums, ends = {}, ends_in_flows(connection, flow_uids)
        for uid, *numbers, refused, problems, is_exhausted in connection.execute(
            SUMS.where(flows.c.uid.in_(list(flow_uids)))
        ):
            total, *rest = map(int, numbers)
            named = dict(zip(SUMMED[1:], rest, strict=True))
            named["repeated"] = max(0, named["repeated"])
            for state, number in ends.get(uid, {}).items():
                named[state] += number
            named["failures"] = named["failed"] + int(refused)
            sums[uid] = ItemSums(total=total, has_problem=bool(problems), is_exhausted=bool(is_exhausted), **named)
        return sums

    def _status(self, connection: Connection, member: Row[Any], work: StepWork, row: Row[Any]) -> ManagerStatus:
        now = self._db.clock()
        counts = counts_of(connection, row, now)
        key = {"of_flow": row.flow, "of_manager": row.manager}
        state = connection.scalar(STATE, key) if counts.delayed else None
        next_attempt_at = connection.scalar(NEXT_ATTEMPT, {**key, "now": now}) if counts.retrying else None
        return _new(member.path, work).model_copy(
            update={
                "counts": counts,
                "stats": row.stats,
                "tags": tuple(row.tags),
                "incarnation": row.incarnation,
                "read": row.read_sets,
                "is_exhausted": row.is_exhausted,
                "failures": counts.failed + (0 if row.close_reason == FINISHED else counts.refused),
                "problem": row.problem and ManagerProblem.model_validate(row.problem.model_dump()),
                "held": _held(state or {}, now),
                "next_attempt_at": next_attempt_at,
                "first_began_at": row.first_began_at if row.incarnation else None,
                **_close(member, row),
            }
        )


def member_of(connection: Connection, flow: int, path: str | None) -> Row[Any]:
    """Return the member with the manager; raise BadInput without such a member."""
    managers_there = [row for row in connection.execute(OF_A_MANAGER.where(members.flow == flow)) if _work(row)]
    if not managers_there:
        raise BadInput("flow", "the flow has no crawl manager")
    chosen = [row for row in managers_there if path in (None, row.path)]
    if len(chosen) != 1:
        raise BadInput("manager", "name one of the flow's crawl managers")
    return chosen[0]


class ManagerReadings(ManagerStatuses):
    """The readings of items in `flows.ports.ledger.ManagerDoors`."""

    @reading
    def search_items(
        self, connection: Connection, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int
    ) -> FoundItems:
        return self._choice(connection, flow, chosen).page(after, limit)

    @reading
    def items(
        self, connection: Connection, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int
    ) -> list[ItemRecord]:
        choice = self._choice(connection, flow, chosen)
        records: list[ItemRecord] = []
        rest: int | None = after
        while rest is not None and len(records) < limit:
            page = choice.page(rest, limit - len(records))
            records += page.items
            rest = page.rest
        return records

    def _choice(self, connection: Connection, flow: str, chosen: ItemFilter) -> ItemChoice:
        flow_number = self.number(connection, uid_of(connection, flow))
        of_manager = member_of(connection, flow_number, chosen.manager).number
        closed_at = connection.scalar(select(managers.c.closed_at).filter_by(flow=flow_number, manager=of_manager))
        return ItemChoice(connection, flow_number, of_manager, chosen, is_closed=closed_at is not None)

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
    def runs_under_way(self, connection: Connection, flow: str) -> list[int]:
        number = self.number(connection, uid_of(connection, flow))
        query = select(attempts.run_id).where(attempts.flow == number, attempts.run_id.is_not(None))
        return list(connection.scalars(query.where(attempts.reacted_at.is_(None), attempts.ended_at.is_(None))))


def _work(row: Row[Any]) -> StepWork | None:
    """Return the manager's work; None for another member, whose text only resembles a manager's."""
    work = MemberDefinition.model_validate_json(row.definition).work
    return work if isinstance(work, StepWork) and work.is_manager else None


def _new(path: str, work: StepWork) -> ManagerStatus:
    """Return the manager before its first beginning."""
    arguments = tuple(map(str, work.arguments)) if isinstance(work.arguments, list) else ()
    return ManagerStatus(path=path, function=work.function, arguments=arguments)


def _close(member: Row[Any], row: Row[Any]) -> dict[str, Any]:
    """Return the close. A retry of the member makes the close void, and the next beginning removes the close."""
    is_under_way = member.state is MemberState.EXECUTING and member.attempt == row.attempt
    holds = member.state.is_final or is_under_way or member.attempt < row.attempt  # a begin that is not noted yet
    if row.closed_at is not None and not holds:
        return {}
    return {"close_reason": row.close_reason, "closed_at": row.closed_at}


def _held(state: Mapping[str, Any], now: datetime) -> dict[str, datetime]:
    """Return the ends of the breakers' pauses by key, from the manager's state."""
    held: Mapping[str, Any] = state.get(OURS, {}).get(BREAKERS, {}).get(HELD, {})
    pauses = {key: datetime.fromtimestamp(until, UTC) for until, key in sorted(held.values())}
    return {key: until for key, until in sorted(pauses.items()) if until > now}


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
        changed={} if before is None else _changes(before.request.arguments, row.request.arguments),
    )


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the arguments with other values than before. None: the argument is gone."""
    gone = dict.fromkeys(before.keys() - after.keys())
    return {**{name: value for name, value in after.items() if before.get(name) != value}, **gone}
