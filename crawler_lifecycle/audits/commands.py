"""Commands for audits: start an audit, return its report, show findings, check and keep the schedule of audits."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from temporalio import client as temporal
from temporalio.client import ScheduleDescription

from crawler_lifecycle.audits.ports import AuditStore
from crawler_lifecycle.base.words import utc_text
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, NotReady
from crawler_lifecycle.model.answers import AuditStarted
from crawler_lifecycle.model.audits import AuditOverview, AuditReport, AuditRequest, AuditView
from crawler_lifecycle.model.naming import AUDIT_WORKFLOW
from crawler_lifecycle.schedules.commands import schedule_commands
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT
from crawler_lifecycle.temporal.engine import MISSING, Engine

LONGEST_AUDIT = timedelta(hours=3)  # an audit that hangs must not keep all later audits from starting
CATCH_UP = timedelta(minutes=1)  # an audit that is later is skipped: the next audit finds the same disagreements
NOT_ALLOWED = (
    "this installation does not allow it: set CRAWLER_AUDIT__REMOVE_UNKNOWN_JOBS=true for the worker "
    "and for the process that takes the command (crawlctl or the HTTP API)"
)
PERIODS_UNTIL_LATE = 3  # audits are late after this number of periods without a complete audit


def schedule_id(installation: str) -> str:
    """Return the schedule's id in Temporal. It differs by installation, since several may share a server."""
    return f"crawler-audit-{installation}"


class AuditSchedule:
    def __init__(self, engine: Engine, installation: str, every_seconds: int) -> None:
        self._engine = engine
        self._id = schedule_id(installation)
        self._every = timedelta(seconds=every_seconds)

    async def keep(self) -> None:
        """Make the schedule, or change an outdated schedule; delete the schedule if the period is 0.

        A paused schedule stays paused.
        """
        if not self._every:
            return await self._delete()
        async with self._engine.calls() as client:
            try:
                await client.create_schedule(self._id, self._schedule(), rpc_timeout=RPC_TIMEOUT)
            except temporal.ScheduleAlreadyRunningError:
                await self._update(client)

    async def describe(self) -> temporal.ScheduleDescription:
        async with self._engine.calls() as client:
            return await client.get_schedule_handle(self._id).describe(rpc_timeout=RPC_TIMEOUT)

    async def _delete(self) -> None:
        try:
            async with self._engine.calls() as client:
                await client.get_schedule_handle(self._id).delete(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            return

    def _schedule(self) -> temporal.Schedule:
        return temporal.Schedule(
            action=temporal.ScheduleActionStartWorkflow(
                AUDIT_WORKFLOW,
                AuditRequest(repair=True),
                id=self._id,
                task_queue=self._engine.task_queue,
                execution_timeout=LONGEST_AUDIT,
                static_summary="audit: database, Temporal and cluster are compared",
            ),
            spec=temporal.ScheduleSpec(intervals=[temporal.ScheduleIntervalSpec(every=self._every)]),
            policy=temporal.SchedulePolicy(overlap=temporal.ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
        )

    async def _update(self, client: temporal.Client) -> None:
        """Change the existing schedule if its settings differ, for example after a change of the period."""
        schedule, handle = self._schedule(), client.get_schedule_handle(self._id)

        def is_up_to_date(present: temporal.Schedule) -> bool:
            return _settings_of(present) == _settings_of(schedule)

        description = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if not is_up_to_date(description.schedule):
            await schedule_commands.replace(client, handle, description, schedule, is_up_to_date)


def _settings_of(schedule: temporal.Schedule) -> tuple[object, ...]:
    """Return the settings that another version or configuration may have set to other values."""
    action, policy = schedule.action, schedule.policy
    assert isinstance(action, temporal.ScheduleActionStartWorkflow)
    every = [interval.every for interval in schedule.spec.intervals]
    return action.workflow, action.task_queue, action.execution_timeout, every, policy.overlap, policy.catchup_window


class AuditCommands:
    def __init__(self, context: ControlContext[AuditStore], engine: Engine) -> None:
        self._context = context
        self._engine = engine

    def overview(self, *, audits: int = 10, findings: int = 100) -> AuditOverview:
        """Return the last audits with repair and their findings, as recorded in the database."""
        return self._context.store.findings.overview(audits=audits, findings=findings)

    async def view(self, *, findings: int = 100) -> AuditView:
        """Return the overview, whether the audits are in time, and when the next audit is due."""
        overview = await self._context.calls.run(self.overview, findings=findings)
        return AuditView(**dict(overview), problem=await self._problem(overview), next_due=await self._next_due())

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

    async def check_punctuality(self, overview: AuditOverview) -> None:
        """Raise NotReady if no audit was complete lately, or if the schedule of the first audit does not work."""
        period, completed_at = self._context.installation.settings.audit.every_seconds, overview.last_complete_at
        if not period:
            return
        if completed_at is None and any(audit.finished_at for audit in overview.audits):
            raise NotReady("no audit was complete yet: the lines of its parts say why")
        if completed_at is None:
            schedule = await self._working_schedule(period)
            _refuse_late(schedule.info.created_at, schedule, period)
        elif datetime.now(UTC) - completed_at > PERIODS_UNTIL_LATE * timedelta(seconds=period):
            raise NotReady("no audit was complete lately: `crawlctl doctor` says whether a worker runs")

    async def _problem(self, overview: AuditOverview) -> str | None:
        try:
            await self.check_punctuality(overview)
        except LifecycleError as error:
            return error.message
        return None

    async def _next_due(self) -> datetime | None:
        period = self._context.installation.settings.audit.every_seconds
        try:
            return _due(await self._working_schedule(period)) if period else None
        except LifecycleError:  # the overview is worth more than the time
            return None

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


def _due(schedule: ScheduleDescription) -> datetime | None:
    return next(iter(schedule.info.next_action_times), None)


def _next(number: str, schedule: ScheduleDescription) -> str:
    """Return when the schedule starts its next audit; `number` is `first` or `next`."""
    due = _due(schedule)
    return f"the {number} one is due {f'at {utc_text(due)}' if due else 'soon'}"
