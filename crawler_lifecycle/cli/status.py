"""The command `status`, which shows the state in ten lines, each with the command for more."""

from collections.abc import Iterator
from pathlib import Path

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import open_connection, print_answer, standard_options
from crawler_lifecycle.limits.cli import pause_words
from crawler_lifecycle.model.answers import InstallationView
from crawler_lifecycle.runs.model import Attention, RequestsInNeed

FLOWS = "flow list --attention"
MOST_STUCK = 5  # runs without capacity that are named
Need = tuple[str, str]  # what is there, or an empty text, and the command for more


def status_lines(installation: InstallationView, attention: Attention) -> Iterator[str]:
    limits = installation.limits
    in_cluster = f"{_of(limits.tasks_in_cluster, limits.tasks)} in the cluster"
    places = f", {installation.places.taken} of {installation.places.total} places taken" if installation.places else ""
    stuck = ", ".join(str(run.run_id) for run in installation.saturated[:MOST_STUCK])
    more_stuck = f"{' or more' if attention.more_saturated_runs else ''} without capacity for over 5 min: {stuck}"
    more_failed = " or more in 24 hours" if attention.more_failed_runs else " in 24 hours"
    pause = f": installation, {pause_words(limits)}" if limits.paused_at else ""
    yield f"installation {installation.installation}"
    yield _line("open", (counted(installation.open_runs, "run"), "list --flows"))
    yield _line("running", (f"{_of(limits.runs_begun, limits.runs)}, tasks: {in_cluster}{places}", ""))
    yield _line("waiting", _need(installation.runs_in_line, "run", " for a permit", "limits"))
    yield _line("stuck", _need(attention.saturated_runs, "run", more_stuck, "show RUN"))
    yield _line(
        "failed",
        _need(attention.failed_runs, "run", more_failed, "list --status failed --flows"),
        _need(attention.with_failed_items.total, "flow", " with failed items", FLOWS),
    )
    yield _line("approvals", _need(attention.awaiting_approval.total, "flow", " awaiting a decision", FLOWS))
    without_host = _need(attention.without_host.total, "flow", " without a host", FLOWS)
    yield _line("not begun", without_host, _without_run(attention.without_run))
    problem = (attention.audit_problem or "", "")
    yield _line("findings", _need(attention.open_findings, "open finding", "", "audit"), problem)
    yield _line("paused", _need(attention.pauses, "scope", pause, "limits"))


def _without_run(requests: RequestsInNeed | None) -> Need:
    if requests is None:
        return "Temporal does not answer, so requests without a run are unknown", "doctor"
    return _need(requests.total, "request", f" without a run: {', '.join(requests.workflows)}", "doctor")


def _need(number: int, noun: str, more: str, command: str) -> Need:
    return (counted(number, noun) + more, command) if number else ("", "")


def _line(name: str, *needs: Need) -> str:
    texts = [text for text, _ in needs if text]
    commands = [f"crawlctl {command}" for text, command in needs if text and command]
    hint = f"  ({'; '.join(commands)})" if commands else ""
    return f"  {name:10} {', '.join(texts) or '-'}{hint}"


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
