"""Turn definitions with paths into rows with numbers, and check whole flows.

The checks find repeated paths, exceeded limits, unsuitable tasks of crawls, and cycles with their paths.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from pydantic import BaseModel

from crawler_lifecycle.base.limits import (
    DEEPEST,
    LARGEST_ARGUMENTS,
    LARGEST_CONTEXT,
    MOST_DEPENDENCIES,
    MOST_GROUPS,
    MOST_MEMBERS,
)
from crawler_lifecycle.base.names import ROOT, SEPARATOR, depth, did_you_mean, joined, parent_path
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import (
    ApprovalWork,
    CallForm,
    CrawlWork,
    Fragment,
    GroupDefinition,
    ManagerWork,
    MemberDefinition,
    Need,
    StepWork,
)
from crawler_lifecycle.flows.model.values import check_encoded, check_size, size_of
from crawler_lifecycle.flows.rules.rows import GroupRow, Ledger, MemberRow, NeedRow, Target, targets_of
from crawler_lifecycle.model.flow_states import GroupGrowth, MemberKind, Ready
from crawler_lifecycle.model.naming import managers_queue, own_queue

# a node in the search for cycles: its kind, and the number of its member or group; `network` explains ends and gates
NodeKey = tuple[str, int]
MEMBER, END, GATE = "member", "end", "gate"
OF_TARGETS = ("on", "task")  # fields of a `Need` that become its row's targets; the row has all other fields itself


def check_fragment(fragment: Fragment) -> None:
    """Raise BadInput for repeated paths, too deep paths and too large values."""
    _refuse_twins(member.path for member in fragment.members)
    _refuse_twins(group.path for group in fragment.groups)
    # a grafter and its group share a path; otherwise no member has a group's path
    grafts = {group.path for group in fragment.groups if group.growth is GroupGrowth.GRAFT}
    paths_of_others = [member.path for member in fragment.members if member.path not in grafts]
    _refuse_twins([*paths_of_others, *(group.path for group in fragment.groups)])
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


def _refuse_twins(paths: Iterator[str] | Sequence[str]) -> None:
    twins = [path for path, number in Counter(paths).items() if number > 1]
    if twins:
        raise BadInput("name", f"{twins[0]!r} is already in the flow")


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
    cycle = _find_cycle(groups, members, members if changed is None else changed)
    if cycle:
        raise BadInput("deps", f"form a cycle: {' -> '.join(cycle)}")


def _check_tasks(groups: Mapping[int, GroupRow], members: Mapping[int, MemberRow]) -> None:
    for row in members.values():
        for target in targets_of(row.needs):
            if target.task is not None and members[target.number].kind is not MemberKind.CRAWL:
                raise BadInput("deps", f"{row.path!r} depends on a task of {members[target.number].path!r}, no crawl")
    for group in groups.values():
        if group.growth is GroupGrowth.TASKS and group.grower is not None:
            grower = members[group.grower]
            if grower.kind is not MemberKind.CRAWL:
                raise BadInput("each_task", f"{group.path!r} follows the tasks of {grower.path!r}, which is no crawl")


def _find_cycle(groups: Mapping[int, GroupRow], members: Mapping[int, MemberRow], starts: Iterable[int]) -> list[str]:
    """Return the paths along a cycle, the first one again at the end; an empty list if there is no cycle.

    `starts`: numbers of members at which the search begins; a new cycle contains a new or changed member.
    """
    inside: dict[int, list[NodeKey]] = {number: [] for number in groups}  # by group: members, and inner groups' ends
    for member in members.values():
        inside[member.group].append((MEMBER, member.number))
    for group in groups.values():
        if group.parent is not None:
            inside[group.parent].append((END, group.number))

    def awaited_by(node: NodeKey) -> Iterator[NodeKey]:
        """Yield the nodes for which the node waits."""
        kind, number = node
        if kind == MEMBER:
            yield from _targets(members[number].needs)
            yield GATE, members[number].group
            return
        group = groups[number]
        if kind == END:
            yield from inside[number]
            yield GATE, number  # the end of an empty group waits for the group's needs
            if group.grower is not None:
                yield MEMBER, group.grower  # may add members until its end
            return
        yield from _targets(group.needs)
        if group.parent is not None:
            yield GATE, group.parent
        if group.growth is GroupGrowth.GRAFT and group.grower is not None:
            yield MEMBER, group.grower  # a grafter's members start after the grafter; a crawl's, after single tasks

    done: set[NodeKey] = set()
    for number in starts:
        cycle = _cycle_from((MEMBER, number), awaited_by, done)
        if cycle:
            return _named(cycle, groups, members)
    return []


def _targets(needs: Sequence[NeedRow]) -> Iterator[NodeKey]:
    for target in targets_of(needs):
        yield (END if target.is_group else MEMBER), target.number


def _cycle_from(
    start: NodeKey, awaited_by: Callable[[NodeKey], Iterator[NodeKey]], done: set[NodeKey]
) -> list[NodeKey]:
    """Search depth first from a node, against the direction of the work. Nodes in `done` lead to no cycle."""
    way: dict[NodeKey, Iterator[NodeKey]] = {}  # nodes from the start on, with their branches still to search
    if start not in done:
        way[start] = awaited_by(start)
    while way:
        node, branches = next(reversed(way.items()))
        following = next(branches, None)
        if following is None:
            done.add(node)
            del way[node]
        elif following in way:
            nodes = list(way)
            return nodes[nodes.index(following) :]
        elif following not in done:
            way[following] = awaited_by(following)
    return []


def _named(cycle: Sequence[NodeKey], groups: Mapping[int, GroupRow], members: Mapping[int, MemberRow]) -> list[str]:
    """Return the paths along the cycle in the direction of the work: first the dependency, then its dependent."""
    paths = [(members if kind == MEMBER else groups)[number].path for kind, number in cycle if kind != GATE]
    names = list(dict.fromkeys(reversed(paths)))
    return [names[-1], *names]


def fingerprint(model: BaseModel | Mapping[str, object] | None) -> str:
    """Return a text that is equal for equal content, in any order.

    Defaults are excluded: with a later version's new fields, a definition that is pushed again is still the same.
    """
    content = model.model_dump(mode="json", exclude_defaults=True) if isinstance(model, BaseModel) else model
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(slots=True)
class Numbers:
    """Numbers of members and groups by path, to turn needs into rows. New paths get the next numbers."""

    members: dict[str, int]
    groups: dict[str, int]
    next_member: int
    next_group: int
    own_host: str  # the flow's; empty: any host

    @classmethod
    def from_ledger(cls, ledger: Ledger) -> "Numbers":
        members, groups = ledger.paths_of_members(), ledger.paths_of_groups()
        return cls(members, groups, ledger.last_member + 1, ledger.last_group + 1, ledger.flow.own_host)

    def add(self, fragment: Fragment) -> None:
        for group in fragment.groups:
            if group.path not in self.groups:
                self.groups[group.path] = self.next_group
                self.next_group += 1
        for member in fragment.members:
            if member.path not in self.members:
                self.members[member.path] = self.next_member
                self.next_member += 1

    def target(self, path: str, task: int | None, dependent: str) -> Target:
        """Return the target with the path. A graft's path stands for its group, which waits for its grafter, too."""
        if path in self.groups and task is None:
            return Target(self.groups[path], is_group=True)
        if path in self.members:
            return Target(self.members[path], task=task)
        hint = did_you_mean(path, self._paths_for(dependent))
        raise BadInput("deps", f"{dependent!r} depends on {path!r}, which is not in the flow{hint}")

    def _paths_for(self, dependent: str) -> Iterator[str]:
        """Yield the paths that the dependent may depend on, as far as levels decide."""
        level = parent_path(dependent)
        inside = f"{level}{SEPARATOR}" if level else ROOT
        for path in (*self.members, *self.groups):
            if path.startswith(inside) and path != dependent:
                yield path

    def needs(self, needs: Iterable[Need], dependent: str) -> tuple[NeedRow, ...]:
        rows = (
            NeedRow(
                on=tuple(self.target(path, need.task, dependent) for path in dict.fromkeys(need.on)),
                **{field: value for field, value in need if field not in OF_TARGETS},
            )
            for need in needs
        )
        return tuple(dict.fromkeys(rows))


def group_row(group: GroupDefinition, numbers: Numbers) -> GroupRow:
    parent = parent_path(group.path)
    if parent not in numbers.groups:
        raise BadInput("sub-workflows", f"{group.path!r} is in {parent!r}, which is not in the flow")
    grower = None
    if group.grower is not None:
        grower = numbers.target(group.grower, 0, group.path).number  # a task's target is a member, never a group
    return GroupRow(
        number=numbers.groups[group.path],
        path=group.path,
        parent=numbers.groups[parent],
        needs=numbers.needs(group.needs, group.path),
        ignore_cancelled=group.ignore_cancelled,
        ignore_discarded=group.ignore_discarded,
        max_parallel=group.max_parallel,
        growth=group.growth,
        grower=grower,
        context=fingerprint(group.context),
        fingerprint=fingerprint(group),
    )


def member_row(member: MemberDefinition, numbers: Numbers, at: datetime) -> MemberRow:
    """Return a new row. `at`: the time from which a delay counts."""
    group = parent_path(member.path)
    if group not in numbers.groups:
        raise BadInput("jobs", f"{member.path!r} is in {group!r}, which is not in the flow")
    work = member.work
    delay = None if member.delay_seconds is None else at + timedelta(seconds=member.delay_seconds)
    return MemberRow(
        number=numbers.members[member.path],
        path=member.path,
        group=numbers.groups[group],
        kind=MemberKind.STEP if isinstance(work, ManagerWork) else MemberKind(work.kind),
        needs=numbers.needs(member.needs, member.path),
        ignore_cancelled=member.ignore_cancelled,
        ignore_discarded=member.ignore_discarded,
        retry=member.retry,
        priority=member.priority,
        start_at=max(filter(None, (member.start_at, delay)), default=None),
        timeout_seconds=work.timeout_seconds if isinstance(work, ApprovalWork) else None,
        fingerprint=fingerprint(member),
        route=route_of(work, numbers.own_host) if isinstance(work, StepWork) else "",
        ready=work.ready if isinstance(work, CrawlWork) else Ready.ENDED,
        since=at,
    )


def route_of(work: StepWork, own_host: str) -> str:
    """Return the way to a host for the step: its queue, module and function.

    Managers have queues of their own: a host that is busy with steps still takes managers, and conversely.
    """
    module, function = work.function.split(":")
    queue = own_queue(work.queue, own_host)
    queue = managers_queue(queue) if work.form is CallForm.MANAGER else queue
    return f"{queue}|{module}|{function}"


def within(fragment: Fragment, base: str) -> Fragment:
    """Return the fragment with its paths below a base path."""
    if base == ROOT:
        return fragment

    def needs(original: tuple[Need, ...]) -> tuple[Need, ...]:
        return tuple(need.model_copy(update={"on": tuple(joined(base, path) for path in need.on)}) for need in original)

    return Fragment(
        groups=tuple(
            group.model_copy(
                update={
                    "path": joined(base, group.path),
                    "needs": needs(group.needs),
                    "grower": None if group.grower is None else joined(base, group.grower),
                }
            )
            for group in fragment.groups
        ),
        members=tuple(
            member.model_copy(update={"path": joined(base, member.path), "needs": needs(member.needs)})
            for member in fragment.members
        ),
    )
