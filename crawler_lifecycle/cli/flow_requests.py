"""The commands that change flows: push, add, approve, cancel, retry, pause, resume, stop, prune."""

import asyncio
import json
import shlex
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.cli.common import Duration, KeyValue, print_json, standard_options
from crawler_lifecycle.cli.failures import INTERRUPTED
from crawler_lifecycle.cli.flow_options import (
    actor_option,
    file_argument,
    flow_argument,
    jobs_argument,
    on_record,
    open_commands,
    print_effect,
    workflow_option,
)
from crawler_lifecycle.domain.words import counted

if TYPE_CHECKING:
    from crawler_lifecycle.contract.flows.requests import StopFlow
    from crawler_lifecycle.control.flows.commands import FlowCommands


@click.command()
@file_argument
@workflow_option
@click.option("--id", "flow_id", help="Id of the flow, in place of the id in FILE.")
@actor_option
@standard_options
def push(
    file: Path, workflow_name: str | None, flow_id: str | None, actor: str | None, state: Path | None, as_json: bool
) -> None:
    """Put the workflow in FILE on record: a Python file, or a definition as JSON. Print the flow's id.

    A push of a known id updates the flow. The flow is on record even if all workers and Temporal are away. Its steps
    need a host: `python -m workers.flows FILE`, or `crawlctl up --flows FILE`.

    \b
    Examples:
      crawlctl flow push bookshop_graph.py
      crawlctl flow push bookshop_graph.py --flow nightly --id nightly-2026-11-22
    """
    from crawler_lifecycle.cli.flow_files import definition_in
    from crawler_lifecycle.contract.flows.requests import PushFlow

    definition = definition_in(file, workflow_name, flow_id)
    request = PushFlow(definition=definition, **on_record(actor))
    answer = asyncio.run(open_commands(state).push(request))
    members = counted(answer.count, "job")
    effect = f"is made with {members}" if answer.created else f"is updated, {members} added or changed"
    print_effect(answer, effect, as_json=as_json)


@click.command()
@flow_argument
@file_argument
@workflow_option
@click.option("--key", required=True, help="Key of the addition: the same key again adds no jobs.")
@click.option("--into", default="", metavar="PATH", help="Sub-workflow that receives the jobs.")
@actor_option
@standard_options
def add(
    flow: str,
    file: Path,
    workflow_name: str | None,
    key: str,
    into: str,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Add the jobs in FILE to the open FLOW, once under a key.

    \b
    Examples:
      crawlctl flow add nightly-2026-11-22 more_shops.py --key shops-2
    """
    from crawler_lifecycle.cli.flow_files import fragment_in
    from crawler_lifecycle.contract.flows.requests import AppendMembers
    from crawler_lifecycle.contract.requests import refusals_as_bad_input

    fragment = fragment_in(file, workflow_name)
    with refusals_as_bad_input():
        request = AppendMembers(key=key, group=into, fragment=fragment, **on_record(actor))
    answer = asyncio.run(open_commands(state).append(flow, request))
    effect = f"{counted(answer.count, 'job')} added" if answer.changed else f"nothing added, the key {key!r} was used"
    print_effect(answer, effect, as_json=as_json)


@click.command()
@flow_argument
@click.argument("job")
@click.option("--reject", is_flag=True, help="Reject: the job is cancelled.")
@click.option("--note", help="Note for the record.")
@actor_option
@standard_options
def approve(
    flow: str, job: str, reject: bool, note: str | None, actor: str | None, state: Path | None, as_json: bool
) -> None:
    """Approve or reject the approval JOB of FLOW, also before the flow reaches the approval.

    \b
    Examples:
      crawlctl flow approve nightly-2026-11-22 release --note "looks good"
      crawlctl flow approve nightly-2026-11-22 release --reject
    """
    from crawler_lifecycle.contract.flows.requests import ApproveMember
    from crawler_lifecycle.contract.requests import refusals_as_bad_input

    with refusals_as_bad_input():
        request = ApproveMember(path=job, approved=not reject, note=note, **on_record(actor))
    answer = asyncio.run(open_commands(state).approve(flow, request))
    word = "rejected" if reject else "approved"
    print_effect(answer, f"{job} is {word}{'' if answer.changed else ' already'}", as_json=as_json)


@click.command()
@flow_argument
@jobs_argument
@click.option("--keep-running", is_flag=True, help="Do not end jobs under way; only their results are refused.")
@click.option("--reason", help="Reason for the record.")
@actor_option
@standard_options
def cancel(
    flow: str,
    jobs: tuple[str, ...],
    keep_running: bool,
    reason: str | None,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Cancel the open JOBS of FLOW, or all its open jobs. Their dependents are cancelled, too, and not counted.

    A sub-workflow's name stands for all its jobs.

    \b
    Examples:
      crawlctl flow cancel nightly-2026-11-22
      crawlctl flow cancel nightly-2026-11-22 sites/de load --reason "wrong prices"
    """
    from crawler_lifecycle.contract.flows.requests import CancelMembers
    from crawler_lifecycle.contract.requests import refusals_as_bad_input

    with refusals_as_bad_input():
        request = CancelMembers(paths=jobs or None, terminate=not keep_running, reason=reason, **on_record(actor))
    answer = asyncio.run(open_commands(state).cancel(flow, request))
    print_effect(answer, f"{counted(answer.count, 'job')} cancelled", as_json=as_json)


@click.command()
@flow_argument
@jobs_argument
@click.option("--completed", is_flag=True, help="Retry completed jobs, too.")
@click.option("--downstream", type=click.Choice(["cancelled", "all"]), default="cancelled", show_default=True,
              help="`all`: retry all jobs behind JOBS, too, the completed ones included.")  # fmt: skip
@click.option("--arg", "arguments", type=KeyValue(), multiple=True,
              help="Argument over the former; for a step as JSON if possible, else as text; repeatable.")  # fmt: skip
@actor_option
@standard_options
def retry(
    flow: str,
    jobs: tuple[str, ...],
    completed: bool,
    downstream: str,
    arguments: tuple[tuple[str, str], ...],
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Give the cancelled and discarded JOBS of FLOW another attempt, or all of them. All other results are kept.

    \b
    Examples:
      crawlctl flow retry nightly-2026-11-22
      crawlctl flow retry nightly-2026-11-22 sites/de --arg depth=3
      crawlctl flow retry nightly-2026-11-22 parse --downstream all
    """
    from crawler_lifecycle.contract.flows.requests import Downstream, RetryMembers
    from crawler_lifecycle.contract.requests import refusals_as_bad_input

    commands = open_commands(state)
    has_steps = bool(arguments) and any(job.kind != "crawl" for job in commands.members(flow, jobs or None))
    with refusals_as_bad_input():
        request = RetryMembers(
            paths=jobs or None,
            completed=completed,
            downstream=Downstream(downstream),
            arguments={key: _value(text) if has_steps else text for key, text in arguments} or None,
            **on_record(actor),
        )
    answer = asyncio.run(commands.retry(flow, request))
    print_effect(answer, f"{counted(answer.count, 'job')} retried", as_json=as_json)


def _value(text: str) -> Any:
    """Return the JSON value; any other text stands for itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@click.command()
@flow_argument
@actor_option
@standard_options
def pause(flow: str, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Start no further jobs of FLOW until `crawlctl flow resume FLOW`. Jobs under way go on."""
    _hold(flow, "pause", actor, state, as_json=as_json)


@click.command()
@flow_argument
@actor_option
@standard_options
def resume(flow: str, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Let a paused or draining FLOW go on."""
    _hold(flow, "run", actor, state, as_json=as_json)


def _hold(flow: str, hold: str, actor: str | None, state: Path | None, *, as_json: bool) -> None:
    from crawler_lifecycle.contract.flows.requests import HoldFlow

    answer = asyncio.run(open_commands(state).hold(flow, HoldFlow(hold=hold, **on_record(actor))))
    effect = "paused: jobs under way go on, and none starts" if hold == "pause" else "goes on"
    print_effect(answer, effect, as_json=as_json)


@click.command()
@flow_argument
@click.option("--drain", is_flag=True, help="Start nothing new, and let the jobs under way end by themselves.")
@click.option("--leave", is_flag=True, help="Cancel all jobs, and leave crawls and steps under way alone.")
@click.option("--force", is_flag=True, help="End the crawls under way at once, without their grace period.")
@click.option("--wait", is_flag=True, help="Return with the proof that nothing of FLOW runs any more.")
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
    asyncio.run(_stop(open_commands(state), flow, request, wait=wait, as_json=as_json))


async def _stop(commands: "FlowCommands", flow: str, request: "StopFlow", *, wait: bool, as_json: bool) -> None:
    """Stop the flow, and with `wait` wait for its end, the proof."""
    from crawler_lifecycle.contract.flows.requests import StopWay

    answer = await commands.stop(flow, request)
    effects = {
        StopWay.TERMINATE: f"{counted(answer.count, 'job')} cancelled, those under way are asked to end",
        StopWay.DRAIN: "starts nothing new, and ends with its jobs under way",
        StopWay.LEAVE: f"{counted(answer.count, 'job')} cancelled, those under way go on by themselves",
    }
    print_effect(answer, effects[request.way], as_json=as_json)
    if not wait:
        return
    try:
        row = await commands.wait(flow)
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"\nthe stop of flow {flow} goes on: crawlctl flow watch {shlex.quote(flow)}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"flow_id": row.id, "state": row.state})
    else:
        click.echo(f"flow {flow} is {row.state}: nothing of it runs any more")


@click.command()
@click.option("--older-than", type=Duration(), default=24 * 3600, help="Age since the end of the flow; default: 1d.")
@standard_options
def prune(older_than: int, state: Path | None, as_json: bool) -> None:
    """Delete ended flows with their results. Runs stay, and open flows are never deleted.

    \b
    Examples:
      crawlctl flow prune --older-than 30d
    """
    from crawler_lifecycle.domain.flows.pruning import Age

    number = asyncio.run(open_commands(state).prune(Age() > timedelta(seconds=older_than)))
    if as_json:
        print_json({"deleted": number})
    else:
        click.echo(f"{counted(number, 'flow')} deleted")
