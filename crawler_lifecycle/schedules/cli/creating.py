"""The command that creates a schedule, or replaces a schedule: for runs, for flows, and for crawl managers."""

from collections.abc import Sequence
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

RULES = ("paused", "overlap", "time_zone")  # options with the names of the request's fields
RULES_IN_SECONDS = ("every", "offset", "jitter", "missed_window")  # the fields have these names with `_seconds`
DASHES = "--"
WORDS_BEHIND = "crawlctl.behind"  # key in the context's `meta`; value: number of words after `--`
OVERLAPS = ("skip", "queue", "replace", "allow")  # explained in the help of --overlap


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
    from crawler_lifecycle.managers.cli.flow_files import definition_in
    from crawler_lifecycle.model.requests import refusals_as_bad_input
    from crawler_lifecycle.schedules.model import ManagerSchedule, Overlap, ScheduledManager, ScheduleRequest

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


class CommandWithDashes(click.Command):
    """A command with the number of words after `--` in its context."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS_BEHIND] = len(args) - args.index(DASHES) - 1 if DASHES in args else 0
        return super().parse_args(ctx, args)


def words_in_front(words: Sequence[str]) -> Sequence[str]:
    """Return the words in front of `--`. Only options may follow the words in the command line."""
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
        if crawler is not None:  # the first word after `--`
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
    """Return the flow for a crawl manager by its class or its file; a name in the catalogue stays a name."""
    from crawler_lifecycle.flows.model.requests import StartManager
    from crawler_lifecycle.managers.cli.targets import check_arguments, definition_for
    from crawler_lifecycle.model.requests import refusals_as_bad_input
    from crawler_lifecycle.schedules.model import ScheduledManager

    if ":" in target or target.endswith(".py"):
        return definition_for(target, words, schedule_id, None, "default")
    with refusals_as_bad_input():
        scheduled = ScheduledManager(name=target, arguments=list(words))
        start = StartManager(manager=target, family=schedule_id, arguments=words)
    check_arguments(open_flows(state).manager_definition(start))
    return scheduled
