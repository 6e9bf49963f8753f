"""Add members to a flow: the rules for the rows after a push, an append, a graft, or growth by a crawl's tasks.

A push has a whole flow, new or changed; an append has further members under a key; a graft has members in place of a
running step, the grafter. All are one operation (`_merge`). A repeated request has no effect.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from crawler_lifecycle.base.limits import LARGEST_CONTEXT
from crawler_lifecycle.base.names import ROOT, joined
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound
from crawler_lifecycle.flows.model.definition import (
    FlowDefinition,
    Fragment,
    GroupDefinition,
    ManagerWork,
    MemberDefinition,
    Need,
    StepWork,
)
from crawler_lifecycle.flows.model.requests import AppendMembers, GraftMembers
from crawler_lifecycle.flows.model.values import check_encoded
from crawler_lifecycle.flows.rules.compiling import (
    Numbers,
    check_fragment,
    check_whole,
    fingerprint,
    group_row,
    member_row,
    route_of,
    within,
)
from crawler_lifecycle.flows.rules.rows import FlowRow, GroupRow, Ledger, MemberRow, ancestors, targets_of
from crawler_lifecycle.flows.rules.states import standing
from crawler_lifecycle.model.flow_states import FlowState, GroupGrowth, MemberState
from crawler_lifecycle.model.naming import route_parts


@dataclass(slots=True)
class Merged:
    """Rows to write, with their definitions."""

    groups: list[tuple[GroupRow, GroupDefinition]] = field(default_factory=list)
    members: list[tuple[MemberRow, MemberDefinition]] = field(default_factory=list)
    removed_members: list[int] = field(default_factory=list)
    removed_groups: list[int] = field(default_factory=list)
    flow: FlowRow | None = None  # the flow's row, if new or changed
    key: str | None = None  # key of an append

    @property
    def is_empty(self) -> bool:
        return not (self.groups or self.members or self.removed_members or self.removed_groups or self.flow)

    def apply(self, ledger: Ledger) -> None:
        """Write the rows into a ledger in memory."""
        ledger.remove(self.removed_members, self.removed_groups)
        ledger.put((row for row, _ in self.members), (row for row, _ in self.groups))
        if self.flow is not None:
            ledger.flow = self.flow
        if self.key is not None:
            ledger.keys.add(self.key)


def new_ledger(definition: FlowDefinition, own_host: str = "") -> Ledger:
    """Return a flow's ledger before the first push."""
    return Ledger(_flow_row(definition, own_host))


def push(ledger: Ledger, definition: FlowDefinition, at: datetime) -> Merged:
    """Return a push's rows. The first push adds everything, a further push is an update."""
    if not (definition.members or definition.groups or ledger.members):
        raise BadInput("workflow", f"{definition.id!r} has no jobs")
    check_encoded("context", definition.context, LARGEST_CONTEXT)
    merged = _merge(ledger, definition, at)
    row = _updated_flow(ledger.flow, definition)
    if merged.members or merged.groups:
        state = FlowState.EXECUTING if row.state.is_final else row.state
        row = replace(row, state=state, accepts_members=True)
    merged.flow = None if row == ledger.flow and ledger.members else row
    return merged


def append(ledger: Ledger, request: AppendMembers, at: datetime) -> Merged:
    """Return an append's rows. The same key again adds no row."""
    if request.key in ledger.keys:
        return Merged()
    _refuse_unless_open(ledger.flow)
    if request.group != ROOT and request.group not in ledger.paths_of_groups():
        raise NotFound(f"flow {ledger.flow.id!r} has no sub-workflow {request.group!r}")
    fragment = within(request.fragment, request.group)
    taken = {*ledger.paths_of_members(), *ledger.paths_of_groups()} & {
        *(member.path for member in fragment.members),
        *(group.path for group in fragment.groups),
    }
    if taken:
        raise Conflict(f"{min(taken)!r} is already in flow {ledger.flow.id!r}")
    merged = _merge(ledger, fragment, at)
    merged.key = request.key
    return merged


def graft(ledger: Ledger, request: GraftMembers, at: datetime) -> Merged:
    """Return a graft's rows. A repeated grafter replaces its unstarted members."""
    _refuse_unless_open(ledger.flow)
    group = _graft_of(ledger, request)
    if any(isinstance(member.work, ManagerWork) for member in request.fragment.members):
        raise BadInput("graft", "has a crawl manager by its name in the catalogue: name its class in manager(...)")
    fragment = within(request.fragment, request.grafter)
    merged = _merge(ledger, fragment, at)
    kept = {*(member.path for member in fragment.members), *(inner.path for inner in fragment.groups)}
    replaced = _Replaced(ledger, merged, group.number, kept)
    merged.removed_members = sorted(replaced.members)
    merged.removed_groups = sorted(replaced.groups())
    return merged


class _Replaced:
    """The earlier graft's part to remove: not started, and without remaining dependents."""

    def __init__(self, ledger: Ledger, merged: Merged, group: int, kept: set[str]) -> None:
        self._ledger = ledger
        self._members = {**ledger.members, **{row.number: row for row, _ in merged.members}}
        self._groups = {**ledger.groups, **{row.number: row for row, _ in merged.groups}}
        self._inside = {number for number in ledger.groups if group in ancestors(ledger.groups, number)} - {group}
        self._kept = kept
        self.members = {
            row.number
            for row in ledger.members.values()
            if row.group in self._inside | {group} and row.path not in kept and not _has_started(row)
        }
        while needed := self._needed(is_group=False) & self.members:
            self.members -= needed

    def groups(self) -> set[int]:
        """Return the inner groups without remaining members and dependents."""
        remaining = (row.group for number, row in self._members.items() if number not in self.members)
        used = {ancestor for group in remaining for ancestor in ancestors(self._groups, group)}
        unused = self._inside - used - self._needed(is_group=True)
        return {number for number in unused if self._ledger.groups[number].path not in self._kept}

    def _needed(self, *, is_group: bool) -> set[int]:
        """Return the targets' numbers for all remaining members and groups."""
        rows = [row.needs for number, row in self._members.items() if number not in self.members]
        rows += [row.needs for row in self._groups.values()]
        return {target.number for target in targets_of(chain.from_iterable(rows)) if target.is_group is is_group}


def grow(ledger: Ledger, group: GroupRow, definition: GroupDefinition, at: datetime) -> Merged:
    """Return the members for a crawl's tasks, up to the group's expected number."""
    if definition.template is None or definition.grower is None:
        raise BadInput("each_task", f"{group.path!r} has no step for the tasks")
    members = tuple(
        MemberDefinition(
            path=joined(group.path, str(task)),
            work=definition.template.model_copy(update={"arguments": {"crawl": definition.grower, "task": task}}),
            needs=(Need(on=(definition.grower,), task=task),),
            ignore_cancelled=definition.ignore_cancelled,
            ignore_discarded=definition.ignore_discarded,
            retry=definition.template_retry,
        )
        for task in range(group.expected)
    )
    return _merge(ledger, Fragment(members=members), at)


def _merge(ledger: Ledger, fragment: Fragment, at: datetime) -> Merged:
    """Return the fragment's new and changed rows. Conflict if a member that has started would change."""
    check_fragment(fragment)
    numbers = Numbers.from_ledger(ledger)
    numbers.add(fragment)
    merged = Merged()
    for group in fragment.groups:
        row, old = group_row(group, numbers), ledger.groups.get(numbers.groups[group.path])
        if old is None or old.fingerprint != row.fingerprint:
            merged.groups.append((row if old is None else _changed_group(ledger, old, row), group))
    groups = {**ledger.groups, **{row.number: row for row, _ in merged.groups}}
    for member in fragment.members:
        known = ledger.members.get(numbers.members[member.path])
        if known is not None and known.fingerprint == fingerprint(member):
            continue
        new = member_row(member, numbers, at)
        if known is not None:
            _refuse_another_manager(ledger.flow, known, member)
            _refuse_if_started(known)
            new = new._replace(generation=known.generation, decision=known.decision)
        merged.members.append((standing(new, groups, at), member))
    members = {**ledger.members, **{row.number: row for row, _ in merged.members}}
    _refuse_shared_paths(groups.values(), members.values())
    changed_groups = {row.number for row, _ in merged.groups}
    in_changed_groups = [row.number for row in members.values() if row.group in changed_groups]
    check_whole(groups, members, [*(row.number for row, _ in merged.members), *in_changed_groups])
    return merged


def _changed_group(ledger: Ledger, old: GroupRow, new: GroupRow) -> GroupRow:
    is_same = replace(new, max_parallel=old.max_parallel, expected=old.expected, fingerprint=old.fingerprint) == old
    started = next((row for row in ledger.members.values() if row.group == old.number and _has_started(row)), None)
    if not is_same and started is not None:
        raise Conflict(f"sub-workflow {old.path!r} cannot change any more: its job {started.path!r} has started")
    return replace(new, expected=old.expected)


def _has_started(row: MemberRow) -> bool:
    return row.attempt > 0 or (not row.state.is_unstarted and not row.is_cancelled_by_dependency)


def _refuse_another_manager(flow: FlowRow, known: MemberRow, member: MemberDefinition) -> None:
    """Refuse a second start with another request, also before a host has begun the manager."""
    if isinstance(member.work, StepWork) and member.work.is_manager:
        difference = _difference(known.route, route_of(member.work, flow.own_host))
        raise Conflict(
            f"flow {flow.id!r} has a crawl manager with {difference}: "
            "start the manager again with the same, or under another flow id"
        )


def _difference(known: str, new: str) -> str:
    """Return the difference between two managers by their routes: queue, module and class."""
    queue, *function = route_parts(known)
    new_queue, *new_function = route_parts(new)
    names = [
        "another class" if function != new_function else "",
        "another queue" if queue != new_queue else "",
    ]
    return " and ".join(filter(None, names)) or "other arguments"


def _refuse_if_started(row: MemberRow) -> None:
    if _has_started(row) or row.state.is_final:
        raise Conflict(f"job {row.path!r} cannot change any more: it is {row.state}")


def _refuse_shared_paths(groups: Iterable[GroupRow], members: Iterable[MemberRow]) -> None:
    """Refuse a path that a member and a group share; only a grafter shares its path with its graft."""
    by_path = {group.path: group for group in groups}
    for member in members:
        group = by_path.get(member.path)
        if group is not None and not (group.growth is GroupGrowth.GRAFT and group.grower == member.number):
            raise BadInput("name", f"{member.path!r} is already in the flow")


def _refuse_unless_open(flow: FlowRow) -> None:
    if flow.state.is_final:
        raise Conflict(f"flow {flow.id!r} is {flow.state}: push it with further jobs, or retry jobs")
    if not flow.accepts_members:
        raise Conflict(f"flow {flow.id!r} was cancelled and takes no further jobs")


def _graft_of(ledger: Ledger, request: GraftMembers) -> GroupRow:
    """Return the group of the graft, if the request comes from the grafter's present attempt."""
    number = ledger.paths_of_members().get(request.grafter)
    group = next((row for row in ledger.groups.values() if row.path == request.grafter), None)
    if number is None or group is None or group.growth is not GroupGrowth.GRAFT or group.grower != number:
        raise NotFound(f"flow {ledger.flow.id!r} has no graft {request.grafter!r}")
    row = ledger.members[number]
    is_present = (row.generation, row.attempt) == (request.generation, request.attempt)
    if not is_present or row.state is not MemberState.EXECUTING:
        raise Fenced(f"attempt {request.attempt} of {request.grafter!r} is over, and may attach no sub-workflow")
    return group


def _flow_row(definition: FlowDefinition, own_host: str) -> FlowRow:
    return FlowRow(
        definition.id,
        definition.name,
        max_parallel=definition.max_parallel,
        fingerprint=fingerprint(definition.context),
        ignore_cancelled=definition.ignore_cancelled,
        ignore_discarded=definition.ignore_discarded,
        own_host=own_host,
    )


def _updated_flow(flow: FlowRow, definition: FlowDefinition) -> FlowRow:
    """Return the flow's row after an update; a name or a context may be given later, and does not change."""
    if definition.name is not None and flow.name is not None and definition.name != flow.name:
        raise Conflict(f"flow {flow.id!r} has the name {flow.name!r}, not {definition.name!r}")
    if definition.context is not None and fingerprint(definition.context) != flow.fingerprint:
        raise Conflict(f"the context of flow {flow.id!r} does not change after its first push")
    return replace(
        flow,
        name=flow.name or definition.name,
        max_parallel=definition.max_parallel if definition.max_parallel is not None else flow.max_parallel,
        ignore_cancelled=definition.ignore_cancelled,
        ignore_discarded=definition.ignore_discarded,
    )
