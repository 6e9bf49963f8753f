"""Do events reach those who wait for them on a bus, each under the id that stays?"""

import json
from collections.abc import Iterator

import pytest

from crawler_lifecycle.delivery.aws.events import EventBridge
from crawler_lifecycle.errors import NotReady, Refused, TemporaryError
from crawler_lifecycle.model.flow_states import FlowEvent
from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.states import ExportKind
from crawler_lifecycle.settings.outside import ExportSettings
from tests.kit.outside.messages import a_flow_event, an_event
from tests.kit.outside.proxy import proxy_to
from tests.kit.outside.receivers import Answer, Receiver, serving
from tests.kit.outside.stores import REGION, Bus


def settings(url: str, **more: str) -> ExportSettings:
    given = {"event_source": "crawls.test", "run_ended_type": "Ended", "files_ready_type": "Ready", "region": REGION}
    return ExportSettings.model_validate({"events_endpoint_url": url, "timeout_seconds": 20, **given, **more})


def exporter(bus: Bus, **more: str) -> EventBridge:
    return EventBridge(bus.name, settings(bus.url, **more))


@pytest.fixture
def bus(moto: str, credentials: None) -> Bus:
    return Bus(moto)


@pytest.fixture
def answering(credentials: None) -> Iterator[Receiver]:
    receiver = Receiver()
    with serving(receiver):
        yield receiver


def test_an_event_comes_out_of_the_queue_as_it_was(bus: Bus) -> None:
    ended = an_event("one")
    ready = ended.model_copy(update={"event_id": "two", "kind": ExportKind.FILES_READY, "files": 3, "bytes": 2**40})
    for event in (ended, ready):
        exporter(bus).announce(event)
    queued = bus.queued()
    assert [ExportEvent.model_validate(each["detail"]) for each in queued] == [ended, ready]
    assert [each["detail-type"] for each in queued] == ["Ended", "Ready"]
    assert {each["source"] for each in queued} == {"crawls.test"}


def test_the_end_of_a_flow_has_a_detail_type_of_its_own(bus: Bus) -> None:
    ended = a_flow_event("one")
    exporter(bus, run_ended_type="Run", flow_ended_type="Ended").announce(ended)
    (queued,) = bus.queued()
    assert (FlowEvent.model_validate(queued["detail"]), queued["detail-type"]) == (ended, "Ended")


def test_a_repeat_has_the_same_id_in_its_detail(bus: Bus) -> None:
    bridge, event = exporter(bus), an_event("one")
    bridge.announce(event)
    bridge.announce(event)
    first, second = bus.queued()
    assert first["id"] != second["id"]
    assert first["detail"] == second["detail"]


def test_what_no_rule_asks_for_is_nobodys_fault(bus: Bus) -> None:
    exporter(bus, event_source="somebody.else").announce(an_event("one"))
    assert bus.queued() == []


def test_an_entry_refused_inside_a_200_is_a_failure(bus: Bus) -> None:
    with pytest.raises(Refused, match="Source is a required argument"):
        exporter(bus, event_source="").announce(an_event("one"))
    assert bus.queued() == []


@pytest.mark.parametrize(
    ("code", "failure"),
    [("ThrottlingException", TemporaryError), ("InternalFailure", TemporaryError), ("NotAuthorizedForSource", Refused)],
)
def test_only_what_may_pass_is_temporary(answering: Receiver, code: str, failure: type[Exception]) -> None:
    entries = [{"ErrorCode": code, "ErrorMessage": "no"}]
    body = json.dumps({"FailedEntryCount": 1, "Entries": entries}).encode()
    answering.usual = Answer(200, {"Content-Type": "application/x-amz-json-1.1"}, body)
    with pytest.raises(failure, match=f"{code}: no"):
        EventBridge("crawls", settings(answering.url)).announce(an_event("one"))
    assert len(answering.received) == 1


def test_a_bus_that_is_not_there_is_for_somebody_to_mend(bus: Bus) -> None:
    bridge = EventBridge("not-here", settings(bus.url))
    with pytest.raises(NotReady, match="CRAWLER_EXPORT__EVENT_BUS"):
        bridge.check_events()
    with pytest.raises(NotReady, match="not-here"):
        bridge.announce(an_event("one"))


def test_a_check_says_where_events_go(bus: Bus) -> None:
    assert exporter(bus).check_events() == f"events on bus {bus.name}, source crawls.test"


def test_a_lost_answer_costs_a_repeat_at_most(bus: Bus) -> None:
    with proxy_to(bus.url) as proxy:
        bridge = exporter(bus, events_endpoint_url=proxy.url)
        proxy.lose_answer(rb"PutEvents")
        with pytest.raises(TemporaryError):
            bridge.announce(an_event("one"))
        bridge.announce(an_event("one"))
    assert {each["detail"]["event_id"] for each in bus.queued()} == {"one"}


def test_nobody_there_is_a_temporary_error(credentials: None) -> None:
    with pytest.raises(TemporaryError, match="cannot be reached"):
        EventBridge("crawls", settings("http://127.0.0.1:1")).announce(an_event("one"))


def test_without_a_region_nothing_starts(credentials: None) -> None:
    with pytest.raises(NotReady, match="CRAWLER_EXPORT__REGION"):
        EventBridge("crawls", ExportSettings())
