"""Port for the record of commands for schedules."""

from typing import Protocol

from crawler_lifecycle.flows.ports.ledger import FlowStore
from crawler_lifecycle.schedules.model import ScheduleCommand


class ScheduleLog(Protocol):
    def add(self, schedule_id: str, command: ScheduleCommand) -> None:
        """Record the command for the schedule once; the schedule, the time and the command are the record's key."""

    def forget(self, schedule_id: str, command: ScheduleCommand) -> None: ...

    def latest(self, schedule_id: str) -> list[ScheduleCommand]:
        """Return the latest commands for the schedule, newest first."""


class ScheduleStore(FlowStore, Protocol):
    @property
    def schedule_log(self) -> ScheduleLog: ...
