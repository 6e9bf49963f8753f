"""Every adapter is made to fail with its secrets set: none of them is in what it says, nor in what led to it."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess, ApiConnection
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.delivery.aws.archives import S3Archiver
from crawler_lifecycle.delivery.aws.events import EventBridge
from crawler_lifecycle.delivery.pushers.pusher_channels import PusherChannels
from crawler_lifecycle.delivery.pushers.webhooks import Webhook, endpoints
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.settings import Settings, configuration
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.settings.outside import ExportSettings, NoticeSettings
from tests.kit.outside.messages import a_notice, an_event
from tests.kit.outside.receivers import Answer, Receiver, serving

SECRET = "c0nf1dent1al"
WHSEC = f"whsec_{SECRET}{'A' * 20}"
NOBODY = "127.0.0.1:9"
TROUBLES = (Answer(401), Answer(403, body=b"no"), Answer(404), Answer(500, body=b"<html>"), Answer(200, body=b"?"))


def _told(failing: Callable[[], Any]) -> str:
    """All that anybody can come to read of the failure: its message, and the traceback of a log."""
    with pytest.raises(LifecycleError) as caught:
        failing()
    return caught.value.message + "".join(traceback.format_exception(caught.value))


@pytest.fixture
def server() -> Iterator[Receiver]:
    receiver = Receiver()
    with serving(receiver):
        yield receiver


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://crawler:{SECRET}@{NOBODY}/crawler",
        f"mysql://crawler:{SECRET}@host:port/crawler",
        f"mysql://crawler:a@{SECRET}@{NOBODY}/crawler",
        f"mysql://crawler:a/{SECRET}@{NOBODY}/crawler",
        f"mysql://crawler:a:{SECRET}@{NOBODY}/crawler",
        f"mysql://crawler@{NOBODY}/crawler?password={SECRET}",
        f"postgresql://crawler:{SECRET}@{NOBODY}/crawler",
        f"crawler:{SECRET}@{NOBODY}",
    ],
)
def test_the_database(url: str, tmp_path: Path) -> None:
    assert SECRET not in _told(lambda: Database(url).read().__enter__())
    assert SECRET not in Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": url}).database_name


@pytest.mark.parametrize(
    "address", ["http://user:{0}@{1}", "http://user:{0}@{1}:port", "user:{0}@{1}", "http://{0}@{1}"]
)
def test_the_scheduler_service_and_its_address(address: str) -> None:
    def ask() -> None:
        SchedulerClient(address.format(SECRET, NOBODY), SECRET, 2).check()

    assert SECRET not in _told(ask)


def test_the_scheduler_service_and_its_token(server: Receiver) -> None:
    client = SchedulerClient(server.url, SECRET, 2)
    for server.usual in TROUBLES:
        assert SECRET not in _told(client.check)
        assert SECRET not in _told(lambda: client.crawler("books"))
    assert SECRET not in _told(lambda: SchedulerClient(server.url, f"{SECRET} {SECRET}", 2))


@pytest.mark.long
def test_pusher_channels(server: Receiver) -> None:
    def channels(url: str, **more: Any) -> PusherChannels:
        return PusherChannels("1", NoticeSettings(pusher_key="k", pusher_secret=SECRET, pusher_url=url, **more))

    for server.usual in TROUBLES:
        assert SECRET not in _told(channels(server.url).check)
    for url in (f"http://{NOBODY}", f"http://user:{SECRET}@{NOBODY}", f"http://user:{SECRET}@{NOBODY}/path"):
        assert SECRET not in _told(lambda url=url: channels(url).send(a_notice("1")))  # type: ignore[misc]


@pytest.mark.parametrize("place", ["http://user:{0}@{1}/", "http://{1}/hooks/{0}", "http://{1}/?token={0}"])
def test_webhooks_whose_addresses_are_secrets_too(server: Receiver, place: str) -> None:
    moved = Answer(302, headers={"Location": f"http://{SECRET}"})
    ours = server.url.removeprefix("http://")
    for host, answers in ((NOBODY, TROUBLES[:1]), (ours, (*TROUBLES[:-1], Answer(410), moved))):
        (endpoint,) = endpoints(f"{place.format(SECRET, host)} {WHSEC}")
        for server.usual in answers:
            webhook = Webhook(endpoint, 2)
            assert SECRET not in _told(lambda webhook=webhook: webhook.send(a_notice("1"))) + webhook.name  # type: ignore[misc]


@pytest.mark.parametrize(
    "said", [SECRET, f"https://{SECRET}", f"{WHSEC}", f"https://a.example {WHSEC}!", f"https://a.example:port {WHSEC}"]
)
def test_webhooks_that_are_not_understood(said: str) -> None:
    assert SECRET not in _told(lambda: endpoints(said))


@pytest.mark.usefixtures("credentials")
@pytest.mark.long
def test_aws(server: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    for url in (server.url, f"http://{NOBODY}", f"{SECRET}"):
        said: dict[str, Any] = {"s3_endpoint_url": url, "events_endpoint_url": url, "region": "eu", "path_style": True}
        chosen = ExportSettings(timeout_seconds=1, **said)
        troubles = TROUBLES[1:4] if url == server.url else TROUBLES[:1]
        for server.usual in troubles:
            _not_told_by_aws(chosen, tmp_path, shown=url)


def _not_told_by_aws(chosen: ExportSettings, folder: Path, shown: str) -> None:
    """An address that is none is shown: it is no place for a secret."""
    for failing in (
        lambda: S3Archiver(folder, "bucket", chosen).check_archives(),
        lambda: EventBridge("bus", chosen).announce(an_event("1")),
    ):
        assert SECRET not in _told(failing).replace(shown, "")


@pytest.mark.parametrize(
    "content",
    [
        "users: [{name: me, user: {token: %s}}]",
        "users:\n- name: me\n  user: {token: '%s\n",
        "%s: [",
    ],
)
def test_a_kubeconfig(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content.replace("%s", SECRET))
    with pytest.raises(LifecycleError) as caught:
        ApiConnection(ApiAccess("crawls", kubeconfig=path))
    assert SECRET not in caught.value.message


SECRET_SETTINGS = {
    "CRAWLER_DATABASE__URL": f"mysql://crawler:{SECRET}@{NOBODY}/crawler",
    "CRAWLER_SCHEDULER__TOKEN": SECRET,
    "CRAWLER_NOTICES__PUSHER_SECRET": SECRET,
    "CRAWLER_NOTICES__WEBHOOKS": f"https://a.example {WHSEC}",
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"CRAWLER_DATABASE__POOL_SIZE": "none"},
        {"CRAWLER_NOTICES": SECRET},
        {"CRAWLER_NOTICES": f'{{"timeout_seconds": "{SECRET}"}}'},
        {"CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "500"},
    ],
)
def test_settings_that_are_wrong(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]) -> None:
    for name, value in (SECRET_SETTINGS | wrong).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LifecycleError) as caught:
        configuration.load()
    assert SECRET not in caught.value.message


def test_what_is_printed_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a log of somebody who looks for a fault."""
    for name, value in SECRET_SETTINGS.items():
        monkeypatch.setenv(name, value)
    chosen = Settings()
    assert SECRET not in repr(chosen) + str(chosen) + repr(Parts(chosen))
