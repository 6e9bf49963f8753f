"""Define a crawl manager as a flow, whose only job is the manager."""

import argparse
import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar, overload
from uuid import uuid4

from crawler_lifecycle.base.names import SEPARATOR, checked_name, checked_text
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.functions import reference
from crawler_lifecycle.flows.authors.jobs import START_OPTIONS, NamedManagerJob, StepJob
from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, ManagerWork, MemberDefinition, StepWork
from crawler_lifecycle.managers.authors.arguments import command_line, without_flow_id
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.model.requests import refusals_as_bad_input

MEMBER = "manager"  # path of the manager in its flow
DEFAULT_QUEUE = "default"
ARGUMENTS = "arguments"

AnyManager = TypeVar("AnyManager", bound=BaseLoopScript)


def build(manager: type[AnyManager], arguments: Sequence[str]) -> AnyManager:
    """Return the manager's object; raise BadInput for arguments that the author's parser refuses."""
    errors = io.StringIO()
    try:
        with command_line(arguments), contextlib.redirect_stderr(errors):
            built = manager()
    except SystemExit as end:
        if not end.code:  # the parser has printed its help
            raise
        lines = errors.getvalue().strip().splitlines() or [f"the class exits with {end.code}"]
        raise BadInput(ARGUMENTS, lines[-1].partition("error: ")[2] or lines[-1]) from end
    built.check()
    return built


def family_of(built: BaseLoopScript, flow_id: str | None) -> str:
    """Return the manager's family: from the door, or from the command line, or a new one.

    `flow_id`: the family, or the whole id of the flow.
    """
    given = built.args.flow_id
    if flow_id is None:
        return str(given or built.generate_flow_id())
    family = short_family(flow_id, built.name)
    if given is not None and given != family:
        raise BadInput("family", f"is {flow_id!r} here, and {given!r} in the manager's arguments")
    return family


def family_in(arguments: Sequence[str], flow_id: str | None, name: str) -> str | None:
    """Return the family from the door, or from the arguments of a manager whose class is not on this machine."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--flow-id")
    try:
        given: str | None = parser.parse_known_args(list(arguments))[0].flow_id
    except argparse.ArgumentError as error:
        raise BadInput(ARGUMENTS, str(error)) from error
    family = None if flow_id is None else short_family(flow_id, name)
    if given is not None and family not in (None, given):
        raise BadInput("family", f"is {flow_id!r} here, and {given!r} in the manager's arguments")
    return given if family is None else family


def short_family(flow_id: str, name: str) -> str:
    """Return the family in a flow's id: the id itself, or the id without the manager's name."""
    return flow_id.removesuffix(f"{SEPARATOR}{name}")


def flow_of(
    function: str, name: str, family: str | None, arguments: Sequence[str], queue: str = DEFAULT_QUEUE
) -> FlowDefinition:
    """Return the flow for the manager. `function`: the class as `module:Class`. Without a family, a new one is made."""
    checked_name("name", name)
    family = checked_text("family", str(uuid4()) if family is None else family)
    flow_id = checked_text("family", f"{family}{SEPARATOR}{name}")
    with refusals_as_bad_input():
        words = without_flow_id(arguments)
        work = StepWork(function=function, form=CallForm.MANAGER, arguments=words, queue=queue)
        member = MemberDefinition(path=MEMBER, work=work)
        return FlowDefinition(id=flow_id, name=name, family=family, members=(member,))


@dataclass(frozen=True, kw_only=True)
class ManagerJob(StepJob):
    """A crawl manager. Its limits of time and its tries are the manager's own."""

    options: ClassVar[tuple[str, ...]] = (*START_OPTIONS, "queue")

    def with_arguments(self, arguments: object) -> "ManagerJob":
        raise BadInput("arguments", f"{self.title} takes its command line in manager(...), and not {arguments!r}"[:200])

    def _with(self, name: str, value: object) -> "ManagerJob":
        if name not in self.options:
            raise BadInput(name, f"is no option of a manager; possible are {', '.join(self.options)}")
        return super()._with(name, value)


@overload
def manager(target: str, *arguments: str) -> NamedManagerJob: ...
@overload
def manager(target: type[AnyManager], *arguments: str) -> ManagerJob: ...
def manager(target: type[AnyManager] | str, *arguments: str) -> ManagerJob | NamedManagerJob:
    """Return a job for a graph that runs the crawl manager with this command line.

    `target`: the class, or a name in the catalogue, which any machine may push. The job's name is the manager's name,
    and the flow's family, or else its id, is the manager's family. The result has `close_reason`, `counts` and `stats`.
    """
    if list(arguments) != without_flow_id(arguments):
        raise BadInput("arguments", "have --flow-id, but the manager's family is the workflow's")
    if isinstance(target, str):
        with refusals_as_bad_input():
            return NamedManagerJob(named=ManagerWork(manager=target, arguments=arguments))
    build(target, arguments)
    return ManagerJob(function=reference(target), form=CallForm.MANAGER, arguments=list(arguments))
