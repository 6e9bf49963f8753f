"""Results of completed members, and the inputs of steps with the sources of their results.

Steps and decisions record results; results of crawls are computed from their runs.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, Row, and_, bindparam, func, select

from crawler_lifecycle.base.limits import LARGEST_READING
from crawler_lifecycle.database.flow_schema import attempt_ends, flow_members, flows
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import exports, histories
from crawler_lifecycle.errors import BadInput, NotFound
from crawler_lifecycle.flows.model.records import CrawlReceipt
from crawler_lifecycle.flows.model.values import encode
from crawler_lifecycle.flows.ports.steps import NO_READS, StepInputs
from crawler_lifecycle.flows.rules.contexts import Source, merged_context, results_of_group, sources
from crawler_lifecycle.flows.rules.rows import TOP, FlowRow, GroupRow, Ledger, MemberRow, ancestors, targets_of
from crawler_lifecycle.flows.store.locks import OnFlows, snapshot
from crawler_lifecycle.flows.store.reading import ALL_MEMBERS, NUMBERS, effective_rows, read_groups, read_members
from crawler_lifecycle.flows.store.rows import GROUP_COLUMNS, group_row, groups, member_row, members, path_uid
from crawler_lifecycle.model.flow_states import EndKind, MemberKind, MemberState
from crawler_lifecycle.model.states import ExportKind

MIB = 1024 * 1024
LARGEST_PAGE = 8 * MIB  # results for a step in a single reading
ends, runs = attempt_ends.c, histories.c
VALUES = select(ends.member, ends.attempt, ends.kind, ends.value)
SIZES = select(func.sum(ends.size)).join_from(
    flow_members,
    attempt_ends,
    and_(ends.flow == members.flow, ends.member == members.number, ends.attempt == members.attempt),
)
SIZE_OF_EACH = select(ends.member, func.max(ends.size)).group_by(ends.member)
OF_FLOW = groups.flow == bindparam("of_flow")
GROUP = select(*GROUP_COLUMNS, groups.context).where(OF_FLOW, groups.number == bindparam("of_group"))
TOP_CONTEXT = select(flows.c.context).where(flows.c.id == bindparam("of_flow"))
INSIDE = ALL_MEMBERS.where(members.group_number.in_(NUMBERS))
BY_PATH = select(members.number).where(members.flow == bindparam("of_flow"), members.path_uid == bindparam("of_path"))


def read_results(
    connection: Connection, flow: int, flow_uid: str, numbers: Collection[int], reads: Mapping[int, int] = NO_READS
) -> Mapping[int, JsonValue]:
    """Return the encoded results; members without a result are left out.

    A member in `reads` has this attempt's result, and a further member the result for its present row.
    """
    values: dict[int, JsonValue] = {}
    for page in pages(sorted(numbers)):
        rows = read_members(connection, flow, page)
        named = {number: reads[number] for number in rows if number in reads}
        present = {number: row for number, row in rows.items() if number not in named}
        recorded = [row for row in effective_rows(connection, flow, flow_uid, present).values() if _has_result(row)]
        attempts = named | {row.number: _attempt(row) for row in recorded}
        crawls = {number: attempt for number, attempt in attempts.items() if rows[number].kind is MemberKind.CRAWL}
        cancelled = {row.number for row in recorded if row.state is MemberState.CANCELLED}
        read = _receipts(connection, flow_uid, crawls) | _recorded(connection, flow, attempts, cancelled)
        if lost := named.keys() - read.keys():
            raise NotFound(f"the database has lost the result of {rows[min(lost)].path!r}, attempt {reads[min(lost)]}")
        values |= {number: value for number, value in read.items() if value is not None}
    return values


def fitting(connection: Connection, flow: int, numbers: Collection[int]) -> list[int]:
    """Return the first of the numbers whose results fit into a page; the first number in any case."""
    of_flow, sizes = SIZE_OF_EACH.where(ends.flow == flow), dict[int, int]()
    for page in pages(sorted(numbers)):
        sizes |= dict(iter(connection.execute(of_flow.where(ends.member.in_(page)))))
    first, size = list[int](), 0
    for number in numbers:
        size += sizes.get(number, 0)
        if first and size > LARGEST_PAGE:
            break
        first.append(number)
    return first


def refuse_too_many(connection: Connection, flow: int, numbers: Collection[int]) -> None:
    """Raise BadInput for results that a door's process could hardly hold in its memory."""
    of_flow = SIZES.where(members.flow == flow)
    size = sum(connection.scalar(of_flow.where(members.number.in_(page))) or 0 for page in pages(sorted(numbers)))
    if size > LARGEST_READING:
        most = LARGEST_READING // MIB
        raise BadInput(
            "job",
            f"the results have {size / MIB:.0f} MiB, and {most} MiB are read at once: name single jobs "
            "(`crawlctl flow results FLOW JOB`, over HTTP `?job=JOB`)",
        )


class StepContexts(OnFlows):
    """The methods in `flows.ports.steps.StepLedger` for the inputs of steps."""

    @snapshot
    def inputs(self, connection: Connection, flow_uid: str, number: int) -> StepInputs:
        flow = self.number(connection, flow_uid)
        row = read_members(connection, flow, [number]).get(number)
        if row is None:
            raise NotFound(f"flow {flow_uid} has no member with the number {number}")
        groups_around, contexts = _around(connection, flow, row.group)
        ledger = _ledger_around(connection, flow, row, groups_around)
        return StepInputs(merged_context(contexts, ledger, row.group), sources(ledger, row))

    @snapshot
    def results(
        self, connection: Connection, flow_uid: str, numbers: Collection[int], reads: Mapping[int, int] = NO_READS
    ) -> Mapping[int, JsonValue]:
        head = self.head(connection, flow_uid)
        first = fitting(connection, head.id, numbers)
        values = read_results(connection, head.id, flow_uid, first, reads)
        return {number: values.get(number) for number in first}

    @snapshot
    def source(self, connection: Connection, flow_uid: str, path: str) -> Source | None:
        """Return the source for a path. A graft's path selects its group."""
        head = self.head(connection, flow_uid)
        if head.last_group:
            all_groups = read_groups(connection, head.id)
            group = next((row.number for row in all_groups.values() if row.path == path), None)
            if group is not None:
                ledger = Ledger(FlowRow(head.flow_id), all_groups)
                ledger.put(_members_inside(connection, head.id, all_groups, {group}))
                return results_of_group(ledger, group)
        number: int | None = connection.scalar(BY_PATH, {"of_flow": head.id, "of_path": path_uid(path)})
        return number


def _has_result(row: MemberRow) -> bool:
    """Return whether the member may have a result: a cancelled manager has numbers, and a cancelled approval none."""
    is_cancelled_step = row.kind is MemberKind.STEP and row.state is MemberState.CANCELLED
    return is_cancelled_step or row.state is MemberState.COMPLETED


def _attempt(row: MemberRow) -> int:
    """Return the end's number."""
    return row.generation if row.kind is MemberKind.APPROVAL else row.attempt


def _recorded(
    connection: Connection, flow: int, attempts: Mapping[int, int], cancelled: Collection[int]
) -> dict[int, JsonValue]:
    """Return results by member. A cancelled function has no result if its end came too late."""
    if not attempts:
        return {}
    rows = connection.execute(VALUES.where(ends.flow == flow, ends.member.in_(attempts)))
    return {
        row.member: None if row.value is None else json.loads(row.value)
        for row in rows
        if attempts[row.member] == row.attempt and not (row.member in cancelled and row.kind is not EndKind.CANCELLED)
    }


def _receipts(connection: Connection, flow_uid: str, attempts: Mapping[int, int]) -> dict[int, JsonValue]:
    """Return the receipts of crawls, by member. `attempts`: the last attempt by member."""
    if not attempts:
        return {}
    columns = [runs.id, runs.run_uid, runs.status, runs.reason, runs.outcome, runs.tasks, runs.stats, runs.result]
    of_members = (runs.flow_uid == flow_uid, runs.flow_member.in_(attempts))
    query = select(runs.flow_member, runs.flow_attempt, *columns).where(*of_members)
    rows = [row for row in connection.execute(query) if row.flow_attempt == attempts[row.flow_member]]
    archives = _archives(connection, [row.id for row in rows])
    return {row.flow_member: encode("receipt", _receipt(row, archives.get(row.id))) for row in rows}


def _receipt(row: Row[Any], archive: str | None) -> CrawlReceipt:
    return CrawlReceipt(
        run_id=row.id,
        run_uid=row.run_uid,
        status=row.status,
        reason=row.reason,
        outcome=row.outcome,
        tasks=row.tasks,
        archive=archive,
        stats=row.stats,
        result=row.result,
    )


def _archives(connection: Connection, run_ids: Collection[int]) -> dict[int, str]:
    """Return the places of the archives of the runs' last ends, by run."""
    archive = exports.c
    end = func.json_extract(archive.event, "$.end")
    query = (
        select(archive.history_id, archive.location)
        .join(histories, runs.id == archive.history_id)
        .where(archive.history_id.in_(run_ids), archive.kind == ExportKind.FILES_READY)
        .where(archive.location.is_not(None), func.coalesce(end, 1) == runs.end_number)
    )
    return dict(iter(connection.execute(query))) if run_ids else {}


def _ledger_around(connection: Connection, flow: int, row: MemberRow, groups_around: list[GroupRow]) -> Ledger:
    """Return the part of the ledger that the member's sources come from."""
    ledger = Ledger(FlowRow(""))
    ledger.put([row], groups_around)
    around = list(ancestors(ledger.groups, row.group))
    needs = [*row.needs, *(need for number in around for need in ledger.groups[number].needs)]
    targets = list(targets_of(needs))
    single = {target.number for target in targets if not target.is_group}
    ledger.put(read_members(connection, flow, single).values())
    inside = {target.number for target in targets if target.is_group}
    if inside or any(member.group not in ledger.groups for member in ledger.members.values()):
        ledger.put(groups=read_groups(connection, flow).values())
        ledger.put(_members_inside(connection, flow, ledger.groups, inside))
    return ledger


def _around(connection: Connection, flow: int, number: int) -> tuple[list[GroupRow], dict[int, dict[str, Any]]]:
    """Return the group and the groups around the group without the top level, and all their encoded contexts."""
    around: list[GroupRow] = []
    contexts: dict[int, dict[str, Any]] = {TOP: connection.scalar(TOP_CONTEXT, {"of_flow": flow}) or {}}
    while number != TOP:
        *values, context = connection.execute(GROUP, {"of_flow": flow, "of_group": number}).one()
        around.append(group_row(values))
        contexts[number] = context or {}
        number = around[-1].parent or TOP
    return around, contexts


def _members_inside(
    connection: Connection, flow: int, all_groups: Mapping[int, GroupRow], wanted: Collection[int]
) -> list[MemberRow]:
    """Return the members in the groups, inner groups included."""
    chosen = set(wanted)
    inside = [number for number in all_groups if chosen & set(ancestors(all_groups, number))]
    if not inside:
        return []
    return [member_row(values) for values in connection.execute(INSIDE, {"of_flow": flow, "numbers": inside})]
