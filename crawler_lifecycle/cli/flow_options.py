"""Options and arguments that several commands for flows share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.cli.common import Command, open_control, print_answer, user_name

if TYPE_CHECKING:
    from crawler_lifecycle.contract.flows.answers import FlowAnswer
    from crawler_lifecycle.control.flows.commands import FlowCommands

flow_argument = click.argument("flow")
jobs_argument = click.argument("jobs", nargs=-1)
file_argument = click.argument("file", type=click.Path(path_type=Path))


def open_commands(state: Path | None) -> "FlowCommands":
    return open_control(state).flows


def workflow_option(command: Command) -> Command:
    return click.option(
        "--flow",
        "workflow_name",  # `name` is a field of requests, whose refusals would then be shown as refusals of this option
        metavar="NAME",
        help="Name of the workflow, sequence or function in FILE; default: the only workflow, or the function `flow` "
        "or `workflow`.",
    )(command)


def actor_option(command: Command) -> Command:
    return click.option("--actor", help="Name for the record; default: your login name.")(command)


def on_record(actor: str | None) -> dict[str, Any]:
    """Return the fields of a request for the record."""
    return {"actor": actor or user_name(), "door": "crawlctl"}


def print_effect(answer: "FlowAnswer", effect: str, *, as_json: bool) -> None:
    from crawler_lifecycle.cli.flow_lines import answer_lines

    print_answer(answer, lambda answer: answer_lines(answer, effect), as_json=as_json)
