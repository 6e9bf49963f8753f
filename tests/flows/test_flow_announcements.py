"""The announcement of a flow's end: to each receiver once on record, whatever fails, and under ids that stay."""

import json
from dataclasses import replace
from typing import Any

import pytest

from crawler_lifecycle.errors import LifecycleError, Refused, TemporaryError
from crawler_lifecycle.flows.activities.flows import FlowAnnouncements
from crawler_lifecycle.model.flow_states import FlowEvent, FlowNotice, SuperviseFlow
from tests.kit.data.flows import Flow, failing
from tests.kit.service.rig import Rig


def announce(rig: Rig, flow: Flow, activities: FlowAnnouncements | None = None) -> int:
    step = SuperviseFlow(flow_uid=flow.uid, flow_id=flow.id)
    return rig.do((activities or rig.flow_announcements).announce_flow, step).count


def sent(rig: Rig) -> tuple[list[Any], list[Any]]:
    """The notices and the events."""
    files = [rig.folder / "exports" / name for name in ("notices.jsonl", "events.jsonl")]
    notices, events = (file.read_text().splitlines() if file.exists() else [] for file in files)
    return [json.loads(line) for line in notices], [json.loads(line) for line in events]


class Trouble:
    def __init__(self, error: LifecycleError) -> None:
        self.error = error

    def send(self, _: object) -> None:
        raise self.error

    def check(self) -> str:
        raise self.error


def test_an_end_is_announced_once(rig: Rig) -> None:
    flow = failing(rig.database)
    assert [announce(rig, flow) for _ in range(3)] == [1, 0, 0]
    (notice,), (event,) = sent(rig)
    assert (notice["kind"], notice["final"], notice["state"]) == ("flow_ended", True, "discarded")
    assert (event["kind"], event["flow_id"], event["counts"]["completed"]) == ("flow_ended", "w", 1)
    assert notice["notice_id"] != event["event_id"]
    assert FlowNotice.model_validate_json(json.dumps(notice)).failures[0].path == "a"
    assert FlowEvent.model_validate_json(json.dumps(event)).end == 1


def test_an_answer_that_was_lost_leads_to_the_same_id(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = failing(rig.database)

    def lost(*_: object) -> None:
        raise TemporaryError("the database went away")

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.store.flow_ends), "settle", lost)
        with pytest.raises(TemporaryError):
            announce(rig, flow)
    assert announce(rig, flow) == 1
    notices, events = sent(rig)  # the files drop repeats by the id
    assert (len(notices), len(events)) == (1, 1)


def test_a_receiver_that_is_away_holds_nothing_else_up(rig: Rig) -> None:
    flow = failing(rig.database)
    away = replace(rig.flow_announcements, pusher=Trouble(TemporaryError("no answer")))
    for _ in range(2):
        with pytest.raises(TemporaryError, match="no answer"):
            announce(rig, flow, away)
    notices, events = sent(rig)
    assert (len(notices), len(events)) == (0, 1)
    assert announce(rig, flow) == 1
    notices, events = sent(rig)
    assert (len(notices), len(events)) == (1, 1)
    assert flow.events[-2:] == ["undelivered", "delivered"]


def test_a_notice_that_is_refused_for_good_is_not_tried_again(rig: Rig) -> None:
    flow = failing(rig.database)
    refusing = replace(rig.flow_announcements, pusher=Trouble(Refused("it answers 410")))
    assert announce(rig, flow, refusing) == 1
    assert announce(rig, flow) == 0
    assert sent(rig)[0] == []


def test_each_end_has_an_announcement_of_its_own(rig: Rig) -> None:
    flow = failing(rig.database)
    announce(rig, flow)
    flow.retry("a")
    flow.cancel()
    while not flow.go_on().is_empty:
        pass
    announce(rig, flow)
    notices, events = sent(rig)
    assert [notice["end"] for notice in notices] == [event["end"] for event in events] == [1, 2]
    assert notices[1]["state"] == "cancelled"
    assert len({notice["notice_id"] for notice in notices}) == 2
