"""Checks for a schedule's cron lines, before Temporal gets the schedule.

Temporal accepts lines without any due time: the schedule would exist, and no run would ever start. Temporal follows
`crontab` with an exception: where a line gives both a date and a weekday, a due time has to fit both.
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

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
