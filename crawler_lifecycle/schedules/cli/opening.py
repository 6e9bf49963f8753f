"""Parts for all commands with schedules: the client, the argument SCHEDULE, the write, and the answer."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click
from click.shell_completion import CompletionItem

from crawler_lifecycle.console.api_choice import open_connection
from crawler_lifecycle.console.common import print_answer
from crawler_lifecycle.console.completion import completed_by
from crawler_lifecycle.flows.cli.options import needs_installation

if TYPE_CHECKING:
    from crawler_lifecycle.schedules.client import ApiSchedules
    from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
    from crawler_lifecycle.schedules.model.schedules import ManagerSchedule, ScheduleDetails, ScheduleRequest
    from crawler_lifecycle.transport.connection import HttpConnection


def open_schedules(state: Path | None) -> "ApiSchedules":
    from crawler_lifecycle.schedules.client import ApiSchedules

    return ApiSchedules(open_connection(state))


def _schedules(connection: "HttpConnection") -> Iterator[CompletionItem]:
    from crawler_lifecycle.schedules.client import ApiSchedules

    return (CompletionItem(schedule.schedule_id) for schedule in ApiSchedules(connection).list())


schedule_argument = click.argument("schedule_id", metavar="SCHEDULE", shell_complete=completed_by(_schedules))


class DirectSchedules(Protocol):
    """The installation itself, for crawl managers by their classes."""

    @property
    def schedules(self) -> "ScheduleCommands": ...


OpenDirect = Callable[[Path | None, str | None], DirectSchedules]  # with the state folder, and the recorded actor


def write_schedule(
    request: "ScheduleRequest | ManagerSchedule",
    open_direct: OpenDirect,
    state: Path | None,
    actor: str,
    *,
    replace: bool,
) -> "ScheduleDetails":
    """Create or replace the schedule, directly for a crawl manager by its class."""
    from crawler_lifecycle.schedules.model.schedules import ScheduleRequest

    definition = request.flow if isinstance(request, ScheduleRequest) else None
    if definition is not None and needs_installation(definition, state):
        commands = open_direct(state, actor).schedules
        return asyncio.run(commands.replace(request) if replace else commands.create(request))
    schedules = open_schedules(state)
    return schedules.replace(request, actor=actor) if replace else schedules.create(request, actor=actor)


def print_schedule(
    details: "ScheduleDetails", *, as_json: bool, with_occurrences: bool = True, before: datetime | None = None
) -> None:
    from crawler_lifecycle.schedules.cli.lines import details_lines

    lines = partial(details_lines, with_occurrences=with_occurrences, before=before)
    print_answer(details, lines, as_json=as_json)
