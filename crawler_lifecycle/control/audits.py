"""The verbs of the audit: what has it found, and do it now."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from crawler_lifecycle.contract.audits import AuditOverview, AuditReport, AuditRequest
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.control.audit_schedule import AuditSchedule, schedule_id
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.domain.naming import AUDIT_WORKFLOW
from crawler_lifecycle.errors import NotFound, NotReady, TemporaryError

PATIENCE = 120.0
PERIODS_TO_BE_LATE = 3


class AuditStarted(Message):
    """An audit that is under way, by its workflow's id."""

    audit: str


class Audits:
    def __init__(self, context: Context, engine: Engine) -> None:
        self._context = context
        self._engine = engine

    def overview(self, *, audits: int = 10, findings: int = 100) -> AuditOverview:
        """What the audits that repair have found, as far as the database tells."""
        return self._context.store.findings.overview(audits=audits, findings=findings)

    async def start(self, request: AuditRequest) -> AuditStarted:
        installation = await self._context.database(lambda store: store.records.installation())
        workflow_id = f"{schedule_id(installation)}-{uuid4().hex[:12]}"
        await self._engine.start(AUDIT_WORKFLOW, request, workflow_id, "audit, asked for")
        return AuditStarted(audit=workflow_id)

    async def result(self, audit: str) -> AuditReport | None:
        """None while it is under way; NotFound if it is not one of this installation's."""
        installation = await self._context.database(lambda store: store.records.installation())
        missing = NotFound(f"there is no audit {audit[:100]!r}")
        if not audit.startswith(schedule_id(installation)):
            raise missing
        try:
            if (await self._engine.describe(audit)).end == "missing":
                raise missing
            if await self._engine.is_open(audit):
                return None
        except NotFound as error:
            raise missing from error
        return await self._wait(audit)

    async def run(self, request: AuditRequest) -> AuditReport:
        """Now, and what came of it."""
        started = await self.start(request)
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._wait(started.audit)
        except TimeoutError as error:
            raise TemporaryError(
                f"audit {started.audit} is under way but not done after {PATIENCE:.0f} s: is a worker there "
                "(`crawlctl doctor`)? What it finds and repairs, `crawlctl audit` shows later"
            ) from error

    async def check(self) -> str:
        """One line about the audit that comes by itself, or an error that says what to mend."""
        every = self._context.installation.settings.audit.every_seconds
        if not every:
            return "switched off (CRAWLER_AUDIT__EVERY_SECONDS=0): nobody resumes what was terminated"
        schedule = await self._schedule(every)
        overview = await self._context.calls.run(self.overview, audits=1, findings=0)
        late = timedelta(seconds=PERIODS_TO_BE_LATE * every)
        last = overview.last_complete_at
        if datetime.now(UTC) - (last or schedule) > late:
            since = f"since {last:%Y-%m-%dT%H:%M:%SZ}" if last else "yet"
            raise NotReady(f"no audit was complete {since}: `crawlctl audit` tells what is in the way")
        done = f"the last complete one at {last:%Y-%m-%dT%H:%M:%SZ}" if last else "none was due yet"
        return f"every {every} s, {done}, {sum(overview.open.values())} findings open"

    async def _schedule(self, every: int) -> datetime:
        """When it was made."""
        installation = await self._context.database(lambda store: store.records.installation())
        try:
            seen = await AuditSchedule(self._engine, installation, every).describe()
        except NotFound as error:
            raise NotReady(
                f"there is no schedule {schedule_id(installation)}: a worker makes it, is one there?"
            ) from error
        if seen.schedule.state.paused:
            raise NotReady(f"somebody has paused it: `temporal schedule toggle --unpause -s {seen.id} --reason ...`")
        return seen.info.created_at

    async def _wait(self, audit: str) -> AuditReport:
        handle = (await self._engine.client()).get_workflow_handle(audit)
        return AuditReport.model_validate(await self._engine.result(handle))
