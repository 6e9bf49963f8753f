"""One run on a whole stack whose exports go to AWS's protocols and whose notices go to three kinds of receivers."""

import json
import os
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from crawler_lifecycle.model.notices import ExportEvent
from tests.kit.outside.receivers import Answer, PusherServer, Receiver, serving
from tests.kit.outside.stores import BUCKET, REGION, SOURCE, Bus, S3Store
from tests.kit.service.embedded import ask, crawlctl, processes_of, up

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
SECRET = f"whsec_{'A' * 32}"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    for process in processes_of(tmp_path):
        if process.pid != os.getpid():
            process.kill()


async def test_a_run_is_announced_archived_and_told(state: Path, moto: str, credentials: None) -> None:
    bus, s3, pusher, good, gone = Bus(moto), S3Store(moto, "whole/"), PusherServer(), Receiver(), Receiver()
    gone.usual = Answer(410)
    settings = {
        "CRAWLER_EXPORT__BUCKET": BUCKET,
        "CRAWLER_EXPORT__PREFIX": s3.prefix,
        "CRAWLER_EXPORT__PATH_STYLE": "true",
        "CRAWLER_EXPORT__S3_ENDPOINT_URL": moto,
        "CRAWLER_EXPORT__EVENTS_ENDPOINT_URL": moto,
        "CRAWLER_EXPORT__REGION": REGION,
        "CRAWLER_EXPORT__EVENT_BUS": bus.name,
        "CRAWLER_EXPORT__EVENT_SOURCE": SOURCE,
        "CRAWLER_EXPORT__RUN_ENDED_TYPE": "Ended",
        "CRAWLER_EXPORT__FILES_READY_TYPE": "Ready",
        "CRAWLER_NOTICES__PUSHER_APP_ID": pusher.app_id,
        "CRAWLER_NOTICES__PUSHER_KEY": pusher.key,
        "CRAWLER_NOTICES__PUSHER_SECRET": pusher.secret,
        "CRAWLER_NOTICES__PUSHER_URL": pusher.url,
        "CRAWLER_NOTICES__WEBHOOKS": f"{gone.url} {SECRET} {good.url} {SECRET}",
    }
    with serving(pusher), serving(good), serving(gone):
        async with up(state, settings=settings):
            async with crawlctl(state.parent, "run", "sleeper", "--arg", "seconds=1", "--state", str(state)) as run:
                assert await run.end() == 0, run.output
            status, details = await ask(state, "show", "1")
            assert status == 0, details
            status, checks = await ask(state, "doctor")
            assert status == 0, checks
    told = [json.loads(each.body)["type"] for each in good.received if each.method == "POST"]
    assert (told[0], told[-1]) == ("run.started", "run.finished")
    assert [event["name"].replace("-", ".") for event in pusher.events] == told
    assert len([each for each in gone.received if each.method == "POST"]) == 1
    assert any(line["event"] == "undelivered" and "410" in line["message"] for line in details["log"])
    events = (ExportEvent.model_validate(each["detail"]) for each in bus.queued())
    ready, ended = sorted(events, key=lambda event: event.kind)
    assert {each["event_id"] for each in details["exports"]} == {ended.event_id, ready.event_id}
    assert {each["state"] for each in details["exports"]} == {"done"}
    uid = details["run"]["run_uid"]
    assert ended.supporting_files == ready.supporting_files == f"s3://{BUCKET}/whole/{uid}.zip"
    with zipfile.ZipFile(BytesIO(s3.content(uid) or b"")) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert (manifest["count"], manifest["bytes"]) == (ready.files, ready.bytes)
    lines = {check["part"]: check["line"] for check in checks}
    assert lines["archives"] == f"archives in s3://{BUCKET}/whole/"
    assert lines["events"] == f"events on bus {bus.name}, source {SOURCE}"
    assert "webhook 2" in lines["notices"]
