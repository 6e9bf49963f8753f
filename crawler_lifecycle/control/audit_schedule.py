"""The schedule of the audit: one for each installation, made and kept by every worker."""

from datetime import datetime, timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)

from crawler_lifecycle.contract.audits import AuditRequest
from crawler_lifecycle.control.engine import RPC_TIMEOUT, Engine
from crawler_lifecycle.control.schedules import replacement
from crawler_lifecycle.domain.naming import AUDIT_WORKFLOW
from crawler_lifecycle.errors import NotFound

LONGEST_AUDIT = timedelta(hours=3)  # one that is stuck must not keep all that come after it from starting
CATCH_UP = timedelta(minutes=1)  # one that was missed is made up for by the next


def schedule_id(installation: str) -> str:
    """Several installations may share a server."""
    return f"crawler-audit-{installation}"


class AuditSchedule:
    def __init__(self, engine: Engine, installation: str, every_seconds: int) -> None:
        self._engine = engine
        self._id = schedule_id(installation)
        self._every = timedelta(seconds=every_seconds)

    async def keep(self) -> None:
        """It is there as it should be, or not there if the period is 0. That somebody has paused it stays."""
        if not self._every:
            return await self._delete()
        client = await self._engine.client()
        async with self._engine.translated():
            try:
                await client.create_schedule(self._id, self._wanted(), rpc_timeout=RPC_TIMEOUT)
            except ScheduleAlreadyRunningError:
                await self._change(client)

    async def next_at(self) -> datetime | None:
        """None: it is paused. NotFound if there is none."""
        seen = await self.describe()
        return None if seen.schedule.state.paused else next(iter(seen.info.next_action_times), None)

    async def describe(self) -> ScheduleDescription:
        client = await self._engine.client()
        async with self._engine.translated():
            return await client.get_schedule_handle(self._id).describe(rpc_timeout=RPC_TIMEOUT)

    async def _delete(self) -> None:
        client = await self._engine.client()
        try:
            async with self._engine.translated():
                await client.get_schedule_handle(self._id).delete(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            return

    def _wanted(self) -> Schedule:
        return Schedule(
            action=ScheduleActionStartWorkflow(
                AUDIT_WORKFLOW,
                AuditRequest(repair=True),
                id=self._id,
                task_queue=self._engine.task_queue,
                execution_timeout=LONGEST_AUDIT,
                static_summary="audit: database, Temporal and cluster are compared",
            ),
            spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=self._every)]),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
        )

    async def _change(self, client: Client) -> None:
        wanted, handle = self._wanted(), client.get_schedule_handle(self._id)

        def goes_by_it(schedule: Schedule) -> bool:
            return _substance(schedule) == _substance(wanted)

        found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if not goes_by_it(found.schedule):
            await replacement.replace(client, handle, found, wanted, goes_by_it)


def _substance(schedule: Schedule) -> tuple[object, ...]:
    action, policy = schedule.action, schedule.policy
    assert isinstance(action, ScheduleActionStartWorkflow)
    every = [interval.every for interval in schedule.spec.intervals]
    what = (action.workflow, action.task_queue, action.execution_timeout)
    return *what, every, policy.overlap, policy.catchup_window
