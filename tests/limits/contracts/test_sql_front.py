"""A pass reads the front of the line only, and decides as a pass over the whole line."""

from collections import Counter
from datetime import timedelta
from functools import partial
from random import Random

import pytest
from sqlalchemy import Connection, select

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.limits.rules import AdmissionPlan, obstacle_in_turn, plan, total_use
from crawler_lifecycle.limits.store.admission import MOST_TASKS, Situation, limits_on_record, situation
from crawler_lifecycle.limits.store.holds import obstacle_for, runs_of_a_pass
from crawler_lifecycle.model.deployment import Crawler, Deployment
from crawler_lifecycle.model.limits import INSTALLATION
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import Claim
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.data.statements import plan_of

MINUTE = timedelta(minutes=1)
BOOKS, SITE = "crawler:books", "label:site:a"
RUNS = 18


@pytest.fixture
def store(database: Database) -> SqlStore:
    return SqlStore(database)


def ask_for_permits(store: SqlStore, runs: list[RunRecord]) -> list[RunRef]:
    """Let all runs ask, oldest first. Return the runs with a permit."""
    begun = []
    for run in map(ref_to, runs):
        claim = store.claims.claim_main(run, f"supervisor:{run.epoch}", MINUTE)
        if isinstance(claim, Claim):
            key = claim.request.key
            store.claims.deployed(claim, Deployment(key=key, job_name="job", job_uid=key, created=True))
            begun.append(run)
    return begun


def end(store: SqlStore, run: RunRef) -> None:
    (row,) = store.tasks.rows(run.run_id, [0])
    over = TaskStatus.SUCCEEDED
    store.tasks.sync(run, [TaskChange(task=0, attempt=1, version=row.version, status=over, job_uid=row.job_uid)])
    store.runs.close(run, RunStatus.COMPLETED, "a test")


def whole(database: Database, connection: Connection) -> Situation:
    """All open runs."""
    limits = limits_on_record(connection, MOST_TASKS)
    return situation(connection, limits, database.clock(), connection.scalars(select(histories.c.id)))


def plan_for_all(database: Database, most: int) -> AdmissionPlan:
    with database.read() as connection:
        present = whole(database, connection)
        return plan(present.runs, present.limits, most, total_use(present.runs))


def read_runs(database: Database, most: int) -> set[int]:
    with database.read() as connection:
        limits = limits_on_record(connection, MOST_TASKS)
        return runs_of_a_pass(connection, limits, most, database.clock())


def holds(database: Database) -> dict[int, tuple[str | None, str | None]]:
    run = histories.c
    with database.read() as connection:
        rows = connection.execute(select(run.id, run.held_by, run.waiting_cause).where(run.admitted_at.is_(None)))
        return {row.id: (row.held_by, row.waiting_cause) for row in rows}


def make_line(make_run: MakeRun, random: Random) -> list[RunRecord]:
    return [
        make_run(
            random.choice([1, 1, 3]),
            entry=Crawler(name=random.choice(["books", "toys", "maps"]), command=["true"]),
            labels=random.choice([[], [], ["site:a"], ["site:b"]]),
            priority=random.choice([0, 0, 0, 5]),
        )
        for _ in range(RUNS)
    ]


def make_room(store: SqlStore, make_run: MakeRun, random: Random) -> None:
    """Make a line under random limits, and let some runs at its head end."""
    store.limits.change(INSTALLATION, {"tasks": random.randint(3, 6)}, None)
    store.limits.change(BOOKS, random.choice([{"runs": 1}, {"runs": 2}, {"tasks": 2}, {"tasks": 3}]), None)
    store.limits.change(SITE, random.choice([{"runs": 1}, {"tasks": 2}]), None)
    line = make_line(make_run, random)
    of_one_task = {run.run_id for run in line if sum(run.tasks.values()) == 1}
    for run in ask_for_permits(store, line):
        if run.run_id in of_one_task and random.random() < 0.7:
            end(store, run)
    if random.random() < 0.5:
        store.limits.pause(random.choice([BOOKS, SITE]), "too slow", None)


@pytest.mark.parametrize("seed", range(12))
def test_a_pass_decides_as_if_it_read_the_whole_line(
    store: SqlStore, database: Database, make_run: MakeRun, seed: int
) -> None:
    random = Random(seed)
    make_room(store, make_run, random)
    most = random.randint(1, 3)
    expected, before = plan_for_all(database, most), holds(database)
    claims = store.claims.claim_tasks("dispatcher", MINUTE, most)
    assert Counter(claim.run_id for claim in claims) == expected.granted
    decided = {run_id: (hold.scope, hold.cause) for run_id, hold in expected.holds.items() if run_id in before}
    assert {run_id: hold for run_id, hold in holds(database).items() if run_id in decided} == decided


@pytest.mark.parametrize("seed", range(12))
def test_a_question_is_answered_as_if_the_whole_line_was_read(
    store: SqlStore, database: Database, make_run: MakeRun, seed: int
) -> None:
    random = Random(seed)
    make_room(store, make_run, random)
    if random.random() < 0.5:
        store.limits.change(INSTALLATION, {"tasks": random.choice([6, 20, 1000])}, None)
    with database.read() as connection:
        present = whole(database, connection)
        for run in (run for run in present.runs if not run.is_admitted):
            answer = obstacle_for(connection, run, present.limits, database.clock())
            assert answer == obstacle_in_turn(run, present.runs, present.limits, total_use(present.runs))


def test_a_label_with_a_new_limit_is_left_out_by_a_reader_of_the_earlier_limits(
    store: SqlStore, database: Database, make_run: MakeRun
) -> None:
    store.limits.change("label:site:b", {"runs": 1}, None)
    labelled = make_run(labels=["site:a"])
    with database.read() as connection:
        earlier = limits_on_record(connection, MOST_TASKS)
    store.limits.change(SITE, {"runs": 1}, None)
    with database.read() as connection:
        (run,) = situation(connection, earlier, database.clock(), [labelled.run_id]).runs
    assert run.scopes == (INSTALLATION,)


def test_a_pass_reads_the_front_of_each_part(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    store.limits.change(INSTALLATION, {"runs": 2}, None)
    store.limits.change(SITE, {"tasks": 5}, None)
    alike, urgent, labelled = (
        [make_run(**more) for _ in range(9)] for more in ({}, {"priority": 5}, {"labels": ["site:a"]})
    )
    begun = ask_for_permits(store, [*alike, *urgent, *labelled])
    front = [*alike[2:6], *urgent[:4], *labelled]
    assert read_runs(database, 3) == {run.run_id for run in front}
    end(store, begun[0])
    assert [claim.run_id for claim in store.claims.claim_tasks("dispatcher", MINUTE, 3)] == [urgent[0].run_id]


def test_the_line_behind_the_front_says_what_holds_it(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    store.limits.change(INSTALLATION, {"runs": 1}, None)
    books, toys = (
        [make_run(entry=Crawler(name=name, command=["true"])) for _ in range(6)] for name in ("books", "toys")
    )
    ask_for_permits(store, [*toys, *books])
    store.limits.pause(BOOKS, "too slow", None)
    store.claims.claim_tasks("dispatcher", MINUTE, 2)
    assert holds(database) == {
        **{run.run_id: (INSTALLATION, "admission") for run in toys[1:]},
        **{run.run_id: (BOOKS, "paused") for run in books},
    }
    last = store.records.overview(books[-1].run_id)
    assert last.run.waiting_message == "crawler books is paused: too slow"
    store.limits.resume(BOOKS, None)
    store.claims.claim_tasks("dispatcher", MINUTE, 2)
    assert set(holds(database).values()) == {(INSTALLATION, "admission")}


def test_runs_that_need_two_places_keep_no_run_that_needs_one_from_the_front(
    store: SqlStore, database: Database, make_run: MakeRun
) -> None:
    """The first run waits for its label, and keeps one of the crawler's two places."""
    store.limits.change(BOOKS, {"tasks": 6}, None)
    store.limits.change(SITE, {"runs": 1}, None)
    toys = Crawler(name="toys", command=["true"])
    store.limits.pause(BOOKS, "not yet", None)
    labelled = make_run(entry=toys, labels=["site:a"])
    kept = make_run(labels=["site:a"])
    large = [make_run(3) for _ in range(4)]
    small = make_run()
    assert ask_for_permits(store, [labelled, kept, *large, small]) == [ref_to(labelled)]
    store.limits.change(BOOKS, {"tasks": 2}, None)
    store.limits.resume(BOOKS, None)
    assert plan_for_all(database, 2).granted == {small.run_id: 1}
    assert [claim.run_id for claim in store.claims.claim_tasks("dispatcher", MINUTE, 2)] == [small.run_id]


def test_a_reopened_run_is_no_part_of_the_front(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    store.limits.change(INSTALLATION, {"runs": 1}, None)
    runs = [make_run() for _ in range(6)]
    ask_for_permits(store, runs)
    with database.transaction() as connection:
        later = histories.update().where(histories.c.id == runs[-1].run_id)
        connection.execute(later.values(status=RunStatus.PROCESSING))
    store.limits.pause(INSTALLATION, "maintenance", None)
    store.claims.claim_tasks("dispatcher", MINUTE, 1)
    assert set(holds(database).values()) == {(INSTALLATION, "paused")}


def test_a_run_that_nobody_watches_keeps_no_other_run_from_the_front(
    store: SqlStore, database: Database, make_run: MakeRun
) -> None:
    store.limits.change(INSTALLATION, {"runs": 1}, None)
    runs = [make_run() for _ in range(6)]
    (begun,) = ask_for_permits(store, runs)
    unwatched = [run.run_id for run in runs[1:4]]
    with database.transaction() as connection:
        silent = database.clock() - timedelta(days=1)
        times = dict.fromkeys(("started_at", "supervisor_began_at", "next_look_at"), silent)
        connection.execute(histories.update().where(histories.c.id.in_(unwatched)).values(**times))
    end(store, begun)
    assert [claim.run_id for claim in store.claims.claim_tasks("dispatcher", MINUTE, 2)] == [runs[4].run_id]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.regression("SQLite read every open run for the limits")
def test_the_limits_read_no_run(store: SqlStore, database: Database) -> None:
    assert "histories" not in plan_of(database, store.limits.all)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_place_is_counted_among_held_runs(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    store.limits.pause(INSTALLATION, "maintenance", None)
    runs = [make_run() for _ in range(3)]
    ask_for_permits(store, runs)
    plan = plan_of(database, partial(store.records.overview, runs[1].run_id))
    assert "ix_histories_held (held_by=? AND admitted_at=? AND intent=? AND status=? AND installation=?" in plan
    assert store.limits.all()[0].runs_held == 3
