"""`Control` joins all commands for runs, flows, schedules, audits and limits of an installation: the Python door."""

from pathlib import Path
from typing import Self

from crawler_lifecycle.control.audits import AuditCommands
from crawler_lifecycle.control.checks import Check, check_all
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.control.flows.commands import FlowCommands
from crawler_lifecycle.control.installation import Installation, locate
from crawler_lifecycle.control.limits import LimitCommands
from crawler_lifecycle.control.runs import RunCommands
from crawler_lifecycle.control.schedules import ScheduleCommands


class Control:
    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.context = Context.for_installation(installation)
        self.parts = self.context.parts
        self.engine = Engine(installation.temporal, installation.settings.worker.task_queue)
        self.runs = RunCommands(self.context, self.engine)
        self.schedules = ScheduleCommands(self.context, self.engine)
        self.audits = AuditCommands(self.context, self.engine)
        self.limits = LimitCommands(self.context)
        self.flows = FlowCommands(self.context, self.engine)

    @classmethod
    def open(cls, state: Path | None = None) -> Self:
        return cls(locate(state))

    async def doctor(self) -> list[Check]:
        return await check_all(self.context, self.engine, self.audits, self.limits)
