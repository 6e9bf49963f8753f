"""Do looks read and write any number of tasks in few statements, and only what is still as it was read?"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.pages import ROWS_IN_A_PAGE
from crawler_lifecycle.model.looks import TaskRow
from crawler_lifecycle.model.records import TaskRecord
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import OVER, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange, TaskEvidence
from crawler_lifecycle.runs.store.tasks import FEW
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.data.statements import counted

STARTED = datetime(2026, 10, 25, 1, 59, 59, 999999, UTC)
ANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
INTEGERS = st.integers(-(2**31), 2**31 - 1)
TIMES = st.none() | st.datetimes(datetime.fromisoformat("1971-01-01"), timezones=st.just(UTC))
SHORT = st.none() | st.text(max_size=40)


def change(row: TaskRow, status: TaskStatus, **fields: Any) -> TaskChange:
    return TaskChange(task=row.task, attempt=row.attempt, version=row.version, status=status, **fields)


def record(database: Database, run: RunRef, task: int = 0) -> TaskRecord:
    return SqlStore(database).records.details(run.run_id).tasks[task]


@pytest.mark.parametrize("tasks", [10, 1000, 3500])
def test_statements_grow_by_pages_only(database: Database, make_run: MakeRun, tasks: int) -> None:
    pages, port = -(-tasks // ROWS_IN_A_PAGE), SqlStore(database).tasks
    with counted(database) as creating:
        run = ref_to(make_run(tasks))
    assert sum("INSERT INTO task_histories" in statement for statement in creating) == pages
    # However many tasks: is its workflow id free, whose database is it; the run; the line of its timeline; the run read
    # back with its counts. SQLite's BEGIN is a statement, too.
    assert len(creating) == pages + 5 + (1 if database.engine.dialect.name == "sqlite" else 0)
    with counted(database) as reading:
        rows = port.rows(run.run_id, range(tasks))
    assert len(rows) == tasks
    assert len(reading) <= pages + 1  # SQLite's BEGIN is a statement, too
    with counted(database) as writing:
        assert port.sync(run, [change(row, TaskStatus.RUNNING, job_uid=f"job-{row.task}") for row in rows]) == tasks
    assert len(writing) <= pages + 6  # the use before and after, the scopes, and the change of their sums
    with counted(database) as keeping:
        assert port.reconcile(run, [TaskEvidence(task=row.task, attempt=1, node="n") for row in rows]) == tasks
    assert len(keeping) <= pages + 2
    with counted(database) as counting:
        assert port.by_status(run.run_id) == {TaskStatus.RUNNING: list(range(tasks))}
    assert len(counting) <= 2


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_page_is_not_read_once_for_every_task(database: Database, make_run: MakeRun) -> None:
    """Which is what SQLite plans as soon as it is told the run's id as a constant: minutes for a big run."""
    tasks = FEW + 1
    run, port = ref_to(make_run(tasks)), SqlStore(database).tasks
    with counted(database) as sent:
        rows = port.rows(run.run_id, range(tasks))
        port.sync(run, [change(row, TaskStatus.RUNNING) for row in rows])
        port.reconcile(run, [TaskEvidence(task=row.task, attempt=1) for row in rows])
    paged = [statement for statement in sent if "json_each" in statement]
    assert len(paged) == 3
    with database.read() as connection:
        for statement in paged:
            no_values = ("[]",) + (None,) * (statement.count("?") - 1)
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", no_values).all()
            assert "(history_id=? AND task=?)" in " ".join(step[3] for step in plan)


@pytest.mark.parametrize("database_url", ["mariadb"], indirect=True)
def test_the_server_sees_a_page_as_one_statement(database: Database, make_run: MakeRun) -> None:
    """The driver could still cut it up behind SQLAlchemy's back."""
    with database.read() as connection:
        asked = "SHOW GLOBAL STATUS LIKE 'Com_insert'"
        before = int(connection.exec_driver_sql(asked).one()[1])
        make_run(3500)
        after = int(connection.exec_driver_sql(asked).one()[1])
    assert after - before <= 4 + 2


def test_rows_come_in_the_order_of_their_numbers(database: Database, make_run: MakeRun) -> None:
    run, other = make_run(5), make_run(5)
    rows = SqlStore(database).tasks.rows(run.run_id, [4, 0, 2, 2, 99])
    assert [row.task for row in rows] == [0, 2, 4]
    assert rows[0] == TaskRow(task=0, status=TaskStatus.QUEUED, attempt=1, version=1)
    assert SqlStore(database).tasks.rows(other.run_id, []) == []


def test_only_what_is_as_it_was_read_is_written(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run(3)), SqlStore(database).tasks
    fresh, stale, retried = port.rows(run.run_id, range(3))
    changes = [
        change(fresh, TaskStatus.RUNNING),
        change(stale, TaskStatus.RUNNING).model_copy(update={"version": 7}),
        change(retried, TaskStatus.RUNNING).model_copy(update={"attempt": 2}),
    ]
    assert port.sync(run, changes) == 1
    assert port.sync(run, changes) == 0
    assert port.by_status(run.run_id) == {TaskStatus.RUNNING: [0], TaskStatus.QUEUED: [1, 2]}


@pytest.mark.parametrize("end", OVER)
def test_an_end_is_final_unless_it_was_a_guess(database: Database, make_run: MakeRun, end: TaskStatus) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    port.sync(run, [change(row, end) for row in port.rows(run.run_id, [0])])
    correction = [change(row, TaskStatus.FAILED, reason="oom_killed") for row in port.rows(run.run_id, [0])]
    assert port.sync(run, correction) == (1 if end is TaskStatus.LOST else 0)


def test_times_of_a_task(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run(2)), SqlStore(database).tasks

    def sync(status: TaskStatus, **fields: Any) -> TaskRecord:
        assert port.sync(run, [change(row, status, **fields) for row in port.rows(run.run_id, [0])]) == 1
        return record(database, run)

    waiting = sync(TaskStatus.PENDING, job_uid="u", job_name="n", cause="quota")
    assert waiting.deployed_at
    assert waiting.cause_since
    again = sync(TaskStatus.PENDING, job_uid="u", cause="quota", absent_count=1)
    assert (again.cause_since, again.deployed_at, again.job_name) == (waiting.cause_since, waiting.deployed_at, "n")
    other = sync(TaskStatus.PENDING, job_uid="u", cause="image_pull")
    assert other.cause_since
    assert other.cause_since > waiting.cause_since
    running = sync(TaskStatus.RUNNING, job_uid="u", started_at=STARTED)
    assert (running.cause_since, running.started_at, running.finished_at) == (None, STARTED, None)
    lost = sync(TaskStatus.LOST, job_uid="u")
    assert lost.finished_at
    assert lost.finished_at > STARTED
    assert sync(TaskStatus.FAILED, ended_at=STARTED + timedelta(hours=1)).finished_at == STARTED + timedelta(hours=1)
    assert record(database, run, 1).status is TaskStatus.QUEUED


def test_a_look_that_sees_the_job_ends_its_claim(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    port.sync(run, [change(row, TaskStatus.RUNNING, job_uid="u") for row in port.rows(run.run_id, [0])])
    (row,) = port.rows(run.run_id, [0])
    assert (row.status, row.version, row.claim_expires_at) == (TaskStatus.RUNNING, 2, None)


@ANY
@given(
    fields=st.fixed_dictionaries(
        {
            "job_uid": SHORT,
            "job_name": SHORT,
            "message": SHORT,
            "cause": SHORT,
            "reason": SHORT,
            "exit_code": st.none() | INTEGERS,
            "absent_count": INTEGERS,
            "started_at": TIMES,
            "ended_at": TIMES,
        }
    ),
    status=st.sampled_from(TaskStatus),
)
def test_a_change_arrives_as_it_was_sent(
    database: Database, make_run: MakeRun, fields: dict[str, Any], status: TaskStatus
) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    sent = change(port.rows(run.run_id, [0])[0], status, **fields)
    assert port.sync(run, [sent]) == 1
    (row,), kept = port.rows(run.run_id, [0]), record(database, run)
    for name in ("job_uid", "cause", "reason"):
        assert getattr(row, name) == as_kept(getattr(sent, name))
    assert (kept.job_name, kept.message) == (as_kept(sent.job_name), as_kept(sent.message))
    assert (row.exit_code, row.absent_count, row.started_at) == (sent.exit_code, sent.absent_count, sent.started_at)
    assert (row.status, row.version) == (status, 2)
    assert (kept.finished_at is None) == (status not in OVER)
    assert sent.ended_at is None or kept.finished_at in (None, sent.ended_at)


@ANY
@given(message=st.text(), node=SHORT, tail=st.text(min_size=1), events=st.lists(st.text(), max_size=5))
def test_evidence_arrives_as_it_was_sent(
    database: Database, make_run: MakeRun, message: str, node: str | None, tail: str, events: list[str]
) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    item = TaskEvidence(task=0, attempt=1, message=message, node=node, restarts=3, log_tail=tail, events=events)
    assert port.reconcile(run, [item]) == 1
    kept = record(database, run)
    assert (kept.message, kept.node, kept.restarts) == (as_kept(message), as_kept(node), 3)
    assert (kept.log_tail, kept.events) == (as_kept(tail), events)


def as_kept(text: str | None) -> str | None:
    return text and text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def test_evidence_is_bounded_and_not_erased_by_less(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    told = {"message": "m" * 9000, "log_tail": "😀" * 20_000 + "the end", "restarts": 2, "events": ["pulled"]}
    long = TaskEvidence.model_validate({"task": 0, "attempt": 1} | told)
    assert port.reconcile(run, [long]) == 1
    assert port.reconcile(run, [TaskEvidence(task=0, attempt=1)]) == 1
    assert port.reconcile(run, [TaskEvidence(task=0, attempt=2, message="of another attempt")]) == 0
    kept = record(database, run)
    assert (kept.message, kept.restarts, kept.events) == ("m" * 4000, 2, ["pulled"])
    assert kept.log_tail is not None
    assert kept.log_tail.endswith("😀the end")


def test_evidence_of_another_job_changes_no_row(database: Database, make_run: MakeRun) -> None:
    """Node, log and message of another Job with the same labels were written with the task."""
    run, port = ref_to(make_run()), SqlStore(database).tasks
    values = {"task": 0, "attempt": 1, "node": "node-1", "message": "no such page", "log_tail": "the end"}
    port.sync(run, [change(row, TaskStatus.RUNNING, job_uid="ours") for row in port.rows(run.run_id, [0])])
    assert port.reconcile(run, [TaskEvidence.model_validate(values | {"job_uid": "another"})]) == 0
    kept = record(database, run)
    assert (kept.node, kept.message, kept.log_tail) == (None, None, None)
    assert port.reconcile(run, [TaskEvidence.model_validate(values | {"job_uid": "ours"})]) == 1
    assert record(database, run).node == "node-1"


@pytest.mark.parametrize(("on_record", "evidence"), [(None, "ours"), ("ours", None)])
def test_evidence_counts_while_one_of_the_uids_is_unknown(
    database: Database, make_run: MakeRun, on_record: str | None, evidence: str | None
) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    port.sync(run, [change(row, TaskStatus.RUNNING, job_uid=on_record) for row in port.rows(run.run_id, [0])])
    assert port.reconcile(run, [TaskEvidence(task=0, attempt=1, job_uid=evidence, node="node-1")]) == 1
    assert record(database, run).node == "node-1"


def test_what_the_comparison_tells_is_the_message_of_its_end(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    [row] = port.rows(run.run_id, [0])
    port.reconcile(run, [TaskEvidence(task=0, attempt=1, message="crawl ended with exit code 0")])
    assert port.sync(run, [change(row, TaskStatus.STOPPING)]) == 1
    assert record(database, run).message == "crawl ended with exit code 0"
    [row] = port.rows(run.run_id, [0])
    assert port.sync(run, [change(row, TaskStatus.FAILED, message="it was asked to end (drained)")]) == 1
    assert record(database, run).message == "it was asked to end (drained)"


@pytest.mark.parametrize("end", OVER)
def test_what_comes_after_the_end_takes_nothing_from_what_the_end_said(
    database: Database, make_run: MakeRun, end: TaskStatus
) -> None:
    run, port = ref_to(make_run(2)), SqlStore(database).tasks
    explained, silent = port.rows(run.run_id, [0, 1])
    port.sync(run, [change(explained, end, message="it was asked to end (drained)"), change(silent, end)])
    late = {"attempt": 1, "message": "crawl ended with exit code 0", "node": "node-1", "log_tail": "the end"}
    assert port.reconcile(run, [TaskEvidence.model_validate({"task": task} | late) for task in (0, 1)]) == 2
    is_final = end is not TaskStatus.LOST
    assert record(database, run, 0).message == ("it was asked to end (drained)" if is_final else late["message"])
    assert record(database, run, 1).message == late["message"]
    assert {(task.node, task.log_tail) for task in SqlStore(database).records.details(run.run_id).tasks} == {
        ("node-1", "the end")
    }


@pytest.mark.parametrize("status", [TaskStatus.PENDING, TaskStatus.SUCCEEDED])
def test_what_was_in_the_way_of_a_job_is_not_said_of_one_that_a_look_found(
    database: Database, make_run: MakeRun, status: TaskStatus
) -> None:
    """Of one that has ended already, its evidence has been written before."""
    run, port = ref_to(make_run()), SqlStore(database).tasks
    told = TaskEvidence(task=0, attempt=1, message="no answer to POST")
    port.reconcile(run, [told])
    port.sync(run, [change(row, status, job_uid="u") for row in port.rows(run.run_id, [0])])
    assert record(database, run).message == (told.message if status in OVER else None)
    if status not in OVER:
        port.reconcile(run, [told])
        port.sync(run, [change(row, TaskStatus.RUNNING, job_uid="u") for row in port.rows(run.run_id, [0])])
        assert record(database, run).message == told.message, "what is known since then stays"


def test_what_ended_by_itself_and_nobody_knows_where_is_unexplained(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run(7)), SqlStore(database).tasks
    ends = [TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.FAILED, TaskStatus.STOPPED, TaskStatus.LOST]
    with_jobs = zip(port.rows(run.run_id, range(6)), [*ends, TaskStatus.RUNNING], strict=True)
    port.sync(run, [change(row, status, job_uid="u") for row, status in with_jobs])
    port.sync(run, [change(row, TaskStatus.FAILED) for row in port.rows(run.run_id, [6])])
    assert port.unexplained(run.run_id) == [(0, 1), (1, 1), (2, 1)]
    port.reconcile(run, [TaskEvidence(task=1, attempt=1, node="node-1"), TaskEvidence(task=2, attempt=1)])
    assert port.unexplained(run.run_id) == [(0, 1), (2, 1)]


def test_evidence_does_not_outdate_the_status_read_before(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run()), SqlStore(database).tasks
    (row,) = port.rows(run.run_id, [0])
    port.reconcile(run, [TaskEvidence(task=0, attempt=1, message="seen")])
    assert port.sync(run, [change(row, TaskStatus.FAILED)]) == 1


def test_queued_tasks_are_cancelled_once(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run(4)), SqlStore(database).tasks
    port.sync(run, [change(row, TaskStatus.RUNNING) for row in port.rows(run.run_id, [0])])
    assert port.cancel_queued(run, "stopped") == 3
    assert port.cancel_queued(run, "stopped") == 0
    assert port.by_status(run.run_id) == {TaskStatus.RUNNING: [0], TaskStatus.STOPPED: [1, 2, 3]}
    stopped = record(database, run, 1)
    assert stopped.reason == "stopped"
    assert stopped.finished_at


def test_of_two_looks_at_the_same_rows_one_writes(database: Database, make_run: MakeRun) -> None:
    run, port = ref_to(make_run(200)), SqlStore(database).tasks
    rows, together = port.rows(run.run_id, range(200)), threading.Barrier(6)

    def look(mine: Sequence[TaskRow]) -> int:
        together.wait(timeout=30)
        return port.sync(run, [change(row, TaskStatus.RUNNING) for row in mine])

    with ThreadPoolExecutor(6) as pool:
        written = list(pool.map(look, [rows, rows[::-1], rows[50:150]] * 2))
    assert sum(written) == 200
    assert {row.version for row in port.rows(run.run_id, range(200))} == {2}
