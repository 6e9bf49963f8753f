"""Makes the request for a schedule from the options of a command."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.runs.cli.requests import Arguments, make_request

if TYPE_CHECKING:
    from crawler_lifecycle.flows.model.definition import FlowDefinition
    from crawler_lifecycle.schedules.model.schedules import ManagerSchedule, ScheduledManager, ScheduleRequest

RULES = ("paused", "overlap", "time_zone")  # options with the names of the request's fields
RULES_IN_SECONDS = ("every", "offset", "jitter", "missed_window")  # the fields have these names with `_seconds`


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
    from crawler_lifecycle.schedules.model.schedules import ManagerSchedule, Overlap, ScheduledManager, ScheduleRequest

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
