"""Notices are kept with their runs, so that everybody who can read the database can tell them on."""

from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Fenced
from crawler_lifecycle.model.notices import Notice, NoticeKind
from crawler_lifecycle.model.records import RunRecord
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.outside.messages import a_notice

NOON = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)


def of(run: RunRecord, notice_id: str, kind: NoticeKind, minutes: int = 0) -> Notice:
    at = NOON + timedelta(minutes=minutes)
    told = {"run_id": run.run_id, "run_uid": run.run_uid, "kind": kind, "at": at, "crawler": "🕷" * 128}
    return a_notice(notice_id).model_copy(update=told)


def test_they_come_in_the_order_of_their_times_each_once(database: Database, make_run: MakeRun) -> None:
    one, other, third = make_run(), make_run(), make_run()
    store = SqlStore(database)
    notices, records = store.runs, store.records
    start, end = of(one, "s", NoticeKind.STARTED, 1), of(one, "f", NoticeKind.FINISHED, 9)
    others = of(other, "x", NoticeKind.STOPPED, 5)
    for notice, run in ((end, one), (others, other), (start, one), (start, one)):
        notices.keep_notice(ref_to(run), notice)
    SqlStore(database).runs.set_property(ref_to(one), "notices", "something else")
    assert records.notices_of([one.run_id, other.run_id, third.run_id]) == [start, others, end]
    assert records.notices_of([third.run_id]) == records.notices_of([]) == []


def test_what_was_told_under_an_id_stays(database: Database, make_run: MakeRun) -> None:
    run, store = make_run(), SqlStore(database)
    notices, records = store.runs, store.records
    first, again = of(run, "s", NoticeKind.STARTED, 1), of(run, "s", NoticeKind.STARTED, 2)
    assert notices.keep_notice(ref_to(run), first) == first
    assert notices.keep_notice(ref_to(run), again) == first
    assert records.notices_of([run.run_id]) == [first]


def test_of_progress_the_last_one(database: Database, make_run: MakeRun) -> None:
    run, store = make_run(), SqlStore(database)
    notices, records = store.runs, store.records
    for number in range(3):
        notices.keep_notice(ref_to(run), of(run, f"p{number}", NoticeKind.PROGRESS, number))
    assert [notice.notice_id for notice in records.notices_of([run.run_id])] == ["p2"]


def test_a_run_of_which_a_notice_is_kept_has_changed(database: Database, make_run: MakeRun) -> None:
    run = make_run()
    SqlStore(database).runs.keep_notice(ref_to(run), of(run, "s", NoticeKind.STARTED))
    assert SqlStore(database).records.details(run.run_id).run.changed_at > run.changed_at


def test_a_supervisor_that_was_replaced_tells_nothing(database: Database, make_run: MakeRun) -> None:
    run, store = make_run(), SqlStore(database)
    notices, records = store.runs, store.records
    with pytest.raises(Fenced):
        notices.keep_notice(ref_to(run).model_copy(update={"epoch": 7}), of(run, "s", NoticeKind.STARTED))
    assert records.notices_of([run.run_id]) == []
