"""Definitions as JSON from outside: strictly read, and with names inside their own level only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import methodcaller
from typing import TypeVar

from crawler_lifecycle.contract.deployment import ManagerEntry
from crawler_lifecycle.contract.flows.definition import FlowDefinition, Fragment, GroupDefinition, MemberDefinition
from crawler_lifecycle.contract.flows.names import SEPARATOR, parent_path
from crawler_lifecycle.contract.flows.retrying import RetryPolicy
from crawler_lifecycle.contract.flows.work import CallForm, CrawlWork, ManagerWork, StepWork
from crawler_lifecycle.contract.requests import RunRequest, refusals_as_bad_input
from crawler_lifecycle.control.context import ControlContext
from crawler_lifecycle.domain.flows import merging
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.restoring import OnRecord, restored
from crawler_lifecycle.managers.arguments import without_flow_id
from crawler_lifecycle.managers.defining import family_in, flow_of

AnyFragment = TypeVar("AnyFragment", bound=Fragment)


def read_definition(content: bytes | str) -> FlowDefinition:
    """Return the flow's definition. BadInput for unknown fields, wrong types, and names outside of their level."""
    return _read(FlowDefinition, content)


def read_fragment(content: bytes | str) -> Fragment:
    """Return members and groups for an append, with the same checks."""
    return _read(Fragment, content)


def _read(model: type[AnyFragment], content: bytes | str) -> AnyFragment:
    with refusals_as_bad_input():
        fragment = model.model_validate_json(content, strict=True, extra="forbid")
    _refuse_managers(fragment)
    check_outside(fragment)
    return fragment


def _refuse_managers(fragment: Fragment) -> None:
    """Refuse crawl managers by their classes: other machines start managers by catalogue names alone."""
    for member in fragment.members:
        if isinstance(member.work, StepWork) and member.work.is_manager:
            raise BadInput(
                "form",
                f"{member.path!r} is a crawl manager by its class: expected "
                '{"kind": "manager", "manager": "its name in the catalogue"}',
            )


async def with_classes(fragment: AnyFragment, context: ControlContext[object]) -> AnyFragment:
    """Return the fragment with the classes of the catalogue's crawl managers. NotFound without such a manager."""
    names = {member.work.manager for member in fragment.members if isinstance(member.work, ManagerWork)}
    if not names:
        return fragment
    entries = {name: await context.scheduler(methodcaller("manager", name)) for name in sorted(names)}
    members = tuple(_with_class(member, entries) for member in fragment.members)
    return fragment.model_copy(update={"members": members})


def _with_class(member: MemberDefinition, entries: Mapping[str, ManagerEntry]) -> MemberDefinition:
    named = member.work
    if not isinstance(named, ManagerWork):
        return member
    if member.retry != RetryPolicy():
        raise BadInput("retry", f"{member.path!r} is a crawl manager, whose tries are its own")
    entry = entries[named.manager]
    if list(named.arguments) != without_flow_id(named.arguments):
        raise BadInput("arguments", f"of {member.path!r} have --flow-id, but the manager's family is the flow's")
    words = without_flow_id([*entry.arguments, *named.arguments])
    work = StepWork(function=entry.function, form=CallForm.MANAGER, arguments=words, queue=entry.queue)
    return member.model_copy(update={"work": work})


def definition_of_entry(entry: ManagerEntry, family: str | None, arguments: Sequence[str]) -> FlowDefinition:
    """Return the flow for a catalogue's crawl manager. The catalogue's arguments come first."""
    whole = (*entry.arguments, *arguments)
    return flow_of(entry.function, entry.name, family_in(whole, family, entry.name), whole, entry.queue)


def workflow_of(definition: FlowDefinition) -> Workflow:
    """Return the workflow of a definition that is not stored. BadInput if a push would refuse the definition."""
    ledger = merging.new_ledger(definition)
    merged = merging.push(ledger, definition, datetime.now(UTC))
    merged.apply(ledger)
    members = {row.number: member for row, member in merged.members}
    groups = {row.number: group for row, group in merged.groups}
    return restored(OnRecord("", ledger, members, groups, definition.context))


def check_outside(fragment: Fragment) -> None:
    """Raise BadInput for a crawl's wrong parameters, and for a dependency on a member outside of the own level."""
    for member in fragment.members:
        if isinstance(member.work, CrawlWork):
            with refusals_as_bad_input():
                RunRequest.model_validate(member.work.request.model_dump())
    for part, path in _needs((*fragment.groups, *fragment.members)):
        level = parent_path(part)
        if level and not path.startswith(level + SEPARATOR):
            raise BadInput("needs", f"{part!r} depends on {path!r}, which is outside of {level!r}")


def _needs(parts: Iterable[GroupDefinition | MemberDefinition]) -> Iterator[tuple[str, str]]:
    for part in parts:
        yield from ((part.path, path) for need in part.needs for path in need.on)
        if isinstance(part, GroupDefinition) and part.grower is not None:
            yield part.path, part.grower
