"""`Control` joins all commands for runs, flows, schedules, audits and limits of an installation: the Python door.

`attention` counts the waits for a person: failures, runs without room, flows in need, findings, pauses and late audits.
"""

import asyncio
import time
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from crawler_lifecycle.assembly.checks import check_all
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.commands import AuditCommands
from crawler_lifecycle.base.requesters import Requester
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.rules.words import HOST_PATIENCE
from crawler_lifecycle.limits.commands import LimitCommands
from crawler_lifecycle.managers.commands import CatalogueManagers
from crawler_lifecycle.model.answers import Check
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import ListedStatus
from crawler_lifecycle.runs.commands.runs import RunCommands
from crawler_lifecycle.runs.model import Attention, FlowsInNeed, RequestsInNeed
from crawler_lifecycle.runs.rules.outcome import FAILURES_SHOWN
from crawler_lifecycle.schedules.commands.late_starts import requests_without_run
from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
from crawler_lifecycle.settings.installation import Installation, locate
from crawler_lifecycle.temporal.engine import Engine

MOST_FLOWS = 10  # named in an answer
PARTS_SECONDS = 15.0  # the shared parts are checked at most once in this time, however many callers there are


async def attention(context: ControlContext[SqlStore], engine: Engine, audits: AuditCommands) -> Attention:
    now = datetime.now(UTC)
    audit_problem = await _audit_problem(context, audits)
    without_run = await _without_run(engine, now)
    return await context.database(lambda store: _counted(store, now, audit_problem, without_run))


def _counted(
    store: SqlStore, now: datetime, audit_problem: str | None, without_run: RequestsInNeed | None
) -> Attention:
    runs, flows = store.records, store.flow_records
    failed = runs.counts(RunFilter(listed=(ListedStatus.FAILED,), since=now - FAILURES_SHOWN, flows=True))
    saturated = runs.saturated(0)
    return Attention(
        failed_runs=sum(failed.counts.values()),
        more_failed_runs=bool(failed.at_least),
        with_failed_items=_in_need(flows.with_failed_items(now - FAILURES_SHOWN, limit=MOST_FLOWS)),
        saturated_runs=saturated.total,
        more_saturated_runs=saturated.has_more,
        awaiting_approval=_in_need(flows.awaiting_approval(limit=MOST_FLOWS)),
        without_host=_in_need(flows.without_host(now - HOST_PATIENCE, limit=MOST_FLOWS)),
        open_findings=sum(store.findings.overview(audits=0, findings=0).open.values()),
        pauses=store.limits.pauses(),
        without_run=without_run,
        audit_problem=audit_problem,
    )


def _in_need(found: tuple[int, list[str]]) -> FlowsInNeed:
    total, ids = found
    return FlowsInNeed(total=total, flows=ids)


async def _without_run(engine: Engine, now: datetime) -> RequestsInNeed | None:
    """Return the requests without a run; None if Temporal does not answer."""
    try:
        return await requests_without_run(engine, now)
    except LifecycleError:
        return None


async def _audit_problem(context: ControlContext[SqlStore], audits: AuditCommands) -> str | None:
    """Return why no audit was complete lately; None if an audit was in time, and if Temporal does not know."""
    overview = await context.calls.run(lambda: audits.overview(audits=1, findings=0))
    try:
        await audits.check_punctuality(overview)
    except NotReady as error:
        return error.message
    except LifecycleError:  # no audit is recorded yet, and Temporal does not answer
        return None
    return None


class Control:
    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        engine = Engine(installation.temporal, installation.settings.worker.task_queue)
        self.parts = Parts(installation.settings)
        self._checking = asyncio.Lock()  # so simultaneous callers share a check
        self._checked_at, self._checks = -PARTS_SECONDS, list[Check]()  # for the shared parts
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

    async def shared_parts(self) -> list[Check]:
        """Return the checks of the parts that all processes share, at most PARTS_SECONDS old."""
        async with self._checking:
            if time.monotonic() - self._checked_at >= PARTS_SECONDS:
                parts = (self.context, self.parts, self.engine, self.audits, self.limits)
                self._checks, self._checked_at = await check_all(*parts, is_shared=True), time.monotonic()
            return self._checks
