"""Numbers with their nouns, and times, for messages."""

from datetime import UTC, datetime


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def utc_text(moment: datetime, timespec: str = "seconds") -> str:
    """Return the time in UTC, such as `2026-11-20T03:00:00Z`. `timespec` as in `datetime.isoformat`."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
