"""Parts of all commands for schedules: the argument, the write, and the answer."""

import asyncio
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from crawler_lifecycle.cli.api_choice import open_api
from crawler_lifecycle.cli.common import print_answer
from crawler_lifecycle.cli.flow_options import open_direct

if TYPE_CHECKING:
    from crawler_lifecycle.contract.schedules import ManagerSchedule, ScheduleDetails, ScheduleRequest


def write_schedule(
    request: "ScheduleRequest | ManagerSchedule", state: Path | None, actor: str, *, replace: bool
) -> "ScheduleDetails":
    """Create or replace the schedule, directly for a crawl manager by its class."""
    from crawler_lifecycle.contract.schedules import ScheduleRequest

    definition = request.flow if isinstance(request, ScheduleRequest) else None
    if definition is not None and (direct := open_direct(definition, state, actor)) is not None:
        commands = direct.schedules
        return asyncio.run(commands.replace(request) if replace else commands.create(request))
    schedules = open_api(state).schedules
    return schedules.replace(request, actor=actor) if replace else schedules.create(request, actor=actor)


def print_schedule(
    details: "ScheduleDetails", *, as_json: bool, with_occurrences: bool = True, before: datetime | None = None
) -> None:
    from crawler_lifecycle.cli.schedule_lines import details_lines

    lines = partial(details_lines, with_occurrences=with_occurrences, before=before)
    print_answer(details, lines, as_json=as_json)
