"""Checks for whole flows: unique paths, limits, tasks of crawls, and cycles with their paths."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from crawler_lifecycle.base.limits import (
    DEEPEST,
    LARGEST_ARGUMENTS,
    LARGEST_CONTEXT,
    MOST_DEPENDENCIES,
    MOST_GROUPS,
    MOST_MEMBERS,
)
from crawler_lifecycle.base.names import depth
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import Fragment
from crawler_lifecycle.flows.model.values import check_encoded, check_size, size_of
from crawler_lifecycle.flows.model.work import CrawlWork, StepWork
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow, NeedRow
from crawler_lifecycle.model.flow_states import GroupGrowth, MemberKind

Place = tuple[str, int]  # a kind of place in the graph ("member", "end" or "gate"), and a number
MEMBER, END, GATE = "member", "end", "gate"


def check_fragment(fragment: Fragment) -> None:
    """Raise BadInput for repeated paths, too deep paths and too large values."""
    _refuse_twins(path for path in (member.path for member in fragment.members))
    _refuse_twins(path for path in (group.path for group in fragment.groups))
    grafts = {group.path for group in fragment.groups if group.growth is GroupGrowth.GRAFT}
    _refuse_twins([*(member.path for member in fragment.members if member.path not in grafts),
                   *(group.path for group in fragment.groups)])  # fmt: skip
    for path in (*(group.path for group in fragment.groups), *(member.path for member in fragment.members)):
        if depth(path) > DEEPEST:
            raise BadInput("sub-workflows", f"are nested {depth(path)} deep, at most {DEEPEST} are possible")
    for group in fragment.groups:
        check_encoded(f"context of {group.path!r}", group.context, LARGEST_CONTEXT)
    for member in fragment.members:
        if isinstance(member.work, StepWork):
            check_encoded(f"arguments of {member.path!r}", member.work.arguments, LARGEST_ARGUMENTS)
        elif isinstance(member.work, CrawlWork):
            arguments = dict(member.work.request.arguments)
            check_size(f"arguments of {member.path!r}", size_of({**arguments}), LARGEST_ARGUMENTS)


def check_whole(
    groups: Mapping[int, GroupRow], members: Mapping[int, MemberRow], changed: Iterable[int] | None = None
) -> None:
    """Raise BadInput for a too large flow and for a cycle.

    `changed`: numbers of members that are new or changed, if all further members were checked before.
    """
    needs = chain(*(row.needs for row in groups.values()), *(row.needs for row in members.values()))
    dependencies = sum(len(need.on) for need in needs)
    for field, number, most in (
        ("jobs", len(members), MOST_MEMBERS),
        ("sub-workflows", len(groups) - 1, MOST_GROUPS),
        ("deps", dependencies, MOST_DEPENDENCIES),
    ):
        if number > most:
            raise BadInput(field, f"are {number} in all, at most {most} are possible")
    _check_tasks(groups, members)
    cycle = find_cycle(groups, members, members if changed is None else changed)
    if cycle:
        raise BadInput("deps", f"form a cycle: {' -> '.join(cycle)}")


def _refuse_twins(paths: Iterator[str] | Sequence[str]) -> None:
    twins = [path for path, number in Counter(paths).items() if number > 1]
    if twins:
        raise BadInput("name", f"{twins[0]!r} is already in the flow")


def _check_tasks(groups: Mapping[int, GroupRow], members: Mapping[int, MemberRow]) -> None:
    for row in members.values():
        for target in (target for need in row.needs for target in need.on):
            if target.task is not None and members[target.number].kind is not MemberKind.CRAWL:
                raise BadInput("deps", f"{row.path!r} depends on a task of {members[target.number].path!r}, no crawl")
    for group in groups.values():
        if group.growth is GroupGrowth.TASKS and group.grower is not None:
            grower = members[group.grower]
            if grower.kind is not MemberKind.CRAWL:
                raise BadInput("each_task", f"{group.path!r} follows the tasks of {grower.path!r}, which is no crawl")


def find_cycle(groups: Mapping[int, GroupRow], members: Mapping[int, MemberRow], starts: Iterable[int]) -> list[str]:
    """Return the paths along a cycle, the first one again at the end; an empty list if there is no cycle.

    `starts`: numbers of members at which the search begins; a new cycle contains a new or changed member.
    """
    inside: dict[int, list[Place]] = {number: [] for number in groups}
    for member in members.values():
        inside[member.group].append((MEMBER, member.number))
    for group in groups.values():
        if group.parent is not None:
            inside[group.parent].append((END, group.number))

    def before(place: Place) -> Iterator[Place]:
        kind, number = place
        if kind == MEMBER:
            yield from _targets(members[number].needs)
            yield GATE, members[number].group
        elif kind == END:
            yield from inside[number]
            yield GATE, number  # the end of an empty group waits for the group's needs
            if groups[number].grower is not None:
                yield MEMBER, groups[number].grower or 0
        else:
            yield from _targets(groups[number].needs)
            yield from _around(groups[number])

    done: set[Place] = set()
    for number in starts:
        cycle = _cycle_from((MEMBER, number), before, done)
        if cycle:
            return _named(cycle, groups, members)
    return []


def _cycle_from(start: Place, before: Callable[[Place], Iterator[Place]], done: set[Place]) -> list[Place]:
    """Search depth first from a place; places in `done` lead to no cycle."""
    way: dict[Place, Iterator[Place]] = {}
    following: Place | None = start
    while following is not None or way:
        if following is not None and following not in done:
            if following in way:
                places = list(way)
                return places[places.index(following) :]
            way[following] = before(following)
        place = next(reversed(way), None)
        if place is None:
            return []
        following = next(way[place], None)
        if following is None:
            done.add(place)
            del way[place]
    return []


def _named(cycle: Sequence[Place], groups: Mapping[int, GroupRow], members: Mapping[int, MemberRow]) -> list[str]:
    """Return the paths along the cycle in the direction of the work: first the dependency, then its dependent."""
    paths = [(members if kind == MEMBER else groups)[number].path for kind, number in cycle if kind != GATE]
    names = list(dict.fromkeys(reversed(paths)))
    return [names[-1], *names]


def _targets(needs: Sequence[NeedRow]) -> Iterator[Place]:
    for need in needs:
        for target in need.on:
            yield (END if target.is_group else MEMBER), target.number


def _around(group: GroupRow) -> Iterator[Place]:
    if group.parent is not None:
        yield GATE, group.parent
    if group.growth is GroupGrowth.GRAFT and group.grower is not None:
        yield MEMBER, group.grower
