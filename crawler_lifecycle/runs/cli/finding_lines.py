"""Turns findings into lines of text."""

from collections.abc import Iterator
from datetime import datetime

from crawler_lifecycle.console.words import rfc3339
from crawler_lifecycle.model.audits import FindingRecord

LAST_LINES = 3  # longest extract from a finding's evidence


def finding_lines(finding: FindingRecord) -> Iterator[str]:
    """Yield the lines of a finding: its times, message, repair and evidence."""
    state = f"until {time_text(finding.closed_at)}" if finding.closed_at else "open"
    yield f"{time_text(finding.first_seen_at)}  {finding.kind}, {state}: {run_prefix(finding.run_id)}{finding.message}"
    if finding.action:
        times = f", {finding.acts} times so far" if finding.acts > 1 else ""
        yield f"    done {time_text(finding.acted_at)}: {finding.action}{times}"
    if finding.problem and finding.closed_at is None:
        yield f"    {finding.problem}"
    if finding.evidence:
        yield from (f"    | {line}" for line in finding.evidence.splitlines()[-LAST_LINES:])


def run_prefix(run_id: int | None) -> str:
    return f"run {run_id}: " if run_id is not None else ""


def time_text(moment: datetime | None) -> str:
    return rfc3339(moment) if moment else "never"
