"""The schedule in Temporal that starts the audit. Every worker makes and keeps the schedule of its installation."""

from datetime import timedelta

from temporalio import client as temporal

from crawler_lifecycle.contract.audits import AuditRequest
from crawler_lifecycle.control.connection import RPC_TIMEOUT
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.control.schedules import replacement
from crawler_lifecycle.domain.naming import AUDIT_WORKFLOW
from crawler_lifecycle.errors import NotFound

LONGEST_AUDIT = timedelta(hours=3)  # an audit that hangs must not keep all later audits from starting
CATCH_UP = timedelta(minutes=1)  # a missed audit needs no repetition: the next audit finds the same


def schedule_id(installation: str) -> str:
    """Return the schedule's id in Temporal; several installations may share a server."""
    return f"crawler-audit-{installation}"


class AuditSchedule:
    def __init__(self, engine: Engine, installation: str, every_seconds: int) -> None:
        self._engine = engine
        self._id = schedule_id(installation)
        self._every = timedelta(seconds=every_seconds)

    async def keep(self) -> None:
        """Make or change the schedule; delete the schedule if the period is 0. A paused schedule stays paused."""
        if not self._every:
            return await self._delete()
        async with self._engine.calls() as client:
            try:
                await client.create_schedule(self._id, self._wanted(), rpc_timeout=RPC_TIMEOUT)
            except temporal.ScheduleAlreadyRunningError:
                await self._change(client)

    async def describe(self) -> temporal.ScheduleDescription:
        async with self._engine.calls() as client:
            return await client.get_schedule_handle(self._id).describe(rpc_timeout=RPC_TIMEOUT)

    async def _delete(self) -> None:
        try:
            async with self._engine.calls() as client:
                await client.get_schedule_handle(self._id).delete(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            return

    def _wanted(self) -> temporal.Schedule:
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

    async def _change(self, client: temporal.Client) -> None:
        wanted, handle = self._wanted(), client.get_schedule_handle(self._id)

        def is_as_wanted(schedule: temporal.Schedule) -> bool:
            return _settings_of(schedule) == _settings_of(wanted)

        present = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if not is_as_wanted(present.schedule):
            await replacement.replace(client, handle, present, wanted, is_as_wanted)


def _settings_of(schedule: temporal.Schedule) -> tuple[object, ...]:
    action, policy = schedule.action, schedule.policy
    assert isinstance(action, temporal.ScheduleActionStartWorkflow)
    every = [interval.every for interval in schedule.spec.intervals]
    return action.workflow, action.task_queue, action.execution_timeout, every, policy.overlap, policy.catchup_window
