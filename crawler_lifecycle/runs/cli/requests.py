"""Parts for all commands with runs: the client, the argument RUN, the shared options, and the requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from crawler_lifecycle.console.common import Command, Duration, KeyValue, open_connection, requester
from crawler_lifecycle.console.completion import MOST_NAMES, completed_by

if TYPE_CHECKING:
    from crawler_lifecycle.model.requests import RunRequest, StopRequest
    from crawler_lifecycle.runs.client import ApiRuns
    from crawler_lifecycle.transport.connection import HttpConnection

Arguments = tuple[tuple[str, str], ...]
DURATIONS = ("start_limit", "max_duration", "grace")  # the request's fields have these names with `_seconds`
KINDS_OF_RETRIES = ("infrastructure", "program")  # options with these names and `_retries`
REPORTS = ("all", "end", "none")  # without the import of the contract, which is slow


def open_runs(state: Path | None) -> "ApiRuns":
    from crawler_lifecycle.runs.client import ApiRuns

    return ApiRuns(open_connection(state))


def _runs(connection: "HttpConnection") -> Iterator[CompletionItem]:
    from crawler_lifecycle.runs.client import ApiRuns

    newest = ApiRuns(connection).all(page_size=MOST_NAMES, flows="true")
    return (CompletionItem(str(run.run_id), help=f"{run.crawler} {run.status}") for run in newest)


run_argument = click.argument("run", shell_complete=completed_by(_runs))


def run_options(command: Command) -> Command:
    """Add the options for a run, which `run` and `schedule create` share."""
    # click's help begins with the option applied last
    for option in reversed((
        click.option("--arg", "arguments", type=KeyValue(), multiple=True, help="Passed to every task; repeatable."),
        click.option("--setting", "settings", type=KeyValue(), multiple=True,
                     help="Setting of the crawl framework, e.g. DOWNLOAD_DELAY=2; repeatable."),
        click.option("--tasks", type=int, help="Number of tasks; default: the number in the catalogue."),
        click.option("--max-parallel", type=int, help="Most tasks in the cluster at the same time."),
        click.option("--start-limit", type=Duration(), help="Longest wait for the main job's start, e.g. 30s."),
        click.option("--max-duration", type=Duration(), help="Longest duration of a whole run, e.g. 2h."),
        click.option("--grace", type=Duration(), help="Time from a stop until the stop is forced, e.g. 30s."),
        click.option(
            "--infrastructure-retries", type=int, help="Further attempts of a task that a node or the cluster ended."
        ),
        click.option("--program-retries", type=int, help="Further attempts of a task whose program failed."),
        click.option("--allowed-failures", type=float, default=0.0, help="Share of tasks that may fail, 0 to 1."),
        click.option("--report", type=click.Choice(REPORTS), help="Which notices to send; default: all."),
        click.option("--label", "labels", multiple=True, help="Label for limits, e.g. site:example.com; repeatable."),
        click.option("--priority", type=int, help="Runs with a higher priority get their permits first; default: 0."),
    )):  # fmt: skip
        command = option(command)
    return command


def record_options(command: Command) -> Command:
    """Add the options for the recorded actor and reason."""
    command = click.option("--actor", help="Name for the record; default: your login name.")(command)
    return click.option("--reason", help="Reason for the record.")(command)


def make_request(crawler: str, arguments: Arguments, options: dict[str, Any]) -> "RunRequest":
    """Return the request for a run. `options` has the run's options by name; an option without a value is None."""
    from crawler_lifecycle.model.requests import RunRequest, refusals_as_bad_input
    from crawler_lifecycle.model.states import Report, Trigger

    options, retries = _without_retries(options)
    fields = {
        name + ("_seconds" if name in DURATIONS else ""): value for name, value in options.items() if value is not None
    }
    fields["trigger"] = Trigger(fields.get("trigger", Trigger.MANUAL))
    fields["report"] = Report(fields.get("report", Report.ALL))
    fields["labels"] = list(fields.get("labels", ()))
    fields["settings"] = dict(fields.get("settings", ()))
    if retries:
        fields["retries"] = retries
    with refusals_as_bad_input():
        return RunRequest(crawler=crawler, arguments=dict(arguments), **fields)


def _without_retries(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the options without those for retries, and the given numbers of retries by kind."""
    given = {kind: options.get(f"{kind}_retries") for kind in KINDS_OF_RETRIES}
    others = {name: value for name, value in options.items() if not name.endswith("_retries")}
    return others, {kind: number for kind, number in given.items() if number is not None}


def make_stop(*, force: bool, reason: str | None, actor: str | None) -> "StopRequest":
    from crawler_lifecycle.model.requests import StopRequest, refusals_as_bad_input

    with refusals_as_bad_input():
        return StopRequest(force=force, reason=reason, **requester(actor).record)
