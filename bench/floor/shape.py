"""A workflow's shape: its steps, read from an execution's history."""

from collections import Counter
from collections.abc import Iterable, Sequence

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from bench.floor.bare import Step

SECOND = 1e9  # nanoseconds
LOCAL = "core_local_activity"  # the marker of an activity inside of a workflow task


def shape_of(events: Iterable[HistoryEvent]) -> list[Step]:
    """Return a step for every workflow task with activities or a wait, and for every activity inside of a task.

    Activities scheduled by the same workflow task go side by side, and so does a wait. A timer takes as long as in the
    history, also if a signal ended the wait. A timer beside activities is a wait only if the timer has fired:
    otherwise the timer is a limit.
    """
    activities, timers, ends = dict[int, int](), dict[int, HistoryEvent](), dict[int, HistoryEvent]()
    inside = Counter[int]()  # activities inside of workflow tasks, which come before the task's other commands
    fired = set[int]()  # ids of the events that started these timers
    for event in events:
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                task = event.activity_task_scheduled_event_attributes.workflow_task_completed_event_id
                activities[task] = activities.get(task, 0) + 1
            case EventType.EVENT_TYPE_MARKER_RECORDED if event.marker_recorded_event_attributes.marker_name == LOCAL:
                inside[event.marker_recorded_event_attributes.workflow_task_completed_event_id] += 1
            case EventType.EVENT_TYPE_TIMER_STARTED:
                timers[event.timer_started_event_attributes.workflow_task_completed_event_id] = event
            case EventType.EVENT_TYPE_TIMER_FIRED:
                ends[event.timer_fired_event_attributes.started_event_id] = event
                fired.add(event.timer_fired_event_attributes.started_event_id)
            case EventType.EVENT_TYPE_TIMER_CANCELED:
                ends[event.timer_canceled_event_attributes.started_event_id] = event
    waits = {
        task: _seconds(timer, ends[timer.event_id])
        for task, timer in timers.items()
        if timer.event_id in ends and (task not in activities or timer.event_id in fired)
    }
    steps = list[Step]()
    for task in sorted(activities.keys() | waits.keys() | inside.keys()):
        steps += [Step(1)] * inside[task]
        if task in activities or task in waits:
            steps.append(Step(activities.get(task, 0), waits.get(task, 0.0)))
    return steps


def activities_in(steps: Sequence[Step]) -> int:
    return sum(step.activities for step in steps)


def _seconds(timer: HistoryEvent, end: HistoryEvent) -> float:
    return (end.event_time.ToNanoseconds() - timer.event_time.ToNanoseconds()) / SECOND
