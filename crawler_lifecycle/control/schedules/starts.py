"""Finds the workflows that a schedule started, and the times when these workflows were open.

There are three sources: Temporal's list has all workflows within its retention, but lags behind; the schedule itself
has the last ten workflows without a lag; the database has the runs of older workflows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from temporalio.client import Client, ScheduleDescription, WorkflowExecution
from temporalio.common import SearchAttributeKey

from crawler_lifecycle.control.connection import RPC_TIMEOUT
from crawler_lifecycle.control.schedules.translation import nominal_time, occurrence_id
from crawler_lifecycle.domain.occurrences import Start
from crawler_lifecycle.ports import ScheduledRun

MOST_LISTED = 1000
NOMINAL = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")  # the due time, without jitter


async def starts_of(
    client: Client, description: ScheduleDescription, since: datetime, until: datetime | None = None
) -> list[Start]:
    """Return workflows that were open at or after `since` and had started by `until`."""
    quoted = description.id.replace("\\", "\\\\").replace('"', '\\"')
    closed_late = f'CloseTime >= "{since.astimezone(UTC).isoformat()}"'
    query = f'TemporalScheduledById = "{quoted}" AND (ExecutionStatus = "Running" OR {closed_late})'
    if until is not None:
        query += f' AND StartTime <= "{until.astimezone(UTC).isoformat()}"'
    listed = [execution async for execution in client.list_workflows(query, limit=MOST_LISTED, rpc_timeout=RPC_TIMEOUT)]
    starts = _of_list(listed)
    for start in _of_schedule(description):
        starts.setdefault(start.workflow_id, start)
    return list(starts.values())


def with_runs(known: Sequence[Start], runs: Iterable[ScheduledRun], schedule_id: str) -> list[Start]:
    """Add workflows that Temporal has forgotten, by their runs. These workflows are closed and block no occurrence."""
    starts = {start.workflow_id: start for start in known}
    for run in runs:
        nominal = nominal_time(run.workflow_id)
        if nominal is not None and run.workflow_id == occurrence_id(schedule_id, nominal):
            closed_at = run.finished_at or run.created_at
            start = Start(run.workflow_id, run.first_execution, nominal, run.created_at, closed_at)
            starts.setdefault(run.workflow_id, start)
    return list(starts.values())


def _of_list(executions: Iterable[WorkflowExecution]) -> dict[str, Start]:
    """Return the starts by workflow id. Executions with the same id, continued or by a backfill, are one start."""
    starts: dict[str, Start] = {}
    for execution in sorted(executions, key=lambda execution: execution.start_time):
        nominal = execution.typed_search_attributes.get(NOMINAL)
        if nominal is None:
            continue
        if execution.id in starts:
            starts[execution.id] = replace(starts[execution.id], closed_at=execution.close_time)
        else:
            starts[execution.id] = Start(
                workflow_id=execution.id,
                first_execution=execution.raw_info.first_run_id or execution.run_id,
                nominal=nominal,
                started_at=execution.start_time,
                closed_at=execution.close_time,
            )
    return starts


def _of_schedule(description: ScheduleDescription) -> Iterable[Start]:
    open_ids = {getattr(action, "workflow_id", "") for action in description.info.running_actions}
    for result in description.info.recent_actions:
        workflow_id = getattr(result.action, "workflow_id", "")
        nominal = nominal_time(workflow_id)
        if nominal is not None:
            yield Start(
                workflow_id=workflow_id,
                first_execution=getattr(result.action, "first_execution_run_id", ""),
                nominal=nominal,
                started_at=result.started_at,
                # the close time is unknown; the start time in its place makes the workflow block no occurrence
                closed_at=None if workflow_id in open_ids else result.started_at,
            )
