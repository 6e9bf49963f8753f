"""Translate schedules between our contract models and the classes of Temporal's client.

Temporal keeps whether a schedule is paused, but neither the beginning of the pause nor earlier pauses. So every pause
is also a line in the schedule's note, which Temporal's own pages show as well.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError
from temporalio import client as temporal

from crawler_lifecycle.base.words import utc_text
from crawler_lifecycle.flows.rules.messages import FlowOccurrence
from crawler_lifecycle.model.naming import RUN_WORKFLOW, SCHEDULED, SCHEDULED_FLOW_WORKFLOW
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.schedules.model import Overlap, Pause, ScheduleCounts, ScheduleRequest

MOST_LINES = 40  # lines about pauses in a note; a further line replaces the oldest
LONGEST_TEXT = 256  # characters of an actor or a reason in a line; further characters are cut off
PAUSED, RESUMED = "paused", "resumed"
# for example `paused 2026-11-20T03:00:00.000Z by ann: the site is being rebuilt`, without actor or reason if unknown
LINE = re.compile(r"(paused|resumed) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?: by ([^:]*))?(?:: (.*))?")
Action = RunRequest | FlowOccurrence
WORKFLOWS: dict[str, type[Action]] = {RUN_WORKFLOW: RunRequest, SCHEDULED_FLOW_WORKFLOW: FlowOccurrence}  # with inputs
FOREIGN_RULE = "calendar"  # shown for a rule without a cron line, which only other tools make
OVERLAPS = {
    Overlap.SKIP: temporal.ScheduleOverlapPolicy.SKIP,
    Overlap.QUEUE: temporal.ScheduleOverlapPolicy.BUFFER_ONE,
    # A cancelled run is stopped and exported before the next run starts. With TERMINATE_OTHER the jobs of the earlier
    # run would keep running beside the next run's jobs.
    Overlap.REPLACE: temporal.ScheduleOverlapPolicy.CANCEL_OTHER,
    Overlap.ALLOW: temporal.ScheduleOverlapPolicy.ALLOW_ALL,
}


def with_line(note: str, word: str, at: datetime, actor: str | None, reason: str | None) -> str:
    """Return the note with a further line: `word` is PAUSED or RESUMED. The latest MOST_LINES such lines stay."""
    line = f"{word} {utc_text(at, 'milliseconds')}"
    if actor:
        line += f" by {_one_line(actor).replace(':', ' ')}"
    if reason:
        line += f": {_one_line(reason)}"
    lines = [*note.splitlines(), line]
    pause_lines = [number for number, text in enumerate(lines) if LINE.fullmatch(text)]
    surplus = pause_lines[:-MOST_LINES]
    return "\n".join(text for number, text in enumerate(lines) if number not in surplus)


def pauses_in(note: str) -> list[Pause]:
    """Return the pauses in the note, oldest first. Lines in another form are ignored."""
    pauses: list[Pause] = []
    for line in note.splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            continue
        word, stamp, actor, reason = match.groups()
        at = datetime.fromisoformat(stamp)
        is_open = bool(pauses) and pauses[-1].until is None
        if word == PAUSED and not is_open:
            pauses.append(Pause(since=at, actor=actor, reason=reason))
        elif word == RESUMED and is_open:
            pauses[-1] = pauses[-1].model_copy(update={"until": at})
    return pauses


def with_known_end(pauses: Sequence[Pause], *, paused: bool) -> list[Pause]:
    """Return the pauses; if the schedule is not paused, leave out a pause without an end in the note.

    Another tool resumed the schedule after such a pause, at an unknown time.
    """
    return [pause for pause in pauses if paused or pause.until is not None]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_TEXT]


def to_temporal(request: ScheduleRequest, task_queue: str, note: str) -> temporal.Schedule:
    action = _action(request)
    return temporal.Schedule(
        action=temporal.ScheduleActionStartWorkflow(
            next(workflow for workflow, model in WORKFLOWS.items() if isinstance(action, model)),
            action,
            id=_workflow_id(request.schedule_id),  # Temporal adds the time of the occurrence
            task_queue=task_queue,
            static_summary=f"{request.subject}, by schedule {request.schedule_id}",
        ),
        spec=_spec(request),
        policy=temporal.SchedulePolicy(
            overlap=OVERLAPS[request.overlap], catchup_window=timedelta(seconds=request.window_seconds)
        ),
        state=temporal.ScheduleState(note=note, paused=request.paused),
    )


def _action(request: ScheduleRequest) -> Action:
    if request.flow is None:
        assert request.run is not None, "a schedule has either a run or a flow"
        return request.run
    return FlowOccurrence(schedule_id=request.schedule_id, definition=request.flow, requested_by=request.requested_by)


def _spec(request: ScheduleRequest) -> temporal.ScheduleSpec:
    every, offset = request.every_seconds, timedelta(seconds=request.offset_seconds)
    return temporal.ScheduleSpec(
        # Temporal stores calendar rules in place of a cron line, and keeps its comment: the comment repeats the line
        cron_expressions=[f"{line} # {line}" for line in request.cron],
        intervals=[temporal.ScheduleIntervalSpec(timedelta(seconds=every), offset)] if every else [],
        jitter=timedelta(seconds=request.jitter_seconds),
        time_zone_name=request.time_zone,
    )


def times_of(spec: temporal.ScheduleSpec) -> dict[str, Any]:
    """Return the fields for a ScheduleSummary about due times."""
    interval = spec.intervals[0] if spec.intervals else None
    return {
        "cron": [calendar.comment or FOREIGN_RULE for calendar in spec.calendars],
        "every_seconds": int(interval.every.total_seconds()) if interval else None,
        "offset_seconds": int(interval.offset.total_seconds()) if interval and interval.offset else 0,
        "time_zone": spec.time_zone_name or "UTC",
        "jitter_seconds": int(spec.jitter.total_seconds()) if spec.jitter else 0,
    }


def overlap_of(policy: temporal.SchedulePolicy) -> Overlap | None:
    """Return our rule for the policy; None: another tool chose a policy for which we have no rule."""
    return next((overlap for overlap, temporal_policy in OVERLAPS.items() if temporal_policy is policy.overlap), None)


def jitter_of(schedule: temporal.Schedule) -> timedelta:
    return schedule.spec.jitter or timedelta()


def window_of(schedule: temporal.Schedule) -> timedelta:
    """Return how late an occurrence may still start."""
    return schedule.policy.catchup_window or timedelta()


def has_rules_of(schedule: temporal.Schedule, request: ScheduleRequest) -> bool:
    """Return whether the schedule has the times, overlap rule, window and run of the request already."""
    times = times_of(schedule.spec)
    return (
        times == request.model_dump(include=set(times))
        and overlap_of(schedule.policy) is request.overlap
        and window_of(schedule) == timedelta(seconds=request.window_seconds)
        and action_of(schedule) == _action(request)
    )


def action_of(schedule: temporal.Schedule) -> Action | None:
    """Return the input in the action of our schedule; None: the input is not valid, and its workflows fail."""
    assert isinstance(schedule.action, temporal.ScheduleActionStartWorkflow), "our schedules only start workflows"
    arguments = schedule.action.args
    # the client leaves the arguments of a described schedule undecoded, as payloads
    data = getattr(arguments[0], "data", b"") if arguments else b""
    try:
        return WORKFLOWS[schedule.action.workflow].model_validate_json(data)
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
    """Return whether the schedule starts runs or flows on our task queue."""
    action = description.schedule.action
    return (
        isinstance(action, temporal.ScheduleActionStartWorkflow)
        and action.workflow in WORKFLOWS
        and action.task_queue == task_queue
    )


def lists_our_runs(listed: temporal.ScheduleListDescription) -> bool:
    """Return whether the schedule starts runs or flows. The list does not have the task queue."""
    action = listed.schedule.action if listed.schedule else None
    return isinstance(action, temporal.ScheduleListActionStartWorkflow) and action.workflow in WORKFLOWS


def occurrence_id(schedule_id: str, nominal: datetime) -> str:
    """Return the workflow id for the occurrence with the due time `nominal`, as Temporal makes the id."""
    return f"{_workflow_id(schedule_id)}-{nominal.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _workflow_id(schedule_id: str) -> str:
    return f"{SCHEDULED}{schedule_id}"


def nominal_time(workflow_id: str) -> datetime | None:
    """Return the due time at the end of the workflow id, to the second and without jitter; None: there is no time."""
    try:
        return datetime.strptime(workflow_id[-20:], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
