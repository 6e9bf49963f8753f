"""Sums for limits: a start and a pass cost the same beside many runs, and no end waits for a start."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import Connection, func, insert, select

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.pages import ROWS_IN_A_PAGE
from crawler_lifecycle.database.schema import histories, scope_changes, scope_sums
from crawler_lifecycle.limits.rules import AdmissionPlan, Hold, Use
from crawler_lifecycle.limits.store import uses
from crawler_lifecycle.limits.store.admission import limits_under_lock, lock_admission, situation
from crawler_lifecycle.limits.store.holds import hold_runs, write_holds
from crawler_lifecycle.model.deployment import Crawler, Deployment
from crawler_lifecycle.model.limits import INSTALLATION
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import Claim, SupervisorExecution
from tests.kit.data.databases import MakeRun, copy_run, maker_of_runs, ref_to
from tests.kit.data.statements import counted

MINUTE = timedelta(minutes=1)
SITE = "label:site:a"
SCOPES = (INSTALLATION, SITE, "label:nowhere", "crawler:books", "crawler:books ", "crawler:toys", "crawler:toys ")
FEW, MANY = 100, 3_000  # open runs
MOST_STATEMENTS_OF_A_START, MOST_STATEMENTS_OF_A_PASS = 12, 30
MOST_ROWS = 500  # read by a start or a pass
PATIENCE = 5.0  # seconds; a wait for a lock takes longer
ONE_PLACE = Use(runs=1, tasks=1, mains=1, places=1)


@pytest.fixture
def store(database: Database) -> SqlStore:
    return SqlStore(database)


def begin(store: SqlStore, run: RunRecord) -> None:
    """Start the run's main job."""
    claim = store.claims.claim_main(ref_to(run), f"supervisor:{run.run_id}", MINUTE)
    assert isinstance(claim, Claim), claim
    key = claim.request.key
    store.claims.deployed(claim, Deployment(key=key, job_name="job", job_uid=key, created=True))
    store.runs.mark_started(ref_to(run))


def end(store: SqlStore, run: RunRecord, *, failed: bool = False) -> None:
    (row,) = store.tasks.rows(run.run_id, [0])
    over = TaskStatus.FAILED if failed else TaskStatus.SUCCEEDED
    change = TaskChange(task=0, attempt=row.attempt, version=row.version, status=over, job_uid=row.job_uid)
    store.tasks.sync(ref_to(run), [change])
    store.runs.close(ref_to(run), RunStatus.FAILED if failed else RunStatus.COMPLETED, "a test")


def used(database: Database) -> dict[str, Use]:
    with database.read() as connection:
        return {scope: use for scope, use in uses.uses(connection, SCOPES).items() if use != Use()}


def stored_changes(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(scope_changes)) or 0


def append(connection: Connection, number: int, scope: str = INSTALLATION) -> None:
    change = {"scope": scope, **dict.fromkeys(uses.FIGURES, 1)}
    connection.execute(insert(scope_changes), [change] * number)


def test_scopes_count_a_run_until_its_end(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    """MySQL takes the names `books` and `books ` for the same text."""
    first = make_run(labels=["site:a"])
    second = make_run(entry=Crawler(name="books ", command=["true"]))
    begin(store, first)
    begin(store, second)
    alone, both = ONE_PLACE, ONE_PLACE.plus(ONE_PLACE)
    assert used(database) == {INSTALLATION: both, SITE: alone, "crawler:books": alone, "crawler:books ": alone}
    end(store, second)
    assert used(database) == dict.fromkeys((INSTALLATION, SITE, "crawler:books"), alone)
    end(store, first)
    assert (used(database), store.limits.miscounted()) == ({}, {})


def test_a_scope_counts_the_runs_that_it_holds(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    store.limits.pause(SITE, "a test", None)
    stopped, started, waiting = (make_run(labels=["site:a"]) for _ in range(3))
    for run in (stopped, started, waiting):
        assert isinstance(store.claims.claim_main(ref_to(run), "supervisor", MINUTE), Hold)
    assert used(database) == {SITE: Use(held=3)}
    store.limits.pause(INSTALLATION, "a test", None)
    store.claims.claim_tasks("dispatcher", MINUTE, 8)
    assert used(database) == {INSTALLATION: Use(held=3)}
    store.runs.request_stop(stopped.run_id, StopRequest(), stopped.created_at)
    store.runs.mark_started(ref_to(started))  # its job was made before a backup
    with database.transaction() as connection:
        hold_runs(connection, [stopped.run_id, waiting.run_id], Hold(PAUSED, SITE, "a test"), database.clock())
    assert (used(database), store.limits.miscounted()) == ({SITE: Use(held=1)}, {})


def test_a_run_that_has_left_the_line_gets_no_hold(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    """A pass has read the run before its end."""
    run = make_run()
    end(store, run, failed=True)
    with database.transaction() as connection:
        hold_runs(connection, [run.run_id], Hold(PAUSED, INSTALLATION, "a test"), database.clock())
    assert (store.runs.get(run.run_id).held_by, used(database)) == (None, {})


@pytest.mark.regression("A run that was reopened during a pass got a hold that no sum counted")
def test_a_run_that_is_reopened_during_a_pass_gets_no_hold(wide_mariadb: Database) -> None:
    store, run = SqlStore(wide_mariadb), maker_of_runs(wide_mariadb)()
    begin(store, run)
    with wide_mariadb.transaction() as a_pass:
        now = wide_mariadb.clock()
        present = situation(a_pass, limits_under_lock(a_pass, 1), now, [run.run_id])
        end(store, run, failed=True)
        store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "again", now))
        hold = Hold(ADMISSION, INSTALLATION, "a test")
        write_holds(a_pass, present, AdmissionPlan(holds={run.run_id: hold}), now)
    assert (used(wide_mariadb), store.limits.miscounted()) == ({}, {})


@pytest.mark.regression("The hold of a thousand runs kept all runs of a small database from their stops")
def test_the_hold_of_many_runs_locks_no_other_run(wide_mariadb: Database) -> None:
    store, first = SqlStore(wide_mariadb), maker_of_runs(wide_mariadb)()
    copy_run(wide_mariadb, first.run_id, 2 * ROWS_IN_A_PAGE)
    with wide_mariadb.transaction() as a_pass, ThreadPoolExecutor(1) as pool:
        run_ids = a_pass.scalars(select(histories.c.id).order_by(histories.c.id)).all()
        hold_runs(a_pass, run_ids[:ROWS_IN_A_PAGE], Hold(PAUSED, INSTALLATION, "a test"), wide_mariadb.clock())
        stop = pool.submit(store.runs.request_stop, run_ids[-1], StopRequest(), first.created_at)
        stop.result(timeout=PATIENCE)


def test_many_changes_are_folded(
    store: SqlStore, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "MOST_CHANGES", 1)
    names = ("books", "books ", "toys", "toys ")
    runs = [make_run(entry=Crawler(name=name, command=["true"]), labels=["site:a"]) for name in names]
    for run in runs:
        begin(store, run)
    before = used(database)
    assert store.claims.claim_tasks("dispatcher", MINUTE, 8) == []  # a pass with nothing to deploy
    assert (stored_changes(database), used(database), store.limits.miscounted()) == (0, before, {})
    for run in runs:
        end(store, run)
    store.claims.claim_tasks("dispatcher", MINUTE, 8)
    with database.read() as connection:
        sums = connection.execute(select(scope_sums.c.scope)).all()
    assert (stored_changes(database), sums) == (0, []), "a scope without use leaves no row"


def test_a_wrong_sum_is_found_and_corrected(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    begin(store, make_run(labels=["site:a"]))
    with database.transaction() as connection:
        append(connection, 1, "label:nowhere")
        append(connection, 2, SITE)
    all_figures = Use(*[1] * len(uses.FIGURES))
    missing = {"label:nowhere": Use().plus(all_figures, -1), SITE: Use().plus(all_figures, -2)}
    assert store.limits.miscounted() == missing
    store.limits.correct_sums()
    store.limits.correct_sums()
    assert store.limits.miscounted() == {}


def start_and_pass(store: SqlStore, make_run: MakeRun, cost: Callable[[Callable[[], object]], int]) -> tuple[int, int]:
    """Return the costs for a start, and for a pass with a child task and a run from the line."""
    begun, starting, waiting = make_run(3, max_parallel=2), make_run(), make_run()
    begin(store, begun)
    store.limits.pause(INSTALLATION, "a test", None)
    store.claims.claim_main(ref_to(waiting), "supervisor", MINUTE)
    store.limits.resume(INSTALLATION, None)
    start = cost(lambda: begin_one(store, starting))
    claims = list[Claim]()
    pass_on = cost(lambda: claims.extend(store.claims.claim_tasks("dispatcher", MINUTE, 8)))
    assert [(claim.run_id, claim.task) for claim in claims] == [(begun.run_id, 1), (waiting.run_id, 0)]
    for run in (begun, starting, waiting):
        store.runs.request_stop(run.run_id, StopRequest(), store.runs.get(run.run_id).created_at)
    return start, pass_on


def begin_one(store: SqlStore, run: RunRecord) -> None:
    assert isinstance(store.claims.claim_main(ref_to(run), "supervisor", MINUTE), Claim)


def make_open_runs(database: Database, model: RunRecord, number: int) -> None:
    copy_run(database, model.run_id, number)
    SqlStore(database).limits.correct_sums()


def statements(database: Database, act: Callable[[], object]) -> int:
    with counted(database) as statements_sent:
        act()
    return len(statements_sent)


def test_starts_and_passes_send_few_statements_beside_many_runs(
    store: SqlStore, database: Database, make_run: MakeRun
) -> None:
    store.limits.change(INSTALLATION, {"tasks": 10_000}, None)
    begin(store, model := make_run())
    for more in (0, FEW):
        make_open_runs(database, model, more)
        start, pass_on = start_and_pass(store, make_run, partial(statements, database))
        assert start <= MOST_STATEMENTS_OF_A_START
        assert pass_on <= MOST_STATEMENTS_OF_A_PASS


def test_a_start_after_a_wait_sends_no_more_statements(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    waited, other = make_run(), make_run()
    store.limits.pause(INSTALLATION, "a test", None)
    assert isinstance(store.claims.claim_main(ref_to(waited), "supervisor", MINUTE), Hold)
    store.limits.resume(INSTALLATION, None)
    for run in (waited, other):
        begin_one(store, run)
    after_a_wait, at_once = (
        statements(database, partial(store.runs.mark_started, ref_to(run))) for run in (waited, other)
    )
    assert after_a_wait == at_once


def rows_read(database: Database, act: Callable[[], object]) -> int:
    """The database has a single connection, whose session counts."""

    def total() -> int:
        with database.read() as connection:
            status = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler_read%%'").all()
            return sum(int(row.Value) for row in status)

    before, question = total(), total()  # the question reads rows, too
    act()
    return total() - question - (question - before)


@pytest.mark.long
def test_starts_and_passes_read_few_rows_beside_many_runs(wide_mariadb: Database, mariadb_url: str) -> None:
    make_run = maker_of_runs(wide_mariadb)
    SqlStore(wide_mariadb).limits.change(INSTALLATION, {"tasks": 100_000}, None)
    begin(SqlStore(wide_mariadb), model := make_run())
    with closing(Database(mariadb_url, pool_size=1)) as alone:
        for size in (FEW, MANY):
            make_open_runs(wide_mariadb, model, size)
            with wide_mariadb.transaction() as connection:
                connection.exec_driver_sql("ANALYZE TABLE histories, task_histories, scope_changes, scope_sums").all()
            costs = start_and_pass(SqlStore(alone), make_run, partial(rows_read, alone))
            assert max(costs) <= MOST_ROWS, (size, costs)
            assert rows_read(alone, SqlStore(alone).limits.all) <= MOST_ROWS


def test_ends_and_admissions_wait_for_no_change(wide_mariadb: Database) -> None:
    """A start in progress has folded and holds its lock; ends in progress have appended their changes."""
    store, make_run = SqlStore(wide_mariadb), maker_of_runs(wide_mariadb)
    ending, starting = make_run(), make_run()
    begin(store, ending)
    with wide_mariadb.transaction() as end_in_progress:
        append(end_in_progress, 1)
        with wide_mariadb.transaction() as connection:
            append(connection, uses.MOST_CHANGES + 1)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(begin, store, starting).result(timeout=PATIENCE)
        assert stored_changes(wide_mariadb) < uses.MOST_CHANGES
    with wide_mariadb.transaction() as connection:
        append(connection, uses.MOST_CHANGES + 1)
    with wide_mariadb.transaction() as start_in_progress:
        lock_admission(start_in_progress)
        uses.fold(start_in_progress)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(end, store, ending).result(timeout=PATIENCE)
