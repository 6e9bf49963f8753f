"""`Control` joins all commands for runs, flows, schedules, audits and limits of an installation: the Python door."""

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Self

from crawler_lifecycle.assembly.attention import attention
from crawler_lifecycle.assembly.checks import Check, check_all
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.commands.audits import AuditCommands
from crawler_lifecycle.base.requesters import Requester
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.limits.commands import LimitCommands
from crawler_lifecycle.managers.commands import CatalogueManagers
from crawler_lifecycle.runs.commands.runs import RunCommands
from crawler_lifecycle.runs.model.attention import Attention
from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
from crawler_lifecycle.settings.installation import Installation, locate
from crawler_lifecycle.temporal.engine import Engine


class Control:
    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        engine = Engine(installation.temporal, installation.settings.worker.task_queue)
        self.parts = Parts(installation.settings)
        self._set_up(ControlContext(installation, self.parts), engine)

    def _set_up(self, context: ControlContext[SqlStore], engine: Engine) -> None:
        self.context = context
        self.engine = engine
        self.runs = RunCommands(context, engine)
        self.schedules = ScheduleCommands(context, engine)
        self.audits = AuditCommands(context, engine)
        self.limits = LimitCommands(context)
        self.flows = FlowCommands(context, engine, CatalogueManagers(context))

    def asked_by(self, requester: Requester) -> Self:
        """Return the same commands, with the same connections, for a requester. The commands record the requester."""
        control = copy(self)
        control._set_up(replace(self.context, requester=requester), self.engine)
        return control

    @classmethod
    def open(cls, state: Path | None = None) -> Self:
        return cls(locate(state))

    async def attention(self) -> Attention:
        """Return what waits for a person, a host or room."""
        return await attention(self.context, self.engine, self.audits)

    async def doctor(self) -> list[Check]:
        return await check_all(self.context, self.parts, self.engine, self.audits, self.limits)
