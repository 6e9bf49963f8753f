"""The schedule in Temporal that starts the audits of an installation. Every worker makes and keeps the schedule."""

from datetime import timedelta

from temporalio import client as temporal

from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.model.audits import AuditRequest
from crawler_lifecycle.model.naming import AUDIT_WORKFLOW
from crawler_lifecycle.schedules.commands import replacement
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT
from crawler_lifecycle.temporal.engine import Engine

LONGEST_AUDIT = timedelta(hours=3)  # an audit that hangs must not keep all later audits from starting
CATCH_UP = timedelta(minutes=1)  # an audit that is later is skipped: the next audit finds the same disagreements


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
            await replacement.replace(client, handle, description, schedule, is_up_to_date)


def _settings_of(schedule: temporal.Schedule) -> tuple[object, ...]:
    """Return the settings that another version or configuration may have set to other values."""
    action, policy = schedule.action, schedule.policy
    assert isinstance(action, temporal.ScheduleActionStartWorkflow)
    every = [interval.every for interval in schedule.spec.intervals]
    return action.workflow, action.task_queue, action.execution_timeout, every, policy.overlap, policy.catchup_window
