"""Workers of two versions take turns while an upgrade is under way, and none knows which of them was there before."""

import base64
import json
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from crawler_lifecycle.workflows.plugin import LifecyclePlugin
from tests.replay.record import named

LOOK = "get_history_statuses_to_sync"
HELD = {"held_seconds": 0, "held_since": "2026-11-20T10:00:00Z", "changes": 1}


async def test_a_look_that_an_earlier_version_had_settles_nothing_for_later_ones() -> None:
    """It was told of jobs to end, did not know what to do about them, and the next look was had by this version."""
    recorded = json.loads(named("overdue", 1).read_text())
    told(recorded, 0)["unwanted"] = "0"
    assert told(recorded, 1)["unwanted"] == "0"
    history = WorkflowHistory.from_json("replay-mixed", json.dumps(recorded))
    await Replayer(workflows=[], plugins=[LifecyclePlugin()]).replay_workflow(history)


async def test_a_stop_that_an_earlier_version_has_proved_waits_for_nothing_more() -> None:
    recorded = json.loads(named("stopped_at_once", 1).read_text())
    told(recorded, 0)["leaving"] = 2
    history = WorkflowHistory.from_json("replay-mixed", json.dumps(recorded))
    await Replayer(workflows=[], plugins=[LifecyclePlugin()]).replay_workflow(history)


@pytest.mark.parametrize(
    ("name", "untold"),
    [("resumed_in_the_middle", {"owes_evidence": "0"}), ("resumed_with_a_limit", {"plan": {"clock": HELD}})],
)
async def test_a_run_that_an_earlier_version_took_over_goes_on_without_what_it_was_not_told(
    name: str, untold: dict[str, Any]
) -> None:
    recorded = json.loads(named(name, 1).read_text())
    tell(told(recorded, 0, "take_over_run"), untold)
    history = WorkflowHistory.from_json("replay-mixed", json.dumps(recorded))
    await Replayer(workflows=[], plugins=[LifecyclePlugin()]).replay_workflow(history)


@pytest.mark.parametrize(
    ("name", "untold"),
    [
        ("continued", {"owes_evidence": "0"}),
        ("continued", {"owes_start": True}),
        ("continued_in_deployment", {"owes_start": True}),
        ("suspended_and_continued", {"plan": {"clock": HELD}}),
    ],
)
async def test_nor_does_one_that_an_earlier_version_continued(name: str, untold: dict[str, Any]) -> None:
    recorded = json.loads(named(name, 2).read_text())
    begun = recorded["events"][0]["workflowExecutionStartedEventAttributes"]["input"]["payloads"][0]
    continuation = Payload(begun)
    carried = continuation["carried"]
    tell(carried, untold)
    continuation["carried"] = carried
    history = WorkflowHistory.from_json("replay-mixed", json.dumps(recorded))
    await Replayer(workflows=[], plugins=[LifecyclePlugin()]).replay_workflow(history)


def tell(message: dict[str, Any], untold: dict[str, Any]) -> None:
    for field, value in untold.items():
        message[field] = message[field] | value if isinstance(value, dict) else value


class Payload(dict[str, Any]):
    """What a step of a history answered; a change of it is one of the history."""

    def __init__(self, payload: dict[str, str]) -> None:
        super().__init__(json.loads(base64.b64decode(payload["data"])))
        self._payload = payload

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._payload["data"] = base64.b64encode(json.dumps(self).encode()).decode()


def told(recorded: dict[str, Any], time: int, activity: str = LOOK) -> Payload:
    scheduled = {
        event["eventId"]
        for event in recorded["events"]
        if event.get("activityTaskScheduledEventAttributes", {}).get("activityType", {}).get("name") == activity
    }
    ended = [event.get("activityTaskCompletedEventAttributes", {}) for event in recorded["events"]]
    answers = [each["result"] for each in ended if each.get("scheduledEventId") in scheduled]
    return Payload(answers[time]["payloads"][0])
