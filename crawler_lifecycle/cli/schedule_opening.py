"""Parts of all commands for schedules: the argument, the access, and the answer."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import open_access, print_answer

if TYPE_CHECKING:
    from crawler_lifecycle.cli.access import ScheduleAccess
    from crawler_lifecycle.contract.schedules import ScheduleDetails

schedule_argument = click.argument("schedule_id", metavar="SCHEDULE")


def open_schedules(state: Path | None, actor: str | None = None) -> "ScheduleAccess":
    return open_access(state, actor).schedules


def print_schedule(
    details: "ScheduleDetails", *, as_json: bool, with_occurrences: bool = True, before: datetime | None = None
) -> None:
    from crawler_lifecycle.cli.schedule_lines import details_lines

    lines = partial(details_lines, with_occurrences=with_occurrences, before=before)
    print_answer(details, lines, as_json=as_json)
