"""The commands that only read flows: list, show, jobs, log, why, results."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.console.common import (
    plain,
    print_answer,
    print_json,
    print_to_stderr,
    standard_options,
    terminal_width,
)
from crawler_lifecycle.console.failures import REFUSED, fail
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.cli.options import flow_argument, jobs_argument, manager_option, open_flows

if TYPE_CHECKING:
    from crawler_lifecycle.flows.model.records import MemberRecord

STATES = ("executing", "paused", "completed", "cancelled", "discarded")
JOB_STATES = (
    "suspended", "available", "scheduled", "executing", "retryable", "completed", "cancelled", "discarded",
)  # fmt: skip
ITEM_STATES = ("waiting", "delayed", "running", "completed", "failed", "cancelled", "refused")
IN = f"Only jobs in this state; in a graph: {', '.join(JOB_STATES)}; items of a manager: {', '.join(ITEM_STATES)}."
ALL_STATES = tuple(dict.fromkeys((*JOB_STATES, *ITEM_STATES)))


@click.command("list")
@click.option("--status", "states", type=click.Choice(STATES), multiple=True, help="Only flows in this state.")
@click.option("--family", help="Only flows of this family.")
@click.option("--search", metavar="TEXT", help="Only flows with this text in id or name, in any case.")
@click.option(
    "--attention",
    is_flag=True,
    help="Only flows that need attention: with an open approval, without a host, or ended in 24 hours with "
    "failed items of a manager.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most flows to list.")
@click.option("--before", metavar="FLOW", help="Only flows older than this flow: the next page.")
@standard_options
def list_flows(
    states: tuple[str, ...],
    family: str | None,
    search: str | None,
    attention: bool,
    limit: int,
    before: str | None,
    state: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """List flows, newest first.

    \b
    Examples:
      crawlctl flow list
      crawlctl flow list --status discarded --status cancelled
      crawlctl flow list --attention
      crawlctl flow list --json | jq -r '.[].id'
    """
    from crawler_lifecycle.flows.cli.lines import list_lines
    from crawler_lifecycle.model.flow_states import FlowState

    chosen = open_flows(state).all(
        page_size=limit,
        before=before,
        state=[FlowState(word) for word in states],
        family=family,
        search=search or None,
        attention=attention,
    )
    page = list(islice(chosen, limit))
    print_answer(page, lambda page: list_lines(page, datetime.now(UTC), terminal_width()), as_json=as_json)
    if not page and not as_json:
        click.echo("No such flows." if states or family or search or attention or before else "No flows.")


@click.command()
@flow_argument
@standard_options
def show(flow: str, state: Path | None, as_json: bool) -> None:
    """Show FLOW: its sums, its sub-workflows, its failed jobs and its timeline.

    \b
    Examples:
      crawlctl flow show nightly-2026-11-22
      crawlctl flow show nightly-2026-11-22 --json | jq '.status.counts'
    """
    from crawler_lifecycle.flows.cli.lines import flow_lines
    from crawler_lifecycle.model.flow_states import FAILED

    flows = open_flows(state)
    overview, managers = flows.show(flow), flows.managers(flow)
    status, lines = overview["status"], overview["timeline"]
    failed = list(flows.jobs(flow, state=list(FAILED)))
    if as_json:
        print_json({"status": status, "failed": failed, "timeline": lines, "managers": managers})
        return
    for line in flow_lines(plain(status), plain(failed), lines, plain(list(managers))):
        click.echo(line)


@click.command()
@flow_argument
@jobs_argument
@click.option("--status", "states", type=click.Choice(ALL_STATES), multiple=True, metavar="STATE", help=IN)
@click.option("--attempts", "with_attempts", is_flag=True, help="With the attempts of each job, and their errors.")
@click.option("--outcome", help="Only a manager's items with this outcome, such as `banned`.")
@click.option("--tag", help="Only a manager's items with this tag or label.")
@click.option("--limit", type=click.IntRange(1), help="Most items of a manager to list; default: 1000, or all as CSV.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only a manager's items after this item.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a manager's items as CSV.")
@manager_option
@standard_options
def jobs(
    flow: str,
    jobs: tuple[str, ...],
    states: tuple[str, ...],
    with_attempts: bool,
    outcome: str | None,
    tag: str | None,
    limit: int | None,
    after: int,
    as_csv: bool,
    manager: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """List the jobs of FLOW in their order. JOBS are names; a sub-workflow's name selects all its jobs.

    The jobs of a crawl manager are its ledger of items, and JOBS are their numbers. With --attempts, the name of a
    manager's job selects the attempts of the manager itself.

    \b
    Examples:
      crawlctl flow jobs nightly-2026-11-22 --status discarded
      crawlctl flow jobs november/shops --status failed
      crawlctl flow jobs november/shops --outcome banned --csv > banned.csv
      crawlctl flow jobs november/shops 17 --attempts
      crawlctl flow jobs nightly-2026-11-22 sites/de extract --json
      crawlctl flow jobs nightly-2026-11-22 load --attempts
    """
    from crawler_lifecycle.flows.cli.items import (
        ListedItems,
        is_decimal,
        jobs_are_items,
        numbers,
        print_attempts,
        print_items,
        refuse_unknown,
    )
    from crawler_lifecycle.flows.cli.lines import attempt_lines, job_lines
    from crawler_lifecycle.flows.model.requests import ItemFilter
    from crawler_lifecycle.model.flow_states import MemberState

    flows = open_flows(state)
    may_be_items = not with_attempts or (bool(jobs) and all(map(is_decimal, jobs)))
    are_items = may_be_items and jobs_are_items(flows, flow, manager)
    if are_items and with_attempts:
        _refuse_beside_attempts(
            {
                "--status": states,
                "--outcome": outcome,
                "--tag": tag,
                "--limit": limit,
                "--after": after,
                "--csv": as_csv,
            }
        )
        refuse_unknown(flows, flow, jobs, manager)
        print_attempts(flows, flow, jobs, manager, as_json=as_json)
        return
    if are_items:
        refuse_unknown(flows, flow, jobs, manager)
        chosen = ItemFilter(manager=manager, outcome=outcome, tag=tag, numbers=numbers(jobs))
        print_items(
            ListedItems(flows, flow, chosen, _known(states, ITEM_STATES)),
            limit=limit,
            after=after,
            as_csv=as_csv,
            as_json=as_json,
        )
        return
    if with_attempts:
        _refuse_beside_attempts({"--outcome": outcome, "--tag": tag, "--csv": as_csv})
    if as_csv or outcome or tag:
        raise click.UsageError("--csv, --outcome and --tag are for crawl managers: name the manager with --manager")
    known = [MemberState(word) for word in _known(states, JOB_STATES)]
    members = list(flows.jobs(flow, jobs or None, state=known))
    if with_attempts:
        attempts = {job.path: list(flows.attempts(flow, job.path)) for job in members if job.attempt}
        print_answer(attempts, attempt_lines, as_json=as_json)
        return
    print_answer(members, lambda members: job_lines(members, datetime.now(UTC)), as_json=as_json)


def _refuse_beside_attempts(options: Mapping[str, object]) -> None:
    """Raise UsageError for options without effect on a list of items' attempts."""
    given = [name for name, value in options.items() if value]
    if given:
        raise click.UsageError(f"attempts are listed without {', '.join(given)}")


def _known(states: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the states; raise BadInput for another kind's state."""
    for word in states:
        if word not in known:
            raise BadInput("states", f"{word!r} is no state here, but: {', '.join(known)}")
    return states


@click.command()
@flow_argument
@manager_option
@standard_options
def log(flow: str, manager: str | None, state: Path | None, as_json: bool) -> None:
    """Print the last lines that the crawl manager of FLOW has printed or logged: at most 200 lines.

    \b
    Example:
      crawlctl flow log november/shops
    """
    from crawler_lifecycle.flows.cli.manager_lines import output_lines

    print_answer(list(open_flows(state).output(flow, manager)), output_lines, as_json=as_json)


@click.command()
@flow_argument
@click.argument("job", required=False)
@manager_option
@standard_options
def why(flow: str, job: str | None, manager: str | None, state: Path | None, as_json: bool) -> None:
    """Explain why FLOW, or JOB of FLOW, is in its state, down to the jobs and runs that hold it up.

    JOB is the name of a job or sub-workflow, or the number of a crawl manager's item. Of FLOW and of a sub-workflow,
    the nearest causes are named, failures first. A crawl manager says what the manager itself waits for.

    \b
    Examples:
      crawlctl flow why nightly-2026-11-22
      crawlctl flow why nightly-2026-11-22 sites
      crawlctl flow why nightly-2026-11-22 load
      crawlctl flow why november/shops 17
    """
    from crawler_lifecycle.flows.cli.items import jobs_are_items, numbers
    from crawler_lifecycle.flows.cli.lines import why_lines

    flows = open_flows(state)
    if job is None:
        print_answer(flows.why(flow, manager), why_lines, as_json=as_json)
        return
    if job.isdecimal() and jobs_are_items(flows, flow, manager):
        (number,) = numbers([job]) or (0,)
        print_answer(flows.why_item(flow, number, manager), why_lines, as_json=as_json)
        return
    print_answer(flows.why(flow, job), why_lines, as_json=as_json)


@click.command()
@flow_argument
@jobs_argument
@standard_options
def results(flow: str, jobs: tuple[str, ...], state: Path | None, as_json: bool) -> None:
    """Print the recorded results of FLOW's jobs, nested for sub-workflows. The output is JSON in any case.

    The exit status is 6 if one of JOBS has no result yet. A completed job without a result is named on stderr.

    \b
    Examples:
      crawlctl flow results nightly-2026-11-22 merge
      crawlctl flow results nightly-2026-11-22 | jq '.sites.de'
    """
    from crawler_lifecycle.flows.authors.files import with_folders
    from crawler_lifecycle.settings.installation import locate

    flows = open_flows(state)
    members = list(flows.jobs(flow, jobs)) if jobs else []
    recorded = dict(flows.results(flow, jobs or None))
    print_json(with_folders(recorded, locate(state).settings.files_folder))
    lacking = {path: members_at for path in jobs if (members_at := _without_result(path, recorded, members))}
    message = "; ".join(_reason(path, members_at) for path, members_at in lacking.items())
    if any(not _are_completed(members_at) for members_at in lacking.values()):
        fail(message, REFUSED, as_json=as_json)
    elif message:
        print_to_stderr(message)


def _without_result(path: str, recorded: Mapping[str, Any], members: "Sequence[MemberRecord]") -> "list[MemberRecord]":
    """Return the members that the path names, if none of these members has a result."""
    at_path = [job for job in members if job.path == path or job.path.startswith(f"{path}/")]
    is_job = any(job.path == path for job in at_path)
    return [] if path in recorded and (is_job or recorded[path]) else at_path


def _are_completed(members: "Sequence[MemberRecord]") -> bool:
    from crawler_lifecycle.model.flow_states import MemberState

    return all(job.state is MemberState.COMPLETED for job in members)


def _reason(path: str, members: "Sequence[MemberRecord]") -> str:
    """Return why the path has no result."""
    from collections import Counter

    from crawler_lifecycle.flows.cli.lines import counts

    if len(members) > 1:
        return f"{path!r} has no result: its jobs are {counts(Counter(job.state for job in members))}"
    if _are_completed(members):
        return f"{path!r} has no result: the job is completed, and has returned nothing"
    return f"{path!r} has no result: the job is {members[0].state}"
