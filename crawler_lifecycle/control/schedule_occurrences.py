"""When was a schedule due, and what became of each time?"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import ScheduleDescription

from crawler_lifecycle.contract.schedules import Occurrence, Overlap
from crawler_lifecycle.control import pause_log
from crawler_lifecycle.control import schedule_forms as forms
from crawler_lifecycle.control.engine import RPC_TIMEOUT
from crawler_lifecycle.control.schedule_starts import starts_of, with_runs
from crawler_lifecycle.domain.occurrences import SETTLING, Circumstances, judged

if TYPE_CHECKING:
    from crawler_lifecycle.control.control import Control

PAGE = 1000  # as many times as Temporal names at once
FIRST_WINDOW = timedelta(minutes=15)  # at one a second still within a page
GROWTH = 8
JUST_BEFORE = timedelta(microseconds=1)


class Occurrences:
    def __init__(self, control: "Control") -> None:
        self._control = control
        self._engine = control.engine

    async def latest(
        self, description: ScheduleDescription, most: int, before: datetime | None
    ) -> Sequence[Occurrence]:
        """Newest first."""
        if not most:
            return []
        now, schedule = datetime.now(UTC), description.schedule
        due = await self._latest_due(description, most, min(now, before - JUST_BEFORE) if before else now)
        if not due:
            return []
        jitter, window = schedule.spec.jitter or timedelta(), schedule.policy.catchup_window or timedelta()
        overlap, latest = forms.overlap_of(schedule.policy), due[-1] + jitter + window + SETTLING
        async with self._engine.translated():
            known = await starts_of(await self._engine.client(), description, due[0], latest if before else None)
        first, last = (forms.occurrence_id(description.id, at) for at in (due[0] - jitter, due[-1]))
        made = await self._control.asked(lambda parts: parts.records.made_by(first, last))
        starts = with_runs(known, made, description.id)
        noted = pause_log.pauses(schedule.state.note or "")
        circumstances = Circumstances(
            starts=starts,
            pauses=pause_log.in_force(noted, paused=schedule.state.paused),
            paused=schedule.state.paused,
            overlap=overlap,
            jitter=jitter,
            window=window,
            # what replaces an open run is the last of those that wait, and so not among earlier ones
            queued=0 if before and overlap is Overlap.REPLACE else description.raw_description.info.buffer_size,
            missed=description.info.num_actions_missed_catchup_window,
            now=now,
        )
        first_executions = {start.workflow_id: start.first_execution for start in starts}
        return [await self._with_run(each, first_executions) for each in reversed(judged(due, circumstances))]

    async def _with_run(self, occurrence: Occurrence, first_executions: dict[str, str]) -> Occurrence:
        workflow_id = occurrence.workflow_id
        if workflow_id is None:
            return occurrence
        run = await self._control.asked(lambda parts: parts.records.find(workflow_id, first_executions[workflow_id]))
        if run is None:
            return occurrence
        return occurrence.model_copy(update={"run_id": run.run_id, "run_status": run.status})

    async def _latest_due(self, description: ScheduleDescription, most: int, until: datetime) -> Sequence[datetime]:
        """Temporal counts forwards only: so ever longer spans up to then, until they have enough.

        And by the present rule only: what was due by an earlier one is not known."""
        made, span = description.info.last_updated_at or description.info.created_at, FIRST_WINDOW
        if until <= made:
            return []
        while True:
            since = max(made, until - span)
            due = await self.due(description.id, since, until)
            if len(due) >= most or since == made:
                return due[-most:]
            span *= GROWTH

    async def due(
        self, schedule_id: str, since: datetime, until: datetime, most: int | None = None
    ) -> Sequence[datetime]:
        """The times after `since`, as Temporal itself counts them, jitter included."""
        client, found = await self._engine.client(), [since]
        while most is None or len(found) <= most:
            async with self._engine.translated():
                answer = await client.workflow_service.list_schedule_matching_times(
                    ListScheduleMatchingTimesRequest(
                        namespace=client.namespace,
                        schedule_id=schedule_id,
                        start_time=_stamp(found[-1]),
                        end_time=_stamp(until),
                    ),
                    timeout=RPC_TIMEOUT,
                )
            found += [each.ToDatetime(UTC) for each in answer.start_time]
            if len(answer.start_time) < PAGE:
                break
        return found[1:]


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment.astimezone(UTC))
    return stamp
