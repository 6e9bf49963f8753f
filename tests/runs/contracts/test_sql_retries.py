"""An attempt's end and its next attempt are one write, once, never after a stop; the former attempt is kept."""

from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.pages import ROWS_IN_A_PAGE
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.model.looks import TaskRow
from crawler_lifecycle.model.reasons import RETRY_PAUSE
from crawler_lifecycle.model.records import TaskRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.retries import FailureKind, NextAttempt
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange, TaskEvidence
from crawler_lifecycle.runs.ports import Runs, SupervisorExecution, Tasks
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.data.statements import counted

MINUTE = timedelta(minutes=1)
PAST = datetime(2026, 1, 1, tzinfo=UTC)
FUTURE = datetime(2036, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(database: Database) -> SqlStore:
    return SqlStore(database)


@pytest.fixture
def tasks(store: SqlStore) -> Tasks:
    return store.tasks


def run_jobs(tasks: Tasks, run: RunRef, numbers: range) -> list[TaskRow]:
    rows = tasks.rows(run.run_id, numbers)
    tasks.sync(run, [change(row, TaskStatus.RUNNING, job_uid=f"uid-{row.task}", job_name="job") for row in rows])
    return tasks.rows(run.run_id, numbers)


def change(row: TaskRow, status: TaskStatus, **fields: object) -> TaskChange:
    return TaskChange.model_validate(
        {"task": row.task, "attempt": row.attempt, "version": row.version, "status": status} | fields
    )


def end(row: TaskRow, kind: FailureKind = FailureKind.INFRASTRUCTURE, after: datetime = PAST) -> TaskChange:
    following = NextAttempt(kind=kind, deploy_after=after)
    return change(row, TaskStatus.FAILED, reason="drained", exit_code=143, job_uid=row.job_uid, next_attempt=following)


def record(store: SqlStore, run: RunRef, task: int = 0) -> TaskRecord:
    return store.records.details(run.run_id).tasks[task]


def events(store: SqlStore, run: RunRef) -> list[str]:
    return [line.message for line in store.records.overview(run.run_id).log if line.event == "next attempt"]


def test_an_end_and_the_next_attempt_are_one_write(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    run = ref_to(make_run(2))
    rows = run_jobs(tasks, run, range(2))
    tasks.reconcile(run, [TaskEvidence(task=0, attempt=1, node="node-3", log_tail="page 7", restarts=1)])
    assert tasks.sync(run, [end(rows[0], after=FUTURE)]) == 1
    task = record(store, run)
    assert (task.status, task.attempt, task.cause, task.deploy_after) == (TaskStatus.QUEUED, 2, RETRY_PAUSE, FUTURE)
    assert (task.reason, task.exit_code, task.job_uid, task.node, task.log_tail) == (None,) * 5
    assert (task.infrastructure_failures, task.program_failures, task.restarts) == (1, 0, 0)
    (former,) = task.former_attempts
    assert (former.attempt, former.status, former.reason, former.exit_code) == (1, TaskStatus.FAILED, "drained", 143)
    assert (former.node, former.log_tail, former.job_name) == ("node-3", "page 7", "job")
    assert former.finished_at
    assert record(store, run, 1).former_attempts == []
    assert events(store, run) == ["1 task gets its next attempt: 0 (attempt 2 after drained)"]


def test_it_is_written_once(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    run = ref_to(make_run())
    (row,) = run_jobs(tasks, run, range(1))
    assert [tasks.sync(run, [end(row)]) for _ in range(3)] == [1, 0, 0]
    assert record(store, run).attempt == 2
    assert len(events(store, run)) == 1


def test_a_row_that_has_changed_keeps_its_attempt(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    run = ref_to(make_run(2))
    stale, fresh = run_jobs(tasks, run, range(2))
    tasks.sync(run, [change(stale, TaskStatus.SUCCEEDED, job_uid="uid-0")])
    assert tasks.sync(run, [end(stale), end(fresh)]) == 1
    assert (record(store, run).status, record(store, run).attempt) == (TaskStatus.SUCCEEDED, 1)
    assert record(store, run, 1).attempt == 2
    assert events(store, run) == ["1 task gets its next attempt: 1 (attempt 2 after drained)"]


def test_a_run_with_a_stop_gets_no_further_attempt(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    run = ref_to(make_run())
    (row,) = run_jobs(tasks, run, range(1))
    store.runs.request_stop(run.run_id, StopRequest(), PAST)
    assert tasks.sync(run, [end(row)]) == 1
    task = record(store, run)
    assert (task.status, task.attempt, task.former_attempts) == (TaskStatus.FAILED, 1, [])


def test_a_stop_ends_a_task_in_its_pause(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    run = ref_to(make_run())
    (row,) = run_jobs(tasks, run, range(1))
    tasks.sync(run, [end(row, after=FUTURE)])
    with pytest.raises(Conflict, match="not over"):
        store.runs.close(run, RunStatus.FAILED, "tasks_failed")
    assert tasks.cancel_queued(run, "stopped") == 1
    assert record(store, run).status is TaskStatus.STOPPED
    assert store.runs.close(run, RunStatus.FAILED, "stopped").status is RunStatus.FAILED


def test_each_kind_is_counted(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    run = ref_to(make_run())
    for kind in (FailureKind.INFRASTRUCTURE, FailureKind.PROGRAM, FailureKind.INFRASTRUCTURE):
        (row,) = run_jobs(tasks, run, range(1))
        tasks.sync(run, [end(row, kind)])
    task = record(store, run)
    assert (task.attempt, task.infrastructure_failures, task.program_failures) == (4, 2, 1)
    assert [former.attempt for former in task.former_attempts] == [1, 2, 3]


def started(store: SqlStore, run: RunRef) -> None:
    store.runs.mark_started(run)


def test_a_dispatcher_deploys_it_after_the_pause(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    """The main task as well: its run has started long ago."""
    run, claims = ref_to(make_run(2)), store.claims
    rows = run_jobs(tasks, run, range(2))
    started(store, run)
    tasks.sync(run, [end(rows[0], after=FUTURE), end(rows[1], after=FUTURE)])
    assert claims.claim_tasks("me", MINUTE, 10) == []
    assert record(store, run).cause == RETRY_PAUSE, "the pause is why it waits, not a limit"
    store.runs.request_stop(run.run_id, StopRequest(), PAST)
    assert claims.claim_tasks("me", MINUTE, 10) == []


def test_the_pause_is_over(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    run, claims = ref_to(make_run(3)), store.claims
    rows = run_jobs(tasks, run, range(3))
    started(store, run)
    tasks.sync(run, [end(rows[0]), end(rows[1])])
    claimed = claims.claim_tasks("me", MINUTE, 10)
    assert [(claim.task, claim.request.attempt) for claim in claimed] == [(0, 2), (1, 2)]
    assert store.limits.all()[0].tasks_in_cluster == 3


def test_a_main_task_whose_claim_ran_out_takes_no_room_of_its_own_next_claim(
    store: SqlStore, tasks: Tasks, make_run: MakeRun
) -> None:
    """With a single place in the cluster, the run would otherwise wait for ever."""
    run, claims = ref_to(make_run()), store.claims
    (row,) = run_jobs(tasks, run, range(1))
    started(store, run)
    tasks.sync(run, [end(row)])
    assert claims.claim_tasks("dead", timedelta(seconds=-1), 10)
    assert [claim.task for claim in claims.claim_tasks("me", MINUTE, 10)] == [0]


def test_a_main_task_keeps_its_place_in_its_pause(store: SqlStore, tasks: Tasks, make_run: MakeRun) -> None:
    """A child task could take the place, and wait there for the main task."""
    run, claims = ref_to(make_run(4, max_parallel=2)), store.claims
    rows = run_jobs(tasks, run, range(2))
    started(store, run)
    tasks.sync(run, [end(rows[0], after=FUTURE)])
    assert claims.claim_tasks("me", MINUTE, 10) == []
    row = tasks.rows(run.run_id, [1])[0]
    tasks.sync(run, [end(row, after=FUTURE)])
    assert [claim.task for claim in claims.claim_tasks("me", MINUTE, 10)] == [2], "a child gives its place"


def test_absent_since_is_the_time_of_the_first_absence(tasks: Tasks, make_run: MakeRun) -> None:
    run = ref_to(make_run())
    (row,) = run_jobs(tasks, run, range(1))
    times = []
    for absences in (1, 2, 0):
        absent = change(row, TaskStatus.RUNNING, job_uid=row.job_uid, absent_count=absences)
        tasks.sync(run, [absent])
        (row,) = tasks.rows(run.run_id, [0])
        times.append(row.absent_since)
    assert times[0] is not None
    assert times == [times[0], times[0], None]


def test_a_reopened_run_counts_anew_and_keeps_the_former_attempts(
    store: SqlStore, tasks: Tasks, make_run: MakeRun
) -> None:
    created = make_run(2)
    run, runs = ref_to(created), store.runs
    rows = run_jobs(tasks, run, range(1))
    tasks.sync(run, [end(rows[0])])
    (row,) = run_jobs(tasks, run, range(1))
    tasks.sync(run, [change(row, TaskStatus.FAILED, reason="exit_3", exit_code=3, job_uid=row.job_uid)])
    tasks.cancel_queued(run, "stopped")
    runs.close(run, RunStatus.FAILED, "main_job_failed")
    reopened(runs, created.workflow_id, run.run_id)
    task, never_deployed = store.records.details(run.run_id).tasks
    assert (task.status, task.attempt, task.infrastructure_failures) == (TaskStatus.QUEUED, 3, 0)
    assert [(former.attempt, former.reason) for former in task.former_attempts] == [(1, "drained"), (2, "exit_3")]
    assert (never_deployed.attempt, never_deployed.former_attempts) == (2, [])


def reopened(runs: Runs, workflow_id: str, run_id: int) -> None:
    runs.reopen(run_id, SupervisorExecution(workflow_id=workflow_id, run_id="another-execution", began_at=FUTURE))


def test_statements_grow_by_pages_only(database: Database, tasks: Tasks, make_run: MakeRun) -> None:
    count = 2 * ROWS_IN_A_PAGE + 1
    run = ref_to(make_run(count))
    rows = run_jobs(tasks, run, range(count))
    with counted(database) as writing:
        assert tasks.sync(run, [end(row) for row in rows]) == count
    # for each of three pages: the ends, which are written, the former attempts, the next attempts; and four for the use
    assert len(writing) <= 3 * 4 + 10


def test_a_time_limit_is_explained_with_the_failures_before_it(
    store: SqlStore, tasks: Tasks, make_run: MakeRun
) -> None:
    run = ref_to(make_run(1, max_duration_seconds=20))
    for _ in range(2):
        (row,) = run_jobs(tasks, run, range(1))
        tasks.sync(run, [end(row, FailureKind.PROGRAM)])
    tasks.cancel_queued(run, "max_duration")
    store.runs.close(run, RunStatus.FAILED, "max_duration")
    (listed,) = store.records.page(limit=1)
    assert listed.explanation is not None
    assert listed.explanation.text == (
        "the run exceeded its time limit of 20 s, after 2 attempts that failed (drained, exit code 143)"
    )
