"""Are receivers told as their protocols have it, each of them, and none more often than needed?"""

import base64
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from crawler_lifecycle.delivery.pushers.fan_out import FanOut, LimitedPusher, NamedPusher
from crawler_lifecycle.delivery.pushers.pusher_channels import LARGEST_ANSWER, LARGEST_MESSAGE, PusherChannels
from crawler_lifecycle.delivery.pushers.webhooks import LONGEST_PAUSE, Webhook, endpoints
from crawler_lifecycle.errors import LifecycleError, NotReady, Refused, TemporaryError
from crawler_lifecycle.model.flow_states import FlowFailure, FlowNotice, MemberState
from crawler_lifecycle.model.notices import AnyNotice, Notice
from crawler_lifecycle.model.records import Explanation
from crawler_lifecycle.settings.outside import NoticeSettings
from tests.kit.outside.messages import a_flow_notice, a_notice
from tests.kit.outside.proxy import proxy_to
from tests.kit.outside.receivers import Answer, PusherServer, Receiver, serving

OLD, NEW = (f"whsec_{base64.b64encode(bytes([number]) * 32).decode()}" for number in (1, 2))
LONG = 9.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with serving(receiver):
        yield receiver


@pytest.fixture
def server() -> Iterator[PusherServer]:
    server = PusherServer()
    with serving(server):
        yield server


def webhook(url: str, *secrets: str, timeout: float = LONG, **more: Any) -> Webhook:
    (endpoint,) = endpoints(" ".join([url, *(secrets or (NEW,))]))
    return Webhook(endpoint, timeout, **more)


def channels(server: PusherServer, **more: Any) -> PusherChannels:
    app = {"pusher_app_id": server.app_id, "pusher_key": server.key, "pusher_secret": server.secret}
    settings = NoticeSettings.model_validate({"pusher_url": server.url, "timeout_seconds": LONG, **app, **more})
    return PusherChannels(server.app_id, settings)


# Webhooks


def test_a_webhook_is_what_the_specification_says(receiver: Receiver) -> None:
    told = a_notice("n-1")
    webhook(f"{receiver.url}/hook?x=1").send(told)
    (request,) = receiver.received
    assert (request.method, request.path, request.query) == ("POST", "/hook", {"x": "1"})
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "n-1"
    body = Verifier(NEW).verify(request.body, dict(request.headers))
    assert body["type"] == "run.finished"
    assert datetime.fromisoformat(body["timestamp"]) == told.at
    assert Notice.model_validate(body["data"]) == told


def test_a_webhook_about_a_flow_has_its_own_type(receiver: Receiver) -> None:
    notice = a_flow_notice("n-1")
    webhook(receiver.url).send(notice)
    body = Verifier(NEW).verify(receiver.received[0].body, dict(receiver.received[0].headers))
    assert (body["type"], datetime.fromisoformat(body["timestamp"])) == ("flow.ended", notice.at)
    assert FlowNotice.model_validate(body["data"]) == notice


def test_with_two_secrets_each_of_them_verifies(receiver: Receiver) -> None:
    webhook(receiver.url, OLD, NEW).send(a_notice("n-1"))
    (request,) = receiver.received
    for secret in (OLD, NEW):
        Verifier(secret).verify(request.body, dict(request.headers))
    with pytest.raises(WebhookVerificationError):
        Verifier(base64.b64encode(b"x" * 32).decode()).verify(request.body, dict(request.headers))
    with pytest.raises(WebhookVerificationError):
        Verifier(NEW).verify(request.body + b" ", dict(request.headers))


def test_every_try_has_the_same_id_and_its_own_time(receiver: Receiver) -> None:
    moments = iter([1000.0] * 2 + [1009.0] * 2)
    hook = webhook(receiver.url, clock=lambda: next(moments))
    hook.send(a_notice("n-1"))
    hook.send(a_notice("n-1"))
    assert [each.headers["webhook-id"] for each in receiver.received] == ["n-1", "n-1"]
    assert [each.headers["webhook-timestamp"] for each in receiver.received] == ["1000", "1009"]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_taken(receiver: Receiver, status: int) -> None:
    receiver.usual = Answer(status, body=b"")
    webhook(receiver.url).send(a_notice("n-1"))
    assert len(receiver.received) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_nobody_is_followed_elsewhere(receiver: Receiver, status: int) -> None:
    receiver.usual = Answer(status, {"Location": f"{receiver.url}/elsewhere"})
    with pytest.raises(TemporaryError, match=str(status)):
        webhook(receiver.url).send(a_notice("n-1"))
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("status", "failure"),
    [(400, Refused), (413, Refused), (422, Refused)]
    + [(each, TemporaryError) for each in (401, 403, 404, 408, 429, 500, 502, 503, 504)],
)
def test_what_the_receiver_says_decides_whether_it_is_asked_again(
    receiver: Receiver, status: int, failure: type[LifecycleError]
) -> None:
    receiver.usual = Answer(status)
    hook = webhook(receiver.url)
    for count in (1, 2):
        with pytest.raises(failure, match=str(status)):
            hook.send(a_notice(f"n-{count}"))
    assert len(receiver.received) == 2


def test_after_410_it_is_never_asked_again(receiver: Receiver) -> None:
    receiver.next = [Answer(410)]
    hook = webhook(receiver.url)
    for _ in range(2):
        with pytest.raises(Refused, match="410"):
            hook.send(a_notice("n-1"))
    assert len(receiver.received) == 1


@pytest.mark.parametrize("said", ["30", "date"])
@pytest.mark.parametrize("status", [429, 503])
def test_it_is_left_alone_for_as_long_as_it_says(receiver: Receiver, status: int, said: str) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    moment = [now.timestamp()]
    until = format_datetime(now + timedelta(seconds=30), usegmt=True) if said == "date" else said
    receiver.next = [Answer(status, {"Retry-After": until})]
    hook = webhook(receiver.url, clock=lambda: moment[0])
    with pytest.raises(TemporaryError, match=str(status)):
        hook.send(a_notice("n-1"))
    moment[0] += 29
    with pytest.raises(TemporaryError, match="left alone for 1 s"):
        hook.send(a_notice("n-1"))
    assert len(receiver.received) == 1
    moment[0] += 2
    hook.send(a_notice("n-1"))
    assert len(receiver.received) == 2


@pytest.mark.parametrize("said", ["soon", "-5", "²", "999999999", "Fri, 20 Nov 1985 11:00:00 GMT"])
def test_a_strange_pause_does_not_last(receiver: Receiver, said: str) -> None:
    moment = [1_800_000_000.0]
    receiver.next = [Answer(429, {"Retry-After": said})]
    hook = webhook(receiver.url, clock=lambda: moment[0])
    with pytest.raises(TemporaryError):
        hook.send(a_notice("n-1"))
    moment[0] += LONGEST_PAUSE
    hook.send(a_notice("n-1"))


def test_a_receiver_that_is_silent_slow_or_away_is_a_temporary_error(receiver: Receiver) -> None:
    receiver.speaks.clear()
    with pytest.raises(TemporaryError, match=r"no answer in 0\.5 s"):
        webhook(receiver.url, timeout=0.5).send(a_notice("n-1"))
    receiver.speaks.set()
    with pytest.raises(TemporaryError, match="cannot be reached"):
        webhook("http://127.0.0.1:1").send(a_notice("n-1"))
    with proxy_to(receiver.url) as proxy:
        proxy.lose_answer(b"webhook-id")
        with pytest.raises(TemporaryError, match="cannot be reached"):
            webhook(proxy.url).send(a_notice("n-1"))


def in_vain(pusher: NamedPusher, message: str) -> None:
    with pytest.raises(TemporaryError, match=message):
        pusher.send(a_notice("n-1"))


@pytest.mark.long
def test_one_that_did_not_answer_is_left_alone_for_a_pause_that_grows(receiver: Receiver) -> None:
    moment = [1000.0]
    hook = webhook(receiver.url, timeout=0.5, breaker_clock=lambda: moment[0])
    receiver.speaks.clear()
    for asked, pause in enumerate((15, 30, 60), 1):
        in_vain(hook, "no answer in")
        moment[0] += pause - 1
        in_vain(hook, "asked again in 1 s")
        assert len(receiver.received) == asked
        moment[0] += 1
    receiver.speaks.set()
    hook.send(a_notice("n-1"))
    receiver.speaks.clear()
    in_vain(hook, "no answer in")
    in_vain(hook, "asked again in 15 s")


def test_of_those_that_wait_for_one_that_did_not_answer_only_one_asks_again(receiver: Receiver) -> None:
    moment = [1000.0]
    hook = webhook(receiver.url, timeout=0.5, breaker_clock=lambda: moment[0])
    receiver.speaks.clear()
    with ThreadPoolExecutor(8) as pool:
        tries = [pool.submit(hook.send, a_notice("n-1")) for _ in range(8)]
        assert all(isinstance(each.exception(60), TemporaryError) for each in tries)
        moment[0] += 15
        again = [pool.submit(hook.send, a_notice("n-1")) for _ in range(8)]
        problems = [str(each.exception(60)) for each in again]
    assert len([each for each in problems if "no answer in" in each]) == 1, problems


def test_channels_that_did_not_answer_are_left_alone(server: PusherServer) -> None:
    pusher = channels(server, timeout_seconds=0.5)
    server.speaks.clear()
    in_vain(pusher, "no answer in")
    in_vain(pusher, "asked again in")
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (OLD, "word 1 is neither"),
        ("https://a.example", "address 1 is followed by no secret"),
        (f"https://a.example {OLD} https://b.example", "address 2 is followed by no secret"),
        (f"ftp://a.example {OLD}", "word 1 is neither"),
        (f"https:// {OLD}", "word 1 is neither"),
        ("https://a.example whsec_???", "word 2 is no secret"),
        ("https://a.example whsec_c2hvcnQ=", "has 5 bytes"),
        (f"https://a.example {OLD} plain", "word 3 is neither"),
    ],
)
def test_what_is_no_list_of_webhooks_is_said_without_showing_it(said: str, wrong: str) -> None:
    with pytest.raises(NotReady, match=wrong) as refused:
        endpoints(said)
    assert refused.value.message.startswith("CRAWLER_NOTICES__WEBHOOKS: ")
    assert not any(word in refused.value.message for word in (OLD, "a.example", "c2hvcnQ"))


def test_several_webhooks_have_their_own_secrets() -> None:
    one, two = endpoints(f"https://a.example/secret {OLD}\n {NEW}  https://b.example:8443 {NEW.rstrip('=')}")
    assert (one.url, one.name, len(one.secrets)) == ("https://a.example/secret", "webhook 1 (a.example)", 2)
    assert (two.url, two.secrets) == ("https://b.example:8443", one.secrets[1:])


def test_a_check_of_a_webhook_tells_nobody_anything(receiver: Receiver) -> None:
    receiver.usual = Answer(405)
    assert webhook(receiver.url).check() == "webhook 1 (127.0.0.1)"
    (request,) = receiver.received
    assert (request.method, request.body) == ("OPTIONS", b"")
    receiver.usual = Answer(502)
    with pytest.raises(TemporaryError, match="502"):
        webhook(receiver.url).check()


# Pusher Channels


def test_a_notice_is_an_event_on_each_channel(server: PusherServer) -> None:
    told = a_notice("n-1")
    channels(server).send(told)
    (event,) = server.events
    assert event["name"] == "run-finished"
    assert event["channels"] == ["crawler-runs", "crawler-run-42"]
    assert Notice.model_validate_json(event["data"]) == told


def test_a_notice_about_a_flow_has_channels_of_its_own(server: PusherServer) -> None:
    notice = a_flow_notice("n-1")
    channels(server).send(notice)
    (event,) = server.events
    assert (event["name"], event["channels"]) == ("flow-ended", ["crawler-flows", f"crawler-flow-{notice.flow_uid}"])
    assert FlowNotice.model_validate_json(event["data"]) == notice


def test_a_large_notice_about_a_flow_leaves_out_the_failures(server: PusherServer) -> None:
    failure = FlowFailure(path="🕷" * 1000, state=MemberState.DISCARDED, reason="r" * 300)
    channels(server).send(a_flow_notice("n-1").model_copy(update={"failures": (failure,) * 10}))
    data = json.loads(server.events[0]["data"])
    assert (data["failures"], data["shortened"], data["state"]) == ([], True, "discarded")


def test_wrong_channels_for_flows_are_refused_at_once(server: PusherServer) -> None:
    with pytest.raises(NotReady, match="CRAWLER_NOTICES__PUSHER_FLOW_CHANNELS"):
        channels(server, pusher_flow_channels="flow/{flow_uid}")


def test_a_notice_in_every_script_arrives(server: PusherServer) -> None:
    told = a_notice("n-1").model_copy(update={"crawler": 'größe 🕷\n"x" 蜘蛛'})
    channels(server, pusher_channels="private-{run_uid}").send(told)
    (event,) = server.events
    assert event["channels"] == [f"private-{told.run_uid}"]
    assert Notice.model_validate_json(event["data"]) == told


@pytest.mark.parametrize("text", ["x", "🕷", '"'])
def test_what_is_too_large_is_cut_and_marked(server: PusherServer, text: str) -> None:
    told = a_notice("n-1").model_copy(update={"reason": text * LARGEST_MESSAGE, "crawler": text * LARGEST_MESSAGE})
    channels(server).send(told)
    (event,) = server.events
    data = json.loads(event["data"])
    assert len(event["data"].encode()) <= LARGEST_MESSAGE
    assert data["shortened"] is True
    assert data["reason"] == text * 300 + "…"
    cut = {"reason": data["reason"], "crawler": data["crawler"], "stats": None, "result": None}
    assert Notice.model_validate(data) == told.model_copy(update=cut)


def test_a_large_result_is_left_out_before_any_text_is_cut(server: PusherServer) -> None:
    explanation = Explanation(text="e" * 500)
    notice = a_notice("n-1").model_copy(update={"result": "x" * LARGEST_MESSAGE, "explanation": explanation})
    channels(server).send(notice)
    (event,) = server.events
    data = json.loads(event["data"])
    assert (data["result"], data["stats"], data["shortened"]) == (None, None, True)
    assert data["explanation"]["text"] == explanation.text


@pytest.mark.parametrize(
    ("status", "failure"),
    [(400, Refused)] + [(each, TemporaryError) for each in (401, 403, 413, 429, 500, 503)],
)
def test_what_the_server_will_not_take_is_told(server: PusherServer, status: int, failure: type[Exception]) -> None:
    server.usual = Answer(status, body=b"the reason")
    with pytest.raises(failure, match="the reason"):
        channels(server).send(a_notice("n-1"))


def test_a_wrong_secret_is_told(server: PusherServer) -> None:
    wrong = channels(server, pusher_secret="guessed")
    for use in (lambda: wrong.send(a_notice("n-1")), wrong.check):
        with pytest.raises(TemporaryError, match="wrong signature; are app id, key and secret right"):
            use()


def test_a_server_that_is_silent_away_or_another_is_a_temporary_error(server: PusherServer) -> None:
    server.usual = Answer(200, body=b"<html>")
    with pytest.raises(TemporaryError, match="does it speak the Pusher protocol"):
        channels(server).send(a_notice("n-1"))
    server.speaks.clear()
    with pytest.raises(TemporaryError, match="no answer"):
        channels(server, timeout_seconds=0.5).send(a_notice("n-1"))
    with pytest.raises(TemporaryError, match="cannot be reached"):
        channels(server, pusher_url="http://127.0.0.1:1").send(a_notice("n-1"))


def test_an_answer_without_end_is_not_kept(server: PusherServer) -> None:
    server.usual = Answer(200, body=b'{"a": "' + b"x" * LARGEST_ANSWER + b'"}')
    with pytest.raises(TemporaryError, match="its answer is larger than"):
        channels(server).send(a_notice("n-1"))


def test_a_check_asks_the_server_with_our_key(server: PusherServer) -> None:
    assert channels(server).check() == "Pusher Channels crawler-runs, crawler-run-{run_id}"
    (request,) = server.received
    assert (request.method, request.path) == ("GET", f"/apps/{server.app_id}/channels")


@pytest.mark.parametrize(
    ("chosen", "variable"),
    [
        ({"pusher_key": None}, "PUSHER_KEY"),
        ({"pusher_secret": None}, "PUSHER_SECRET"),
        ({"pusher_channels": ""}, "PUSHER_CHANNELS"),
        ({"pusher_channels": "runs/all"}, "PUSHER_CHANNELS"),
        ({"pusher_channels": "private-encrypted-runs"}, "PUSHER_CHANNELS"),
        ({"pusher_channels": "x " * 101}, "PUSHER_CHANNELS"),
        ({"pusher_url": "pusher.example.com"}, "PUSHER_URL"),
        ({"pusher_url": "https://pusher.example.com/apps/1"}, "PUSHER_URL"),
    ],
)
def test_what_the_settings_lack_is_said_at_once(server: PusherServer, chosen: dict[str, Any], variable: str) -> None:
    with pytest.raises(NotReady, match=f"CRAWLER_NOTICES__{variable}"):
        channels(server, **chosen)
    with pytest.raises(NotReady, match="CRAWLER_NOTICES__PUSHER_APP_ID"):
        PusherChannels("app", NoticeSettings.model_validate({"pusher_key": "k", "pusher_secret": "s"}))


# FanOut


class Steps:
    """Raises each of these in turn, then takes what comes."""

    def __init__(self, name: str, *troubles: LifecycleError) -> None:
        self.name = name
        self.troubles = list(troubles)
        self.told: list[str] = []

    def send(self, notice: AnyNotice) -> None:
        self.told.append(notice.notice_id)
        if self.troubles:
            raise self.troubles.pop(0)

    def check(self) -> str:
        if self.troubles:
            raise self.troubles[0]
        return self.name


def test_who_fails_is_tried_again_and_nobody_else() -> None:
    good, bad, shut = Steps("good"), Steps("bad", TemporaryError("away"), TemporaryError("away")), Steps("shut")
    shut.troubles = [Refused("no"), Refused("never asked")]
    several = FanOut([good, bad, shut])
    for _ in range(2):
        with pytest.raises(TemporaryError, match=r"^bad: away; shut: no$"):
            several.send(a_notice("n-1"))
    with pytest.raises(Refused, match=r"^shut: no$"):
        several.send(a_notice("n-1"))
    assert (good.told, bad.told, shut.told) == (["n-1"], ["n-1"] * 3, ["n-1"])
    shut.troubles = []
    several.send(a_notice("n-2"))
    assert good.told == ["n-1", "n-2"]


def test_one_that_is_silent_does_not_hold_up_the_others() -> None:
    released, told = threading.Event(), threading.Event()

    class Silent(Steps):
        def send(self, notice: AnyNotice) -> None:
            assert released.wait(60)

    class Quick(Steps):
        def send(self, notice: AnyNotice) -> None:
            told.set()

    order: list[list[NamedPusher]] = [[Silent("silent"), Quick("quick")], [Quick("quick"), Silent("silent")]]
    for pushers in order:
        released.clear()
        told.clear()
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(FanOut(pushers).send, a_notice("n-1"))
            try:
                assert told.wait(60)
                assert not sent.done()
            finally:
                released.set()
            sent.result(60)


@pytest.mark.long
def test_receivers_who_do_not_answer_take_only_a_share_of_the_slots() -> None:
    """Each try waited out its time limit in a slot of the worker, until there were none left for looks and stops."""
    released = threading.Event()

    class Silent(Steps):
        def send(self, notice: AnyNotice) -> None:
            super().send(notice)
            assert released.wait(60)

    silent = Silent("silent")
    share = LimitedPusher(FanOut([silent]), most=2)
    with ThreadPoolExecutor(4) as slots:
        tries = [slots.submit(share.send, a_notice(f"n-{number}")) for number in range(8)]
        try:
            assert slots.submit(lambda: "a look").result(60) == "a look"
            refused = [each.exception() for each in itertools.islice(as_completed(tries, 60), 6)]
            assert [type(problem) for problem in refused] == [TemporaryError] * 6
            assert len(silent.told) == 2
        finally:
            released.set()
    share.send(a_notice("n-9"))


def test_a_check_names_each_that_is_wrong() -> None:
    assert FanOut([]).check() == "nobody is notified"
    assert FanOut([Steps("b"), Steps("a")]).check() == "a, b"
    with pytest.raises(NotReady, match=r"^a: away; c: gone$"):
        FanOut([Steps("a", TemporaryError("away")), Steps("b"), Steps("c", Refused("gone"))]).check()


def test_real_ones_together(receiver: Receiver, server: PusherServer) -> None:
    receiver.next = [Answer(500)]
    several = FanOut([channels(server), webhook(receiver.url)])
    with pytest.raises(TemporaryError, match=r"^webhook 1 \(127\.0\.0\.1\): it answers 500$"):
        several.send(a_notice("n-1"))
    several.send(a_notice("n-1"))
    assert len(server.events) == 1
    assert [each.headers["webhook-id"] for each in receiver.received] == ["n-1", "n-1"]
