"""Does an audit read the runs that it has to, in pages, and no other installation's?"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportState, Report, RunStatus
from tests.kit.data.databases import MakeRun, give_away, ref_to
from tests.kit.data.exports import event_of

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def ended(database: Database, run: RunRecord) -> RunRecord:
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    return SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")


def test_open_runs_in_pages(database: Database, make_run: MakeRun) -> None:
    runs, port = [make_run() for _ in range(5)], SqlStore(database).records
    ended(database, runs[1])
    ids = [run.run_id for run in runs if run is not runs[1]]
    first, rest = port.open_runs(0, 3)
    assert ([run.run_id for run in first], rest) == (ids[:3], ids[2])
    last, rest = port.open_runs(ids[2], 3)
    assert ([run.run_id for run in last], rest) == (ids[3:], None)
    seen, made = first[0], runs[0]
    assert (seen.run_uid, seen.workflow_id, seen.epoch) == (made.run_uid, made.workflow_id, 1)
    assert seen.begun_at == made.begun_at


def test_runs_as_they_are_now(database: Database, make_run: MakeRun) -> None:
    run, port = ended(database, make_run()), SqlStore(database).records
    seen = port.audited_by_id([run.run_id, run.run_id + 1])
    assert seen == port.audited_by_id([run.run_id])
    assert seen[run.run_id].finished_at == run.finished_at
    assert port.audited_by_uid([run.run_uid, "another"]) == {run.run_uid: seen[run.run_id]}
    assert port.audited_by_id([]) == {}


def test_of_another_installation_nothing_is_read(database: Database, database_url: str, make_run: MakeRun) -> None:
    open_one, over = make_run(), ended(database, make_run())
    give_away(database_url)
    port = SqlStore(database).records
    assert port.open_runs(0, 10) == ([], None)
    assert port.audited_by_uid([open_one.run_uid]) == {}
    assert port.owed_deliveries(0, 10, LONG_AGO) == ([], None)
    assert over.export_state is ExportState.PENDING


def test_the_last_attempts_that_are_known(database: Database, make_run: MakeRun) -> None:
    run, other, port = make_run(3), make_run(), SqlStore(database).records
    assert port.attempts(run.run_id, [0, 7]) == {0: 1}
    assert port.attempts(run.run_id, []) == {}
    assert port.attempts(other.run_id + 1, [0]) == {}


def test_claims_that_ran_out(database: Database, make_run: MakeRun) -> None:
    late, fresh, port, claims = make_run(3), make_run(), SqlStore(database).records, SqlStore(database).claims
    claims.claim_main(ref_to(late), "gone", timedelta(seconds=-300))
    claims.claim_main(ref_to(fresh), "busy", timedelta(seconds=300))
    before = datetime.now(UTC) - timedelta(seconds=60)
    found = port.expired_claims([late.run_id, fresh.run_id], before)
    assert {run_id: list(claim.tasks) for run_id, claim in found.items()} == {late.run_id: [0]}
    assert found[late.run_id].since < before
    assert port.expired_claims([fresh.run_id], before) == {}


def exported(database: Database, run: RunRecord) -> RunRecord:
    exports = SqlStore(database).runs
    for event in (event_of(run), event_of(run)):
        exports.open_export(ref_to(run), event)
        exports.settle_export(ref_to(run), event.event_id, ExportState.DONE, None, None)
    return run


def told(database: Database, run: RunRecord, *notices: tuple[str, int]) -> None:
    """Kept, each with the number of the end that it is about."""
    names = ("run_id", "run_uid", "crawler", "status", "reason", "tasks", "outcome", "stats", "result")
    of = {name: getattr(run, name) for name in names}
    for kind, end in notices:
        identity = {"notice_id": event_id(run.run_uid, kind, end), "kind": kind, "at": LONG_AGO}
        identity |= {"final": kind != "started", "explanation": None}
        SqlStore(database).runs.keep_notice(ref_to(run), Notice.model_validate(of | identity))


def again(database: Database, run: RunRecord) -> None:
    """It was reopened, and has ended once more."""
    with database.transaction() as connection:
        connection.execute(update(histories).where(histories.c.id == run.run_id).values(end_number=2))


def test_ends_that_nobody_tried_to_tell(database: Database, make_run: MakeRun) -> None:
    port = SqlStore(database).records
    delivered, silent, of_before, told_since = (exported(database, ended(database, make_run())) for _ in range(4))
    again(database, told_since)  # its first end is one of before
    told(database, of_before)
    told(database, delivered, ("started", 1), ("stopped", 1))
    told(database, silent, ("started", 1))
    told(database, told_since, ("started", 2), ("stopped", 2))
    page, _ = port.owed_deliveries(0, 10, LONG_AGO)
    assert [(each.run.run_id, each.is_untried) for each in page] == [(silent.run_id, True)]
    assert port.owed_deliveries(silent.run_id, 10, LONG_AGO) == ([], None)
    assert port.owed_deliveries(0, 10, datetime.now(UTC) + timedelta(hours=1)) == ([], None)
    of_each = [port.deliveries(run.run_id) for run in (delivered, silent, of_before, told_since)]
    assert [each and each.is_untried for each in of_each] == [False, True, False, False]


def test_an_end_is_owed_a_notice_by_the_report_of_its_run(database: Database, make_run: MakeRun) -> None:
    """Only a run that reports all has told its start, and so shows that notices were stored when it ended."""
    port = SqlStore(database).records
    end, none = (exported(database, ended(database, make_run(report=report))) for report in (Report.END, Report.NONE))
    delivered = exported(database, ended(database, make_run(report=Report.END)))
    told(database, delivered, ("stopped", 1))
    misleading = {"report": "end", '"report":"end"': '"report":"end"'}
    of_all = exported(database, ended(database, make_run(arguments=misleading)))
    page, _ = port.owed_deliveries(0, 10, LONG_AGO)
    assert [(item.run.run_id, item.is_untried) for item in page] == [(end.run_id, True)]
    deliveries = [port.deliveries(run.run_id) for run in (end, none, delivered, of_all)]
    assert [item and item.is_untried for item in deliveries] == [True, False, False, False]


def test_of_a_run_that_is_not_over_nothing_is_to_be_handed_over(
    database: Database, database_url: str, make_run: MakeRun
) -> None:
    port, over = SqlStore(database).records, ended(database, make_run())
    assert port.deliveries(make_run().run_id) is None
    found = port.deliveries(over.run_id)
    assert found
    assert found.run == port.audited_by_id([over.run_id])[over.run_id]
    give_away(database_url)
    assert port.deliveries(over.run_id) is None


def test_each_end_of_a_run_is_told_by_its_own_notice(database: Database, make_run: MakeRun) -> None:
    """They were counted: an end that was told more than once, or never started, stood in for the one after it; and one
    that nobody told was held against one that was delivered."""
    port, runs = SqlStore(database).records, [exported(database, ended(database, make_run())) for _ in range(4)]
    for run in runs:
        again(database, run)
    never_started, told_twice, not_told_before, other_kind = runs
    told(database, never_started, ("finished", 1), ("started", 2))
    told(database, told_twice, ("started", 1), ("stopped", 1), ("finished", 1), ("started", 2))
    told(database, not_told_before, ("started", 1), ("started", 2), ("stopped", 2))
    told(database, other_kind, ("started", 1), ("stopped", 1), ("started", 2), ("finished", 2))
    page, _ = port.owed_deliveries(0, 10, LONG_AGO)
    assert [each.run.run_id for each in page if each.is_untried] == [never_started.run_id, told_twice.run_id]
    assert len(page) == 2, "of the others nothing is left"


def test_what_is_left_to_hand_over(database: Database, make_run: MakeRun) -> None:
    histories, exports, port = SqlStore(database).runs, SqlStore(database).runs, SqlStore(database).records
    make_run()
    pending, failed, done, silent = (ended(database, make_run()) for _ in range(4))
    for run, state in ((failed, ExportState.FAILED), (done, ExportState.DONE), (silent, ExportState.DONE)):
        for event in (event_of(run), event_of(run)):
            exports.open_export(ref_to(run), event)
            exports.settle_export(ref_to(run), event.event_id, state, None, "no space")
    histories.note(ref_to(silent), "undelivered:stopped:1", "undelivered", "nobody there")
    page, rest = port.owed_deliveries(0, 10, LONG_AGO)
    assert rest is None
    assert [each.run.run_id for each in page] == [pending.run_id, failed.run_id, silent.run_id]
    assert [each.export_failed_at is None for each in page] == [True, False, True]
    assert page[2].notice_keys == {event_id(silent.run_uid, "log:undelivered:stopped:1")}
    assert histories.has_note(ref_to(silent), "undelivered:stopped:1")
    assert not histories.has_note(ref_to(silent), "delivered:stopped:1")
    first, rest = port.owed_deliveries(0, 2, LONG_AGO)
    assert ([each.run.run_id for each in first], rest) == ([pending.run_id, failed.run_id], failed.run_id)
    assert [each.run.run_id for each in port.owed_deliveries(failed.run_id, 2, LONG_AGO)[0]] == [silent.run_id]
    late = datetime.now(UTC) + timedelta(hours=1)
    assert silent.run_id not in [each.run.run_id for each in port.owed_deliveries(0, 10, late)[0]]
