"""Makes the requests for runs, schedules and stops from the options of a command, and defines the shared options."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.cli.common import Command, Duration, KeyValue, requester
from crawler_lifecycle.errors import BadInput

if TYPE_CHECKING:
    from crawler_lifecycle.contract.flows.definition import FlowDefinition
    from crawler_lifecycle.contract.requests import RunRequest, StopRequest
    from crawler_lifecycle.contract.schedules import ManagerSchedule, ScheduledManager, ScheduleRequest

Arguments = tuple[tuple[str, str], ...]
DURATIONS = ("start_limit", "max_duration", "grace")  # the request's fields have these names with `_seconds`
KINDS_OF_RETRIES = ("infrastructure", "program")  # options with these names and `_retries`
REPORTS = ("all", "end", "none")  # without the import of the contract, which is slow
RULES = ("paused", "overlap", "time_zone")  # options with the names of the request's fields
RULES_IN_SECONDS = ("every", "offset", "jitter", "missed_window")  # the fields have these names with `_seconds`


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
    from crawler_lifecycle.contract.requests import RunRequest, refusals_as_bad_input
    from crawler_lifecycle.contract.states import Report, Trigger

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


def make_schedule(
    schedule_id: str,
    crawler: str | None,
    file: Path | None,
    manager: "FlowDefinition | ScheduledManager | None",
    arguments: Arguments,
    options: dict[str, Any],
) -> "ScheduleRequest | ManagerSchedule":
    """Return the request for a schedule. `options` has the options for the schedule, which are removed from `options`,
    and the options for its runs. `file`, `manager`: the flow, in place of a crawler.
    """
    from crawler_lifecycle.cli.flow_files import definition_in
    from crawler_lifecycle.contract.requests import refusals_as_bad_input
    from crawler_lifecycle.contract.schedules import ManagerSchedule, Overlap, ScheduledManager, ScheduleRequest

    rules: dict[str, Any] = {name: options.pop(name) for name in RULES}
    rules |= {f"{name}_seconds": options.pop(name) for name in RULES_IN_SECONDS}
    rules |= {"overlap": Overlap(rules["overlap"]), "cron": list(options.pop("cron"))}
    requested_by = options.pop("requested_by")
    if [crawler, file, manager].count(None) != 2:
        raise BadInput(
            "CRAWLER", "either a crawler or a flow in a file (--flow) or --manager is needed, and a single one"
        )
    if file is not None or manager is not None:
        whose = "the crawls in the file of --flow" if file is not None else "the crawls of a manager"
        _refuse_run_options({**options, "arg": arguments}, whose)
        rules["requested_by"] = requested_by
        if isinstance(manager, ScheduledManager):
            with refusals_as_bad_input():
                return ManagerSchedule(schedule_id=schedule_id, manager=manager, **rules)
        rules["flow"] = manager if file is None else definition_in(file, None, None)
    elif crawler is not None:
        options |= {"requested_by": requested_by, "trigger": "scheduled"}
        rules["run"] = make_request(crawler, arguments, options)
    with refusals_as_bad_input():
        return ScheduleRequest(schedule_id=schedule_id, **rules)


def _refuse_run_options(options: dict[str, Any], whose: str) -> None:
    """Raise BadInput for the first option with a value."""
    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        option = "--" + given.removesuffix("s" if given in ("labels", "settings") else "").replace("_", "-")
        raise BadInput(option, f"is for a run; {whose} have their own options")


def make_stop(*, force: bool, reason: str | None, actor: str | None) -> "StopRequest":
    from crawler_lifecycle.contract.requests import StopRequest, refusals_as_bad_input

    with refusals_as_bad_input():
        return StopRequest(force=force, reason=reason, **requester(actor).record)
