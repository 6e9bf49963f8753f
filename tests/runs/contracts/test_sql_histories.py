"""Do runs keep what their supervisor writes, once, and nothing that somebody else writes in its name?"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.databases import MakeRun, in_substance, ref_to

TIMES = st.datetimes(datetime.fromisoformat("1971-01-01"), timezones=st.just(UTC))
ASKED = datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)


def new_run(tasks: int = 3, **fields: str) -> NewRun:
    request = RunRequest(crawler="books", arguments={"query": "naïve 'quotes' %s 😀\n"}, max_parallel=2)
    execution = {"workflow_id": "crawl-books", "first_execution_run_id": "first", **fields}
    return NewRun(request, Crawler(name="books", command=["crawl", "--all"]), tasks, **execution)


def finish(database: Database, run: RunRef) -> None:
    """Every task of the run succeeds."""
    tasks = SqlStore(database).tasks
    rows = tasks.rows(run.run_id, range(1000))
    changes = [
        TaskChange(task=row.task, attempt=row.attempt, version=row.version, status=TaskStatus.SUCCEEDED) for row in rows
    ]
    tasks.sync(run, changes)


def events(database: Database, run: RunRef) -> list[str]:
    return [line.event for line in SqlStore(database).records.details(run.run_id).log]


def test_a_run_is_as_it_was_asked_for(database: Database) -> None:
    histories, new = SqlStore(database).runs, new_run()
    run = histories.create(new)
    assert histories.get(run.run_id) == run
    assert run.request.model_dump(exclude={"left_open"}) == new.request.model_dump()
    assert (run.entry, run.epoch) == (new.entry, 1)
    assert (run.status, run.intent, run.tasks) == (RunStatus.INITIALIZING, Intent.RUN, {TaskStatus.QUEUED: 3})
    assert run.installation == SqlStore(database).records.installation()
    assert SqlStore(database).tasks.by_status(run.run_id) == {TaskStatus.QUEUED: [0, 1, 2]}


def test_the_same_execution_has_one_run(database: Database) -> None:
    histories = SqlStore(database).runs
    first = histories.create(new_run())
    assert histories.create(new_run(tasks=9)) == first
    assert histories.create(new_run(workflow_id="CRAWL-books")).run_id != first.run_id


def test_a_workflow_id_stands_for_one_run_at_a_time(database: Database) -> None:
    """Or else the stop of a run whose workflow was terminated would reach the next one of that name."""
    histories = SqlStore(database).runs
    first, next_day = histories.create(new_run()), new_run(first_execution_run_id="second")
    with pytest.raises(BadInput, match=f"belongs to run {first.run_id}, which is not over"):
        histories.create(next_day)
    SqlStore(database).tasks.cancel_queued(ref_to(first), "stopped")
    histories.close(ref_to(first), RunStatus.FAILED, "stopped")
    assert histories.create(next_day).run_id != first.run_id


def test_created_at_the_same_time_it_is_still_one(database: Database) -> None:
    histories = SqlStore(database).runs
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(histories.create, [new_run(tasks=50)] * 16))
    assert len({run.run_id for run in runs}) == 1
    assert len(SqlStore(database).records.details(runs[0].run_id).tasks) == 50
    assert events(database, ref_to(runs[0])) == ["created"]


def test_an_id_too_long_leaves_nothing(database: Database) -> None:
    with pytest.raises(BadInput, match="workflow_id"):
        SqlStore(database).runs.create(new_run(workflow_id="x" * 701))
    assert SqlStore(database).records.page(limit=9) == []


def test_a_run_id_never_comes_back(database: Database, make_run: MakeRun) -> None:
    assert len({make_run().run_id for _ in range(5)}) == 5


def test_no_such_run(database: Database) -> None:
    nobody = RunRef(run_id=12345678, run_uid="0" * 36, epoch=1)
    with pytest.raises(NotFound):
        SqlStore(database).runs.get(nobody.run_id)
    with pytest.raises(NotFound):
        SqlStore(database).runs.mark_started(nobody)
    with pytest.raises(NotFound):
        SqlStore(database).tasks.by_status(nobody.run_id)


WRITES: dict[str, Callable[[Database, RunRef], object]] = {
    "set_property": lambda db, run: SqlStore(db).runs.set_property(run, "name", "value"),
    "note": lambda db, run: SqlStore(db).runs.note(run, "key", "undelivered", "why"),
    "mark_started": lambda db, run: SqlStore(db).runs.mark_started(run),
    "mark_waiting": lambda db, run: SqlStore(db).runs.mark_waiting(run, "quota", None),
    "mark_look": lambda db, run: SqlStore(db).runs.mark_look(run, 1, True, None, None),
    "stop": lambda db, run: SqlStore(db).runs.log_stop(run, StopRequest(), ASKED),
    "close": lambda db, run: SqlStore(db).runs.close(run, RunStatus.FAILED, "stopped"),
    "sync": lambda db, run: SqlStore(db).tasks.sync(run, []),
    "reconcile": lambda db, run: SqlStore(db).tasks.reconcile(run, []),
    "cancel_queued": lambda db, run: SqlStore(db).tasks.cancel_queued(run, "stopped"),
    "claim_main": lambda db, run: SqlStore(db).claims.claim_main(run, "token", timedelta(minutes=1)),
    "settle": lambda db, run: SqlStore(db).runs.settle_export(run, "x", ExportState.DONE, None, None),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_supervisor_that_was_replaced_writes_nothing(
    database: Database, make_run: MakeRun, write: Callable[[Database, RunRef], object]
) -> None:
    run = make_run(2)
    before = SqlStore(database).records.details(run.run_id)
    for epoch in (0, 2):
        with pytest.raises(Fenced):
            write(database, ref_to(run).model_copy(update={"epoch": epoch}))
    with pytest.raises(NotFound):  # the number was given again after a restore
        write(database, ref_to(run).model_copy(update={"run_uid": "0" * 36}))
    assert SqlStore(database).records.details(run.run_id) == before


def test_a_property_is_replaced(database: Database, make_run: MakeRun) -> None:
    run, histories = ref_to(make_run()), SqlStore(database).runs
    for value in ("one", "one", "two"):
        histories.set_property(run, "workflow_id", value)
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT name, value FROM history_properties").all()
    assert [tuple(row) for row in rows] == [("workflow_id", "two")]


def test_a_line_with_the_same_key_is_logged_once(database: Database, make_run: MakeRun) -> None:
    run, histories = ref_to(make_run()), SqlStore(database).runs
    for key, message in (("a", "first 🕷"), ("a", "again"), ("b", "x" * 9000)):
        histories.note(run, key, "undelivered", message)
    logged = [
        line.message for line in SqlStore(database).records.details(run.run_id).log if line.event == "undelivered"
    ]
    assert logged[0] == "first 🕷"
    assert logged[1].startswith("x" * 3000)
    assert len(logged) == 2


def test_started_once_and_never_backwards(database: Database, make_run: MakeRun) -> None:
    run, histories = ref_to(make_run()), SqlStore(database).runs
    histories.mark_waiting(run, "quota", "full")
    started = histories.mark_started(run)
    assert (started.status, started.waiting_cause) == (RunStatus.PROCESSING, None)
    assert started.started_at
    assert in_substance(histories.mark_started(run)) == in_substance(started)
    SqlStore(database).runs.log_stop(run, StopRequest(), ASKED)
    assert histories.mark_started(run).status is RunStatus.STOPPING
    assert events(database, run) == ["created", "started", "stop"]


def test_a_run_waits_since_its_cause_began(database: Database, make_run: MakeRun) -> None:
    run, histories = ref_to(make_run()), SqlStore(database).runs
    since = histories.mark_waiting(run, "quota", "full")
    assert since is not None
    assert histories.mark_waiting(run, "quota", "still full") == since
    record = histories.get(run.run_id)
    assert (record.waiting_since, record.waiting_message) == (since, "still full")
    later = histories.mark_waiting(run, "image_pull", None)
    assert later is not None
    assert later > since
    assert histories.mark_waiting(run, None, None) is None
    assert histories.get(run.run_id).waiting_since is None


def test_looks_are_noted(database: Database, make_run: MakeRun) -> None:
    run, histories = ref_to(make_run()), SqlStore(database).runs
    histories.mark_look(run, 3, True, None, ASKED)
    good = histories.get(run.run_id)
    assert (good.nudge_acknowledged, good.look_problem, good.next_look_at) == (3, None, ASKED)
    assert good.last_look_at
    histories.mark_look(run, 2, False, "no answer", ASKED)
    bad = histories.get(run.run_id)
    assert (bad.nudge_acknowledged, bad.look_problem, bad.last_look_at) == (3, "no answer", good.last_look_at)


def test_a_stop_is_logged_once_and_only_escalates(database: Database, make_run: MakeRun) -> None:
    run = ref_to(make_run())
    by_ann = StopRequest(actor="ann", reason="wrong arguments", door="cli")
    assert [SqlStore(database).runs.log_stop(run, by_ann, ASKED) for _ in range(3)] == [Intent.STOP] * 3
    assert SqlStore(database).runs.log_stop(run, StopRequest(force=True, actor="bob"), ASKED) is Intent.FORCE
    assert SqlStore(database).runs.log_stop(run, by_ann, ASKED + timedelta(seconds=1)) is Intent.FORCE
    details = SqlStore(database).records.details(run.run_id)
    assert (details.run.status, details.run.intent) == (RunStatus.STOPPING, Intent.FORCE)
    stops = [(line.event, line.actor, line.at) for line in details.log[1:]]
    assert stops == [
        ("stop", "ann", ASKED),
        ("force stop", "bob", ASKED),
        ("stop", "ann", ASKED + timedelta(seconds=1)),
    ]
    assert (details.log[1].message, details.log[1].door) == ("wrong arguments", "cli")


def test_a_run_ends_when_its_tasks_have_and_keeps_its_end(database: Database, make_run: MakeRun) -> None:
    run, histories = ref_to(make_run(2)), SqlStore(database).runs
    with pytest.raises(Conflict, match="2 of its tasks are not over"):
        histories.close(run, RunStatus.COMPLETED, "all_succeeded")
    finish(database, run)
    histories.mark_waiting(run, "quota", None)
    closed = histories.close(run, RunStatus.COMPLETED, "all_succeeded")
    assert (closed.status, closed.reason, closed.waiting_cause) == (RunStatus.COMPLETED, "all_succeeded", None)
    assert closed.finished_at
    assert in_substance(histories.close(run, RunStatus.FAILED, "tasks_lost")) == in_substance(closed)
    assert SqlStore(database).runs.log_stop(run, StopRequest(force=True), ASKED) is Intent.RUN
    assert histories.mark_waiting(run, "quota", None) is None
    assert in_substance(histories.get(run.run_id)) == in_substance(closed)
    assert events(database, run) == ["created", "ended", "force stop"], "that it came too late is told"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=50), repeat=st.sampled_from([1, 500]), at=TIMES)
@pytest.mark.long
def test_any_words_at_any_time_can_be_a_stop(
    database: Database, make_run: MakeRun, text: str, repeat: int, at: datetime
) -> None:
    run, said = ref_to(make_run()), text * repeat
    stop = StopRequest(actor=said[:256], reason=said[:1024], door=said[:64])
    for _ in range(2):
        SqlStore(database).runs.log_stop(run, stop, at)
    line = SqlStore(database).records.details(run.run_id).log[-1]
    words = said.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert (line.actor, line.door, line.at) == (words[:256], words[:64], at)
    assert line.message == (words[:1024] or "no reason given")
    assert len(events(database, run)) == 2
