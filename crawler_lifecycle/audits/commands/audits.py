"""Commands for audits: start or run an audit now, show findings, and check the scheduled audits for `doctor`."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from temporalio.client import ScheduleDescription

from crawler_lifecycle.audits.commands.schedule import AuditSchedule, schedule_id
from crawler_lifecycle.audits.ports.findings import AuditStore
from crawler_lifecycle.base.words import utc_text
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, NotReady, TemporaryError
from crawler_lifecycle.model.answers import AuditStarted
from crawler_lifecycle.model.audits import AuditOverview, AuditReport, AuditRequest, AuditView
from crawler_lifecycle.model.naming import AUDIT_WORKFLOW
from crawler_lifecycle.temporal.descriptions import MISSING
from crawler_lifecycle.temporal.engine import Engine

AUDIT_PATIENCE = 120.0  # seconds that `run` waits for the report
NOT_ALLOWED = (
    "this installation does not allow it: set CRAWLER_AUDIT__REMOVE_UNKNOWN_JOBS=true for the worker "
    "and for the process that takes the command (crawlctl or the HTTP API)"
)
PERIODS_UNTIL_LATE = 3  # audits are late after this number of periods without a complete audit


class AuditCommands:
    def __init__(self, context: ControlContext[AuditStore], engine: Engine) -> None:
        self._context = context
        self._engine = engine

    def overview(self, *, audits: int = 10, findings: int = 100) -> AuditOverview:
        """Return the last audits with repair and their findings, as recorded in the database."""
        return self._context.store.findings.overview(audits=audits, findings=findings)

    async def view(self, *, findings: int = 100) -> AuditView:
        """Return the overview, and whether the audits are in time."""
        overview = dict(await self._context.calls.run(self.overview, findings=findings))
        try:
            return AuditView(**overview, first_due=await self.check_punctuality(AuditOverview(**overview)))
        except LifecycleError as error:
            return AuditView(**overview, problem=error.message)

    async def start(self, request: AuditRequest) -> AuditStarted:
        """Start an audit and do not wait for its report.

        The worker checks the permission to remove unknown jobs again: its own setting decides.
        """
        if request.remove_unknown_jobs and not self._context.installation.settings.audit.remove_unknown_jobs:
            raise BadInput("remove_unknown_jobs", NOT_ALLOWED)
        installation = await self._context.database(lambda store: store.records.installation())
        workflow_id = f"{schedule_id(installation)}-{uuid4().hex[:12]}"
        request = request.model_copy(update={"requested_by": self._context.requester.name})
        await self._engine.start(AUDIT_WORKFLOW, request, workflow_id, "audit by a command")
        return AuditStarted(audit=workflow_id)

    async def result(self, audit: str) -> AuditReport | None:
        """Return the audit's report; None while the audit is under way. NotFound: there is no such audit of ours."""
        installation = await self._context.database(lambda store: store.records.installation())
        not_found = NotFound(f"there is no audit {audit[:100]!r}")
        if not audit.startswith(schedule_id(installation)):
            raise not_found
        workflow = await self._engine.describe(audit)
        if workflow == MISSING:
            raise not_found
        return None if workflow.is_open else await self._wait(audit)

    async def run(self, request: AuditRequest) -> AuditReport:
        """Start an audit and return its report. TemporaryError if the report takes longer than AUDIT_PATIENCE."""
        started = await self.start(request)
        try:
            async with asyncio.timeout(AUDIT_PATIENCE):
                return await self._wait(started.audit)
        except TimeoutError as error:
            raise TemporaryError(
                f"audit {started.audit} is under way but not done after {AUDIT_PATIENCE:.0f} s: `crawlctl doctor` says "
                "whether a worker runs, and `crawlctl audit` shows the findings later"
            ) from error

    async def check(self) -> str:
        """Return one line about the scheduled audits. NotReady if the schedule does not work, with the remedy."""
        period = self._context.installation.settings.audit.every_seconds
        if not period:
            return "switched off (CRAWLER_AUDIT__EVERY_SECONDS=0): a terminated workflow is not resumed"
        schedule = await self._working_schedule(period)
        overview = await self._context.calls.run(self.overview, audits=1, findings=0)
        completed_at = overview.last_complete_at
        _refuse_late(completed_at or schedule.info.created_at, schedule, period)
        last_audit = f"the last complete one at {utc_text(completed_at)}" if completed_at else _next("first", schedule)
        return f"every {period} s, {last_audit}, {sum(overview.open.values())} findings open"

    async def check_punctuality(self, overview: AuditOverview) -> str | None:
        """Return when the first audit is due, if no audit was made yet. NotReady if no audit was complete lately.

        None: the last audit was in time, or the scheduled audits are switched off.
        """
        period, completed_at = self._context.installation.settings.audit.every_seconds, overview.last_complete_at
        if not period:
            return None
        if completed_at is None and any(audit.finished_at for audit in overview.audits):
            raise NotReady("no audit was complete yet: the lines of its parts say why")
        if completed_at is None:
            return await self.check_before_the_first()
        if datetime.now(UTC) - completed_at > PERIODS_UNTIL_LATE * timedelta(seconds=period):
            raise NotReady("no audit was complete lately: `crawlctl doctor` says whether a worker runs")
        return None

    async def check_before_the_first(self) -> str:
        """Return when the first audit is due, in words. NotReady if the schedule does not work, with the remedy."""
        period = self._context.installation.settings.audit.every_seconds
        schedule = await self._working_schedule(period)
        _refuse_late(schedule.info.created_at, schedule, period)
        return f"no audit was made yet, {_next('first', schedule)}"

    async def _working_schedule(self, period: int) -> ScheduleDescription:
        """Return the schedule. NotReady if the schedule does not exist or is paused."""
        installation = await self._context.database(lambda store: store.records.installation())
        try:
            schedule = await AuditSchedule(self._engine, installation, period).describe()
        except NotFound as error:
            raise NotReady(
                f"there is no schedule {schedule_id(installation)}: start a worker, which makes it"
            ) from error
        if schedule.schedule.state.paused:
            raise NotReady(
                f"the schedule is paused: `temporal schedule toggle --unpause -s {schedule.id} --reason ...`"
            )
        return schedule

    async def _wait(self, audit: str) -> AuditReport:
        handle = (await self._engine.client()).get_workflow_handle(audit)
        return AuditReport.model_validate(await self._engine.result(handle))


def _refuse_late(since: datetime, schedule: ScheduleDescription, period: int) -> None:
    """Raise NotReady if no audit was complete for several periods since then."""
    if datetime.now(UTC) - since > timedelta(seconds=PERIODS_UNTIL_LATE * period):
        raise NotReady(
            f"no audit was complete since {utc_text(since)}, {_next('next', schedule)}: it needs a worker "
            "(`crawlctl doctor`), and `crawlctl audit` shows how the last ones ended"
        )


def _next(number: str, schedule: ScheduleDescription) -> str:
    """Return when the schedule starts its next audit; `number` is `first` or `next`."""
    due = next(iter(schedule.info.next_action_times), None)
    return f"the {number} one is due {f'at {utc_text(due)}' if due else 'soon'}"
