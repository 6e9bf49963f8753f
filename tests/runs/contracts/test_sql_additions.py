"""Adding tasks and ending a run exclude each other, on both databases."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, Conflict, NotFound
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import Addition
from tests.kit.data.databases import MakeRun, ref_to


def adding(run_id: int, count: int, key: str = "k", most: int = 5000) -> Addition:
    return Addition(run_id, count, key, most, actor="ann", door="test")


def end_task(database: Database, run: RunRecord) -> None:
    change = TaskChange(task=0, attempt=1, version=1, status=TaskStatus.SUCCEEDED, reason="completed")
    assert SqlStore(database).tasks.sync(ref_to(run), [change]) == 1


def test_new_tasks_follow_the_old_and_a_key_is_used_once(database: Database, make_run: MakeRun) -> None:
    run, additions, records = make_run(2), SqlStore(database).tasks, SqlStore(database).records
    assert additions.add(adding(run.run_id, 2500)) == range(2, 2502)
    assert additions.add(adding(run.run_id, 2500)) == range(2, 2502)
    SqlStore(database).runs.mark_started(ref_to(run))
    assert additions.add(adding(run.run_id, 1, "other")) == range(2502, 2503)
    assert records.overview(run.run_id).run.tasks == {TaskStatus.QUEUED: 2503}
    (last,) = records.tasks(run.run_id, first=2502, limit=9)
    assert (last.status, last.attempt, last.cause) == (TaskStatus.QUEUED, 1, "dispatcher")
    lines = [line for line in records.overview(run.run_id).log if line.event == "tasks added"]
    assert [(line.message, line.actor) for line in lines] == [
        ("2500 more, 2 to 2501", "ann"),
        ("1 more, 2502 to 2502", "ann"),
    ]


def test_refused_where_a_run_ends(database: Database, make_run: MakeRun) -> None:
    additions, histories = SqlStore(database).tasks, SqlStore(database).runs
    stopping, ending = make_run(), make_run()
    SqlStore(database).runs.request_stop(stopping.run_id, StopRequest(), datetime.now(UTC))
    with pytest.raises(Conflict, match="being stopped"):
        additions.add(adding(stopping.run_id, 1))
    end_task(database, ending)
    with pytest.raises(Conflict, match="about to end"):
        additions.add(adding(ending.run_id, 1))
    histories.close(ref_to(ending), RunStatus.COMPLETED, "all_succeeded")
    with pytest.raises(Conflict, match="is over"):
        additions.add(adding(ending.run_id, 1))
    with pytest.raises(NotFound):
        additions.add(adding(4711, 1))


def test_no_more_than_the_installation_allows(database: Database, make_run: MakeRun) -> None:
    run = make_run(3)
    with pytest.raises(BadInput, match="count"):
        SqlStore(database).tasks.add(adding(run.run_id, 3, most=5))
    assert SqlStore(database).tasks.add(adding(run.run_id, 2, most=5)) == range(3, 5)


def test_at_once_with_the_end_only_one_of_them_happens(database: Database, make_run: MakeRun) -> None:
    additions, histories = SqlStore(database).tasks, SqlStore(database).runs

    def end(run: RunRecord) -> bool:
        try:
            end_task(database, run)
            histories.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
        except Conflict:
            return False
        return True

    def add(run: RunRecord) -> bool:
        try:
            additions.add(adding(run.run_id, 1))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for _ in range(8):
            run = make_run()
            ended, added = pool.submit(end, run), pool.submit(add, run)
            assert {ended.result(60), added.result(60)} == {True, False}
