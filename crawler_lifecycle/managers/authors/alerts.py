"""Alerts: report once that no job has started or ended for too long."""

from datetime import datetime

from crawler_lifecycle.flows.model.turns import Counts

ALERTS = "crawlmanager/alerts"  # stat: number of alerts


class Progress:
    """The time of a manager's last start or end. `limit`: seconds until an alert; 0: no alert."""

    def __init__(self, limit: float, now: datetime) -> None:
        self._limit = limit
        self._last = now
        self._has_told = False

    def note(self, now: datetime) -> None:
        self._last, self._has_told = now, False

    def overdue(self, now: datetime) -> float | None:
        """Return the seconds without progress, if an alert is due."""
        seconds = (now - self._last).total_seconds()
        if not self._limit or self._has_told or seconds < self._limit:
            return None
        self._has_told = True
        return seconds


def sentence(seconds: float, counts: Counts) -> str:
    return (
        f"no job has started or ended for {seconds:.0f} s: {counts.running} running, {counts.waiting} waiting, "
        f"{counts.delayed} delayed, {counts.retrying} in pauses"
    )
