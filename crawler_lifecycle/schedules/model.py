"""Models for schedules, for runs and flows: the request, the occurrences, and the commands' answers.

A schedule's cron lines are checked before Temporal gets the schedule: Temporal accepts lines without any due time, and
no run would ever start. Temporal follows `crontab` with an exception: where a line gives both a date and a weekday, a
due time has to fit both.
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Self
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.base.limits import A_YEAR, LARGEST_SCHEDULED
from crawler_lifecycle.base.requesters import LONGEST_REQUESTER
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.requests import RunRequest, Seconds
from crawler_lifecycle.model.states import RunStatus, Trigger

SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# every field's name, least and greatest number
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NAMES = {
    "month": {name: number for number, name in enumerate(MONTHS, 1)},
    "day of the week": {name: number for number, name in enumerate(DAYS)},
}
# every month's days, in a leap year
LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
LONGEST_LINE = 200  # characters
SEARCHED_YEARS = 40  # in 40 years every date falls on every weekday, even the leap day
# a field's part between commas: `*`, a number, a name, or a range from number to number; and an optional step
PART = re.compile(r"(?:\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?")
AN_HOUR, A_DAY = 3600, 24 * 3600  # seconds
SHORTEST_WINDOW = 10  # seconds; Temporal uses 10 seconds for any shorter window
ScheduleId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


def problem_of(line: str) -> str | None:
    """Return the problem if the line is malformed or never fires; None if the line can fire."""
    try:
        _, _, days, months, _ = _fields(line)
    except ValueError as error:
        return str(error)
    # the weekdays need no check: every date falls on every weekday in some year
    if not any(day <= LONGEST_MONTHS[month - 1] for month in months for day in days):
        return "never fires: none of these months has such a day"
    return None


def is_skipped_in(line: str, zone: str, first_year: int) -> bool:
    """Return whether the zone's clocks jump over all due times in the line.

    All due times within 40 years are tested. False for an unknown zone: Temporal refuses the zone.
    """
    clocks = _clocks(zone)
    if clocks is None:
        return False
    years = range(first_year, first_year + SEARCHED_YEARS)
    return not any(_exists(time) for year in years for time in _due_times(line, year, clocks))


def _clocks(zone: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return None


def _due_times(line: str, year: int, clocks: ZoneInfo) -> Iterator[datetime]:
    minutes, hours, days, months, weekdays = _fields(line)
    for day in _dates(year, months, days, weekdays):
        for hour in hours:
            for minute in minutes:
                yield datetime(day.year, day.month, day.day, hour, minute, tzinfo=clocks)


def _dates(year: int, months: set[int], days: set[int], weekdays: set[int]) -> Iterator[date]:
    iso_weekdays = {weekday or 7 for weekday in weekdays}  # in a line both 0 and 7 are Sunday; in ISO only 7
    for month in months:
        _, last = monthrange(year, month)
        dates = (date(year, month, day) for day in days if day <= last)
        yield from (day for day in dates if day.isoweekday() in iso_weekdays)


def _exists(time: datetime) -> bool:
    """Return whether the clocks show the time. A skipped hour becomes another hour on its way to UTC and back."""
    return time.astimezone(UTC).astimezone(time.tzinfo).hour == time.hour


def _fields(line: str) -> list[set[int]]:
    """Return every field's allowed numbers, in the same order as FIELDS. ValueError for a malformed line."""
    texts = SHORTHANDS.get(line.strip(), line).split()
    if len(line) > LONGEST_LINE or len(texts) != len(FIELDS):
        raise ValueError(
            "expected five fields (minute, hour, day of the month, month, day of the week), or @daily and such"
        )
    return [_values(text, *field) for text, field in zip(texts, FIELDS, strict=True)]


def _values(text: str, field: str, least: int, most: int) -> set[int]:
    """Return a field's allowed numbers; `least` and `most` are the field's bounds."""
    values: set[int] = set()
    for part in text.lower().split(","):
        match = PART.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{part!r} is no {field}: expected *, a number, a range such as 1-5, or a step such as */2"
            )
        first, last, step = match.groups()
        start = least if first is None else _number(first, field, least, most)
        if last is not None:
            end = _number(last, field, least, most)
        else:
            is_single = first is not None and step is None  # `5/2` counts from 5 to the field's end, as `*/2` does
            end = start if is_single else most
        step_width = 1 if step is None else int(step)
        if end < start or step_width == 0:
            raise ValueError(f"{part!r} is an empty range of the {field}")
        values.update(range(start, end + 1, step_width))
    return values


def _number(text: str, field: str, least: int, most: int) -> int:
    """Return the text's number; the text may be a name (`jan`, `mon`). ValueError outside the bounds."""
    names = NAMES.get(field, {})
    number = int(text) if text.isdigit() else names.get(text, -1)
    if not least <= number <= most:
        raise ValueError(f"the {field} is {least} to {most}, not {text}")
    return number


class Overlap(StrEnum):
    """Rule for an occurrence while the schedule's earlier run is still open."""

    SKIP = "skip"  # the occurrence starts no run
    QUEUE = "queue"  # a single occurrence waits until the earlier run ends
    REPLACE = "replace"  # the earlier run is stopped, and the occurrence waits until its end
    ALLOW = "allow"  # both runs are open at once

    @property
    def waits(self) -> bool:
        """Whether the occurrence waits for the earlier run's end."""
        return self in (Overlap.QUEUE, Overlap.REPLACE)


class ScheduleRules(Request):
    """A schedule's times, and its rule for overlaps."""

    cron: list[str] = Field(
        default_factory=list,
        max_length=20,
        description="lines of five fields, or @daily and such",
        examples=[["0 3 * * *"]],
    )
    every_seconds: Seconds | None = Field(
        default=None, validate_default=True, description="period in place of cron, counted from 1970 in UTC"
    )
    offset_seconds: Annotated[int, Field(ge=0, le=A_YEAR)] = Field(default=0, description="shift of the period")
    time_zone: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="UTC", description="time zone of cron, such as Europe/Berlin"
    )
    jitter_seconds: Annotated[int, Field(ge=0, le=A_YEAR)] = Field(
        default=0, description="longest random delay of an occurrence"
    )
    overlap: Overlap = Field(default=Overlap.SKIP, description="rule while an earlier run of the schedule is open")
    missed_window_seconds: Annotated[int, Field(ge=SHORTEST_WINDOW, le=A_YEAR)] | None = Field(
        default=None,
        description="longest delay of a start, after an outage or after an earlier run; default: an hour, or a day "
        "if occurrences wait (queue, replace)",
    )
    paused: bool = Field(default=False, description="create the schedule as paused")

    @field_validator("cron")
    @classmethod
    def _can_fire(cls, lines: list[str]) -> list[str]:
        """Return the lines with single spaces. Temporal would accept a line without any due time."""
        for line in lines:
            if problem := problem_of(line):
                raise ValueError(f"{line[:100]!r}: {problem}")
        return [" ".join(line.split()) for line in lines]

    @field_validator("every_seconds")
    @classmethod
    def _is_alternative_to_cron(cls, every: int | None, info: ValidationInfo) -> int | None:
        if every is not None and info.data.get("cron"):
            raise ValueError("either cron or an interval, not both")
        # `info.data` has no "cron" if `_can_fire` refused the lines, and then no second error is added
        if every is None and info.data.get("cron") == []:
            raise ValueError("either cron or an interval is needed")
        return every

    @field_validator("offset_seconds")
    @classmethod
    def _is_shorter_than_interval(cls, offset: int, info: ValidationInfo) -> int:
        every = info.data.get("every_seconds")
        if offset and (every is None or offset >= every):
            raise ValueError("only with an interval, and shorter than that")
        return offset

    @field_validator("time_zone")
    @classmethod
    def _fits_cron(cls, zone: str, info: ValidationInfo) -> str:
        if zone != "UTC" and info.data.get("every_seconds") is not None:
            raise ValueError("an interval has none; only cron is meant in a time zone")
        if zone == "Local":  # Temporal would use its own machine's zone
            raise ValueError("must be a name such as Europe/Berlin")
        for line in info.data.get("cron", []):
            if is_skipped_in(line, zone, datetime.now(UTC).year):
                raise ValueError(f"{line!r} never fires in {zone}: its only times are skipped as the clocks go forward")
        return zone

    @property
    def window_seconds(self) -> int:
        """A start's longest delay, with the default filled in."""
        return self.missed_window_seconds or (A_DAY if self.overlap.waits else AN_HOUR)


class ScheduleRequest(ScheduleRules):
    """Make or change a schedule, to start a crawler's runs, or flows, by the clock."""

    schedule_id: ScheduleId = Field(description="unchangeable name of the schedule")
    run: RunRequest | None = Field(
        default=None, description="request for the run of each occurrence; its trigger is always `scheduled`"
    )
    flow: FlowDefinition | None = Field(
        default=None, description="in place of a run: definition for the flow of each occurrence, which has its own id"
    )
    requested_by: Annotated[str, Field(max_length=LONGEST_REQUESTER)] | None = Field(
        default=None, description="name for the record of a flow; a run's request has its own"
    )

    @field_validator("run")
    @classmethod
    def _is_a_new_run(cls, run: RunRequest | None) -> RunRequest | None:
        if run is None:
            return None
        if run.run_id is not None:
            raise ValueError("a schedule starts runs; it does not continue one (run_id)")
        if run.flow is not None:
            raise ValueError("has a place in a flow (flow), and only a flow's supervisor gives places")
        return run.model_copy(update={"trigger": Trigger.SCHEDULED})

    @field_validator("flow")
    @classmethod
    def _fits_into_a_schedule(cls, flow: FlowDefinition | None) -> FlowDefinition | None:
        size = len(flow.model_dump_json()) if flow is not None else 0
        if size > LARGEST_SCHEDULED:
            raise ValueError(
                f"is {size} bytes as JSON, and a schedule takes at most {LARGEST_SCHEDULED}: let a step of a small "
                "flow push or graft the large one"
            )
        return flow

    @model_validator(mode="after")
    def _starts_one_thing(self) -> Self:
        """Refuse a schedule for both or neither. The error's type is the field's name, for `_bad_input`."""
        if (self.run is None) == (self.flow is None):
            raise PydanticCustomError("run", "either a run or a flow is needed, and not both")
        return self

    @property
    def subject(self) -> str:
        """The crawler, or the id in the flow's definition."""
        if self.flow is not None:
            return self.flow.id
        return self.run.crawler if self.run is not None else ""


class ScheduledManager(Request):
    """Crawl manager in the catalogue, for a schedule's occurrences."""

    name: Annotated[str, Field(min_length=1, max_length=128)] = Field(description="name in the catalogue")
    arguments: Annotated[list[str], Field(max_length=1000)] = Field(
        default_factory=list, description="command line after the catalogue's arguments"
    )


class ManagerSchedule(ScheduleRules):
    """Make or change a schedule, to start a crawl manager in the catalogue by the clock."""

    schedule_id: ScheduleId = Field(description="unchangeable name of the schedule, and the manager's family")
    manager: ScheduledManager
    requested_by: Annotated[str, Field(max_length=LONGEST_REQUESTER)] | None = Field(
        default=None, description="name for the record"
    )

    def with_flow(self, flow: FlowDefinition) -> ScheduleRequest:
        """Return the request for the manager's flow."""
        return ScheduleRequest(flow=flow, **{name: value for name, value in self if name != "manager"})


class OccurrenceOutcome(StrEnum):
    """Outcome for an occurrence, or for a trigger by a person."""

    STARTED = "started"
    DUE = "due"  # the due time was seconds ago: Temporal may still start the run
    QUEUED = "queued"  # the occurrence waits until an earlier run ends
    SKIPPED = "skipped"  # no run was started, for the SkipReason
    UNKNOWN = "unknown"  # no run was started, and no reason is known
    ASKED = "asked"  # only for a trigger: Temporal accepted the trigger, and the outcome is not known yet


class SkipReason(StrEnum):
    OVERLAP = "overlap"  # an earlier run was open
    PAUSED = "paused"  # the schedule was paused
    MISSED_WINDOW = "missed_window"  # the start would have come after the longest delay


class Occurrence(Message):
    """A due time for a run, and its outcome."""

    at: datetime = Field(description="due time, with the jitter")
    outcome: OccurrenceOutcome
    reason: SkipReason | None = Field(default=None, description="reason of a skip; none: no skip")
    detail: str = Field(
        default="", description="facts that support the outcome; Temporal lists no skips, so we conclude them"
    )
    started_at: datetime | None = None
    workflow_id: str | None = None
    run_id: int | None = None
    run_status: RunStatus | None = None
    flow_id: str | None = None
    flow_state: FlowState | None = None


class Pause(Message):
    """A schedule's pause. `until` is None while the pause lasts."""

    since: datetime
    until: datetime | None = None
    actor: str | None = None
    reason: str | None = None


class ScheduleCounts(Message):
    """Temporal's counts since the schedule was created, with triggers and backfills."""

    started: int
    skipped_overlap: int
    skipped_missed_window: int
    queued: int


class ScheduleSummary(Message):
    """Schedule in a list. Without a crawler and a flow, another tool created the schedule."""

    schedule_id: str
    crawler: str | None
    flow_id: str | None = Field(default=None, description="id in the definition of the flows, in place of a crawler")
    cron: list[str]
    every_seconds: int | None
    offset_seconds: int
    time_zone: str
    jitter_seconds: int
    paused: bool
    next_at: list[datetime]
    last_started_at: datetime | None


class ScheduleCommand(Message):
    """A command for a schedule, and its requester."""

    at: datetime
    command: str = Field(description="`create`, `replace`, `pause`, `resume`, `trigger`, `backfill` or `delete`")
    actor: str | None
    door: str


class ScheduleDetails(ScheduleSummary):
    """A schedule with all fields and its latest occurrences, newest first."""

    run: RunRequest | None
    flow: FlowDefinition | None = None
    overlap: Overlap | None
    missed_window_seconds: int
    created_at: datetime
    note: str
    pauses: list[Pause]
    counts: ScheduleCounts
    open_workflows: list[str]
    occurrences: list[Occurrence]
    commands: list[ScheduleCommand] = Field(default=[], description="latest commands for the schedule, newest first")
    other_starts: list[Occurrence] = Field(
        default=[], description="among the last ten starts: by a trigger, a backfill or earlier rules, newest first"
    )


class Triggered(Message):
    """Result for a trigger, with the reason if the trigger was skipped."""

    schedule_id: str
    outcome: OccurrenceOutcome
    reason: SkipReason | None = None
    workflow_id: str | None = None


class Backfilled(Message):
    """Result for a backfill: the past occurrences with new runs."""

    schedule_id: str
    occurrences: list[datetime]


class ScheduleAction(StrEnum):
    """Action for a schedule in an applied file."""

    CREATE = "create"
    CHANGE = "change"
    NOTHING = "unchanged"
    KEEP = "not in the file"
    DELETE = "delete"


class ScheduleChange(Message):
    """Difference between a file with schedules and the installation."""

    schedule_id: str
    action: ScheduleAction
    fields: list[str] = Field(default=[], description="fields that differ")
