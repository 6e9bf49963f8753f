"""Has a run one supervisor at a time, whoever comes, and does a reopened run begin afresh where it failed?"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Conflict, Fenced, NotFound
from crawler_lifecycle.model.deployment import Deployment
from crawler_lifecycle.model.records import RunRecord, TaskRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import Clock, RunRef
from crawler_lifecycle.model.states import OVER, ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange, TaskEvidence
from crawler_lifecycle.runs.ports import Claim, Runs, SupervisorExecution
from tests.kit.data.databases import MakeRun, give_away, in_substance, ref_to

ASKED = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def supervision(database: Database) -> Runs:
    return SqlStore(database).runs


def sync(database: Database, run: RunRef, statuses: dict[int, TaskStatus]) -> None:
    """These tasks come to stand there, with all that a look would tell of them."""
    tasks = SqlStore(database).tasks
    rows = tasks.rows(run.run_id, list(statuses))
    changes = [
        TaskChange(
            task=row.task,
            attempt=row.attempt,
            version=row.version,
            status=statuses[row.task],
            job_uid=f"uid-{row.task}-{row.attempt}",
            job_name=f"job-{row.task}-{row.attempt}",
            cause="starting",
            reason="exit_3",
            exit_code=3,
            absent_count=1,
            started_at=ASKED,
            ended_at=ASKED if statuses[row.task].is_over else None,
        )
        for row in rows
    ]
    assert tasks.sync(run, changes) == len(rows)
    told = {"message": "it broke", "node": "n", "restarts": 2, "log_tail": "the end", "events": ["ended"]}
    tasks.reconcile(run, [TaskEvidence(task=row.task, attempt=row.attempt, **told) for row in rows])


def ended(database: Database, run: RunRecord, *statuses: TaskStatus) -> RunRecord:
    """The run is over; its tasks ended like this."""
    SqlStore(database).runs.mark_started(ref_to(run))
    sync(database, ref_to(run), dict(enumerate(statuses)))
    completed = set(statuses) == {TaskStatus.SUCCEEDED}
    status = RunStatus.COMPLETED if completed else RunStatus.FAILED
    return SqlStore(database).runs.close(ref_to(run), status, "all_succeeded" if completed else "tasks_failed")


def tasks_of(database: Database, run: RunRecord) -> list[TaskRecord]:
    return SqlStore(database).records.details(run.run_id).tasks


def events(database: Database, run: RunRecord) -> list[str]:
    return [line.event for line in SqlStore(database).records.details(run.run_id).log]


def claimed(database: Database, run: RunRecord, token: str = "token") -> Claim:
    claim = SqlStore(database).claims.claim_main(ref_to(run), token, MINUTE)
    assert isinstance(claim, Claim)
    return claim


def execution(run: RunRecord, number: int) -> SupervisorExecution:
    """The run's own workflow, executed for the so-manyeth time."""
    return SupervisorExecution(run.workflow_id, f"execution-{number}", ASKED + number * MINUTE)


def second(run: RunRecord) -> SupervisorExecution:
    return execution(run, 2)


# Taking over


def test_each_execution_has_an_epoch_of_its_own(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run(2)
    first = SupervisorExecution(run.workflow_id, run.first_execution_run_id, ASKED)
    executions = (first, second(run), second(run), execution(run, 3), execution(run, 3))
    assert [supervision.take_over(run.run_id, each).epoch for each in executions] == [1, 2, 2, 3, 3]
    assert events(database, run) == ["created", "resumed", "resumed"]
    there = SqlStore(database).runs.get(run.run_id)
    assert in_substance(there) == in_substance(run.model_copy(update={"epoch": 3})), "nothing else of the run changes"


def test_a_run_of_another_installation_is_not_taken_over(
    supervision: Runs, make_run: MakeRun, database: Database, database_url: str
) -> None:
    alive, failed = make_run(2), ended(database, make_run(), TaskStatus.FAILED)
    other = give_away(database_url)
    before = [SqlStore(database).records.details(run.run_id) for run in (alive, failed)]
    asks: list[Callable[[], RunRecord]] = [
        lambda: supervision.get(alive.run_id),
        lambda: supervision.take_over(alive.run_id, second(alive)),
        lambda: supervision.take_over(failed.run_id, second(failed)),
        lambda: supervision.reopen(failed.run_id, second(failed)),
    ]
    for ask in asks:
        with pytest.raises(Conflict, match=rf"run \d+ belongs to installation {other}, and this database to "):
            ask()
    assert [SqlStore(database).records.details(run.run_id) for run in (alive, failed)] == before


def test_an_older_supervisor_writes_no_more(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run(2)
    new = supervision.take_over(run.run_id, second(run))
    before = SqlStore(database).records.details(run.run_id)
    for write in (
        lambda: SqlStore(database).runs.mark_started(ref_to(run)),
        lambda: SqlStore(database).runs.log_stop(ref_to(run), StopRequest(), ASKED),
        lambda: SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped"),
        lambda: SqlStore(database).claims.claim_main(ref_to(run), "late", MINUTE),
    ):
        with pytest.raises(Fenced, match=r"has another supervisor now \(epoch 2, ours is 1\)"):
            write()
    assert SqlStore(database).records.details(run.run_id) == before
    assert SqlStore(database).runs.mark_started(ref_to(new)).status is RunStatus.PROCESSING


def test_a_deployment_that_outlived_its_supervisor_is_found_not_repeated(
    supervision: Runs, make_run: MakeRun, database: Database
) -> None:
    """Its claim stands until it runs out, and so does what it brought."""
    run, claims = make_run(), SqlStore(database).claims
    claim = claimed(database, run)
    new = supervision.take_over(run.run_id, second(run))
    assert claims.claim_main(ref_to(new), "other", MINUTE) is None
    claims.deployed(claim, Deployment(key=claim.request.key, job_name="job", job_uid="uid", created=True))
    assert claims.claim_main(ref_to(new), "other", MINUTE) is None
    assert (tasks_of(database, run)[0].status, tasks_of(database, run)[0].job_uid) == (TaskStatus.PENDING, "uid")


def test_nudges_that_nobody_will_answer_count_as_answered(
    supervision: Runs, make_run: MakeRun, database: Database
) -> None:
    run, nudges = make_run(), SqlStore(database).claims
    assert [nudge.number for nudge in nudges.claim_nudges([run.run_uid])] == [1]
    assert nudges.claim_nudges([run.run_uid]) == []
    supervision.take_over(run.run_id, second(run))
    assert [nudge.number for nudge in nudges.claim_nudges([run.run_uid])] == [2]
    supervision.take_over(run.run_id, second(run))
    assert nudges.claim_nudges([run.run_uid]) == [], "the same execution is still to answer"


@pytest.mark.parametrize("verb", ["take_over", "reopen"])
def test_another_workflow_gets_nothing(supervision: Runs, make_run: MakeRun, database: Database, verb: str) -> None:
    run = ended(database, make_run(2), TaskStatus.SUCCEEDED, TaskStatus.FAILED)
    before = SqlStore(database).records.details(run.run_id)
    with pytest.raises(Conflict, match=f"belongs to workflow {run.workflow_id}, not to elsewhere"):
        getattr(supervision, verb)(run.run_id, SupervisorExecution("elsewhere", "second"))
    with pytest.raises(NotFound):
        getattr(supervision, verb)(run.run_id + 999, second(run))
    assert SqlStore(database).records.details(run.run_id) == before


def test_a_run_that_is_over_is_left_as_it_is(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    run = ended(database, make_run(), TaskStatus.SUCCEEDED)
    before = SqlStore(database).records.details(run.run_id)
    assert in_substance(supervision.take_over(run.run_id, second(run))) == in_substance(run)
    assert in_substance(SqlStore(database).records.details(run.run_id)) == in_substance(before)


def test_a_stop_that_was_under_way_stays(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run()
    SqlStore(database).runs.request_stop(run.run_id, StopRequest(force=True), ASKED)
    taken = supervision.take_over(run.run_id, second(run))
    assert (taken.status, taken.intent) == (RunStatus.STOPPING, Intent.FORCE)


@pytest.mark.parametrize("over", [False, True])
def test_two_at_once_have_an_epoch_each_and_the_older_is_fenced(
    supervision: Runs, make_run: MakeRun, database: Database, over: bool
) -> None:
    """In the order in which they began, whichever comes first. Of a run that is reopened, only one is let in."""
    for _ in range(5):
        run, together = make_run(), threading.Barrier(4)
        if over:
            ended(database, run, TaskStatus.FAILED)

        def come(number: int, run: RunRecord = run, together: threading.Barrier = together) -> int | None:
            each = execution(run, number % 2)  # each comes twice: its first try may have been lost
            together.wait(timeout=30)
            try:
                return (supervision.reopen if over else supervision.take_over)(run.run_id, each).epoch
            except (Conflict, Fenced):
                return None

        with ThreadPoolExecutor(4) as pool:
            epochs = list(pool.map(come, range(4)))
        last = SqlStore(database).runs.get(run.run_id)
        earlier, later = ({epoch for epoch in epochs[first::2] if epoch} for first in range(2))
        assert (earlier, later) in ([({2}, set()), (set(), {2})] if over else [({2}, {3}), (set(), {2})])
        assert last.epoch == max(earlier | later)
        for epoch in range(1, last.epoch):
            with pytest.raises(Fenced):
                SqlStore(database).runs.mark_started(ref_to(run).model_copy(update={"epoch": epoch}))
        SqlStore(database).runs.mark_started(ref_to(last))


@pytest.mark.parametrize("verb", ["take_over", "reopen"])
def test_what_was_terminated_does_not_put_out_who_came_after(
    supervision: Runs, make_run: MakeRun, database: Database, verb: str
) -> None:
    """Its activity was still under way: tried again, or never done before."""
    run = make_run()
    supervision.take_over(run.run_id, execution(run, 2))
    new = supervision.take_over(run.run_id, execution(run, 4))
    if verb == "reopen":
        new = ended(database, new, TaskStatus.FAILED)
    before = SqlStore(database).records.details(run.run_id)
    for number in (2, 3):
        with pytest.raises(Fenced, match="has a later supervisor already, execution execution-4"):
            getattr(supervision, verb)(run.run_id, execution(run, number))
    assert SqlStore(database).records.details(run.run_id) == before
    SqlStore(database).runs.mark_started(ref_to(new))


# Reopening


def test_what_did_not_succeed_begins_afresh(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    statuses = (TaskStatus.FAILED, TaskStatus.SUCCEEDED, TaskStatus.LOST, TaskStatus.STOPPED)
    run = ended(database, make_run(4), *statuses)
    before, fresh = tasks_of(database, run), tasks_of(database, make_run(4))
    reopened = supervision.reopen(run.run_id, second(run))
    tasks = tasks_of(database, run)
    assert tasks[1] == before[1]
    for number in (0, 2, 3):
        waits = {"cause_since": reopened.begun_at} if number else {}  # a child for its main job, as at first
        former = tasks[number].former_attempts
        assert [(attempt.attempt, attempt.status) for attempt in former] == [(1, before[number].status)]
        expected = {"attempt": 2, "queued_at": reopened.begun_at, "former_attempts": former, **waits}
        assert tasks[number] == fresh[number].model_copy(update=expected), "nothing is left of its earlier attempt"
        assert tasks[number].queued_at > before[number].queued_at
    assert reopened.tasks == {TaskStatus.QUEUED: 3, TaskStatus.SUCCEEDED: 1}
    claim = claimed(database, reopened)
    assert claim.request.key == f"{run.run_uid}:0:2"


def test_what_was_read_before_is_not_written_after(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    """A look that the earlier supervisor began must neither end a task's next attempt nor give it evidence."""
    run = ended(database, make_run(2), TaskStatus.SUCCEEDED, TaskStatus.LOST)
    row = SqlStore(database).tasks.rows(run.run_id, [1])[0]
    found = TaskChange(task=1, attempt=row.attempt, version=row.version, status=TaskStatus.SUCCEEDED)
    reopened = ref_to(supervision.reopen(run.run_id, second(run)))
    assert SqlStore(database).tasks.sync(reopened, [found]) == 0
    assert SqlStore(database).tasks.reconcile(reopened, [TaskEvidence(task=1, attempt=1, log_tail="old")]) == 0
    with pytest.raises(Fenced):
        SqlStore(database).tasks.sync(ref_to(run), [found])


@pytest.mark.parametrize(
    ("main", "status"),
    [
        (TaskStatus.SUCCEEDED, RunStatus.PROCESSING),
        *((status, RunStatus.INITIALIZING) for status in OVER if status is not TaskStatus.SUCCEEDED),
    ],
)
def test_it_goes_on_where_its_main_job_stands(
    supervision: Runs, make_run: MakeRun, database: Database, main: TaskStatus, status: RunStatus
) -> None:
    run = make_run(2)
    SqlStore(database).runs.log_stop(ref_to(run), StopRequest(force=True), ASKED)
    run = ended(database, run, main, TaskStatus.FAILED)
    reopened = supervision.reopen(run.run_id, second(run))
    assert (reopened.status, reopened.intent, reopened.epoch) == (status, Intent.RUN, 2)
    assert (reopened.reason, reopened.finished_at, reopened.export_state) == (None, None, None)
    assert reopened.begun_at > run.begun_at, "its limits count anew"
    assert (reopened.created_at, reopened.request, reopened.run_uid) == (run.created_at, run.request, run.run_uid)
    assert (reopened.started_at is not None) == (status is RunStatus.PROCESSING)
    started = SqlStore(database).runs.mark_started(ref_to(reopened))
    claims = SqlStore(database).claims.claim_tasks("dispatcher", MINUTE, 9)
    assert started.status is RunStatus.PROCESSING
    without_job = [1] if main is TaskStatus.SUCCEEDED else [0, 1]
    assert [(claim.task, claim.request.attempt) for claim in claims] == [(task, 2) for task in without_job]


def test_its_earlier_end_stays_in_its_log_and_the_next_has_a_number_of_its_own(
    supervision: Runs, make_run: MakeRun, database: Database
) -> None:
    run = ended(database, make_run(), TaskStatus.FAILED)
    assert (run.end_number, run.export_state) == (1, ExportState.PENDING)
    reopened = supervision.reopen(run.run_id, second(run))
    assert reopened.end_number == 1
    again = ended(database, reopened, TaskStatus.SUCCEEDED)
    assert (again.status, again.end_number, again.export_state) == (RunStatus.COMPLETED, 2, ExportState.PENDING)
    log = [(line.event, line.message) for line in SqlStore(database).records.details(run.run_id).log]
    assert log == [
        ("created", "api run of books, 1 task"),
        ("started", "the main job has started"),
        ("ended", "FAILED: tasks failed"),
        ("reopened", "its workflow continues in execution execution-2"),
        ("started", "the main job has started"),
        ("ended", "COMPLETED: all tasks succeeded"),
    ]


def test_twice_by_one_execution_is_once(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    run = ended(database, make_run(2), TaskStatus.FAILED, TaskStatus.FAILED)
    first = supervision.reopen(run.run_id, second(run))
    claimed(database, first)
    before = SqlStore(database).records.details(run.run_id)
    assert in_substance(supervision.reopen(run.run_id, second(run))) == in_substance(before.run)
    assert in_substance(SqlStore(database).records.details(run.run_id)) == in_substance(before)


@pytest.mark.parametrize("state", ["open", "completed", "stopping"])
def test_only_a_run_that_failed_is_reopened(
    supervision: Runs, make_run: MakeRun, database: Database, state: str
) -> None:
    run = make_run()
    if state == "completed":
        ended(database, run, TaskStatus.SUCCEEDED)
    if state == "stopping":
        SqlStore(database).runs.request_stop(run.run_id, StopRequest(), ASKED)
    before = SqlStore(database).records.details(run.run_id)
    with pytest.raises(Conflict, match="only a run that ended FAILED is reopened"):
        supervision.reopen(run.run_id, second(run))
    assert SqlStore(database).records.details(run.run_id) == before


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ends=st.lists(st.lists(st.sampled_from(OVER), min_size=3, max_size=3), min_size=1, max_size=3))
def test_however_often_it_fails_each_task_runs_until_it_succeeds(
    supervision: Runs, make_run: MakeRun, database: Database, ends: list[list[TaskStatus]]
) -> None:
    run, attempts, done = make_run(3), [1, 1, 1], set[int]()
    for number, statuses in enumerate(ends):
        SqlStore(database).runs.mark_started(ref_to(run))
        sync(database, ref_to(run), {task: status for task, status in enumerate(statuses) if task not in done})
        done |= {task for task, status in enumerate(statuses) if status is TaskStatus.SUCCEEDED}
        closed = RunStatus.COMPLETED if len(done) == 3 else RunStatus.FAILED
        run = SqlStore(database).runs.close(ref_to(run), closed, "whatever")
        assert run.end_number == number + 1
        if closed is RunStatus.COMPLETED:
            break
        run = supervision.reopen(run.run_id, execution(run, number))
        attempts = [attempt + (task not in done) for task, attempt in enumerate(attempts)]
        rows = tasks_of(database, run)
        assert [row.attempt for row in rows] == attempts
        assert {row.task for row in rows if row.status is TaskStatus.SUCCEEDED} == done


# Limits that stand still


def test_limits_stand_still_and_go_on_and_the_timeline_tells(
    supervision: Runs, make_run: MakeRun, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    assert supervision.limit_clock(run.run_id) == Clock()
    times = iter([ASKED, ASKED, ASKED + MINUTE, ASKED + 3 * MINUTE])
    monkeypatch.setattr(database, "clock", lambda: next(times))
    held = supervision.hold_limits(ref_to(run), 1, held=True)
    assert held == supervision.hold_limits(ref_to(run), 1, held=True) == Clock(held_since=ASKED, changes=1)
    assert supervision.hold_limits(ref_to(run), 2, held=False) == Clock(held_seconds=60, changes=2)
    again = supervision.hold_limits(ref_to(run), 3, held=True)
    assert again == supervision.limit_clock(run.run_id)
    assert again == Clock(held_seconds=60, held_since=ASKED + 3 * MINUTE, changes=3)
    assert events(database, run) == ["created", "limits_held", "limits_released", "limits_held"]


def test_only_its_supervisor_holds_the_limits_of_a_run(supervision: Runs, make_run: MakeRun) -> None:
    run = make_run()
    supervision.take_over(run.run_id, second(run))
    with pytest.raises(Fenced):
        supervision.hold_limits(ref_to(run), 1, held=True)
    assert supervision.limit_clock(run.run_id) == Clock()


def test_a_reopened_run_has_all_its_time_again(supervision: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run()
    supervision.hold_limits(ref_to(run), 1, held=True)
    ended(database, run, TaskStatus.FAILED)
    again = supervision.reopen(run.run_id, second(run))
    assert supervision.limit_clock(run.run_id) == Clock()
    assert supervision.hold_limits(ref_to(again), 1, held=True).changes == 1
    assert events(database, run)[-1] == "limits_held"
