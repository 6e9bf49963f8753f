"""The commands that only read flows: list, show, jobs, results, graph, why. They need the database alone."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import plain, print_answer, print_json, standard_options
from crawler_lifecycle.cli.flow_options import flow_argument, jobs_argument, workflow_option

if TYPE_CHECKING:
    from crawler_lifecycle.control.flows.reading import FlowReader

STATES = ("executing", "paused", "completed", "cancelled", "discarded")
JOB_STATES = (
    "suspended", "available", "scheduled", "executing", "retryable", "completed", "cancelled", "discarded",
)  # fmt: skip
FORMATS = ("mermaid", "dot", "states-dot")


def open_flows(state: Path | None) -> "FlowReader":
    """Return the commands that only read flows. Their modules import no Temporal client, so they start sooner."""
    from crawler_lifecycle.control.context import Context
    from crawler_lifecycle.control.flows.reading import FlowReader

    return FlowReader(Context.open(state))


@click.command("list")
@click.option("--in", "states", type=click.Choice(STATES), multiple=True, help="Only flows in this state.")
@click.option("--family", help="Only flows of this family.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most flows to list.")
@click.option("--before", metavar="FLOW", help="Only flows older than this flow: the next page.")
@standard_options
def list_flows(
    states: tuple[str, ...], family: str | None, limit: int, before: str | None, state: Path | None, as_json: bool
) -> None:
    """List flows, newest first.

    \b
    Examples:
      crawlctl flow list
      crawlctl flow list --in discarded --in cancelled
      crawlctl flow list --json | jq -r '.[].id'
    """
    from crawler_lifecycle.cli.flow_lines import list_lines
    from crawler_lifecycle.contract.flows.states import FlowState

    flows = open_flows(state)
    uid = None if before is None else flows.row(before)[0]
    wanted = [FlowState(word) for word in states] or None
    page = flows.list(limit=limit, before=uid, states=wanted, family=family)
    print_answer(page, lambda page: list_lines(page, datetime.now(UTC)), as_json=as_json)
    if not page and not as_json:
        click.echo("No such flows." if states or family or before else "No flows.")


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
    from crawler_lifecycle.cli.flow_lines import flow_lines
    from crawler_lifecycle.contract.flows.states import FAILED

    flows = open_flows(state)
    status, failed, lines = flows.status(flow), flows.members(flow, states=FAILED), flows.lines(flow)
    if as_json:
        print_json({"status": status, "failed": failed, "timeline": lines})
        return
    for line in flow_lines(plain(status), plain(list(failed)), lines):
        click.echo(line)


@click.command()
@flow_argument
@jobs_argument
@click.option("--in", "states", type=click.Choice(JOB_STATES), multiple=True, help="Only jobs in this state.")
@click.option("--attempts", "with_attempts", is_flag=True, help="With the attempts of each job, and their errors.")
@standard_options
def jobs(
    flow: str, jobs: tuple[str, ...], states: tuple[str, ...], with_attempts: bool, state: Path | None, as_json: bool
) -> None:
    """List the jobs of FLOW in their order. JOBS are names; a sub-workflow's name stands for all its jobs.

    \b
    Examples:
      crawlctl flow jobs nightly-2026-11-22 --in discarded
      crawlctl flow jobs nightly-2026-11-22 sites/de extract --json
      crawlctl flow jobs nightly-2026-11-22 load --attempts
    """
    from crawler_lifecycle.cli.flow_lines import attempt_lines, job_lines
    from crawler_lifecycle.contract.flows.states import MemberState

    wanted = [MemberState(word) for word in states] or None
    flows = open_flows(state)
    members = flows.members(flow, jobs or None, states=wanted)
    if with_attempts:
        attempts = {job.path: list(flows.attempts(flow, job.path)) for job in members if job.attempt}
        print_answer(attempts, attempt_lines, as_json=as_json)
        return
    print_answer(list(members), lambda members: job_lines(members, datetime.now(UTC)), as_json=as_json)


@click.command()
@flow_argument
@jobs_argument
@standard_options
def results(flow: str, jobs: tuple[str, ...], state: Path | None, as_json: bool) -> None:
    """Print the recorded results of FLOW's jobs, nested for sub-workflows. The output is JSON in any case.

    \b
    Examples:
      crawlctl flow results nightly-2026-11-22 merge
      crawlctl flow results nightly-2026-11-22 | jq '.sites.de'
    """
    from crawler_lifecycle.contract.flows.values import untagged

    del as_json
    print_json(untagged(open_flows(state).results(flow, jobs or None)))


@click.command()
@flow_argument
@click.option("--format", "kind", type=click.Choice(FORMATS), default="mermaid", show_default=True,
              help="Mermaid or Graphviz; states-dot: as Chancy draws.")  # fmt: skip
@click.option("--no-states", is_flag=True, help="With Mermaid: without the colours of states.")
@workflow_option
@standard_options
def graph(flow: str, kind: str, no_states: bool, workflow_name: str | None, state: Path | None, as_json: bool) -> None:
    """Print the picture of FLOW: a flow's id, or an author's file before its push.

    \b
    Examples:
      crawlctl flow graph nightly-2026-11-22
      crawlctl flow graph bookshop_graph.py --format dot | dot -Tsvg -o graph.svg
    """
    from crawler_lifecycle.cli.flow_files import workflow_in
    from crawler_lifecycle.control.flows.pictures import picture

    is_file = flow.endswith(".py") and Path(flow).is_file()
    workflow = workflow_in(Path(flow), workflow_name) if is_file else open_flows(state).workflow(flow)
    text = picture(workflow, kind, states=not is_file and not no_states)
    if as_json:
        print_json({"flow": workflow.id, "format": kind, "graph": text})
    else:
        click.echo(text.rstrip("\n"))


@click.command()
@flow_argument
@click.argument("job")
@standard_options
def why(flow: str, job: str, state: Path | None, as_json: bool) -> None:
    """Explain why JOB of FLOW is in its state, down to the jobs and runs that hold it up.

    \b
    Examples:
      crawlctl flow why nightly-2026-11-22 load
    """
    from crawler_lifecycle.cli.flow_lines import why_lines

    print_answer(open_flows(state).why(flow, job), why_lines, as_json=as_json)
