"""Translates schedules from our terms into Temporal's terms, and back."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError
from temporalio import client as temporal

from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.schedules import Overlap, ScheduleCounts, ScheduleRequest
from crawler_lifecycle.domain.naming import RUN_WORKFLOW

FOREIGN_RULE = "calendar"  # shown for a rule by another tool, which has no cron line
OVERLAPS = {
    Overlap.SKIP: temporal.ScheduleOverlapPolicy.SKIP,
    Overlap.QUEUE: temporal.ScheduleOverlapPolicy.BUFFER_ONE,
    # A cancelled run is stopped and exported before the next run starts. With TERMINATE_OTHER the jobs of the earlier
    # run would go on beside the jobs of the next run.
    Overlap.REPLACE: temporal.ScheduleOverlapPolicy.CANCEL_OTHER,
    Overlap.ALLOW: temporal.ScheduleOverlapPolicy.ALLOW_ALL,
}


def to_temporal(request: ScheduleRequest, task_queue: str, note: str) -> temporal.Schedule:
    run = request.run
    return temporal.Schedule(
        action=temporal.ScheduleActionStartWorkflow(
            RUN_WORKFLOW,
            run,
            id=_workflow_id(request.schedule_id),  # Temporal adds the time of the occurrence
            task_queue=task_queue,
            static_summary=f"{run.crawler}, by schedule {request.schedule_id}",
        ),
        spec=_spec(request),
        policy=temporal.SchedulePolicy(
            overlap=OVERLAPS[request.overlap], catchup_window=timedelta(seconds=request.window_seconds)
        ),
        state=temporal.ScheduleState(note=note, paused=request.paused),
    )


def _spec(request: ScheduleRequest) -> temporal.ScheduleSpec:
    every, offset = request.every_seconds, timedelta(seconds=request.offset_seconds)
    return temporal.ScheduleSpec(
        cron_expressions=[f"{line} # {line}" for line in request.cron],  # Temporal keeps only the comment
        intervals=[temporal.ScheduleIntervalSpec(timedelta(seconds=every), offset)] if every else [],
        jitter=timedelta(seconds=request.jitter_seconds),
        time_zone_name=request.time_zone,
    )


def times_of(spec: temporal.ScheduleSpec) -> dict[str, Any]:
    """Return the fields of a ScheduleSummary that say when occurrences are due."""
    interval = spec.intervals[0] if spec.intervals else None
    return {
        "cron": [calendar.comment or FOREIGN_RULE for calendar in spec.calendars],
        "every_seconds": int(interval.every.total_seconds()) if interval else None,
        "offset_seconds": int(interval.offset.total_seconds()) if interval and interval.offset else 0,
        "time_zone": spec.time_zone_name or "UTC",
        "jitter_seconds": int(spec.jitter.total_seconds()) if spec.jitter else 0,
    }


def overlap_of(policy: temporal.SchedulePolicy) -> Overlap | None:
    """Return our word for the policy; None: another tool chose a policy without a word of ours."""
    return next((ours for ours, theirs in OVERLAPS.items() if theirs is policy.overlap), None)


def jitter_of(schedule: temporal.Schedule) -> timedelta:
    return schedule.spec.jitter or timedelta()


def window_of(schedule: temporal.Schedule) -> timedelta:
    """Return how late an occurrence may still start."""
    return schedule.policy.catchup_window or timedelta()


def has_rules_of(schedule: temporal.Schedule, request: ScheduleRequest) -> bool:
    """Return whether the schedule has the rules of the request already."""
    rules = times_of(schedule.spec)
    return (
        rules == request.model_dump(include=set(rules))
        and overlap_of(schedule.policy) is request.overlap
        and schedule.policy.catchup_window == timedelta(seconds=request.window_seconds)
        and run_of(action_of(schedule)) == request.run
    )


def action_of(schedule: temporal.Schedule) -> temporal.ScheduleActionStartWorkflow:
    """Return the action, which is always a start in our schedules."""
    assert isinstance(schedule.action, temporal.ScheduleActionStartWorkflow)
    return schedule.action


def run_of(action: temporal.ScheduleActionStartWorkflow) -> RunRequest | None:
    """Return the stored request; None if the request is not acceptable: the workflows then say the reason."""
    data = getattr(action.args[0], "data", b"") if action.args else b""  # a payload, which is not decoded yet
    try:
        return RunRequest.model_validate_json(data)
    except ValidationError:
        return None


def counts_of(description: temporal.ScheduleDescription) -> ScheduleCounts:
    info = description.info
    return ScheduleCounts(
        started=info.num_actions,
        skipped_overlap=info.num_actions_skipped_overlap,
        skipped_missed_window=info.num_actions_missed_catchup_window,
        queued=description.raw_description.info.buffer_size,
    )


def starts_our_runs(description: temporal.ScheduleDescription, task_queue: str) -> bool:
    action = description.schedule.action
    return (
        isinstance(action, temporal.ScheduleActionStartWorkflow)
        and action.workflow == RUN_WORKFLOW
        and action.task_queue == task_queue
    )


def lists_our_runs(listed: temporal.ScheduleListDescription) -> bool:
    action = listed.schedule.action if listed.schedule else None
    return isinstance(action, temporal.ScheduleListActionStartWorkflow) and action.workflow == RUN_WORKFLOW


def occurrence_id(schedule_id: str, nominal: datetime) -> str:
    return f"{_workflow_id(schedule_id)}-{nominal.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _workflow_id(schedule_id: str) -> str:
    return f"crawl-{schedule_id}"


def nominal_time(workflow_id: str) -> datetime | None:
    """Return the time that Temporal has added to the workflow id, to the second."""
    try:
        return datetime.strptime(workflow_id[-20:], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
