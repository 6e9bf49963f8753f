"""The loop from the queue to the API, against SQS's protocol: what is deleted, given up, and left in the queue."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from crawler_lifecycle.client.api import Api as HttpApi
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, NotReady, PermanentError, TemporaryError
from crawler_lifecycle.model.requests import parse
from crawler_lifecycle.settings.outside import TriggerSettings
from crawler_lifecycle.triggers.bridge import Bridge, posting
from crawler_lifecycle.triggers.model import Act, Event, EventAnswer
from crawler_lifecycle.triggers.queue import REMEDY, EventQueue
from tests.kit.outside.receivers import Answer, Receiver, serving
from tests.kit.outside.stores import REGION, SOURCE, Bus, client_of
from tests.kit.waiting import until
from tests.triggers.queues import Queues

STARTED = EventAnswer(act=Act.START_RUN, rule="r", created=True, run_id=1, run_uid="u")
ANSWERS: dict[str, EventAnswer | LifecycleError] = {
    "started": STARTED,
    "repeated": STARTED.model_copy(update={"created": False}),
    "stopped": STARTED.model_copy(update={"act": Act.STOP_RUN}),
    "unmapped": BadInput("event", "no rule fits\nthe `évent`"),
    "too large": PermanentError("the API answers 413"),
    "older API": NotFound("there is no such path"),
    "away": TemporaryError("the API gives no answer"),
    "no token": NotReady("the API does not know the token"),
}


@pytest.fixture
def queues(moto: str, credentials: None) -> Queues:
    return Queues(moto)


@pytest.fixture
def bridge(queues: Queues) -> Iterator[Bridge]:
    def post(body: str) -> EventAnswer:
        answer = ANSWERS[body]
        if isinstance(answer, LifecycleError):
            raise answer
        return answer

    with ThreadPoolExecutor(10) as pool:
        yield Bridge(EventQueue(queues.settings()), post, timedelta(seconds=60), pool)


def counted(bridge: Bridge) -> dict[str, float]:
    samples = [sample for metric in bridge.metrics.collect() for sample in metric.samples]
    return {
        sample.labels.get("outcome", sample.name): sample.value
        for sample in samples
        if not sample.name.endswith("_created")
    }


def test_an_answer_deletes_the_message(bridge: Bridge, queues: Queues) -> None:
    queues.send("started", "repeated", "stopped")
    while sum(queues.counts()):
        bridge.handle_messages()
    assert queues.given_up() == []
    counts = counted(bridge)
    assert {name: counts[name] for name in ("started", "repeated", "stopped", "dead_letter", "failed")} == {
        "started": 1,
        "repeated": 1,
        "stopped": 1,
        "dead_letter": 0,
        "failed": 0,
    }
    assert counts["crawler_trigger_messages_received_total"] == 3
    assert 0 <= counts["crawler_trigger_message_age_seconds"] < 60


def test_what_cannot_succeed_goes_to_the_dead_letter_queue_as_it_came(bridge: Bridge, queues: Queues) -> None:
    queues.send("unmapped", "too large")
    while sum(queues.counts()):
        bridge.handle_messages()
    assert sorted(queues.given_up()) == [
        ("too large", "the API answers 413"),
        ("unmapped", "event: no rule fits the ` vent`"),
    ]
    assert counted(bridge)["dead_letter"] == 2


@pytest.mark.parametrize("body", ["older API", "away", "no token"])
def test_what_may_succeed_later_stays_hidden_for_a_while(bridge: Bridge, queues: Queues, body: str) -> None:
    queues.send(body)
    with pytest.raises(LifecycleError, match=str(ANSWERS[body])):
        bridge.handle_messages()
    assert queues.counts() == (0, 1)
    assert (queues.given_up(), counted(bridge)["failed"]) == ([], 1)


def test_a_message_that_failed_comes_again_after_its_pause(queues: Queues) -> None:
    queue = EventQueue(queues.settings())
    queues.send("x")
    [message] = queue.receive()
    queue.postpone(message, 0)
    [again] = queue.receive()
    assert (again.id, again.deliveries, message.deliveries) == (message.id, 2, 1)
    queue.give_up(again, "")
    assert (queues.counts(), queues.given_up()) == ((0, 0), [("x", "unknown")])


@pytest.mark.long
def test_the_queue_delivers_an_event_as_a_rule_of_eventbridge_sends_it(moto: str, credentials: None) -> None:
    bus = Bus(moto)
    detail = {"order": 17, "site": "books.example"}
    entry = {"EventBusName": bus.name, "Source": SOURCE, "DetailType": "Ended", "Detail": json.dumps(detail)}
    client_of("events", moto).put_events(Entries=[entry])
    queue = EventQueue(
        TriggerSettings(queue_url=bus.queue, dead_letter_url=bus.queue, endpoint_url=moto, region=REGION)
    )
    [message] = queue.receive()
    event = parse(Event, message.body)
    assert (event.source, event.detail_type, event.detail, event.key) == (
        SOURCE,
        "Ended",
        detail,
        f"{SOURCE}:{event.id}",
    )


def test_the_howto_has_the_rights_that_the_process_needs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "events.md").read_text()
    [policy] = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    of_events, of_dead_letters = json.loads(policy)["Statement"]
    assert [*of_events["Action"], of_dead_letters["Action"]] == re.findall(r"sqs:\w+", REMEDY)


def test_a_pass_with_a_success_has_not_failed(bridge: Bridge, queues: Queues) -> None:
    queues.send("away", "started")
    while queues.counts()[0]:
        bridge.handle_messages()
    assert queues.counts() == (0, 1)


def test_the_loop_lives_through_an_outage_of_the_queue(queues: Queues) -> None:
    """Its pulses say so, and a signal ends the loop's pause."""
    stopped, settings = threading.Event(), queues.settings(queue_url=f"{queues.events}-gone")
    with ThreadPoolExecutor(1) as pool:
        bridge = Bridge(EventQueue(settings), lambda _: STARTED, timedelta(seconds=60), pool)
        loop = threading.Thread(target=bridge.run, args=(stopped,))
        loop.start()
        until(lambda: bridge.pulses.succeeded.problem)
        stopped.set()
        loop.join(4)  # shorter than the pause
        assert not loop.is_alive()
    assert "CRAWLER_TRIGGERS__QUEUE_URL" in (bridge.pulses.succeeded.problem or "")
    assert bridge.pulses.turned.has_beaten_within(60)
    assert not bridge.pulses.succeeded.has_beaten_within(60)


@pytest.mark.parametrize("name", ["queue_url", "dead_letter_url"])
def test_both_queues_are_needed(queues: Queues, name: str) -> None:
    with pytest.raises(NotReady, match=f"CRAWLER_TRIGGERS__{name.upper()}"):
        EventQueue(queues.settings(**{name: None}))


def test_a_missing_region_names_the_variables_that_help(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message named AWS_REGION, which AWS's library for Python does not read."""
    with pytest.raises(NotReady) as refused:
        EventQueue(queues.settings(region=None))
    ours, of_aws = re.findall(r"[A-Z][A-Z_]+_REGION", refused.value.message)
    assert ours == "CRAWLER_TRIGGERS__REGION"
    monkeypatch.setenv(of_aws, REGION)
    EventQueue(queues.settings(region=None))


def _problem(status: int, code: str) -> Answer:
    body = {"title": "x", "status": status, "code": code, "detail": "because", "errors": []}
    return Answer(status, {"Content-Type": "application/problem+json"}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(201, body=STARTED.model_dump_json().encode()), None),
        (_problem(422, "bad_input"), BadInput),
        (_problem(400, "bad_input"), BadInput),
        (_problem(413, "too_large"), PermanentError),
        (_problem(404, "not_found"), NotFound),
        (_problem(401, "unauthenticated"), NotReady),
        (_problem(403, "forbidden"), NotReady),
        (_problem(503, "not_ready"), TemporaryError),
        (Answer(502, body=b"a proxy"), TemporaryError),
    ],
)
def test_the_body_reaches_the_api_as_it_is(answer: Answer, error: type[LifecycleError] | None) -> None:
    receiver = Receiver()
    receiver.usual = answer
    body = '{"id":  "é", "x": not even JSON'
    with serving(receiver), HttpApi(receiver.url, "token") as api:
        post: Callable[[str], EventAnswer] = posting(api)
        if error is None:
            assert post(body) == STARTED
        else:
            with pytest.raises(error) as refused:
                post(body)
            assert type(refused.value) is error
    [sent] = receiver.received
    assert (sent.method, sent.path, sent.body.decode()) == ("POST", "/v1/events", body)
