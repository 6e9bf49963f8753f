"""The commands that change flows and their jobs: approve, cancel, retry, pause, resume, stop."""

import asyncio
import json
import shlex
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.base.words import counted, span
from crawler_lifecycle.console.common import Duration, KeyValue, open_connection, print_json, standard_options
from crawler_lifecycle.console.failures import INTERRUPTED
from crawler_lifecycle.console.threads import call, iterate
from crawler_lifecycle.errors import BadInput, TemporaryError
from crawler_lifecycle.flows.cli.items import jobs_are_items
from crawler_lifecycle.flows.cli.options import (
    actor_option,
    flow_argument,
    jobs_argument,
    manager_option,
    on_record,
    open_flows,
    print_effect,
    refuse_left_out,
)

if TYPE_CHECKING:
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.flows.model.records import FlowAnswer
    from crawler_lifecycle.flows.model.requests import StopWay
    from crawler_lifecycle.model.flow_states import FlowState
    from crawler_lifecycle.runs.client import ApiRuns

POLL_SECONDS = 2.0  # between two looks for open runs
SHOWN_RUNS = 5  # numbers in a message


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


@click.command()
@flow_argument
@click.option("--drain", is_flag=True, help="Start nothing new, and let the jobs under way end on their own.")
@click.option("--leave", is_flag=True, help="Cancel all jobs, and leave crawls and steps under way alone.")
@click.option("--force", is_flag=True, help="End the crawls under way at once, without their grace period.")
@click.option("--wait", is_flag=True, help="Return once FLOW has ended and none of its crawls is left.")
@click.option("--timeout", type=Duration(), help="Longest wait, e.g. 10m; the stop continues after it. Default: none.")
@click.option("--reason", help="Reason for the record.")
@actor_option
@standard_options
def stop(
    flow: str,
    drain: bool,
    leave: bool,
    force: bool,
    wait: bool,
    timeout: int | None,
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
    from crawler_lifecycle.runs.client import ApiRuns

    if drain + leave + force > 1:
        raise click.UsageError("--drain, --leave and --force exclude each other")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait")
    way = StopWay.DRAIN if drain else StopWay.LEAVE if leave else StopWay.TERMINATE
    with refusals_as_bad_input():
        request = StopFlow(way=way, force=force, reason=reason, **on_record(actor))
    connection = open_connection(state)
    flows = ApiFlows(connection)
    former = flows.show(flow)["status"].state
    subject = _Subject(former if former.is_final else None, jobs_are_items(flows, flow))
    answer = flows.change(flow, request)
    print_effect(answer, subject.effect(answer, way), as_json=as_json)
    if not wait:
        return
    asyncio.run(_until_proved(flows, ApiRuns(connection), flow, timeout))
    ended = flows.show(flow)["flow"]
    if as_json:
        print_json({"flow_id": ended.id, "state": ended.state})
    else:
        click.echo(f"flow {flow} is {ended.state}, and none of its crawls is left")


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
    from crawler_lifecycle.flows.model.requests import ApproveMember
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    with refusals_as_bad_input():
        request = ApproveMember(path=job, approved=not reject, note=note, **on_record(actor))
    answer = open_flows(state).change(flow, request)
    word = "rejected" if reject else "approved"
    print_effect(answer, f"{job} is {word}{'' if answer.changed else ' already'}", as_json=as_json)


@click.command()
@flow_argument
@jobs_argument
@click.option("--keep-running", is_flag=True, help="Do not end jobs under way; only their results are refused.")
@click.option("--reason", help="Reason for the record.")
@manager_option
@actor_option
@standard_options
def cancel(
    flow: str,
    jobs: tuple[str, ...],
    keep_running: bool,
    reason: str | None,
    manager: str | None,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Cancel the open JOBS of FLOW, or all its open jobs. Their dependents are cancelled, too, and not counted.

    The exit status is 6 if one of JOBS had ended already.

    A sub-workflow's name selects all its jobs. Of a crawl manager, JOBS are numbers of items that wait or were
    refused. An item that the manager's close has cancelled then stays cancelled after a retry of the manager.

    \b
    Examples:
      crawlctl flow cancel november/shops 17 18
      crawlctl flow cancel nightly-2026-11-22
      crawlctl flow cancel nightly-2026-11-22 sites/de load --reason "wrong prices"
    """
    from crawler_lifecycle.flows.cli.items import cancel_items, jobs_are_items
    from crawler_lifecycle.flows.model.requests import CancelMembers
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    if (jobs or manager) and jobs_are_items(open_flows(state), flow, manager):
        cancel_items(flow, jobs, manager, actor, state, as_json=as_json)
        return
    if "" in jobs:
        raise BadInput("JOBS", "expected names of jobs, not an empty word")
    with refusals_as_bad_input():
        request = CancelMembers(paths=jobs or None, terminate=not keep_running, reason=reason, **on_record(actor))
    answer = open_flows(state).change(flow, request)
    print_effect(answer, f"{counted(answer.count, 'job')} cancelled", as_json=as_json)
    refuse_left_out(answer, "not cancelled", as_json=as_json)


@click.command()
@flow_argument
@jobs_argument
@click.option("--completed", is_flag=True, help="Retry completed jobs, too.")
@click.option("--downstream", type=click.Choice(["cancelled", "all"]), default="cancelled", show_default=True,
              help="`all`: retry all jobs after JOBS, too, the completed ones included.")  # fmt: skip
@click.option("--arg", "arguments", type=KeyValue(), multiple=True,
              help="Argument over the previous one; for a step as JSON if possible, or else as text.")  # fmt: skip
@click.option("--no-arg", "removed", metavar="NAME", multiple=True,
              help="Remove an argument of the JOBS; repeatable.")  # fmt: skip
@click.option("--spider", metavar="NAME", help="Another crawler for a manager's items, such as refused items.")
@manager_option
@actor_option
@standard_options
def retry(
    flow: str,
    jobs: tuple[str, ...],
    completed: bool,
    downstream: str,
    arguments: tuple[tuple[str, str], ...],
    removed: tuple[str, ...],
    spider: str | None,
    manager: str | None,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Give the cancelled and discarded JOBS of FLOW another attempt, or all of them. All other results are kept.

    The exit status is 6 if one of JOBS is not retried, such as a completed job without --completed.

    Of a crawl manager, JOBS are numbers of items; without numbers, its failed items, and after a stop the items
    that had not started. A manager that has ended continues with all that it has not done, its generator included.
    A refused item needs --spider or --arg.

    \b
    Examples:
      crawlctl flow retry november/shops --arg depth=3
      crawlctl flow retry november/shops 17 --spider shop
      crawlctl flow retry nightly-2026-11-22
      crawlctl flow retry nightly-2026-11-22 sites/de --arg depth=3
      crawlctl flow retry nightly-2026-11-22 load --no-arg nolang
      crawlctl flow retry nightly-2026-11-22 parse --downstream all
    """
    from crawler_lifecycle.flows.cli.items import jobs_are_items, retry_items
    from crawler_lifecycle.flows.model.requests import Downstream, RetryMembers
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    flows = open_flows(state)
    if jobs_are_items(flows, flow, manager):
        if completed or removed or downstream != "cancelled":
            raise click.UsageError("--completed, --downstream and --no-arg are not for items of crawl managers")
        retry_items(flow, jobs, arguments, spider, manager, actor, state, as_json=as_json)
        return
    if spider is not None:
        raise click.UsageError("--spider is for items of crawl managers")
    if "" in jobs:
        raise BadInput("JOBS", "expected names of jobs, not an empty word")
    has_steps = bool(arguments) and any(job.kind != "crawl" for job in flows.jobs(flow, jobs or None))
    with refusals_as_bad_input():
        request = RetryMembers(
            paths=jobs or None,
            completed=completed,
            downstream=Downstream(downstream),
            arguments={key: _value(text) if has_steps else text for key, text in arguments} or None,
            removed_arguments=removed,
            **on_record(actor),
        )
    answer = flows.change(flow, request)
    print_effect(answer, f"{counted(answer.count, 'job')} retried", as_json=as_json)
    refuse_left_out(answer, "not retried", as_json=as_json)


def _hold(flow: str, hold: str, actor: str | None, state: Path | None, *, as_json: bool) -> None:
    from crawler_lifecycle.flows.model.requests import HoldFlow

    answer = open_flows(state).change(flow, HoldFlow(hold=hold, **on_record(actor)))
    effect = "paused: jobs under way continue, and none starts" if hold == "pause" else "resumed"
    print_effect(answer, effect, as_json=as_json)


def _cancelled(answer: "FlowAnswer") -> str:
    return f"{counted(answer.count, 'job')} cancelled"


async def _until_proved(flows: "ApiFlows", runs: "ApiRuns", flow: str, timeout: int | None) -> None:
    """Wait until the flow has ended and none of its runs is open. Say on stderr which runs are awaited."""
    from crawler_lifecycle.model.states import RunStatus

    unfinished = [status for status in RunStatus if not status.is_over]

    def awaited() -> str:
        is_open = islice(runs.all(page_size=SHOWN_RUNS, flow=flow, status=unfinished), SHOWN_RUNS)
        return ", ".join(str(run.run_id) for run in is_open)

    name, named = shlex.quote(flow), ""
    problem = f"it has not ended (see `crawlctl flow watch {name}`)"
    try:
        async with asyncio.timeout(timeout):
            async for _ in iterate(flows.follow(flow)):
                pass
            while numbers := await call(awaited):
                problem = f"its runs {numbers} are open (see `crawlctl list --flow {name}`)"
                if numbers != named:
                    click.echo(f"flow {flow} has ended; waiting for its open runs: {numbers}", err=True)
                named = numbers
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        message = f"the stop of flow {flow} is not over after {span(timeout or 0)}, and continues: {problem}"
        raise TemporaryError(message) from None
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"\nthe stop of flow {flow} continues: crawlctl flow watch {name}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _value(text: str) -> Any:
    """Return the JSON value; any other text is taken as a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text
