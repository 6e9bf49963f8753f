"""Recorded starts of crawls with the requests for their runs, refused starts, stops, and crawls without runs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, exists, insert, or_, select

from crawler_lifecycle.base.ranges import from_ranges_by_value
from crawler_lifecycle.database.flow_schema import attempt_ends, flow_attempts, flow_members
from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES, reading, transaction
from crawler_lifecycle.flows.model.definition import CrawlWork
from crawler_lifecycle.flows.ports.ledger import CrawlStart, CrawlStarts, CrawlToStop
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, FlowRef, StartCrawls
from crawler_lifecycle.flows.rules.requesting import run_request
from crawler_lifecycle.flows.rules.rows import targets_of
from crawler_lifecycle.flows.store.locks import OnFlows, fence, has_lost_acts, number_act
from crawler_lifecycle.flows.store.reading import IS_LAST_END, are_on_record, ends_of
from crawler_lifecycle.flows.store.rows import NEEDS, groups, members
from crawler_lifecycle.flows.store.starts import (
    Work,
    fits,
    may_start,
    put_on_record,
    read_attempts,
    read_work,
)
from crawler_lifecycle.flows.store.writing import end_values
from crawler_lifecycle.model.flow_states import GroupGrowth, MemberKind, Ready
from crawler_lifecycle.model.naming import crawl_workflow_id
from crawler_lifecycle.model.requests import FlowLink

attempts = flow_attempts.c
runs = histories.c
STEPS_UNDER_WAY = select(members.number, members.stop_reason).where(
    members.flow == bindparam("of_flow"), members.kind == MemberKind.STEP, members.in_flight
)
IS_LAST_ATTEMPT = and_(
    attempts.flow == members.flow, attempts.member == members.number, attempts.attempt == members.attempt
)
of_item = manager_attempts.c
CRAWLS_OF_MANAGERS = (
    select(of_item.manager, of_item.member, of_item.attempt, of_item.run_id)
    .where(
        of_item.flow == bindparam("of_flow"),
        of_item.manager.in_(bindparam("numbers", expanding=True)),
        of_item.reacted_at.is_(None),
        of_item.ended_at.is_(None),
    )
    .order_by(of_item.member)
)
THIS_ATTEMPT = (
    attempts.flow == bindparam("of_flow"),
    attempts.member == bindparam("of_member"),
    attempts.attempt == bindparam("of_attempt"),
)
ATTEMPT_LOCKED = select(attempts.attempt).where(*THIS_ATTEMPT).with_for_update()
RUN_OF_ATTEMPT = select(histories.c.id).where(
    histories.c.flow_uid == bindparam("of_uid"),
    histories.c.flow_member == bindparam("of_member"),
    histories.c.flow_attempt == bindparam("of_attempt"),
)
NEEDS_OF_TASKS = select(members.needs).where(members.flow == bindparam("of_flow"), members.needs.contains('"task":'))
GROWERS_BY_TASKS = select(groups.grower).where(
    groups.flow == bindparam("of_flow"), groups.growth == GroupGrowth.TASKS, groups.grower.is_not(None)
)


class CrawlStops(OnFlows):
    """The methods in `flows.ports.ledger.FlowLedger` for attempts to stop."""

    @transaction
    def crawls_to_stop(self, tx: Connection, flow: FlowRef, numbers: Collection[int]) -> list[CrawlToStop]:
        head = self.lock_for_supervisor(tx, flow)
        under_way = _under_way(head).where(or_(runs.id.is_(None), runs.status.in_(OPEN_STATUSES)))
        wanted = set(numbers)
        crawls = [_to_stop(row) for row in tx.execute(under_way) if row.number in wanted]
        steps = (row for row in tx.execute(STEPS_UNDER_WAY, {"of_flow": head.id}) if row.number in wanted)
        reasons = {row.number: row.stop_reason for row in steps}
        return crawls + (_crawls_of_managers(tx, head, reasons) if reasons else [])

    @reading
    def unlinked_crawls(self, connection: Connection, flow: FlowRef, before: datetime) -> list[CrawlToStop]:
        head = self.head(connection, flow.uid)
        fence(head, flow)
        is_unlinked = (runs.id.is_(None), attempts.created_at < before)
        return [_to_stop(row) for row in connection.execute(_under_way(head).where(*is_unlinked))]


class FlowCrawls(CrawlStops):
    """The methods in `flows.ports.ledger.FlowLedger` for the starts of crawls."""

    @transaction
    def start_crawls(self, tx: Connection, step: StartCrawls) -> CrawlStarts:
        head = self.lock_for_supervisor(tx, step.flow)
        works = read_work(tx, head.id, head.uid, [start.number for start in step.starts])
        known = read_attempts(tx, head.id, step.starts)
        ends = ends_of(tx, head.id, known.keys())
        new = [start for start in step.starts if (start.number, start.attempt) not in known]
        is_due = bool(new) and may_start(head, step.door)
        has_lost = has_lost_acts(head, step.flow) or (
            is_due and not are_on_record(tx, head.id, head.uid, from_ranges_by_value(step.reads))
        )
        fitting = [
            (start, works[start.number])
            for start in new
            if is_due and not has_lost and start.number in works and fits(works[start.number].row, start)
        ]
        begun = put_on_record(tx, head, fitting, self._db.clock())
        changes = {(item.start.number, item.start.attempt): (item.arguments, item.memory_factor) for item in begun}
        changes |= {key: (row.arguments, row.memory_factor) for key, row in known.items() if key not in ends}
        tells = _crawls_with_tasks(tx, head.id)
        crawls = [
            _crawl_start(head, start, works[start.number], changes[start.number, start.attempt], tells)
            for start in step.starts
            if (start.number, start.attempt) in changes and start.number in works
        ]
        stale = [start.number for start in new if (start.number, start.attempt) not in changes]
        is_on_record = bool(begun or known) and not has_lost
        version = number_act(tx, head, step.flow) if is_on_record else 0
        return CrawlStarts(crawls, stale, list(ends.values()), version, has_lost)

    @transaction
    def end_attempts(
        self, tx: Connection, flow: FlowRef, ends: Sequence[AttemptEnd], messages: Mapping[int, str]
    ) -> list[AttemptEnd]:
        """Write the ends of attempts without a run. The members follow with the supervisor's next write."""
        head = self.lock_for_supervisor(tx, flow)
        written: list[AttemptEnd] = []
        for end in sorted(ends, key=lambda end: end.number):
            key = {"of_flow": head.id, "of_uid": head.uid, "of_member": end.number, "of_attempt": end.attempt}
            tx.execute(ATTEMPT_LOCKED, key)  # a run in the making waits, or is recorded before the next statement
            if tx.scalar(RUN_OF_ATTEMPT, key) is not None:
                continue
            written.append(end)
            if not ends_of(tx, head.id, {(end.number, end.attempt)}):
                tx.execute(insert(attempt_ends), end_values(head.id, end) | {"error": messages.get(end.number)})
        return written


def _under_way(head: Row[Any]) -> Select[Any]:
    """Return the statement for the flow's crawls under way, by member, with their runs."""
    is_its_run = and_(
        runs.flow_uid == head.uid, runs.flow_member == attempts.member, runs.flow_attempt == attempts.attempt
    )
    return (
        select(
            members.number,
            attempts.attempt,
            attempts.workflow_id,
            members.stop_reason,
            runs.id.label("run_id"),
        )
        .join_from(flow_members, flow_attempts, IS_LAST_ATTEMPT)
        .join(histories, is_its_run, isouter=True)
        .where(members.flow == head.id, members.in_flight, ~exists().where(IS_LAST_END))
        .order_by(members.number)
    )


def _crawls_of_managers(tx: Connection, head: Row[Any], steps: Mapping[int, str | None]) -> list[CrawlToStop]:
    """Return the crawls under way of the managers among the steps. `steps`: reasons for their stops by number."""
    rows = tx.execute(CRAWLS_OF_MANAGERS, {"of_flow": head.id, "numbers": sorted(steps)})
    return [
        CrawlToStop(
            row.member,
            row.attempt,
            crawl_workflow_id(head.uid, row.member, row.attempt),
            row.run_id,
            steps[row.manager],
        )
        for row in rows
    ]


def _to_stop(row: Row[Any]) -> CrawlToStop:
    return CrawlToStop(row.number, row.attempt, row.workflow_id, row.run_id, row.stop_reason)


def _crawl_start(
    head: Row[Any], start: AttemptRef, work: Work, changes: tuple[Any, float | None], tells: set[int]
) -> CrawlStart:
    """Return the start. `changes`: the attempt's arguments and memory factor in place of the definition's, or None."""
    assert isinstance(work.definition.work, CrawlWork)
    link = FlowLink(
        flow_uid=head.uid,
        flow_id=head.flow_id,
        member=start.number,
        path=work.row.path,
        generation=start.generation,
        attempt=start.attempt,
        tells_tasks=start.number in tells,
        waits_for_archive=work.row.ready is Ready.ARCHIVED,
    )
    arguments, memory_factor = changes
    priority = work.definition.priority
    request = run_request(work.definition.work, arguments, link, memory_factor, priority=priority)
    return CrawlStart(start, crawl_workflow_id(head.uid, start.number, start.attempt), request)


def _crawls_with_tasks(tx: Connection, flow: int) -> set[int]:
    """Return the crawls whose single tasks have dependents, or steps of their own."""
    numbers = set(tx.scalars(GROWERS_BY_TASKS, {"of_flow": flow}))
    for text in tx.scalars(NEEDS_OF_TASKS, {"of_flow": flow}):
        numbers.update(target.number for target in targets_of(NEEDS.validate_json(text)) if target.task is not None)
    return numbers
