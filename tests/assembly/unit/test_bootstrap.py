"""Do the settings choose where exports and notices go?"""

from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.assembly.parts import Parts, receivers_are_files
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import configuration

RUN = "11111111-2222-4333-8444-555555555555"
SECRET = f"whsec_{'A' * 32}"
PUSHER = {"pusher_app_id": "1", "pusher_key": "key", "pusher_secret": "secret"}


def parts(state: Path, **chosen: dict[str, Any]) -> Parts:
    return Parts(configuration.load(state=state, **chosen))


def told(parts: Parts) -> list[str]:
    pushers = getattr(parts.pusher, "_pushers")  # noqa: B009 (a part of FanOut, not of the port)
    return [each.name for each in pushers]


def test_without_settings_everything_stays_in_the_state_folder(tmp_path: Path) -> None:
    plain = parts(tmp_path)
    assert plain.archiver.destination(RUN, 1) == str(tmp_path / "exports" / f"{RUN}.zip")
    assert plain.announcer.check_events() == f"events in {tmp_path / 'exports' / 'events.jsonl'}"
    assert plain.pusher.check() == f"file {tmp_path / 'exports' / 'notices.jsonl'}"


def test_archives_and_events_are_chosen_by_themselves(tmp_path: Path, credentials: None) -> None:
    away = "http://127.0.0.1:1"
    bucket = parts(tmp_path, export={"bucket": "crawls", "prefix": "a/", "region": "eu-west-1"})
    assert bucket.archiver.destination(RUN, 2) == f"s3://crawls/a/{RUN}-2.zip"
    assert bucket.announcer.check_events().startswith("events in ")
    bus = parts(tmp_path, export={"event_bus": "b", "region": "eu-west-1", "events_endpoint_url": away})
    assert bus.archiver.check_archives().startswith("archives in ")
    with pytest.raises(Exception, match="event bus b cannot be reached"):
        bus.announcer.check_events()


def test_each_receiver_that_is_set_is_told(tmp_path: Path) -> None:
    hooks = f"https://a.example {SECRET} https://b.example {SECRET}"
    everybody = parts(tmp_path, notices={"webhooks": hooks, **PUSHER})
    assert told(everybody) == ["file", "Pusher Channels", "webhook 1 (a.example)", "webhook 2 (b.example)"]
    assert told(parts(tmp_path, notices={"file": False})) == []


@pytest.mark.parametrize("receiver", [PUSHER, {"webhooks": f"https://a.example {SECRET}"}])
@pytest.mark.parametrize("file", [True, False])
def test_every_receiver_but_the_file_may_be_slow(tmp_path: Path, receiver: dict[str, Any], file: bool) -> None:
    assert receivers_are_files(parts(tmp_path, notices={"file": file, "timeout_seconds": 5}).settings)
    sent = parts(tmp_path, notices={"file": file, **receiver})
    assert told(sent) != ["file"]
    assert not receivers_are_files(sent.settings)


def test_a_receiver_that_is_set_wrongly_stops_the_process_at_its_start(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="CRAWLER_NOTICES__WEBHOOKS"):
        parts(tmp_path, notices={"webhooks": "https://a.example"}).pusher  # noqa: B018 (made when it is asked for)
