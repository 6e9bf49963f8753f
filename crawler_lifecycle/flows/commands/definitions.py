"""Definitions as JSON from outside: strictly read, and with names inside their own level only."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from crawler_lifecycle.base.names import SEPARATOR, parent_path
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.authors.restoring import OnRecord, restored
from crawler_lifecycle.flows.model.definition import (
    CrawlWork,
    FlowDefinition,
    Fragment,
    GroupDefinition,
    MemberDefinition,
    StepWork,
)
from crawler_lifecycle.flows.rules import merging
from crawler_lifecycle.model.requests import RunRequest, refusals_as_bad_input

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
