"""The workflows that a schedule started, with the time in which each was open.

Temporal's list has all workflows within its retention, a moment late. The schedule itself has the last ten at once.
Older workflows are found by their runs in the database.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from temporalio.client import Client, ScheduleDescription, WorkflowExecution
from temporalio.common import SearchAttributeKey

from crawler_lifecycle.control.engine import RPC_TIMEOUT
from crawler_lifecycle.control.schedules.forms import nominal_time, occurrence_id
from crawler_lifecycle.domain.occurrences import Start
from crawler_lifecycle.ports import ScheduledRun

MOST = 1000
NOMINAL = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


async def starts_of(
    client: Client, description: ScheduleDescription, since: datetime, until: datetime | None = None
) -> list[Start]:
    """Those that were open at or after `since`, and had started at `until`."""
    quoted = description.id.replace("\\", "\\\\").replace('"', '\\"')
    closed_late = f'CloseTime >= "{since.astimezone(UTC).isoformat()}"'
    query = f'TemporalScheduledById = "{quoted}" AND (ExecutionStatus = "Running" OR {closed_late})'
    if until is not None:
        query += f' AND StartTime <= "{until.astimezone(UTC).isoformat()}"'
    listed = [each async for each in client.list_workflows(query, limit=MOST, rpc_timeout=RPC_TIMEOUT)]
    found = _of_list(listed)
    for start in _of_schedule(description):
        if start.workflow_id not in found:
            found[start.workflow_id] = start
    return list(found.values())


def with_runs(known: Sequence[Start], made: Iterable[ScheduledRun], schedule_id: str) -> list[Start]:
    """What Temporal has forgotten is no longer in the way of anything."""
    found = {start.workflow_id: start for start in known}
    for each in made:
        nominal = nominal_time(each.workflow_id)
        if nominal is not None and each.workflow_id == occurrence_id(schedule_id, nominal):
            closed_at = each.finished_at or each.created_at
            start = Start(each.workflow_id, each.first_execution, nominal, each.created_at, closed_at)
            found.setdefault(each.workflow_id, start)
    return list(found.values())


def _of_list(executions: Iterable[WorkflowExecution]) -> dict[str, Start]:
    """An execution that was continued as new, or started again by a backfill, is one with the others of its id."""
    found: dict[str, Start] = {}
    for each in sorted(executions, key=lambda each: each.start_time):
        nominal = each.typed_search_attributes.get(NOMINAL)
        if nominal is None:
            continue
        first = found.get(each.id)
        found[each.id] = (
            replace(first, closed_at=each.close_time)
            if first
            else Start(
                workflow_id=each.id,
                first_execution=each.raw_info.first_run_id or each.run_id,
                nominal=nominal,
                started_at=each.start_time,
                closed_at=each.close_time,
            )
        )
    return found


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
                closed_at=None if workflow_id in open_ids else result.started_at,
            )
