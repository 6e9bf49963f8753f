"""Inputs of steps: the context around a step, and the sources of its results."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, bindparam, select

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.ports.claims import StepInputs
from crawler_lifecycle.flows.rules.contexts import Source, merged_context, results_of_group, sources
from crawler_lifecycle.flows.rules.rows import TOP, FlowRow, GroupRow, Ledger, MemberRow, ancestors
from crawler_lifecycle.flows.store.locks import OnFlows, snapshot
from crawler_lifecycle.flows.store.reading import ALL_MEMBERS, read_groups, read_members
from crawler_lifecycle.flows.store.results import fitting, read_results
from crawler_lifecycle.flows.store.rows import GROUP_COLUMNS, group_row, groups, member_row, members, path_uid

NUMBERS: Any = bindparam("numbers", expanding=True)
OF_FLOW = groups.flow == bindparam("of_flow")
GROUP = select(*GROUP_COLUMNS, groups.context).where(OF_FLOW, groups.number == bindparam("of_group"))
TOP_CONTEXT = select(flows.c.context).where(flows.c.id == bindparam("of_flow"))
INSIDE = ALL_MEMBERS.where(members.group_number.in_(NUMBERS))
BY_PATH = select(members.number).where(members.flow == bindparam("of_flow"), members.path_uid == bindparam("of_path"))


class StepContexts(OnFlows):
    """The methods in `flows.ports.StepClaims` for the inputs of steps."""

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
    def results(self, connection: Connection, flow_uid: str, numbers: Collection[int]) -> Mapping[int, JsonValue]:
        head = self.head(connection, flow_uid)
        first = fitting(connection, head.id, numbers)
        values = read_results(connection, head.id, flow_uid, first)
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


def _ledger_around(connection: Connection, flow: int, row: MemberRow, groups_around: list[GroupRow]) -> Ledger:
    """Return the part of the ledger that the member's sources come from."""
    ledger = Ledger(FlowRow(""))
    ledger.put([row], groups_around)
    around = list(ancestors(ledger.groups, row.group))
    needs = [*row.needs, *(need for number in around for need in ledger.groups[number].needs)]
    targets = [target for need in needs for target in need.on]
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
