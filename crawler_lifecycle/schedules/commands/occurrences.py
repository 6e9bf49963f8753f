"""List the occurrences of a schedule: the times that were due by its present rules, and their outcomes.

Temporal computes due times by the present rules only, so the list begins at the last change of the rules.

The outcomes follow from the workflows that the schedule started, and from the times when these workflows were open.
There are three sources: Temporal's list has all workflows within its retention, but lags; the schedule itself has the
last ten workflows without a lag; the database has the runs of older workflows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import Client, ScheduleDescription, WorkflowExecution
from temporalio.common import SearchAttributeKey

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.flows.ports.records import ScheduledFlow
from crawler_lifecycle.model.naming import SCHEDULED, scheduled_flow_id
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import OccurrenceRun
from crawler_lifecycle.schedules.commands import translation
from crawler_lifecycle.schedules.commands.translation import nominal_time, occurrence_id
from crawler_lifecycle.schedules.model import Occurrence, OccurrenceOutcome, Overlap
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

MOST_LISTED = 1000  # workflows read from Temporal's list; further workflows are found by their runs in the database
NOMINAL_TIME = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")  # the due time, without jitter
PAGE = 1000  # largest number of times in an answer by Temporal
FIRST_SEARCHED = timedelta(minutes=15)  # 900 seconds: even with an occurrence every second, a page has room for all
GROWTH = 8  # factor by which the searched time grows if it has too few due times
JUST_BEFORE = timedelta(microseconds=1)  # a list of due times includes its end, but `before` is to be left out


async def starts_of(
    client: Client, description: ScheduleDescription, since: datetime, until: datetime | None = None
) -> list[ScheduledStart]:
    """Return the schedule's workflows that were open at or after `since` and had started by `until`.

    The last ten workflows, which the description has, are always among them.
    """
    quoted_id = description.id.replace("\\", "\\\\").replace('"', '\\"')
    closed_since = f'CloseTime >= "{since.astimezone(UTC).isoformat()}"'
    query = f'TemporalScheduledById = "{quoted_id}" AND (ExecutionStatus = "Running" OR {closed_since})'
    if until is not None:
        query += f' AND StartTime <= "{until.astimezone(UTC).isoformat()}"'
    listed = [execution async for execution in client.list_workflows(query, limit=MOST_LISTED, rpc_timeout=RPC_TIMEOUT)]
    starts = _starts_in_list(listed)
    for start in starts_in_description(description):
        starts.setdefault(start.workflow_id, start)
    return list(starts.values())


def with_runs(
    listed: Sequence[ScheduledStart], runs: Iterable[OccurrenceRun], schedule_id: str
) -> list[ScheduledStart]:
    """Add the runs' starts that Temporal does not list any more. Such workflows are closed."""
    starts = {start.workflow_id: start for start in listed}
    for run in runs:
        nominal = nominal_time(run.workflow_id)
        # another schedule's workflow ids may begin with the same text
        if nominal is not None and run.workflow_id == occurrence_id(schedule_id, nominal):
            closed_at = run.finished_at or run.created_at  # an unfinished run without a workflow explains no skip
            start = ScheduledStart(run.workflow_id, run.first_execution, nominal, run.created_at, closed_at)
            starts.setdefault(run.workflow_id, start)
    return list(starts.values())


def with_flows(
    listed: Sequence[ScheduledStart], flows: Iterable[ScheduledFlow], schedule_id: str
) -> list[ScheduledStart]:
    """Add the flows' starts beyond Temporal's list. Such workflows are closed."""
    starts = {start.workflow_id: start for start in listed}
    for flow in flows:
        workflow_id = f"{SCHEDULED}{flow.id}"
        nominal = nominal_time(workflow_id)
        # further flows' ids may begin with the same text
        if nominal is not None and workflow_id == occurrence_id(schedule_id, nominal):
            closed_at = flow.stopped_at or flow.created_at
            starts.setdefault(workflow_id, ScheduledStart(workflow_id, "", nominal, flow.created_at, closed_at))
    return list(starts.values())


def _starts_in_list(executions: Iterable[WorkflowExecution]) -> dict[str, ScheduledStart]:
    """Return the starts by workflow id.

    Executions with the same id are one start: they continue one another, or a backfill started the occurrence again.
    """
    starts: dict[str, ScheduledStart] = {}
    for execution in sorted(executions, key=lambda execution: execution.start_time):
        nominal = execution.typed_search_attributes.get(NOMINAL_TIME)
        if nominal is None:
            continue
        if execution.id in starts:
            starts[execution.id] = replace(starts[execution.id], closed_at=execution.close_time)
        else:
            starts[execution.id] = ScheduledStart(
                workflow_id=execution.id,
                first_execution=execution.raw_info.first_run_id or execution.run_id,
                nominal=nominal,
                started_at=execution.start_time,
                closed_at=execution.close_time,
            )
    return starts


def starts_in_description(description: ScheduleDescription) -> Iterable[ScheduledStart]:
    """Yield the last ten starts from the schedule's own record."""
    open_ids = {getattr(action, "workflow_id", "") for action in description.info.running_actions}
    for result in description.info.recent_actions:
        workflow_id = getattr(result.action, "workflow_id", "")
        nominal = nominal_time(workflow_id)
        if nominal is not None:
            yield ScheduledStart(
                workflow_id=workflow_id,
                first_execution=getattr(result.action, "first_execution_run_id", ""),
                nominal=nominal,
                started_at=result.started_at,
                # The close time is unknown. With the start time in its place, the closed workflow explains no skip.
                closed_at=None if workflow_id in open_ids else result.started_at,
            )


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
    recorded_pauses = translation.pauses_in(schedule.state.note or "")  # the note of a schedule lists its pauses
    return Circumstances(
        starts=starts,
        pauses=translation.with_known_end(recorded_pauses, paused=schedule.state.paused),
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
