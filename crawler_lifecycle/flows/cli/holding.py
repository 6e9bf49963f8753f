"""The commands that hold and end whole flows: pause, resume, stop."""

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.api_choice import open_connection
from crawler_lifecycle.console.common import print_json, standard_options
from crawler_lifecycle.console.failures import INTERRUPTED
from crawler_lifecycle.flows.cli.items import has_ledger
from crawler_lifecycle.flows.cli.options import actor_option, flow_argument, on_record, open_flows, print_effect

if TYPE_CHECKING:
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.flows.model.answers import FlowAnswer, FlowSummary
    from crawler_lifecycle.flows.model.requests import StopWay
    from crawler_lifecycle.model.flow_states import FlowState
    from crawler_lifecycle.runs.client.runs import ApiRuns

POLL_SECONDS = 2.0  # between two looks for open runs


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
    from crawler_lifecycle.flows.model.requests import HoldFlow

    answer = open_flows(state).hold(flow, HoldFlow(hold=hold, **on_record(actor)))
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
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.flows.model.requests import StopFlow, StopWay
    from crawler_lifecycle.model.requests import refusals_as_bad_input
    from crawler_lifecycle.runs.client.runs import ApiRuns

    if drain + leave + force > 1:
        raise click.UsageError("--drain, --leave and --force exclude each other")
    way = StopWay.DRAIN if drain else StopWay.LEAVE if leave else StopWay.TERMINATE
    with refusals_as_bad_input():
        request = StopFlow(way=way, force=force, reason=reason, **on_record(actor))
    connection = open_connection(state)
    flows = ApiFlows(connection)
    former = flows.show(flow)["status"].state
    subject = _Subject(former if former.is_final else None, has_ledger(flows, flow))
    answer = flows.stop(flow, request)
    print_effect(answer, subject.effect(answer, way), as_json=as_json)
    if not wait:
        return
    try:
        ended = _until_proved(flows, ApiRuns(connection), flow)
    except KeyboardInterrupt:
        click.echo(f"\nthe stop of flow {flow} continues: crawlctl flow watch {shlex.quote(flow)}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"flow_id": ended.id, "state": ended.state})
    else:
        click.echo(f"flow {flow} is {ended.state}: nothing of it runs any more")


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


def _until_proved(flows: "ApiFlows", runs: "ApiRuns", flow: str) -> "FlowSummary":
    """Return the flow as soon as the flow has ended, and none of its runs is open."""
    from crawler_lifecycle.model.states import RunStatus

    for _ in flows.follow(flow):
        pass
    unfinished = [status for status in RunStatus if not status.is_over]
    while runs.page(limit=1, flow=flow, status=unfinished).items:
        time.sleep(POLL_SECONDS)
    return flows.show(flow)["flow"]
