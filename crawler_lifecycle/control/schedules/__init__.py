"""Schedules start runs by the clock. Temporal keeps schedules; this package translates them to our terms and back."""

from crawler_lifecycle.control.schedules.commands import ScheduleCommands

__all__ = ["ScheduleCommands"]
