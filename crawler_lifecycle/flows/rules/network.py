"""The network counts, for every member and group, how its dependencies stand, and passes changes on.

A node is something that others wait for: a member, a quorum, a single task of a crawl, or a group's gate or end. A
group's gate has the group's needs as its inputs, and the group's members wait for the gate. A group's end has the
members and the inner groups' ends as its inputs, and stands for the whole group before its dependents.

A node's value is a mask: whether its dependents have to wait, and the failures that they see. A change takes time in
proportion to the direct dependents of all changed nodes. The network has no cycle: `compiling.check_whole` refuses a
flow with a cycle before its rows are stored.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

SATISFIED = 0
CANCELLED, DISCARDED = 1, 2  # bits that a dependent may ignore
REFUSED = 4  # bit that no dependent may ignore: an impossible quorum, or a graft without its grafter
FAILURES = CANCELLED | DISCARDED | REFUSED
OPEN = 8  # bit for a wait; a gate may be open and show failures, too

Rule = Callable[["Node"], int]


@dataclass(slots=True, eq=False)
class Node:
    """A node with counts for its inputs by value."""

    rule: Rule | None = None  # returns the value from the counts; None for a member, whose row decides
    member: int | None = None  # number, for a member's node
    grower: int | None = None  # for a group's end: crawl whose tasks become jobs, to explain a group without jobs
    name: str = ""  # path, for reasons and explanations
    is_gate: bool = False  # an explanation then names the inputs in place of the gate
    value: int = OPEN
    total: int = 0  # inputs; the next fields count those with the bit in their value
    open: int = 0
    cancelled: int = 0
    discarded: int = 0
    refused: int = 0
    inputs: list["Node"] = field(default_factory=list)
    outputs: list["Node"] = field(default_factory=list)
    watchers: list["Node"] = field(default_factory=list)  # nodes whose rules read this node's value itself, not a count

    def count(self, value: int, by: int) -> None:
        """Add the input's value to the counts, or take the value out again."""
        if value & OPEN:
            self.open += by
        if value & CANCELLED:
            self.cancelled += by
        if value & DISCARDED:
            self.discarded += by
        if value & REFUSED:
            self.refused += by

    def unignored(self, ignored: int) -> bool:
        """Return whether an input failed in a way that the bits in `ignored` do not cover."""
        return bool(
            self.refused or (self.cancelled and not ignored & CANCELLED) or (self.discarded and not ignored & DISCARDED)
        )

    @property
    def mask(self) -> int:
        """All failures among the inputs."""
        return (
            (CANCELLED if self.cancelled else 0)
            | (DISCARDED if self.discarded else 0)
            | (REFUSED if self.refused else 0)
        )


class Network:
    """Nodes with their connections. `touched` collects members with changed inputs, by number."""

    def __init__(self) -> None:
        self.touched: set[int] = set()

    def connect(self, source: Node, target: Node) -> None:
        """Let the target count the source's value."""
        source.outputs.append(target)
        target.inputs.append(source)
        target.total += 1
        target.count(source.value, 1)
        self.refresh(target)

    def watch(self, source: Node, target: Node) -> None:
        """Let the target's rule run again whenever the source changes."""
        source.watchers.append(target)

    def set(self, node: Node, value: int) -> None:
        """Give the node a value, and bring all nodes after it up to date. Without a cycle, this comes to an end."""
        waiting = self._changed(node, value)
        while waiting:
            dependent = waiting.pop()
            if dependent.rule is not None:
                waiting += self._changed(dependent, dependent.rule(dependent))
            elif dependent.member is not None:
                self.touched.add(dependent.member)

    def refresh(self, node: Node) -> None:
        """Let the node's rule decide anew."""
        if node.rule is not None:
            self.set(node, node.rule(node))
        elif node.member is not None:
            self.touched.add(node.member)

    def _changed(self, node: Node, value: int) -> list[Node]:
        """Set the value, and return the nodes that have to decide anew."""
        old, node.value = node.value, value
        if old == value:
            return []
        for target in node.outputs:
            target.count(old, -1)
            target.count(value, 1)
        return [*node.outputs, *node.watchers]


def end_value(node: Node) -> int:
    """Return a group's state from its members' states: open, else discarded before cancelled before completed."""
    if node.open:
        return OPEN
    return DISCARDED if node.discarded or node.refused else CANCELLED if node.cancelled else SATISFIED


def gate_value(node: Node) -> int:
    """Return a gate's value from the group's needs: open, and all failures for the members after the gate."""
    return node.mask | (OPEN if node.open else 0)
