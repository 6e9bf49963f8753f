"""Reads a flow's members: the whole flow, a part, numbers by state, and changes since a time."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeVarTuple

from sqlalchemy import Connection, Row, Select, and_, case, exists, func, or_, select

from crawler_lifecycle.database.flow_schema import flow_attempts, flow_members, flows, step_leases
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import reading
from crawler_lifecycle.flows.model.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.ports.records import FlowNews, KeptFlow, Part
from crawler_lifecycle.flows.rules.explanation import with_silent_host
from crawler_lifecycle.flows.rules.rows import ancestors
from crawler_lifecycle.flows.rules.tallies import Tallies
from crawler_lifecycle.flows.rules.words import START_REFUSED
from crawler_lifecycle.flows.store.counts import flow_tallies, with_news
from crawler_lifecycle.flows.store.door import uid_of
from crawler_lifecycle.flows.store.locks import OnFlows, snapshot
from crawler_lifecycle.flows.store.reading import read_groups, read_ledger
from crawler_lifecycle.flows.store.rows import flow_row, groups, members, path_uid
from crawler_lifecycle.flows.store.sights import IS_LAST_ATTEMPT
from crawler_lifecycle.model.flow_states import MemberKind, MemberState

Columns = TypeVarTuple("Columns")
DEFINITIONS = select(members.number, members.definition, members.arguments)
LAST_RUNS = (
    select(members.number, histories.c.id)
    .join_from(
        flow_members,
        histories,
        (histories.c.flow_member == members.number) & (histories.c.flow_attempt == members.attempt),
    )
    .order_by(members.number)
)
# a retry begins another generation; the start in the member's row is its first start of all
RESTARTS = (
    select(members.number, func.min(flow_attempts.c.created_at))
    .join_from(
        flow_members,
        flow_attempts,
        (flow_attempts.c.flow == members.flow)
        & (flow_attempts.c.member == members.number)
        & (flow_attempts.c.generation == members.generation),
    )
    .where(members.generation > 1)
    .group_by(members.number)
)

WAS_REFUSED = and_(members.reason == START_REFUSED, flow_attempts.c.error.is_not(None))
IS_STEP_UNDER_WAY = and_(
    members.in_flight,
    members.state == MemberState.EXECUTING,
    members.kind == MemberKind.STEP,
    flow_attempts.c.ended_at.is_(None),
)


class FlowParts(OnFlows):
    """The methods in `flows.ports.FlowRecords` for a flow's members."""

    @snapshot
    def kept(self, connection: Connection, flow: str, part: Part | None = None, *, defined: bool = True) -> KeptFlow:
        head = self._head(connection, flow)
        numbers = None if part is None else _numbers(connection, head, part)
        of_groups = select(groups.number, groups.definition).where(groups.flow == head.id)
        of_members = DEFINITIONS.where(members.flow == head.id)
        definitions = _of_members(connection, of_members, numbers) if defined else []
        restarts = _of_members(connection, RESTARTS.where(members.flow == head.id), numbers) if defined else []
        last_runs = LAST_RUNS.where(members.flow == head.id, histories.c.flow_uid == head.uid)
        ledger = read_ledger(connection, head, numbers)
        troubles = _of_members(connection, _troubles(head.id, self._db.clock()), numbers)
        ledger.put(with_silent_host(ledger.members[number]) for number, problem in troubles if problem is None)
        return KeptFlow(
            uid=head.uid,
            ledger=ledger,
            created_at=head.created_at,
            updated_at=head.updated_at,
            context=connection.scalar(select(flows.c.context).where(flows.c.id == head.id)),
            definitions={number: MemberDefinition.model_validate_json(text) for number, text, _ in definitions},
            groups={
                number: GroupDefinition.model_validate_json(text) for number, text in connection.execute(of_groups)
            },
            attempts=dict(_of_members(connection, last_runs, numbers)),
            restarts=dict(restarts),
            problems={number: problem for number, problem in troubles if problem is not None},
            has_supervisor=head.supervisor_run_id is not None,
            arguments={number: arguments for number, _, arguments in definitions if arguments is not None},
        )

    @snapshot
    def tallies(self, connection: Connection, flow: str) -> Tallies:
        return flow_tallies(connection, self._head(connection, flow))

    @snapshot
    def news(self, connection: Connection, flow: str, since: datetime | None) -> FlowNews:
        head = self._head(connection, flow)
        query = select(members.number, members.changed_at).where(members.flow == head.id)
        changed = connection.execute(query if since is None else query.where(members.changed_at >= since))
        by_runs = with_news(connection, {head.id: head.uid}).get(head.id, ())
        return FlowNews(head.uid, flow_row(head), head.door, head.removal, dict(iter(changed)), by_runs)

    @reading
    def numbers(self, connection: Connection, flow: str, paths: Collection[str]) -> Mapping[str, int]:
        head, uids = self._head(connection, flow), {path_uid(path): path for path in paths}
        query = select(members.path_uid, members.number).where(members.flow == head.id)
        answers = (connection.execute(query.where(members.path_uid.in_(page))) for page in pages(list(uids)))
        return {uids[uid]: number for rows in answers for uid, number in rows}

    def _head(self, connection: Connection, flow: str) -> Row[Any]:
        return self.head(connection, uid_of(connection, flow))


def _troubles(flow: int, now: datetime) -> Select[int, str | None]:
    """Select refused crawls with their problem, and without a text the steps whose claim ran out or was released."""
    has_lease = exists().where(step_leases.c.token == flow_attempts.c.claim_token, step_leases.c.expires_at >= now)
    is_silent = and_(IS_STEP_UNDER_WAY, ~has_lease)
    return (
        select(members.number, case((WAS_REFUSED, flow_attempts.c.error)))
        .join_from(flow_members, flow_attempts, IS_LAST_ATTEMPT)
        .where(members.flow == flow, or_(WAS_REFUSED, is_silent))
    )


def _of_members(
    connection: Connection, query: Select[*Columns], numbers: Collection[int] | None
) -> list[Row[*Columns]]:
    """Return the query's rows for the members with the numbers; for all members without numbers."""
    if numbers is None:
        return list(connection.execute(query))
    answers = (connection.execute(query.where(members.number.in_(page))) for page in pages(sorted(numbers)))
    return [row for rows in answers for row in rows]


def _numbers(connection: Connection, head: Row[Any], part: Part) -> set[int]:
    """Return the numbers for the part's members."""
    numbers = {*part.numbers, *with_news(connection, {head.id: head.uid}).get(head.id, ())}
    of_flow = select(members.number).where(members.flow == head.id)
    if part.states:
        numbers.update(connection.scalars(of_flow.where(members.state.in_(part.states))))
    if part.in_flight:
        numbers.update(connection.scalars(of_flow.where(members.in_flight)))
    for page in pages([path_uid(path) for path in part.paths]):
        numbers.update(connection.scalars(of_flow.where(members.path_uid.in_(page))))
    of_groups = _groups_at(connection, head.id, {*part.paths}) if part.paths else []
    for inside in pages(of_groups):
        numbers.update(connection.scalars(of_flow.where(members.group_number.in_(inside))))
    return numbers


def _groups_at(connection: Connection, flow: int, paths: set[str]) -> list[int]:
    """Return the numbers of the groups with the paths, and of all groups inside."""
    rows = read_groups(connection, flow)
    return [number for number in rows if any(rows[around].path in paths for around in ancestors(rows, number))]
