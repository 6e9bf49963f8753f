"""The command `status`, which shows the state in ten lines, each with the command for more."""

from collections.abc import Iterator
from pathlib import Path

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import open_connection, print_answer, standard_options
from crawler_lifecycle.console.words import rfc3339, waiting_words
from crawler_lifecycle.limits.cli import pause_words
from crawler_lifecycle.model.answers import InstallationView
from crawler_lifecycle.runs.model import Attention, RequestsInNeed

FLOWS = "flow list --attention"
MOST_STUCK = 5  # runs without capacity, shown one by one


def status_lines(installation: InstallationView, attention: Attention) -> Iterator[str]:
    limits = installation.limits
    in_cluster = f"{_of(limits.tasks_in_cluster, limits.tasks)} in the cluster"
    places = f", {installation.places.taken} of {installation.places.total} places taken" if installation.places else ""
    pause = f": installation, {pause_words(limits)}" if limits.paused_at else ""
    yield f"installation {installation.installation}"
    yield _line("open", counted(installation.open_runs, "run"), "list --flows")
    yield _line("running", f"{_of(limits.runs_begun, limits.runs)}, tasks: {in_cluster}{places}")
    yield _need("waiting", installation.runs_in_line, "run", " for a permit", "limits")
    stuck = f"{' or more' if attention.more_saturated_runs else ''} without capacity for over 5 min"
    yield _need("stuck", attention.saturated_runs, "run", stuck)
    for run in installation.saturated[:MOST_STUCK]:
        cause = waiting_words(run.waiting_cause) if run.waiting_cause else "waits"
        yield f"    run {run.run_id}  {run.crawler}  {cause}, since {rfc3339(run.waiting_since)}"
    more = " or more in 24 hours" if attention.more_failed_runs else " in 24 hours"
    yield _need("failed", attention.failed_runs, "run", more, "list --status failed --flows")
    yield _need("failed items", attention.with_failed_items.total, "flow", " in 24 hours", FLOWS)
    yield _need("approvals", attention.awaiting_approval.total, "flow", " awaiting a decision", FLOWS)
    yield _need("without host", attention.without_host.total, "flow", "", FLOWS)
    if attention.without_run is None:
        yield _line("without run", "unknown: Temporal does not answer", "doctor")
    else:
        yield _need("without run", attention.without_run.total, "request", _workflows(attention.without_run), "doctor")
    yield _need("findings", attention.open_findings, "open finding", command="audit")
    if attention.audit_problem:
        yield _line("audits", attention.audit_problem)
    yield _need("paused", attention.pauses, "scope", pause, "limits")


def _need(name: str, number: int, noun: str, more: str = "", command: str = "") -> str:
    return _line(name, counted(number, noun) + more, command) if number else _line(name, "-")


def _workflows(requests: RequestsInNeed) -> str:
    return f": {', '.join(requests.workflows)}"


def _line(name: str, text: str, command: str = "") -> str:
    hint = f"  (crawlctl {command})" if command else ""
    return f"  {name:13} {text}{hint}"


def _of(number: int, cap: int | None) -> str:
    return str(number) if cap is None else f"{number} of {cap}"


@click.command()
@standard_options
def status(state: Path | None, as_json: bool) -> None:
    """Show what is open, waiting, stuck, failed and paused, and what needs a decision.

    \b
    Examples:
      crawlctl status
      crawlctl status --json | jq .attention
    """
    from crawler_lifecycle.client.api import read_attention
    from crawler_lifecycle.limits.client import ApiLimits

    connection = open_connection(state)
    answer = {"installation": ApiLimits(connection).installation(), "attention": read_attention(connection)}
    print_answer(answer, lambda answer: status_lines(**answer), as_json=as_json)
