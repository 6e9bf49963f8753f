"""Finds the workflows that a schedule started, and the times when these workflows were open.

There are three sources: Temporal's list has all workflows within its retention, but lags; the schedule itself
has the last ten workflows without a lag; the database has the runs of older workflows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from temporalio.client import Client, ScheduleDescription, WorkflowExecution
from temporalio.common import SearchAttributeKey

from crawler_lifecycle.flows.ports.records import ScheduledFlow
from crawler_lifecycle.model.naming import SCHEDULED
from crawler_lifecycle.runs.ports.records import OccurrenceRun
from crawler_lifecycle.schedules.commands.translation import nominal_time, occurrence_id
from crawler_lifecycle.schedules.rules import ScheduledStart
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT

MOST_LISTED = 1000  # workflows read from Temporal's list; further workflows are found by their runs in the database
NOMINAL_TIME = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")  # the due time, without jitter


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
