"""Options and arguments that several commands for flows share."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from click.shell_completion import CompletionItem

from crawler_lifecycle.console.common import Command, open_connection, print_answer, typed_api, user_name
from crawler_lifecycle.console.completion import MOST_NAMES, completed_by
from crawler_lifecycle.console.failures import REFUSED, fail
from crawler_lifecycle.errors import BadInput

if TYPE_CHECKING:
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
    from crawler_lifecycle.flows.model.definition import FlowDefinition, Fragment
    from crawler_lifecycle.flows.model.records import FlowAnswer
    from crawler_lifecycle.transport.connection import HttpConnection

MOST_REASONS = 20  # jobs named in a refusal; further jobs are counted

jobs_argument = click.argument("jobs", nargs=-1)
arguments_argument = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)  # for a crawl manager, after `--`
file_argument = click.argument("file", type=click.Path(path_type=Path))


def open_flows(state: Path | None) -> "ApiFlows":
    from crawler_lifecycle.flows.client import ApiFlows

    return ApiFlows(open_connection(state))


def _flows(connection: "HttpConnection") -> Iterator[CompletionItem]:
    from crawler_lifecycle.flows.client import ApiFlows

    return (CompletionItem(flow.id, help=flow.state) for flow in ApiFlows(connection).all(page_size=MOST_NAMES))


flow_argument = click.argument("flow", shell_complete=completed_by(_flows))


class DirectFlows(Protocol):
    """The installation itself, for crawl managers by their classes."""

    @property
    def flows(self) -> "FlowCommands": ...


OpenDirect = Callable[[Path | None, str | None], DirectFlows]  # with the state folder, and the actor for the record


def needs_installation(fragment: "Fragment", state: Path | None) -> bool:
    """Return whether the fragment has crawl managers by their classes. BadInput without the installation here.

    The API starts managers by their names in the catalogue alone.
    """
    from crawler_lifecycle.flows.model.definition import StepWork
    from crawler_lifecycle.settings.installation import is_known

    if not any(isinstance(member.work, StepWork) and member.work.is_manager for member in fragment.members):
        return False
    if typed_api() is not None or not is_known(state):
        raise BadInput(
            "FILE",
            "a crawl manager by its file or class starts on a machine of the installation; the API starts managers by "
            'their names in the catalogue, and graphs with manager("NAME")',
        )
    return True


def push(definition: "FlowDefinition", open_direct: OpenDirect, state: Path | None, actor: str | None) -> "FlowAnswer":
    """Store the flow."""
    from crawler_lifecycle.flows.model.requests import PushFlow

    request = PushFlow(definition=definition, **on_record(actor))
    if needs_installation(definition, state):
        return asyncio.run(open_direct(state, actor).flows.push(request))
    return open_flows(state).push(request)


def workflow_option(command: Command) -> Command:
    return click.option(
        "--flow",
        "workflow_name",  # `name` is a field of requests, whose refusals would then be shown as refusals of this option
        metavar="NAME",
        help="Name of the workflow, sequence or function in FILE; default: the only workflow, or the function `flow` "
        "or `workflow`.",
    )(command)


def manager_option(command: Command) -> Command:
    return click.option(
        "--manager", metavar="JOB", help="The crawl manager with the items, in a flow with further jobs."
    )(command)


def actor_option(command: Command) -> Command:
    return click.option("--actor", help="Name for the record; default: your login name.")(command)


def on_record(actor: str | None) -> dict[str, Any]:
    """Return the fields of a request for the record."""
    return {"actor": actor or user_name(), "door": "crawlctl"}


def print_effect(answer: "FlowAnswer", effect: str, *, as_json: bool) -> None:
    from crawler_lifecycle.flows.cli.lines import answer_lines

    print_answer(answer, lambda answer: answer_lines(answer, effect), as_json=as_json)


def refuse_left_out(answer: "FlowAnswer", word: str, *, as_json: bool) -> None:
    """Exit with REFUSED if the request left named jobs as they are. The answer is printed already."""
    if answer.left_out:
        reasons = [f"{unchanged.job!r} {unchanged.reason}" for unchanged in answer.left_out[:MOST_REASONS]]
        if len(answer.left_out) > MOST_REASONS:
            reasons.append(f"and {len(answer.left_out) - MOST_REASONS} more")
        fail(f"{word}: {'; '.join(reasons)}", REFUSED, as_json=as_json)
