"""The commands that keep schedules in a file: export, apply."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.console.common import print_answer, standard_options, user_name
from crawler_lifecycle.errors import BadInput, NotFound
from crawler_lifecycle.schedules.cli.lines import OpenDirect, open_schedules, write_schedule

if TYPE_CHECKING:
    from crawler_lifecycle.schedules.client import ApiSchedules
    from crawler_lifecycle.schedules.model import ScheduleChange, ScheduleDetails, ScheduleRequest

DIFFERS = 1  # exit status of a dry run with differences


@click.command()
@standard_options
def export(state: Path | None, as_json: bool) -> None:
    """Print all schedules as JSON, for `crawlctl schedule apply`. With --json: in one line.

    Temporal alone has the schedules: keep this file with your backups, or under version control.

    \b
    Example:
      crawlctl schedule export > schedules.json
    """
    from pydantic_core import to_json

    exported = _exported(open_schedules(state))
    click.echo(to_json(exported, indent=None if as_json else 2))


def _exported(schedules: "ApiSchedules") -> dict[str, list[dict[str, Any]]]:
    exported = []
    for summary in schedules.list():
        request = _request_of(schedules.show(summary.schedule_id, occurrences=0))
        if request is None:
            click.echo(f"schedule {summary.schedule_id} has rules of another tool, and is not exported", err=True)
        else:
            exported.append(_values_of(request))
    return {"schedules": exported}


def _values_of(request: "ScheduleRequest") -> dict[str, Any]:
    values = request.model_dump(mode="json", exclude_defaults=True, exclude={"flow": True, "run": {"trigger"}})
    if request.flow:  # in full: a job's `kind` may have its default
        values["flow"] = request.flow.model_dump(mode="json")
    return values


def _request_of(details: "ScheduleDetails") -> "ScheduleRequest | None":
    """Return a request for the schedule, without the requester; None: the rules do not fit into a request."""
    from pydantic import ValidationError

    from crawler_lifecycle.schedules.model import ScheduleRequest

    values = details.model_dump(include=set(ScheduleRequest.model_fields) - {"run", "flow"})
    try:
        return _comparable(ScheduleRequest.model_validate({**values, "run": details.run, "flow": details.flow}))
    except ValidationError:
        return None


def _comparable(request: "ScheduleRequest") -> "ScheduleRequest":
    """Return the request for a comparison: without the requester, and without the default window.

    Temporal keeps no defaults: a schedule in Temporal always has a window.
    """
    default_window = request.model_copy(update={"missed_window_seconds": None}).window_seconds
    window = None if request.window_seconds == default_window else request.window_seconds
    run = request.run.model_copy(update={"requested_by": None}) if request.run else None
    return request.model_copy(update={"missed_window_seconds": window, "run": run, "requested_by": None})


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--dry-run", is_flag=True, help="Only show the differences; exit status 1 for a difference.")
@click.option("--delete-others", is_flag=True, help="Delete the schedules outside FILE.")
@standard_options
@click.pass_obj
def apply(
    open_direct: OpenDirect, file: Path, dry_run: bool, delete_others: bool, state: Path | None, as_json: bool
) -> None:
    """Make the schedules as in FILE, the output of `crawlctl schedule export`.

    Missing schedules are created, different schedules are changed, and schedules outside FILE are listed and stay,
    unless --delete-others is used. Applying the file again changes nothing. Runs under way continue.

    \b
    Examples:
      crawlctl schedule apply schedules.json --dry-run
      crawlctl schedule apply schedules.json
    """
    from crawler_lifecycle.schedules.model import ScheduleAction

    changes = _apply(_requests_in(file), open_direct, state, dry_run, delete_others)
    print_answer(changes, _lines, as_json=as_json)
    if dry_run and any(change.action is not ScheduleAction.NOTHING for change in changes):
        raise click.exceptions.Exit(DIFFERS)


def _requests_in(file: Path) -> "list[ScheduleRequest]":
    """Return all requests in the file. BadInput names the schedule with the mistake."""
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import to_json

    from crawler_lifecycle.model.requests import refusals_as_bad_input
    from crawler_lifecycle.schedules.model import ScheduleRequest

    try:
        content = TypeAdapter(dict[str, list[dict[str, Any]]]).validate_json(file.read_bytes())
    except ValidationError as error:
        raise BadInput("FILE", f"{file} is not the output of `crawlctl schedule export`") from error
    if content.keys() != {"schedules"}:
        raise BadInput("FILE", f"{file} has no list `schedules`, or something else beside the list")
    requests: list[ScheduleRequest] = []
    for number, values in enumerate(content["schedules"]):
        name = str(values.get("schedule_id", f"number {number + 1}"))
        try:
            with refusals_as_bad_input():
                requests.append(_comparable(ScheduleRequest.model_validate_json(to_json(values))))
        except BadInput as error:
            raise BadInput(f"{file}: schedule {name}: {error.field}", error.expected) from error
    names = [request.schedule_id for request in requests]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput("FILE", f"{file} has more than one schedule {repeated[0]}")
    return requests


def _apply(
    requests: "Sequence[ScheduleRequest]",
    open_direct: OpenDirect,
    state: Path | None,
    dry_run: bool,
    delete_others: bool,
) -> "list[ScheduleChange]":
    from crawler_lifecycle.schedules.model import ScheduleAction, ScheduleChange

    schedules = open_schedules(state)
    changes = [_apply_one(schedules, request, open_direct, state, dry_run) for request in requests]
    names = {request.schedule_id for request in requests}
    for other in schedules.list():
        if other.schedule_id not in names:
            action = ScheduleAction.DELETE if delete_others else ScheduleAction.KEEP
            changes.append(ScheduleChange(schedule_id=other.schedule_id, action=action))
            if delete_others and not dry_run:
                with suppress(NotFound):  # Temporal's list may be a moment late
                    schedules.delete(other.schedule_id, actor=user_name())
    return changes


def _apply_one(
    schedules: "ApiSchedules", request: "ScheduleRequest", open_direct: OpenDirect, state: Path | None, dry_run: bool
) -> "ScheduleChange":
    from crawler_lifecycle.schedules.model import ScheduleAction, ScheduleChange

    name, actor = request.schedule_id, user_name()
    try:
        details = schedules.show(name, occurrences=0)
    except NotFound:
        if not dry_run:
            write_schedule(request, open_direct, state, actor, replace=False)
        return ScheduleChange(schedule_id=name, action=ScheduleAction.CREATE)
    fields = _differences(_request_of(details), request)
    if fields and not dry_run:
        if fields != ["paused"]:
            write_schedule(request, open_direct, state, actor, replace=True)  # changes all fields but `paused`
        if request.paused is not details.paused:
            change_state = schedules.pause if request.paused else schedules.resume
            change_state(name, reason="as in the applied file", actor=actor)
    action = ScheduleAction.CHANGE if fields else ScheduleAction.NOTHING
    return ScheduleChange(schedule_id=name, action=action, fields=fields)


def _differences(stored: "ScheduleRequest | None", wanted: "ScheduleRequest") -> list[str]:
    fields = type(wanted).model_fields
    return [field for field in fields if stored is None or getattr(stored, field) != getattr(wanted, field)]


def _lines(changes: "Sequence[ScheduleChange]") -> Iterator[str]:
    from crawler_lifecycle.console.words import table

    rows = ((change.schedule_id, change.action, ", ".join(change.fields)) for change in changes)
    yield from table([("SCHEDULE", "ACTION", "FIELDS"), *rows])
