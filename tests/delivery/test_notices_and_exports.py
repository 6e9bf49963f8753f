"""Telling the outside: notices with ids that never change, the end of the run, the archive of its files."""

import errno
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.delivery.activities.notices import NoticeActivities
from crawler_lifecycle.delivery.adapters.json_lines import FilePusher
from crawler_lifecycle.delivery.pushers.fan_out import FanOut
from crawler_lifecycle.delivery.pushers.webhooks import Webhook, endpoints
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.looks import OutcomeFacts
from crawler_lifecycle.model.notices import WebhookNotice
from crawler_lifecycle.model.records import Explanation
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, Notify, RunPlan
from crawler_lifecycle.model.states import ExportState, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange, TaskEvidence
from crawler_lifecycle.runs.cli.details_lines import details_lines
from crawler_lifecycle.runs.model import LogCancellation
from tests.kit.outside.receivers import Answer, Receiver, serving
from tests.kit.service.rig import Rig


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["started", "progress", "stopped", "finished"])
def test_a_notice_keeps_its_id_on_every_try(rig: Rig, kind: str) -> None:
    plan = rig.started("sleepy")
    send = getattr(rig.notices, f"signal_pusher_{kind}")
    for number in (1, 1, 2):
        rig.do(send, Notify(run=plan.run, number=number))
    sent = lines(rig.folder / "exports" / "notices.jsonl")
    assert {notice["kind"] for notice in sent} == {kind}
    assert {notice["run_id"] for notice in sent} == {plan.run.run_id}
    # looks are counted; a run starts and ends once until it is reopened
    assert len({notice["notice_id"] for notice in sent}) == (2 if kind == "progress" else 1)


def test_the_notice_of_a_stopped_run_is_final_and_says_how_it_ended(rig: Rig) -> None:
    """It said STOPPING without a reason, and was the last that a receiver heard. (Doors A6)"""
    plan = rig.started("sleepy")
    for stop in (StopRequest(actor="ann", reason="wrong site", door="cli"), StopRequest(actor="bob", force=True)):
        step = LogCancellation(run=plan.run, stop=stop, asked_at=datetime.now(UTC))
        rig.do(rig.stopping.add_cancellation_log_to_db, step)
    rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run, reason="stopped"))
    stopped = TaskChange(
        task=0, attempt=1, version=rig.tasks.rows(plan.run.run_id, [0])[0].version, status=TaskStatus.STOPPED
    )
    rig.tasks.sync(plan.run, [stopped])
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    rig.do(rig.notices.signal_pusher_stopped, Notify(run=plan.run, end=1))
    (sent,) = lines(rig.folder / "exports" / "notices.jsonl")
    assert (sent["status"], sent["reason"], sent["final"]) == ("FAILED", "stopped_forced", True)
    assert sent["explanation"] == Explanation(
        text="stopped by ann (cli): wrong site; forced by bob (temporal): no reason given",
        stopped_by="ann",
        door="cli",
        forced=True,
    ).model_dump(mode="json")


def test_the_notice_of_a_failed_run_names_the_task_that_failed(rig: Rig) -> None:
    plan = rig.started("books")
    rows = rig.tasks.rows(plan.run.run_id, [0, 1])
    ends = [(TaskStatus.SUCCEEDED, None), (TaskStatus.FAILED, 3)]
    changes = [
        TaskChange(task=row.task, attempt=1, version=row.version, status=status, reason=f"exit_{code}", exit_code=code)
        for row, (status, code) in zip(rows, ends, strict=True)
    ]
    rig.tasks.sync(plan.run, changes)
    rig.tasks.reconcile(plan.run, [TaskEvidence(task=1, attempt=1, log_tail="begin\ntask one fails\n")])
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    rig.do(rig.notices.signal_pusher_started, Notify(run=plan.run))
    rig.do(rig.notices.signal_pusher_finished, Notify(run=plan.run, end=1))
    started, finished = lines(rig.folder / "exports" / "notices.jsonl")
    assert (started["final"], started["explanation"]) == (False, None)
    assert finished["final"] is True
    assert finished["explanation"] == Explanation(
        text="task 1 FAILED with exit code 3: task one fails",
        task=1,
        task_reason="exit_3",
        exit_code=3,
        last_line="task one fails",
    ).model_dump(mode="json")


def test_the_closing_notice_and_the_event_of_the_end_have_the_crawls_own_account(rig: Rig) -> None:
    plan = rig.started("books")
    rows = rig.tasks.rows(plan.run.run_id, [0, 1])
    results = [CrawlResult(outcome="banned", stats={"items": 3}, result=[7]), CrawlResult(stats={"items": 4})]
    changes = [
        TaskChange(
            task=row.task,
            attempt=1,
            version=row.version,
            status=TaskStatus.SUCCEEDED,
            job_uid="uid",
            facts=OutcomeFacts(job_uid="uid", succeeded=True, result=result),
        )
        for row, result in zip(rows, results, strict=True)
    ]
    rig.tasks.sync(plan.run, changes)
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    rig.do(rig.notices.signal_pusher_started, Notify(run=plan.run))
    rig.do(rig.notices.signal_pusher_finished, Notify(run=plan.run, end=1))
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run, end=1))
    account = {"outcome": "banned", "stats": {"items": 7}, "result": [7]}
    started, finished = lines(rig.folder / "exports" / "notices.jsonl")
    (event,) = lines(rig.folder / "exports" / "events.jsonl")
    assert account.items() <= finished.items()
    assert account.items() <= event.items()
    assert dict.fromkeys(account).items() <= started.items()


def test_the_largest_account_fits_where_notices_are_kept(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=1)
    (row,) = rig.tasks.rows(plan.run.run_id, [0])
    largest = CrawlResult(stats={"\0" * 300: 1}, result="\0" * 600)
    facts = OutcomeFacts(job_uid="uid", succeeded=True, result=largest)
    over = {"version": row.version, "status": TaskStatus.SUCCEEDED, "job_uid": "uid", "facts": facts}
    rig.tasks.sync(plan.run, [TaskChange(task=0, attempt=1, **over)])
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    rig.do(rig.notices.signal_pusher_finished, Notify(run=plan.run, end=1))
    (kept,) = rig.store.records.notices_of([plan.run.run_id])
    assert (kept.stats, kept.result) == (largest.stats, largest.result)


def test_the_longest_explanation_fits_where_notices_are_kept(rig: Rig) -> None:
    plan = rig.started("sleepy")
    stop = StopRequest(actor='"' * 256, reason='"' * 1024, door='"' * 64, force=True)
    rig.do(
        rig.stopping.add_cancellation_log_to_db,
        LogCancellation(run=plan.run, stop=stop, asked_at=datetime.now(UTC)),
    )
    rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run, reason="stopped"))
    version = rig.tasks.rows(plan.run.run_id, [0])[0].version
    rig.tasks.sync(plan.run, [TaskChange(task=0, attempt=1, version=version, status=TaskStatus.STOPPED)])
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    rig.do(rig.notices.signal_pusher_stopped, Notify(run=plan.run, end=1))
    (kept,) = rig.store.records.notices_of([plan.run.run_id])
    assert kept.explanation is not None
    assert kept.explanation.stopped_by == '"' * 256


def test_a_notice_says_the_same_on_every_try(rig: Rig, receiver: Receiver) -> None:
    """Receivers keep the first of an id, streams told the last: they knew different tasks and times."""
    plan = rig.started("sleepy")
    activities = told_by_webhook(rig, receiver)
    receiver.next = [Answer(500)]
    with pytest.raises(TemporaryError):
        rig.do(activities.signal_pusher_started, Notify(run=plan.run))
    rig.do(activities.signal_pusher_started, Notify(run=plan.run))
    first, second = (WebhookNotice.model_validate_json(each.body).data for each in receiver.received)
    assert [first] == [second] == rig.store.records.notices_of([plan.run.run_id])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with serving(receiver):
        yield receiver


def told_by_webhook(rig: Rig, receiver: Receiver) -> NoticeActivities:
    """Beside the file."""
    (endpoint,) = endpoints(f"{receiver.url} whsec_{'A' * 32}")
    return replace(rig.notices, pusher=FanOut([FilePusher(rig.folder / "notices.jsonl"), Webhook(endpoint, 20)]))


def deliveries(rig: Rig, plan: RunPlan) -> list[tuple[str, str]]:
    log = rig.details(plan).log
    return [(line.event, line.message) for line in log if line.event in ("undelivered", "delivered")]


def test_a_notice_that_is_not_delivered_stands_in_the_log_and_is_tried_again(rig: Rig, receiver: Receiver) -> None:
    plan = rig.started("sleepy")
    activities = told_by_webhook(rig, receiver)
    receiver.next = [Answer(500), Answer(502)]
    for _ in range(2):
        with pytest.raises(TemporaryError, match="webhook 1"):
            rig.do(activities.signal_pusher_started, Notify(run=plan.run))
    problem = ("undelivered", "notice started: webhook 1 (127.0.0.1): it answers 500")
    assert deliveries(rig, plan) == [problem]
    assert [kept.kind for kept in rig.store.records.notices_of([plan.run.run_id])] == ["started"], "the API tells it"
    rig.environment.info = replace(rig.environment.info, attempt=3)
    assert rig.do(activities.signal_pusher_started, Notify(run=plan.run)).count == 1
    assert deliveries(rig, plan) == [problem, ("delivered", "notice started, at try 3")]
    assert len({each.headers["webhook-id"] for each in receiver.received}) == 1
    assert len(lines(rig.folder / "notices.jsonl")) == 1


def test_a_notice_that_nobody_will_ever_take_is_not_tried_again(rig: Rig, receiver: Receiver) -> None:
    plan = rig.started("sleepy")
    receiver.usual = Answer(410)
    sent = rig.do(told_by_webhook(rig, receiver).signal_pusher_finished, Notify(run=plan.run))
    assert sent.count == 0
    problem = "notice finished: webhook 1 (127.0.0.1): it answers 410: it wants no more notices"
    assert deliveries(rig, plan) == [("undelivered", problem)]


def test_progress_that_is_not_delivered_holds_nothing_up_and_fills_no_log(rig: Rig, receiver: Receiver) -> None:
    plan = rig.started("sleepy")
    receiver.usual = Answer(500)
    activities = told_by_webhook(rig, receiver)
    for number in (1, 2, 3):
        assert rig.do(activities.signal_pusher_progress, Notify(run=plan.run, number=number)).count == 0
    assert len(deliveries(rig, plan)) == 1
    assert len(receiver.received) == 3


def test_the_end_is_announced_and_the_files_are_archived_under_ids_that_stay(rig: Rig) -> None:
    plan = rig.started("sleepy")
    (rig.folder / "files" / plan.run.run_uid / "items.jsonl").write_text('{"title": "a book"}\n')
    signals = [rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run)) for _ in range(2)]
    archives = [rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run)) for _ in range(2)]
    assert signals[0] == signals[1]
    assert archives[0].location == archives[1].location == signals[0].supporting_files
    with zipfile.ZipFile(str(archives[0].location)) as archive:
        assert "files/items.jsonl" in archive.namelist()
    assert rig.details(plan).run.archived_bytes == Path(str(archives[0].location)).stat().st_size
    events = lines(rig.folder / "exports" / "events.jsonl")
    assert {event["event_id"] for event in events} == {signals[0].event_id, archives[0].event_id}
    records = rig.details(plan).exports
    assert [(record.kind, record.state) for record in records] == [
        ("run_ended", ExportState.DONE),
        ("files_ready", ExportState.DONE),
    ]


def test_why_an_export_failed_is_on_record_and_it_can_be_done_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rig.started("sleepy")

    def full(*_: object, **__: object) -> None:
        raise TemporaryError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.exports.archiver), "archive", full)
        with pytest.raises(TemporaryError):
            rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    (failed,) = rig.details(plan).exports
    assert (failed.state, failed.problem) == (ExportState.FAILED, "the disk is full")
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    (done,) = rig.details(plan).exports
    assert (done.event_id, done.state, done.problem) == (failed.event_id, ExportState.DONE, None)


def test_an_archive_that_is_made_is_not_made_again_because_its_event_was_not_taken(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rig.started("sleepy")
    (rig.folder / "files" / plan.run.run_uid / "items.jsonl").write_text("1")
    beats: list[object] = []
    rig.environment.on_heartbeat = lambda *details: beats.append(details[0])

    def away(*_: object) -> None:
        raise TemporaryError("the bus is away")

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.exports.announcer), "announce", away)
        with pytest.raises(TemporaryError, match="away"):
            rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    (failed,) = rig.details(plan).exports
    assert (failed.state, failed.problem) == (ExportState.FAILED, "the bus is away")
    made = Path(rig.exports.archiver.destination(plan.run.run_uid, 1))
    made.write_bytes(b"as it was")
    rig.environment.info = replace(rig.environment.info, heartbeat_details=[beats[-1]])
    exported = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    assert made.read_bytes() == b"as it was"
    (event,) = lines(rig.folder / "exports" / "events.jsonl")
    assert (event["files"], event["bytes"]) == (exported.files, exported.bytes)
    assert exported.files >= 1


def test_an_archive_that_could_not_be_announced_is_on_record_with_its_place(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rig.started("sleepy")
    (rig.folder / "files" / plan.run.run_uid / "items.jsonl").write_text("1")

    def away(*_: object) -> None:
        raise TemporaryError("the bus is away")

    monkeypatch.setattr(type(rig.exports.announcer), "announce", away)
    with pytest.raises(TemporaryError, match="away"):
        rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    (failed,) = rig.details(plan).exports
    made = rig.exports.archiver.destination(plan.run.run_uid, 1)
    assert (failed.state, failed.location, Path(made).exists()) == (ExportState.FAILED, made, True)


def test_a_run_that_is_exported_again_without_its_files_keeps_its_archive(rig: Rig) -> None:
    """They were cleaned up since then. The table and a second event under the same id said that there was none."""
    plan = rig.begin()  # without a job, which could make its log again after the files were removed
    files = rig.folder / "files" / plan.run.run_uid
    files.mkdir(parents=True)
    (files / "items.jsonl").write_text("1")
    first = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    shutil.rmtree(files)
    (rig.folder / "exports" / "events.jsonl").unlink()  # where an event is told once
    again = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    assert again == first
    assert first.files >= 1
    (record,) = rig.details(plan).exports
    assert (record.state, record.location) == (ExportState.DONE, first.location)
    (event,) = lines(rig.folder / "exports" / "events.jsonl")
    assert (event["files"], event["supporting_files"]) == (first.files, first.location)
    assert rig.details(plan).run.archived_bytes == event["size"] != 0


def test_a_run_that_left_nothing_is_an_export_of_nothing(rig: Rig) -> None:
    plan = rig.begin()
    exported = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    assert (exported.location, exported.files, rig.details(plan).run.archived_bytes) == (None, 0, 0)
    (record,) = rig.details(plan).exports
    assert (record.state, record.location) == (ExportState.DONE, None)


def test_a_run_whose_only_file_cannot_be_read_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The export was done, with no files, and neither event nor timeline told of the file."""
    plan = rig.begin()
    rig.tasks.cancel_queued(plan.run, "stopped")
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    folder = rig.folder / "files" / plan.run.run_uid
    folder.mkdir(parents=True)
    (folder / "items.jsonl").write_text("1")
    before = os.open

    def refusing(path: Any, *more: Any, **named: Any) -> int:
        if path == "items.jsonl":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return before(path, *more, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refusing)
        exported = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    (event,) = lines(rig.folder / "exports" / "events.jsonl")
    assert (event["files"], event["left_out"], event["supporting_files"]) == (0, 1, exported.location)
    assert event["size"] == Path(str(exported.location)).stat().st_size
    details = rig.details(plan)
    (line,) = [line for line in details.log if line.event == "left_out"]
    assert line.message.startswith("1 file left out of the archive: items.jsonl (not readable);")
    assert [(export.state, export.location) for export in details.exports] == [(ExportState.DONE, exported.location)]
    assert line.message in "\n".join(details_lines(details, datetime.now(UTC)))


def test_a_folder_that_cannot_be_read_any_more_keeps_its_archive(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rig.begin()
    folder = rig.folder / "files" / plan.run.run_uid
    folder.mkdir(parents=True)
    (folder / "items.jsonl").write_text("1")
    first = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    before = os.open

    def refusing(path: Any, *more: Any, **named: Any) -> int:
        if path == folder:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return before(path, *more, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refusing)
        again = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    assert again == first
    with zipfile.ZipFile(str(again.location)) as archive:
        assert "files/items.jsonl" in archive.namelist()


def test_what_is_left_out_of_an_archive_is_told_with_the_run(rig: Rig) -> None:
    """Only manifest.json said so, inside the archive. (W7)"""
    plan = rig.started("sleepy")
    folder = rig.folder / "files" / plan.run.run_uid
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "item").write_text("x")
    for number in range(7):
        (folder / f"link{number}").symlink_to("item")
    rig.tasks.cancel_queued(plan.run, "stopped")
    version = rig.tasks.rows(plan.run.run_id, [0])[0].version
    rig.tasks.sync(plan.run, [TaskChange(task=0, attempt=1, version=version, status=TaskStatus.STOPPED)])
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    for _ in range(2):
        rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run, end=1))
    (told,) = [line for line in rig.details(plan).log if line.event == "left_out"]
    assert told.message.startswith("7 files left out of the archive: link0 (link), link1 (link), ")
    assert told.message.endswith("link4 (link) and 2 more; its manifest.json lists all")
