"""Selecting: the members that paths name, and the members after them."""

from collections.abc import Iterable, Iterator

from crawler_lifecycle.base.near_names import did_you_mean
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow, NeedRow
from crawler_lifecycle.model.flow_states import GroupGrowth


def selected(ledger: Ledger, paths: Iterable[str] | None) -> list[MemberRow]:
    """Return the members for the paths in the order of their numbers; all members if there are no paths.

    A group's path selects all its members, and a graft's path also for its grafter.
    """
    if paths is None:
        return [ledger.members[number] for number in sorted(ledger.members)]
    numbers = set[int]().union(*numbers_by_path(ledger, paths).values())
    return [ledger.members[number] for number in sorted(numbers)]


def numbers_by_path(ledger: Ledger, paths: Iterable[str]) -> dict[str, set[int]]:
    """Return the members' numbers by path. NotFound for an unknown path."""
    members, groups = ledger.paths_of_members(), ledger.paths_of_groups()
    inside = _members_by_group(ledger)
    numbers: dict[str, set[int]] = {}
    for path in paths:
        if path not in members and path not in groups:
            raise no_job(ledger, path)
        of_member = {members[path]} if path in members else set()
        numbers[path] = of_member.union(inside.get(groups[path], ()) if path in groups else ())
    return numbers


def no_job(ledger: Ledger, path: str) -> NotFound:
    """Return the error for a path without a member or group, with a near path."""
    hint = did_you_mean(path, (*ledger.paths_of_members(), *ledger.paths_of_groups()))
    return NotFound(f"flow {ledger.flow.id!r} has no job {path!r}{hint}")


def descendants(ledger: Ledger, numbers: Iterable[int]) -> set[int]:
    """Return all direct and indirect dependents for the members with these numbers."""
    inside = _members_by_group(ledger)
    dependents = _dependents(ledger, inside)
    collected: set[int] = set()
    waiting = list(numbers)
    while waiting:
        for dependent in dependents.get(waiting.pop(), ()):
            if dependent not in collected:
                collected.add(dependent)
                waiting.append(dependent)
    return {number for number in collected if number >= 0}


def _members_by_group(ledger: Ledger) -> dict[int, list[int]]:
    """Return all members' numbers by group, inner groups included."""
    inside: dict[int, list[int]] = {}
    for member in ledger.members.values():
        group: int | None = member.group
        while group is not None:
            inside.setdefault(group, []).append(member.number)
            group = ledger.groups[group].parent
    return inside


def _dependents(ledger: Ledger, inside: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return the direct dependents by member. Groups are nodes of their own, with negative numbers."""
    dependents: dict[int, list[int]] = {}

    def sources(needs: Iterable[NeedRow]) -> Iterator[int]:
        for need in needs:
            for target in need.on:
                yield _end(target.number) if target.is_group else target.number

    for member in ledger.members.values():
        for source in sources(member.needs):
            dependents.setdefault(source, []).append(member.number)
        dependents.setdefault(member.number, []).append(_end(member.group))
    for group in ledger.groups.values():
        behind = inside.get(group.number, [])
        for source in sources(group.needs):
            dependents.setdefault(source, []).extend(behind)
        if group.growth is GroupGrowth.GRAFT and group.grower is not None:
            dependents.setdefault(group.grower, []).extend(behind)
        if group.parent is not None:
            dependents.setdefault(_end(group.number), []).append(_end(group.parent))
    return dependents


def _end(group: int) -> int:
    return -1 - group
