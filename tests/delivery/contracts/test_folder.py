"""What is special about a folder: what a crash leaves there, and the files of events and notices."""

import fcntl
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import IO
from uuid import uuid4

import pytest

from crawler_lifecycle.delivery.adapters.folder import FolderExporter
from crawler_lifecycle.delivery.adapters.json_lines import FilePusher
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.model.flow_states import FlowNotice
from crawler_lifecycle.model.notices import ExportEvent, Notice
from tests.kit.outside.messages import a_flow_notice, a_notice, an_event
from tests.kit.outside.stores import ENDED_AT

RUN = str(uuid4())


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    return tmp_path / "exports"


@pytest.fixture
def exporter(tmp_path: Path, exports: Path) -> FolderExporter:
    (tmp_path / "files" / RUN).mkdir(parents=True)
    (tmp_path / "files" / RUN / "a").write_text("content")
    return FolderExporter(tmp_path / "files", exports)


def drafts(exports: Path) -> list[str]:
    return [path.name for path in exports.iterdir() if path.suffix != ".zip"]


def silent(files: int, bytes_done: int) -> None:
    pass


def test_what_a_crash_left_is_removed_but_not_what_another_writes(exporter: FolderExporter, exports: Path) -> None:
    exports.mkdir()
    left = exports / f".{RUN}.left.part"
    left.write_text("half")
    seen: list[list[str]] = []

    def while_another_writes(files: int, bytes_done: int) -> None:
        if not seen:
            seen.append(drafts(exports))
            exporter.archive(RUN, 1, ENDED_AT, silent)
            seen.append(drafts(exports))

    assert exporter.archive(RUN, 1, ENDED_AT, while_another_writes)
    assert len(seen[0]) == 1
    assert left.name not in seen[0]
    assert seen[1] == seen[0]
    assert drafts(exports) == []


def test_a_destination_that_cannot_be_written_is_a_temporary_error(exporter: FolderExporter, exports: Path) -> None:
    exports.write_text("a file where a folder should be")
    with pytest.raises(TemporaryError):
        exporter.archive(RUN, 1, ENDED_AT, silent)
    with pytest.raises(TemporaryError):
        exporter.announce(an_event("one"))
    for check in (exporter.check_events, exporter.check_archives, FilePusher(exports / "notices.jsonl").check):
        with pytest.raises(NotReady, match="cannot be written"):
            check()


def test_a_check_says_where_things_go_and_makes_nothing(exporter: FolderExporter, exports: Path) -> None:
    assert exporter.check_events() == f"events in {exports / 'events.jsonl'}"
    assert exporter.check_archives() == f"archives in {exports}"
    assert FilePusher(exports / "notices.jsonl").check() == f"file {exports / 'notices.jsonl'}"
    assert not exports.exists()


def test_an_event_is_one_line_that_says_all(exporter: FolderExporter, exports: Path) -> None:
    events = [an_event("one"), an_event("two")]
    for each in (*events, events[0]):
        exporter.announce(each)
    lines = (exports / "events.jsonl").read_text().splitlines()
    assert [ExportEvent.model_validate_json(line) for line in lines] == events


def test_events_of_many_writers_are_whole_and_there_once(exporter: FolderExporter, exports: Path) -> None:
    events = [an_event(str(uuid4())) for _ in range(40)]
    announce: Callable[[ExportEvent], None] = exporter.announce
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(announce, events * 3))
    lines = (exports / "events.jsonl").read_text().splitlines()
    written = [ExportEvent.model_validate_json(line).event_id for line in lines]
    assert sorted(written) == sorted(each.event_id for each in events)


def test_a_line_cut_off_by_a_crash_harms_no_other(exporter: FolderExporter, exports: Path) -> None:
    one = an_event("one")
    exports.mkdir()
    file = exports / "events.jsonl"
    file.write_text(one.model_dump_json()[:-20])
    exporter.announce(one)
    _, line = file.read_text().splitlines()
    assert ExportEvent.model_validate_json(line) == one


def an_hour_before_today(file: Path) -> str:
    """Make the file's last line one of yesterday. Return the day."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    moment = midnight - timedelta(hours=1)
    os.utime(file, (moment.timestamp(), moment.timestamp()))
    return moment.date().isoformat()


def test_a_day_begins_a_new_file_and_an_event_of_yesterday_is_known(exporter: FolderExporter, exports: Path) -> None:
    first, second = an_event("one"), an_event("two")
    exporter.announce(first)
    day = an_hour_before_today(exports / "events.jsonl")
    for event in (first, second, first):
        exporter.announce(event)
    lines = {path.name: path.read_text().splitlines() for path in exports.iterdir()}
    assert lines == {f"events-{day}.jsonl": [first.model_dump_json()], "events.jsonl": [second.model_dump_json()]}


def test_a_writer_that_waited_while_the_file_was_renamed_writes_to_the_new_file(
    exporter: FolderExporter, exports: Path
) -> None:
    event = an_event("two")
    exporter.announce(an_event("one"))
    file = exports / "events.jsonl"
    with ThreadPoolExecutor(1) as pool, file.open("rb") as renamed:
        fcntl.flock(renamed, fcntl.LOCK_EX)
        waiting = pool.submit(exporter.announce, event)
        deadline = monotonic() + 10
        while not is_waited_for(renamed) and monotonic() < deadline:
            sleep(0.01)
        file.rename(exports / "events-2026-01-01.jsonl")
        fcntl.flock(renamed, fcntl.LOCK_UN)
        waiting.result(10)
    assert file.read_text().splitlines() == [event.model_dump_json()]


def is_waited_for(file: IO[bytes]) -> bool:
    """Return whether somebody waits for the file's lock."""
    inode = os.fstat(file.fileno()).st_ino
    return any("->" in line and f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines())


def test_events_may_have_no_file(tmp_path: Path, exports: Path) -> None:
    exporter = FolderExporter(tmp_path / "files", exports, with_events=False)
    exporter.announce(an_event("one"))
    assert exporter.check_events() == "no receiver for events: CRAWLER_EXPORT__FILE is false"
    assert not exports.exists()


def test_a_notice_is_written_down_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pusher = FilePusher(tmp_path / "new" / "notices.jsonl")
    told = a_notice("n-1")
    with caplog.at_level(logging.INFO, "crawler_lifecycle.notices"):
        pusher.send(told)
        pusher.send(told)
    lines = (tmp_path / "new" / "notices.jsonl").read_text().splitlines()
    assert [Notice.model_validate_json(line) for line in lines] == [told]
    [record] = caplog.records
    assert record.getMessage() == (
        "books finished: FAILED (tasks_failed); tasks: 3 SUCCEEDED, 1 FAILED; task 3 FAILED with exit code 2"
    )
    assert record.__dict__["run_id"] == 42


def test_a_notice_about_a_flow_is_written_down_and_notice_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pusher = FilePusher(tmp_path / "notices.jsonl")
    notice = a_flow_notice("n-1")
    with caplog.at_level(logging.INFO, "crawler_lifecycle.notices"):
        pusher.send(notice)
        pusher.send(notice)
    assert [FlowNotice.model_validate_json(line) for line in (tmp_path / "notices.jsonl").read_text().splitlines()] == [
        notice
    ]
    [record] = caplog.records
    assert record.getMessage() == (
        "flow nightly ended: discarded; members: 2 completed, 1 discarded; load: no such table"
    )
