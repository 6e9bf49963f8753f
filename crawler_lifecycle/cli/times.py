"""Times as text."""

from datetime import UTC, datetime


def rfc3339(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else "-"
