"""The commands that hold and end whole flows: pause, resume, stop."""

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import print_json, standard_options
from crawler_lifecycle.cli.failures import INTERRUPTED
from crawler_lifecycle.cli.flow_options import actor_option, flow_argument, on_record, open_commands, print_effect
from crawler_lifecycle.domain.words import counted

if TYPE_CHECKING:
    from crawler_lifecycle.contract.flows.answers import FlowAnswer
    from crawler_lifecycle.contract.flows.requests import StopFlow, StopWay
    from crawler_lifecycle.contract.flows.states import FlowState
    from crawler_lifecycle.control.flows.commands import FlowCommands


@click.command()
@flow_argument
@actor_option
@standard_options
def pause(flow: str, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Start no further jobs of FLOW until `crawlctl flow resume FLOW`. Jobs under way continue."""
    _hold(flow, "pause", actor, state, as_json=as_json)


@click.command()
@flow_argument
@actor_option
@standard_options
def resume(flow: str, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Let a paused or draining FLOW continue, also a crawl manager that its own failure has paused."""
    _hold(flow, "run", actor, state, as_json=as_json)


def _hold(flow: str, hold: str, actor: str | None, state: Path | None, *, as_json: bool) -> None:
    from crawler_lifecycle.contract.flows.requests import HoldFlow

    answer = asyncio.run(open_commands(state).hold(flow, HoldFlow(hold=hold, **on_record(actor))))
    effect = "paused: jobs under way continue, and none starts" if hold == "pause" else "resumed"
    print_effect(answer, effect, as_json=as_json)


@click.command()
@flow_argument
@click.option("--drain", is_flag=True, help="Start nothing new, and let the jobs under way end on their own.")
@click.option("--leave", is_flag=True, help="Cancel all jobs, and leave crawls and steps under way alone.")
@click.option("--force", is_flag=True, help="End the crawls under way at once, without their grace period.")
@click.option("--wait", is_flag=True, help="Return with the proof that no part of FLOW runs any more.")
@click.option("--reason", help="Reason for the record.")
@actor_option
@standard_options
def stop(
    flow: str,
    drain: bool,
    leave: bool,
    force: bool,
    wait: bool,
    reason: str | None,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Stop FLOW: cancel all its jobs, and end its crawls and steps under way.

    \b
    Examples:
      crawlctl flow stop nightly-2026-11-22 --wait
      crawlctl flow stop nightly-2026-11-22 --drain
    """
    from crawler_lifecycle.contract.flows.requests import StopFlow, StopWay
    from crawler_lifecycle.contract.requests import refusals_as_bad_input

    if drain + leave + force > 1:
        raise click.UsageError("--drain, --leave and --force exclude each other")
    way = StopWay.DRAIN if drain else StopWay.LEAVE if leave else StopWay.TERMINATE
    with refusals_as_bad_input():
        request = StopFlow(way=way, force=force, reason=reason, **on_record(actor))
    commands = open_commands(state)
    former, managers = commands.status(flow), commands.managers(flow)
    is_manager = bool(managers) and former.total == 1
    ended = former.state if former.state.is_final else None
    asyncio.run(_stop(commands, flow, request, _Subject(ended, is_manager), wait=wait, as_json=as_json))


@dataclass(frozen=True)
class _Subject:
    """The flow before its stop."""

    end: "FlowState | None"
    is_manager: bool

    def effect(self, answer: "FlowAnswer", way: "StopWay") -> str:
        if self.end is not None and not answer.changed:
            return f"has ended ({self.end}); its crawls under way are asked to end"
        if way == "drain":
            return "starts nothing new, and ends with its jobs under way"
        jobs = "the manager is cancelled with its waiting items" if self.is_manager else _cancelled(answer)
        crawls = "crawls" if self.is_manager else "those"
        return f"{jobs}, {crawls} under way {'continue on their own' if way == 'leave' else 'are asked to end'}"


def _cancelled(answer: "FlowAnswer") -> str:
    return f"{counted(answer.count, 'job')} cancelled"


async def _stop(
    commands: "FlowCommands", flow: str, request: "StopFlow", subject: _Subject, *, wait: bool, as_json: bool
) -> None:
    """Stop the flow, and with `wait` wait for its end, the proof."""
    answer = await commands.stop(flow, request)
    print_effect(answer, subject.effect(answer, request.way), as_json=as_json)
    if not wait:
        return
    try:
        row = await commands.wait_for_proof(flow)
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"\nthe stop of flow {flow} continues: crawlctl flow watch {shlex.quote(flow)}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"flow_id": row.id, "state": row.state})
    else:
        click.echo(f"flow {flow} is {row.state}: nothing of it runs any more")
