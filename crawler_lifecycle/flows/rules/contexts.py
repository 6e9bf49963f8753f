"""Values for a step: its dependencies' results by name, and its groups' contexts.

Results may be large, so the rules find only their members' numbers (`Source`), and the store reads these results.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from crawler_lifecycle.base.names import joined, last_name
from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, Ledger, MemberRow, NeedRow, Target, ancestors, targets_of

Source = int | dict[str, "Source"]  # the number of a member with a result, or sources by name for a sub-workflow


def sources(ledger: Ledger, row: MemberRow) -> dict[str, Source]:
    """Return the sources for the direct dependencies' results, by the step's names for them.

    A member that is the first of its sub-workflow sees the dependencies of the sub-workflow, too.
    """
    children = _Children(ledger)
    collected: dict[str, Source] = {}
    for group, path, target in _targets(ledger, row):
        name = path.removeprefix(joined(group.path, ""))
        # levels come from inside outwards: between equal names, the inner dependency counts
        collected.setdefault(name, children.of_group(target.number) if target.is_group else target.number)
    return collected


def dependencies(ledger: Ledger, row: MemberRow) -> list[str]:
    """Return the direct dependencies' paths, for the same dependencies as `sources`."""
    return list(dict.fromkeys(path for _, path, _ in _targets(ledger, row)))


def results_of_group(ledger: Ledger, group: int) -> dict[str, Source]:
    """Return the sources for a sub-workflow's results, in their order."""
    return _Children(ledger).of_group(group)


def recorded(ledger: Ledger, results: Mapping[int, Any], paths: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the recorded results by path, nested for sub-workflows. Members without a record are absent.

    Without paths, the whole top level is returned. Unknown paths are ignored.
    """
    children = _Children(ledger)
    members, groups = ledger.paths_of_members(), ledger.paths_of_groups()
    if paths is None:
        return _with_records(children.of_group(TOP), results)
    chosen: dict[str, Source] = {}
    for path in paths:
        if path in groups:
            chosen[path] = children.of_group(groups[path])
        elif path in members:
            chosen[path] = members[path]
    return _with_records(chosen, results)


def _with_records(sources: Mapping[str, Source], results: Mapping[int, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, source in sources.items():
        if isinstance(source, dict):
            values[name] = _with_records(source, results)
        elif source in results:
            values[name] = results[source]
    return values


def merged_context(contexts: Mapping[int, Mapping[str, Any]], ledger: Ledger, group: int) -> dict[str, Any]:
    """Return the context for a group's members: the contexts around the group, overlaid by its own."""
    merged: dict[str, Any] = {}
    for number in reversed(list(ancestors(ledger.groups, group))):
        merged.update(contexts.get(number, {}))
    return merged


def _targets(ledger: Ledger, row: MemberRow) -> Iterator[tuple[GroupRow, str, Target]]:
    """Yield the dependencies with their levels' groups and with their paths."""
    for group, needs in _levels(ledger, row):
        for target in targets_of(needs):
            yield group, (ledger.groups if target.is_group else ledger.members)[target.number].path, target


def _levels(ledger: Ledger, row: MemberRow) -> Iterator[tuple[GroupRow, tuple[NeedRow, ...]]]:
    """Yield the member's needs with its group, then the needs of its group with the next group, and further outwards.

    A group's needs concern only the group's first members, which have no need inside the group.
    """
    group, needs = ledger.groups[row.group], row.needs
    yield group, needs
    while group.parent is not None:
        if any(_is_in(ledger, target, group.number) for target in targets_of(needs)):
            return
        needs, group = group.needs, ledger.groups[group.parent]
        yield group, needs


def _is_in(ledger: Ledger, target: Target, group: int) -> bool:
    number = target.number if target.is_group else ledger.members[target.number].group
    return group in ancestors(ledger.groups, number)


class _Children:
    """Direct members and groups by their group."""

    def __init__(self, ledger: Ledger) -> None:
        self._members: dict[int, list[MemberRow]] = {}
        self._groups: dict[int, list[GroupRow]] = {}
        for number in sorted(ledger.members):
            member = ledger.members[number]
            self._members.setdefault(member.group, []).append(member)
        for number in sorted(ledger.groups):
            group = ledger.groups[number]
            if group.parent is not None:
                self._groups.setdefault(group.parent, []).append(group)

    def of_group(self, group: int) -> dict[str, Source]:
        collected: dict[str, Source] = {last_name(row.path): row.number for row in self._members.get(group, ())}
        for inner in self._groups.get(group, ()):
            collected[last_name(inner.path)] = self.of_group(inner.number)
        return collected
