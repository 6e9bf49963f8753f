"""Lists the occurrences of a schedule: the times that were due by its present rules, and their outcomes.

Temporal computes due times by the present rules only, so the list begins at the last change of the rules.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import ScheduleDescription

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.model.naming import scheduled_flow_id
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.schedules.commands import pauses, translation
from crawler_lifecycle.schedules.commands.starts import starts_in_description, starts_of, with_flows, with_runs
from crawler_lifecycle.schedules.model.schedules import Occurrence, OccurrenceOutcome, Overlap
from crawler_lifecycle.schedules.ports import ScheduleStore
from crawler_lifecycle.schedules.rules import (
    SETTLING,
    Circumstances,
    ScheduledStart,
    outcomes,
    starts_beside,
    with_queue,
)
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT
from crawler_lifecycle.temporal.engine import Engine

PAGE = 1000  # largest number of times in an answer by Temporal
FIRST_SEARCHED = timedelta(minutes=15)  # 900 seconds: even with an occurrence every second, a page has room for all
GROWTH = 8  # factor by which the searched time grows if it has too few due times
JUST_BEFORE = timedelta(microseconds=1)  # a list of due times includes its end, but `before` is to be left out


class Occurrences:
    def __init__(self, context: ControlContext[ScheduleStore], engine: Engine) -> None:
        self._context = context
        self._engine = engine

    async def latest(
        self, description: ScheduleDescription, most: int, before: datetime | None
    ) -> Sequence[Occurrence]:
        """Return the `most` latest occurrences, newest first; with `before`, only occurrences before this time."""
        now = datetime.now(UTC)
        until = min(now, before - JUST_BEFORE) if before else now
        due = await self._latest_due(description, most, until) if most else []
        if not due:
            return []
        is_first_page = before is None
        starts = await self._starts(description, due, is_first_page=is_first_page)
        circumstances = _circumstances(description, starts, now, is_first_page=is_first_page)
        first_executions = {start.workflow_id: start.first_execution for start in starts}
        # `outcomes` returns a waiting occurrence as skipped or due; `with_queue` then marks the occurrence as queued
        occurrences = with_queue(outcomes(due, circumstances), circumstances)
        return [await self._with_run(occurrence, first_executions) for occurrence in reversed(occurrences)]

    async def others(
        self, description: ScheduleDescription, listed: Sequence[Occurrence], most: int
    ) -> Sequence[Occurrence]:
        """Return starts outside the due times, newest first: by triggers, backfills or earlier rules.

        Temporal's schedule itself keeps the last ten starts. `listed`: the latest occurrences, at most `most`.
        """
        starts = starts_beside(listed, starts_in_description(description), is_full=len(listed) >= most)
        first_executions = {start.workflow_id: start.first_execution for start in starts}
        others = [
            Occurrence(
                at=start.started_at,
                outcome=OccurrenceOutcome.STARTED,
                started_at=start.started_at,
                workflow_id=start.workflow_id,
            )
            for start in starts
        ]
        return [await self._with_run(occurrence, first_executions) for occurrence in others]

    async def _starts(
        self, description: ScheduleDescription, due: Sequence[datetime], *, is_first_page: bool
    ) -> Sequence[ScheduledStart]:
        """Return the starts that may belong to the due times.

        The first page has the latest occurrences. On an earlier page, starts long after its last due time are left out.
        """
        jitter, longest_delay = translation.jitter_of(description.schedule), translation.window_of(description.schedule)
        # the latest time at which Temporal starts the page's last occurrence; the jitter is spare time
        until = None if is_first_page else due[-1] + jitter + longest_delay + SETTLING
        async with self._engine.calls() as client:
            starts = await starts_of(client, description, due[0], until)
        # a workflow id ends with the time without jitter, which may be earlier than the due time
        first_id = translation.occurrence_id(description.id, due[0] - jitter)
        last_id = translation.occurrence_id(description.id, due[-1])
        runs = await self._context.database(lambda store: store.records.scheduled_runs(first_id, last_id))
        first_flow, last_flow = scheduled_flow_id(first_id), scheduled_flow_id(last_id)
        flows = await self._context.database(lambda store: store.flow_records.between(first_flow, last_flow))
        return with_flows(with_runs(starts, runs, description.id), flows, description.id)

    async def _with_run(self, occurrence: Occurrence, first_executions: dict[str, str]) -> Occurrence:
        """Add the occurrence's run or flow, if there is one, and the reason why a run FAILED."""
        workflow_id = occurrence.workflow_id
        if workflow_id is None:
            return occurrence
        flow_id = scheduled_flow_id(workflow_id)
        flows = await self._context.database(lambda store: store.flow_records.between(flow_id, flow_id))
        if flows:
            return occurrence.model_copy(update={"flow_id": flow_id, "flow_state": flows[0].state})
        run = await self._context.database(lambda store: store.runs.find(workflow_id, first_executions[workflow_id]))
        if run is None:
            return occurrence
        run_fields: dict[str, object] = {"run_id": run.run_id, "run_status": run.status}
        if run.status is RunStatus.FAILED:
            run_id = run.run_id
            overview = await self._context.database(lambda store: store.records.overview(run_id))
            reason = overview.run.explanation.text if overview.run.explanation else run.reason
            run_fields["detail"] = "; ".join(part for part in (occurrence.detail, reason) if part)
        return occurrence.model_copy(update=run_fields)

    async def _latest_due(self, description: ScheduleDescription, most: int, until: datetime) -> Sequence[datetime]:
        """Return the `most` latest due times up to `until`.

        Temporal lists times forwards only, so the searched time before `until` grows until it has enough due times.
        """
        rules_since = description.info.last_updated_at or description.info.created_at
        if until <= rules_since:
            return []
        searched = FIRST_SEARCHED
        while True:
            since = max(rules_since, until - searched)
            due = await self.due(description.id, since, until)
            if len(due) >= most or since == rules_since:
                return due[-most:]
            searched *= GROWTH

    async def due(
        self, schedule_id: str, since: datetime, until: datetime, most: int | None = None
    ) -> Sequence[datetime]:
        """Return the due times after `since` and up to `until`, jitter included, as Temporal computes the times.

        With `most`, reading stops once `most` times or more are known; all known times are returned.
        """
        times = [since]  # a further page begins after the last time
        while most is None or len(times) <= most:
            async with self._engine.calls() as client:
                answer = await client.workflow_service.list_schedule_matching_times(
                    ListScheduleMatchingTimesRequest(
                        namespace=client.namespace,
                        schedule_id=schedule_id,
                        start_time=_stamp(times[-1]),
                        end_time=_stamp(until),
                    ),
                    timeout=RPC_TIMEOUT,
                )
            times += [stamp.ToDatetime(UTC) for stamp in answer.start_time]
            if len(answer.start_time) < PAGE:
                break
        return times[1:]


def _circumstances(
    description: ScheduleDescription, starts: Sequence[ScheduledStart], now: datetime, *, is_first_page: bool
) -> Circumstances:
    schedule = description.schedule
    overlap = translation.overlap_of(schedule.policy)
    # with REPLACE only the latest occurrence can wait, and only the first page has the latest occurrence
    may_have_queue = is_first_page or overlap is not Overlap.REPLACE
    recorded_pauses = pauses.pauses_in(schedule.state.note or "")  # the note of a schedule lists its pauses
    return Circumstances(
        starts=starts,
        pauses=pauses.with_known_end(recorded_pauses, paused=schedule.state.paused),
        paused=schedule.state.paused,
        overlap=overlap,
        jitter=translation.jitter_of(schedule),
        window=translation.window_of(schedule),
        queued=description.raw_description.info.buffer_size if may_have_queue else 0,
        missed=description.info.num_actions_missed_catchup_window,
        now=now,
    )


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment.astimezone(UTC))
    return stamp
