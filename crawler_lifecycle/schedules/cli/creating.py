"""The command that creates a schedule, or replaces a schedule: for runs, for flows, and for crawl managers."""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.console.common import Duration, standard_options, user_name
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.cli.options import open_flows
from crawler_lifecycle.runs.cli.requests import Arguments, make_request, run_options
from crawler_lifecycle.schedules.cli.lines import OpenDirect, print_schedule, schedule_argument, write_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawler_lifecycle.flows.model.definition import FlowDefinition
    from crawler_lifecycle.schedules.model import ManagerSchedule, ScheduledManager, ScheduleRequest

RULES = ("paused", "overlap", "time_zone", "cron")  # options, named as the request's fields
RULES_IN_SECONDS = ("every", "offset", "jitter", "missed_window")  # the fields have these names with `_seconds`
REPEATABLE = {"labels": "--label", "settings": "--setting"}  # options, by differently named parameters
DASHES = "--"
WORDS_BEHIND = "crawlctl.behind"  # key in the context's `meta`; value: number of words after `--`
OVERLAPS = ("skip", "queue", "replace", "allow")  # explained in the help of --overlap


def make_schedule(
    schedule_id: str,
    crawler: str | None,
    file: Path | None,
    manager: "FlowDefinition | ScheduledManager | None",
    arguments: Arguments,
    options: Mapping[str, Any],
) -> "ScheduleRequest | ManagerSchedule":
    """Return the request for a schedule with a single subject: a crawler's runs, a flow in a file, or a manager.

    `options` has the schedule's options and its runs' options.
    """
    from crawler_lifecycle.managers.cli.flow_files import definition_in
    from crawler_lifecycle.model.requests import refusals_as_bad_input
    from crawler_lifecycle.schedules.model import ManagerSchedule, Overlap, ScheduledManager, ScheduleRequest

    if [crawler, file, manager].count(None) != 2:
        raise BadInput(
            "CRAWLER", "either a crawler or a flow in a file (--flow) or --manager is needed, and a single one"
        )
    rules = {name: options[name] for name in RULES} | {f"{name}_seconds": options[name] for name in RULES_IN_SECONDS}
    rules |= {"schedule_id": schedule_id, "overlap": Overlap(rules["overlap"]), "cron": list(rules["cron"])}
    run_options = {name: value for name, value in options.items() if name not in (*RULES, *RULES_IN_SECONDS)}
    if crawler is not None:
        run = make_request(crawler, arguments, run_options | {"trigger": "scheduled"})
        with refusals_as_bad_input():
            return ScheduleRequest(run=run, **rules)
    rules["requested_by"] = run_options.pop("requested_by")
    whose = "the crawls of a manager" if file is None else "the crawls in the file of --flow"
    _refuse_run_options(run_options | {"arg": arguments}, whose)
    flow = manager if file is None else definition_in(file, None, None)
    with refusals_as_bad_input():
        if isinstance(flow, ScheduledManager):
            return ManagerSchedule(manager=flow, **rules)
        return ScheduleRequest(flow=flow, **rules)


def _refuse_run_options(options: Mapping[str, Any], whose: str) -> None:
    """Raise BadInput for the first option with a value."""
    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        option = REPEATABLE.get(given, f"--{given.replace('_', '-')}")
        raise BadInput(option, f"is for a run; {whose} have their own options")


class CommandWithDashes(click.Command):
    """A command with the number of words after `--` in its context, since click removes `--` from the words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS_BEHIND] = len(args) - args.index(DASHES) - 1 if DASHES in args else 0
        return super().parse_args(ctx, args)


def words_in_front(words: Sequence[str]) -> Sequence[str]:
    """Return the words in front of `--`; `words` are the command's last arguments."""
    behind: int = click.get_current_context().meta[WORDS_BEHIND]
    return words[: max(0, len(words) - behind)]


@click.command(cls=CommandWithDashes)
@schedule_argument
@click.argument("crawler", required=False)
@click.option(
    "--flow",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Start flows in place of runs: a Python file with a workflow, or a definition as JSON.",
)
@click.option(
    "--manager", metavar="TARGET", help="Start a crawl manager in place of runs, as for `crawlctl flow start`."
)
@click.argument("manager_arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--cron", multiple=True, help="Five fields, or for example @daily; repeatable.")
@click.option("--every", type=Duration(), help="Instead of --cron, e.g. 6h: counted from 1970-01-01 in UTC.")
@click.option("--offset", type=Duration(), default=0, help="Shifts --every, e.g. 15m.")
@click.option("--time-zone", default="UTC", show_default=True, help="Time zone of --cron.")
@click.option("--jitter", type=Duration(), default=0, help="Longest random delay, e.g. 5m.")
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    default="skip",
    show_default=True,
    help="While an earlier run is open: skip the occurrence; start after that run; stop that run first; start beside.",
)
@click.option(
    "--missed-window",
    type=Duration(),
    help="Longest delay of a late start; default: 1h, or 1d with --overlap queue or replace.",
)
@click.option("--paused", is_flag=True, help="Make a paused schedule.")
@click.option("--replace", is_flag=True, help="Change the existing SCHEDULE; a paused schedule stays paused.")
@run_options
@click.option("--requested-by", help="Name for the record; default: your login name.")
@standard_options
@click.pass_obj
def create(
    open_direct: OpenDirect,
    /,
    schedule_id: str,
    crawler: str | None,
    file: Path | None,
    manager: str | None,
    manager_arguments: tuple[str, ...],
    arguments: Arguments,
    state: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Start runs of CRAWLER, the flow in a file, or a crawl manager by the clock, under the name SCHEDULE.

    MANAGER_ARGUMENTS are the command line of a manager, after `--`. Its flow id (family) is the schedule's name.

    As in Temporal, a cron line with a day of the month and a day of the week applies when both days fit.

    \b
    Examples:
      crawlctl schedule create nightly bookshop --cron "0 3 * * *" --time-zone Europe/Berlin
      crawlctl schedule create news newsroom --every 15m --jitter 1m --overlap queue --arg section=world
      crawlctl schedule create weekly bookshop --cron "30 4 * * mon" --overlap replace --paused
      crawlctl schedule create weekly bookshop --cron "30 5 * * mon" --replace
      crawlctl schedule create shops --flow shops_graph.py --cron "0 3 * * *"
      crawlctl schedule create monthly --manager shops --cron "0 3 1 * *" -- --max-running-jobs 8
    """
    replace = options.pop("replace")
    if manager is None and crawler is not None and manager_arguments:
        raise BadInput("manager_arguments", "are for crawl managers (--manager)")
    flow = None
    if manager is not None:
        if crawler is not None:  # click gives the first word to CRAWLER, although the word follows `--`
            manager_arguments, crawler = (crawler, *manager_arguments), None
        if in_front := words_in_front(manager_arguments):
            raise BadInput(
                "CRAWLER",
                f"{in_front[0]!r} is not for --manager, whose arguments follow `--`: leave the word out",
            )
        with _refusals_with_name_of_arguments():
            flow = _manager_of(manager, schedule_id, manager_arguments, state)
    actor = options["requested_by"] = options["requested_by"] or user_name()
    request = make_schedule(schedule_id, crawler, file, flow, arguments, options)
    print_schedule(write_schedule(request, open_direct, state, actor, replace=replace), as_json=as_json)


@contextmanager
def _refusals_with_name_of_arguments() -> "Iterator[None]":
    """Name the manager's arguments in a refusal: the field `arguments` belongs to a run's option --arg."""
    try:
        yield
    except BadInput as error:
        if error.field != "arguments":
            raise
        raise BadInput("MANAGER_ARGUMENTS", error.expected) from error


def _manager_of(
    target: str, schedule_id: str, words: tuple[str, ...], state: Path | None
) -> "FlowDefinition | ScheduledManager":
    """Return the flow for a crawl manager by its class or its file.

    A name in the catalogue stays a name, since the API itself reads the manager's entry. The flow is made here only to
    check the arguments.
    """
    from crawler_lifecycle.flows.model.requests import StartManager
    from crawler_lifecycle.managers.cli.targets import check_arguments, definition_for
    from crawler_lifecycle.model.requests import refusals_as_bad_input
    from crawler_lifecycle.schedules.model import ScheduledManager

    if ":" in target or target.endswith(".py"):
        return definition_for(target, words, family=schedule_id, name=None, queue="default")
    with refusals_as_bad_input():
        scheduled = ScheduledManager(name=target, arguments=list(words))
        start = StartManager(manager=target, family=schedule_id, arguments=words)
    check_arguments(open_flows(state).manager_definition(start))
    return scheduled
