"""A workflow's shape: its steps, read from an execution's history."""

from collections.abc import Iterable, Sequence

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from bench.floor.bare import Step

SECOND = 1e9  # nanoseconds


def shape_of(events: Iterable[HistoryEvent]) -> list[Step]:
    """Return a step for every workflow task with activities or a wait.

    Activities scheduled by the same workflow task go side by side, and so does a wait. A timer takes as long as in the
    history, also if a signal ended the wait. A timer beside activities is a wait only if the timer has fired:
    otherwise the timer is a limit.
    """
    activities, timers, ends = dict[int, int](), dict[int, HistoryEvent](), dict[int, HistoryEvent]()
    fired = set[int]()  # ids of the events that started these timers
    for event in events:
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                task = event.activity_task_scheduled_event_attributes.workflow_task_completed_event_id
                activities[task] = activities.get(task, 0) + 1
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
    tasks = sorted(activities.keys() | waits.keys())
    return [Step(activities.get(task, 0), waits.get(task, 0.0)) for task in tasks]


def activities_in(steps: Sequence[Step]) -> int:
    return sum(step.activities for step in steps)


def _seconds(timer: HistoryEvent, end: HistoryEvent) -> float:
    return (end.event_time.ToNanoseconds() - timer.event_time.ToNanoseconds()) / SECOND
