"""Does a live view learn of everything that is written of a run or of its tasks, by whomever?"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.model.deployment import Deployment
from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.records import RunRecord, TaskOrder
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import ExportKind, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange, TaskEvidence
from crawler_lifecycle.runs.ports import Claim, SupervisorExecution
from tests.kit.data.databases import MakeRun, ref_to

MINUTE, MICROSECOND = timedelta(minutes=1), timedelta(microseconds=1)
Write = Callable[[Database, RunRecord], object]


def _claim(database: Database, run: RunRecord) -> Claim:
    claims = SqlStore(database).claims
    claim = claims.claim_main(ref_to(run), "t", MINUTE) or claims.claim_tasks("t", MINUTE, 1)[0]
    assert isinstance(claim, Claim)
    return claim


def _deployed(database: Database, run: RunRecord) -> None:
    claim = _claim(database, run)
    job = Deployment(key=claim.request.key, job_name="job", job_uid="uid", created=True)
    SqlStore(database).claims.deployed(claim, job)


def _ended(database: Database, run: RunRecord) -> None:
    change = TaskChange(task=0, attempt=1, version=1, status=TaskStatus.SUCCEEDED, reason="completed")
    assert SqlStore(database).tasks.sync(ref_to(run), [change]) == 1


def _event(run: RunRecord) -> ExportEvent:
    return ExportEvent(
        event_id="e", kind=ExportKind.RUN_ENDED, run_id=run.run_id, run_uid=run.run_uid, crawler=run.crawler,
        status=RunStatus.COMPLETED, reason=None, tasks={}, supporting_files="f", at=datetime.now(UTC),
    )  # fmt: skip


WRITES: dict[str, Write] = {
    "started": lambda db, run: SqlStore(db).runs.mark_started(ref_to(run)),
    "waiting": lambda db, run: SqlStore(db).runs.mark_waiting(ref_to(run), "capacity", "full"),
    "look": lambda db, run: SqlStore(db).runs.mark_look(ref_to(run), 0, True, None, None),
    "stop": lambda db, run: SqlStore(db).runs.request_stop(run.run_id, StopRequest(), datetime.now(UTC)),
    "stop phase": lambda db, run: SqlStore(db).runs.note_stop_phase(ref_to(run), StopPhase.PROVED, "proved"),
    "queue cleared": lambda db, run: SqlStore(db).tasks.cancel_queued(ref_to(run), "stopped"),
    "taken over": lambda db, run: SqlStore(db).runs.take_over(run.run_id, SupervisorExecution(run.workflow_id, "next")),
    "claimed": _claim,
    "deployed": _deployed,
    "not deployed": lambda db, run: SqlStore(db).claims.failed(_claim(db, run), "down", "no answer", refused=False),
    "task ended": _ended,
    "evidence": lambda db, run: SqlStore(db).tasks.reconcile(
        ref_to(run), [TaskEvidence(task=0, attempt=1, message="m")]
    ),
    "exported": lambda db, run: SqlStore(db).runs.open_export(ref_to(run), _event(run)),
}


@pytest.mark.parametrize("micros", [0, 123456, 999999])
def test_what_is_written_later_has_changed_later_whatever_the_clock_says(
    database: Database, make_run: MakeRun, micros: int
) -> None:
    """By the clock of another machine, or after a wait for the row, a newer state looked older, and nobody drew it."""
    run = make_run(1)
    ahead = (datetime.now(UTC) + timedelta(hours=1)).replace(second=59, microsecond=micros)
    moments = [ahead]
    with database.transaction() as connection:
        connection.execute(update(histories).where(histories.c.id == run.run_id).values(changed_at=ahead))
    for _ in range(3):
        SqlStore(database).runs.mark_look(ref_to(run), 0, True, None, None)
        moments.append(SqlStore(database).records.changed_since(None, 1)[0].changed_at)
    assert moments == [ahead + number * MICROSECOND for number in range(4)]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_is_a_change(database: Database, make_run: MakeRun, write: Write) -> None:
    run, other = make_run(2), make_run(2)
    changes = SqlStore(database).records
    write(database, run)
    last = changes.changed_since(None, 10)
    assert [each.run_id for each in last] == [run.run_id, other.run_id]
    assert last[0].changed_at > last[1].changed_at
    assert changes.latest_change() == last[0].changed_at
    assert changes.changed_since(last[0].changed_at, 10) == last[:1]
    assert SqlStore(database).records.overview(run.run_id).run.changed_at == last[0].changed_at


def test_what_is_said_again_is_no_change(database: Database, make_run: MakeRun) -> None:
    run, store, changes = make_run(3), SqlStore(database), SqlStore(database).records
    store.limits.pause("installation", "a test", None)
    store.claims.claim_main(ref_to(run), "t", MINUTE)
    before = changes.latest_change()
    assert store.records.overview(run.run_id).run.waiting_cause == "paused"
    assert store.claims.claim_tasks("d", MINUTE, 5) == []
    assert changes.latest_change() == before


def test_the_last_ones_come_first_and_no_more_than_asked_for(database: Database, make_run: MakeRun) -> None:
    changes = SqlStore(database).records
    assert changes.latest_change() is None
    assert changes.changed_since(None, 5) == []
    made = [make_run().run_id for _ in range(3)]
    assert [each.run_id for each in changes.changed_since(None, 2)] == made[:0:-1]
    assert [run.run_id for run in changes.summaries(made[1:])] == made[1:]


def test_tasks_come_by_number_and_by_status(database: Database, make_run: MakeRun) -> None:
    run, records = make_run(5), SqlStore(database).records
    _claim(database, run)
    assert [row.task for row in records.tasks(run.run_id, first=1, limit=2)] == [1, 2]
    waiting = records.tasks(run.run_id, first=0, limit=9, status=TaskStatus.QUEUED)
    assert [row.task for row in waiting] == [1, 2, 3, 4]
    assert records.latest_of(run.workflow_id) == SqlStore(database).records.overview(run.run_id).run
    assert records.latest_of("another") is None


def test_tasks_are_sorted_over_all_pages(database: Database, make_run: MakeRun) -> None:
    run, records = make_run(6), SqlStore(database).records
    ends = {1: (3, 40.0), 2: (0, 7.5), 3: (137, 7.51), 4: (None, None)}  # exit code, seconds
    begun = datetime.now(UTC) - timedelta(hours=1)
    for number, (exit_code, seconds) in ends.items():
        values: dict[str, object] = {"status": TaskStatus.FAILED if exit_code else TaskStatus.SUCCEEDED}
        if seconds is not None:
            values |= {"exit_code": exit_code, "started_at": begun, "finished_at": begun + timedelta(seconds=seconds)}
        _write_task(database, run, number, values)
    _write_task(database, run, 5, {"status": TaskStatus.RUNNING, "started_at": begun})  # an hour until now

    def numbers(order: str) -> list[int]:
        pages = [records.tasks(run.run_id, first=first, limit=2, order=TaskOrder(order)) for first in (0, 2, 4, 6)]
        return [row.task for page in pages for row in page]

    assert numbers("duration") == [2, 3, 1, 5, 0, 4]
    assert numbers("-duration") == [5, 1, 3, 2, 0, 4]
    assert numbers("exit_code") == [2, 1, 3, 0, 4, 5]
    assert numbers("-exit_code") == [3, 1, 2, 0, 4, 5]
    assert numbers("status") == [0, 5, 2, 4, 1, 3]
    assert numbers("-status") == [1, 3, 2, 4, 5, 0]
    assert numbers("-task") == [5, 4, 3, 2, 1, 0]
    failed = records.tasks(run.run_id, first=1, limit=9, status=TaskStatus.FAILED, order=TaskOrder.EXIT_CODE_DOWN)
    assert [row.task for row in failed] == [1]


def _write_task(database: Database, run: RunRecord, number: int, values: dict[str, object]) -> None:
    with database.transaction() as connection:
        connection.execute(update(task_histories).filter_by(history_id=run.run_id, task=number).values(values))
