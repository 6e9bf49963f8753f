"""Compiling: turns definitions with paths into rows with numbers."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel

from crawler_lifecycle.base.names import ROOT, SEPARATOR, joined, parent_path
from crawler_lifecycle.base.near_names import did_you_mean
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import Fragment, GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.model.needs import Need
from crawler_lifecycle.flows.model.work import ApprovalWork, CallForm, CrawlWork, ManagerWork, StepWork
from crawler_lifecycle.flows.rules.rows import GroupRow, Ledger, MemberRow, NeedRow, Target
from crawler_lifecycle.model.flow_states import MemberKind, Ready
from crawler_lifecycle.model.naming import managers_queue, own_queue


def fingerprint(model: BaseModel | Mapping[str, object] | None) -> str:
    """Return a text that is equal for equal content, in any order.

    Defaults are excluded: with a later version's new fields, a definition that is pushed again is still the same.
    """
    content = model.model_dump(mode="json", exclude_defaults=True) if isinstance(model, BaseModel) else model
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(slots=True)
class Numbers:
    """Numbers of members and groups by path, with numbers for new paths, and the flow's own host."""

    members: dict[str, int]
    groups: dict[str, int]
    next_member: int
    next_group: int
    own_host: str

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
                tuple(self.target(path, need.task, dependent) for path in dict.fromkeys(need.on)),
                need.share,
                need.count,
                need.wait,
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
        numbers.groups[group.path],
        group.path,
        numbers.groups[parent],
        numbers.needs(group.needs, group.path),
        group.ignore_cancelled,
        group.ignore_discarded,
        group.max_parallel,
        group.growth,
        grower,
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
        numbers.members[member.path],
        member.path,
        numbers.groups[group],
        MemberKind.STEP if isinstance(work, ManagerWork) else MemberKind(work.kind),
        numbers.needs(member.needs, member.path),
        member.ignore_cancelled,
        member.ignore_discarded,
        member.retry,
        member.priority,
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
