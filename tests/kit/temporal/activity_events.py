"""Activities in a workflow's history, also those inside of workflow tasks, whose names are in markers."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio.api.history.v1 import HistoryEvent, MarkerRecordedEventAttributes

LOCAL = "core_local_activity"


class Begun(NamedTuple):
    """An activity that a workflow has begun."""

    name: str
    at: datetime
    is_inside: bool = False  # of a workflow task


def begun(event: HistoryEvent) -> Begun | None:
    """Return the activity that begins with the event, if there is one."""
    at = event.event_time.ToDatetime(UTC)
    if event.HasField("activity_task_scheduled_event_attributes"):
        return Begun(event.activity_task_scheduled_event_attributes.activity_type.name, at)
    marker = event.marker_recorded_event_attributes
    return Begun(local_name(marker), at, is_inside=True) if marker.marker_name == LOCAL else None


def begun_in(events: Iterable[HistoryEvent]) -> list[Begun]:
    return [activity for event in events if (activity := begun(event))]


def resolved_in(events: Iterable[HistoryEvent]) -> Counter[str]:
    """Count the ends of activities outside of workflow tasks, by the activities' names."""
    names, resolved = dict[int, str](), Counter[str]()
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
        for end in ("completed", "failed", "timed_out"):
            if event.HasField(f"activity_task_{end}_event_attributes"):  # type: ignore[arg-type]
                attributes = getattr(event, f"activity_task_{end}_event_attributes")
                resolved[names[attributes.scheduled_event_id]] += 1
    return resolved


def times_of(events: Iterable[HistoryEvent], name: str) -> list[datetime]:
    return [activity.at for activity in begun_in(events) if activity.name == name]


def local_name(marker: MarkerRecordedEventAttributes) -> str:
    name: str = json.loads(marker.details["data"].payloads[0].data)["activity_type"]
    return name
