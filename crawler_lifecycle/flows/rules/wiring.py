"""Build the network from groups and members, and add later members.

A quorum shows when enough members are completed, and when enough cannot be reached any more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

from crawler_lifecycle.flows.rules.network import (
    CANCELLED,
    DISCARDED,
    FAILURES,
    OPEN,
    REFUSED,
    SATISFIED,
    Network,
    Node,
    end_value,
    gate_value,
)
from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, MemberRow, NeedRow, Target, ancestors, targets_of
from crawler_lifecycle.model.flow_states import GroupGrowth, MemberState
from crawler_lifecycle.model.states import TaskStatus

MOST_NAMES = 3  # in a title
ROUNDING = 1e-9  # 0.7 * 10 is more than 7
VALUES = {MemberState.COMPLETED: SATISFIED, MemberState.CANCELLED: CANCELLED, MemberState.DISCARDED: DISCARDED}
TASK_VALUES = {
    TaskStatus.SUCCEEDED: SATISFIED,
    TaskStatus.FAILED: DISCARDED,
    TaskStatus.LOST: DISCARDED,
    TaskStatus.STOPPED: CANCELLED,
}


def quorum_value(node: Node, need: NeedRow, ignored: int, *, may_grow: bool, has_open_groups: bool) -> int:
    """Return the quorum's value from its counts. Ignored failures count as completed.

    `may_grow`: members may still join. `has_open_groups`: an empty group may still wait for its own needs.
    """
    if not node.total and need.share is not None:
        return OPEN if may_grow or has_open_groups else SATISFIED
    failed = (0 if ignored & CANCELLED else node.cancelled) + (0 if ignored & DISCARDED else node.discarded)
    enough = need.count or ceil((need.share or 0) * node.total - ROUNDING)
    good = node.total - node.open - failed
    if need.wait and (node.open or may_grow):
        return OPEN
    if good >= enough and (need.share is None or not may_grow):
        return SATISFIED
    return OPEN if good + node.open >= enough or may_grow else REFUSED


def title(paths: Sequence[str]) -> str:
    """Return the quorum's name for reasons."""
    shown = [*paths[:MOST_NAMES], "..."] if len(paths) > MOST_NAMES else paths
    return f"any_of({', '.join(shown)})"


def ignored_by(row: MemberRow | GroupRow) -> int:
    """Return the ignored failures as bits. A group ignores failures in its quorums, and as long as it is empty."""
    return (CANCELLED if row.ignore_cancelled else 0) | (DISCARDED if row.ignore_discarded else 0)


class Wiring:
    """A flow's nodes. Nodes for future members and groups stay open."""

    def __init__(self) -> None:
        self.network = Network()
        self.groups: dict[int, GroupRow] = {}
        self._group_of: dict[int, int] = {}
        self._paths: dict[int, str] = {}  # of members
        self._has_growth = False
        self._task_groups: set[int] = set()
        self._members: dict[int, Node] = {}
        self._ends: dict[int, Node] = {}
        self._gates: dict[int, Node | None] = {}
        self._tasks: dict[tuple[int, int], Node] = {}
        self._tasks_of: dict[int, list[Node]] = {}  # nodes for single tasks, by crawl
        self._task_ends: dict[int, dict[int, TaskStatus]] = {}
        self._owed: set[int] = set()  # crawls with an ended run, and without the last ends for their tasks
        self._known: set[int] = set()  # crawls with an ended run and known ends for their tasks
        self._quorums: dict[tuple[NeedRow, int], Node] = {}
        self._quorums_on: dict[int, list[Node]] = {}  # quorums by the groups that they count
        self._growers_of: dict[int, list[int]] = {}
        self._numbers_in: dict[int, list[int]] = {}  # direct members by group
        self._groups_in: dict[int, list[int]] = {}

    def member(self, number: int) -> Node:
        if number not in self._members:
            self._members[number] = Node(member=number)
        return self._members[number]

    def end(self, group: int) -> Node:
        if group not in self._ends:
            self._ends[group] = Node()
        return self._ends[group]

    def place(self, groups: Iterable[GroupRow], members: Iterable[MemberRow]) -> None:
        """Note where groups and members are, before they are put: needs may point forward."""
        for group in groups:
            self.groups[group.number] = group
            self._has_growth |= group.growth is not None
            if group.growth is GroupGrowth.TASKS:
                self._task_groups.add(group.number)
        for member in members:
            self._group_of[member.number] = member.group
            self._paths[member.number] = member.path

    def put_group(self, row: GroupRow) -> None:
        """Add the group, or replace its row. Parents come before their groups."""
        self.groups[row.number] = row
        end = self.end(row.number)
        if row.number in self._gates:
            self.network.refresh(end)
            for quorum in self._quorums_around(row.number):
                self.network.refresh(quorum)
            return
        end.name, end.rule = row.path, lambda node, number=row.number: self._end_value(node, number)
        self._gates[row.number] = gate = self._gate(row)
        if gate is not None:
            self.network.watch(gate, end)
            end.inputs.append(gate)  # an empty group follows from its gate
        if row.growth is GroupGrowth.GRAFT and row.grower is not None:
            self._put_into(row.number, self.member(row.grower))
        elif row.growth is GroupGrowth.TASKS and row.grower is not None:
            self.network.watch(self.member(row.grower), end)
            end.grower = row.grower
        if row.grower is not None:
            self._growers_of.setdefault(row.grower, []).append(row.number)
            for quorum in self._quorums_around(row.number):
                self.network.watch(self.member(row.grower), quorum)
        if row.parent is not None:
            self._groups_in.setdefault(row.parent, []).append(row.number)
            self._put_into(row.parent, end)
        self.network.refresh(end)

    def put_member(self, row: MemberRow) -> None:
        """Add the member. Its groups are there already."""
        node = self.member(row.number)
        node.name = row.path
        self.network.set(node, VALUES.get(row.state, OPEN))
        for need in row.needs:
            self.network.connect(self._source(need, ignored_by(row)), node)
        gate = self._gates[row.group]
        if gate is not None and not self._needs_inside(row.needs, row.group):
            self.network.connect(gate, node)
        self._numbers_in.setdefault(row.group, []).append(row.number)
        self._put_into(row.group, node)
        for quorum in self._quorums_around(row.group):
            self.network.connect(node, quorum)
        self.network.touched.add(row.number)

    def _put_into(self, group: int, node: Node) -> None:
        """Let the group's end count a member's node or an inner group's end."""
        end, gate = self.end(group), self._gates[group]
        if not end.total and gate is not None:
            end.inputs.remove(gate)
        self.network.connect(node, end)

    def see(self, row: MemberRow) -> None:
        """Pass the member's state on to its dependents."""
        self.network.set(self.member(row.number), VALUES.get(row.state, OPEN))

    def note_crawl(self, row: MemberRow) -> None:
        """Note whether the crawl's run has ended: then the next sight of its tasks has their last ends.

        Without this sight, a task without an end would count as failed although the task succeeded in the last moment.
        """
        has_run = row.attempt > 0 and row.attempt_generation == row.generation
        if not (row.state.is_final and has_run and not row.in_flight):
            self._owed.discard(row.number)
            self._known.discard(row.number)
        elif row.number not in self._known:
            self._owed.add(row.number)

    def see_tasks(self, number: int, ends: Mapping[int, TaskStatus]) -> None:
        """Note the crawl's ended tasks. A success stays until the member is retried."""
        known = self._task_ends.setdefault(number, {})
        for task, status in ends.items():
            if known.get(task) is not TaskStatus.SUCCEEDED:
                known[task] = status
                if (number, task) in self._tasks:
                    self.network.refresh(self._tasks[number, task])
        if number in self._owed:
            self._owed.discard(number)
            self._known.add(number)
            for node in self._tasks_of.get(number, ()):
                self.network.refresh(node)

    def forget_tasks(self, number: int) -> None:
        for task in self._task_ends.pop(number, {}):
            if (number, task) in self._tasks:
                self.network.refresh(self._tasks[number, task])

    @property
    def crawls_with_tasks(self) -> frozenset[int]:
        """Crawls with present or future dependents on single tasks."""
        growers = (self.groups[number].grower for number in self._task_groups)
        return frozenset(self._tasks_of) | {number for number in growers if number is not None}

    @property
    def crawls_to_ask(self) -> frozenset[int]:
        """Crawls with an ended run, and without the needed last ends for their tasks."""
        return self.crawls_with_tasks & self._owed if self._owed else frozenset()

    def is_awaited_alone(self, number: int) -> bool:
        """Return whether the member itself has dependents, and not only its whole group."""
        node = self.member(number)
        return len(node.outputs) > 1 or bool(node.watchers)  # the group's end is an output, too

    def grown_by(self, number: int) -> list[int]:
        """Return the groups with the member as their grower."""
        return self._growers_of.get(number, [])

    def gates_around_grown(self, number: int) -> list[Node]:
        """Return the gates around the groups with the member as their grower."""
        parents = (self.groups[group].parent for group in self.grown_by(number))
        gates = (self._gates[parent] for parent in parents if parent is not None)
        return [gate for gate in gates if gate is not None]

    @property
    def is_short(self) -> bool:
        """Whether a group waits for members from its crawl's tasks."""
        return any(self._is_short(self.groups[number]) for number in self._task_groups)

    def _is_short(self, row: GroupRow) -> bool:
        return row.expected > len(self._numbers_in.get(row.number, ()))

    def _end_value(self, end: Node, number: int) -> int:
        row = self.groups[number]
        if end.open or (row.growth is GroupGrowth.TASKS and self._may_grow(row)):
            return OPEN
        if end.total:
            return end_value(end)
        return self._empty_value(row)

    def _empty_value(self, row: GroupRow) -> int:
        """Return an empty group's value, as for a group with a single member and no work.

        The member would have the group's flags, and would be cancelled at once for a failed dependency.
        """
        gate = self._gates[row.number]
        mask = 0 if gate is None else gate.value
        if row.growth is GroupGrowth.TASKS and row.grower is not None:
            mask |= self.member(row.grower).value
        if mask & FAILURES & ~ignored_by(row):
            return CANCELLED
        return mask & OPEN

    def _may_grow(self, row: GroupRow) -> bool:
        if row.grower is None:
            return False
        return self._is_short(row) or bool(self.member(row.grower).value & OPEN)

    def _gate(self, row: GroupRow) -> Node | None:
        around = None if row.parent is None else self._gates[row.parent]
        if row.growth is GroupGrowth.GRAFT and row.grower is not None:
            gate = Node(rule=_graft_value, name=row.path, is_gate=True)
            self.network.connect(self.member(row.grower), gate)
            return gate
        if not row.needs:
            return around
        gate = Node(rule=gate_value, name=row.path, is_gate=True)
        for need in row.needs:
            self.network.connect(self._source(need, ignored_by(row)), gate)
        if around is not None and row.parent is not None and not self._needs_inside(row.needs, row.parent):
            self.network.connect(around, gate)
        return gate

    def _needs_inside(self, needs: tuple[NeedRow, ...], group: int) -> bool:
        """Return whether a need stays inside the group: such a need already passes the group's gate."""
        return group != TOP and any(self._is_inside(target, group) for target in targets_of(needs))

    def _is_inside(self, target: Target, group: int) -> bool:
        if target.is_group:
            row = self.groups.get(target.number)
            return row is not None and row.parent is not None and group in ancestors(self.groups, row.parent)
        inside = self._group_of.get(target.number)
        return inside is not None and group in ancestors(self.groups, inside)

    def _source(self, need: NeedRow, ignored: int) -> Node:
        if need.is_quorum:
            return self._quorum(need, ignored)
        (target,) = need.on
        if target.is_group:
            return self.end(target.number)
        return self.member(target.number) if target.task is None else self._task(target.number, target.task)

    def _task(self, number: int, task: int) -> Node:
        node = self._tasks.get((number, task))
        if node is None:
            node = Node(rule=lambda _: self._task_value(number, task))
            self._tasks[number, task] = node
            self._tasks_of.setdefault(number, []).append(node)
            node.name = f"{self.member(number).name} task {task}"
            node.inputs.append(self.member(number))  # for explanations; the rule reads the member itself
            self.network.watch(self.member(number), node)
            self.network.refresh(node)
        return node

    def _task_value(self, number: int, task: int) -> int:
        status = self._task_ends.get(number, {}).get(task)
        crawl = self.member(number).value
        if status is TaskStatus.SUCCEEDED:
            return SATISFIED
        if crawl & OPEN or number in self._owed:  # another attempt may have better luck, or the task has succeeded
            return OPEN
        return crawl or (DISCARDED if status is None else TASK_VALUES.get(status, DISCARDED))

    def _quorum(self, need: NeedRow, ignored: int) -> Node:
        """Return the quorum's node. Members with the same need and the same flags share a node."""
        node = self._quorums.get((need, ignored))
        if node is None:
            node = Node(rule=lambda quorum: self._quorum_value(quorum, need, ignored), name=self._title(need))
            self._quorums[need, ignored] = node
            for group in (target.number for target in need.on if target.is_group):
                self.network.watch(self.end(group), node)
                self._quorums_on.setdefault(group, []).append(node)
                for grower in self._growers_in(group):
                    self.network.watch(self.member(grower), node)
            for number in self._counted_by(need):
                self.network.connect(self.member(number), node)
            self.network.refresh(node)
        return node

    def _counted_by(self, need: NeedRow) -> Iterable[int]:
        """Return the present members that the quorum counts, without repetitions."""
        numbers: dict[int, None] = {}
        for target in need.on:
            numbers.update(dict.fromkeys(self.numbers_in(target.number) if target.is_group else (target.number,)))
        return numbers

    def _title(self, need: NeedRow) -> str:
        targets = need.on[: MOST_NAMES + 1]
        return title([self.groups[t.number].path if t.is_group else self._paths.get(t.number, "") for t in targets])

    def _quorum_value(self, node: Node, need: NeedRow, ignored: int) -> int:
        groups = [target.number for target in need.on if target.is_group]
        has_open_groups = any(self.end(group).value & OPEN for group in groups)
        may_grow = any(self._grows_inside(group) for group in groups)
        return quorum_value(node, need, ignored, may_grow=may_grow, has_open_groups=has_open_groups)

    def _quorums_around(self, group: int) -> Iterable[Node]:
        """Return the quorums with the group's members, without repetitions."""
        quorums = (quorum for around in ancestors(self.groups, group) for quorum in self._quorums_on.get(around, ()))
        return dict.fromkeys(quorums)

    def _growers_in(self, group: int) -> Iterator[int]:
        """Yield the members that make the group, or a group inside, grow."""
        grower = self.groups[group].grower if group in self._gates else None
        if grower is not None:
            yield grower
        for inner in self._groups_in.get(group, ()):
            yield from self._growers_in(inner)

    def _grows_inside(self, group: int) -> bool:
        if not self._has_growth:
            return False
        row = self.groups[group]
        is_growing = row.growth is not None and self._may_grow(row)
        return is_growing or any(self._grows_inside(inner) for inner in self._groups_in.get(group, ()))

    def numbers_in(self, group: int) -> Iterator[int]:
        """Yield the numbers of all members in the group and the groups inside."""
        yield from self._numbers_in.get(group, ())
        for inner in self._groups_in.get(group, ()):
            yield from self.numbers_in(inner)


def _graft_value(node: Node) -> int:
    """Return whether the grafter has committed: only then may the grafted members start."""
    return OPEN if node.open else SATISFIED if not node.mask else REFUSED | node.mask
