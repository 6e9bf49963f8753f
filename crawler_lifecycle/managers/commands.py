"""Crawl managers by the names of their entries in the catalogue."""

from collections.abc import Mapping, Sequence
from operator import methodcaller
from typing import TypeVar

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import (
    CallForm,
    FlowDefinition,
    Fragment,
    ManagerWork,
    MemberDefinition,
    StepWork,
)
from crawler_lifecycle.managers.authors.arguments import without_flow_id
from crawler_lifecycle.managers.authors.defining import family_in, flow_of
from crawler_lifecycle.model.deployment import ManagerEntry
from crawler_lifecycle.model.flow_retrying import RetryPolicy

AnyFragment = TypeVar("AnyFragment", bound=Fragment)


class CatalogueManagers:
    def __init__(self, context: ControlContext[object]) -> None:
        self._context = context

    async def definition(self, name: str, family: str | None, arguments: Sequence[str]) -> FlowDefinition:
        """Return the manager's flow. The catalogue's arguments come first. NotFound without such a manager."""
        entry = await self._entry(name)
        whole = (*entry.arguments, *arguments)
        return flow_of(entry.function, entry.name, family_in(whole, family, entry.name), whole, entry.queue)

    async def with_classes(self, fragment: AnyFragment) -> AnyFragment:
        """Return the fragment with the classes of its crawl managers. NotFound without such a manager."""
        names = {member.work.manager for member in fragment.members if isinstance(member.work, ManagerWork)}
        if not names:
            return fragment
        entries = {name: await self._entry(name) for name in sorted(names)}
        members = tuple(_with_class(member, entries) for member in fragment.members)
        return fragment.model_copy(update={"members": members})

    async def _entry(self, name: str) -> ManagerEntry:
        return await self._context.scheduler(methodcaller("manager", name))


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
