"""Numbers with their nouns, spans of time, and times, for messages."""

from datetime import UTC, datetime


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def span(seconds: int) -> str:
    """Return for example `20 s`, `10 min`, `1 h 30 min` or `2 d`."""
    parts, rest = [], seconds
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts) or "0 s"


def utc_text(moment: datetime, timespec: str = "seconds") -> str:
    """Return the time in UTC, such as `2026-11-20T03:00:00Z`. `timespec` as in `datetime.isoformat`."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
