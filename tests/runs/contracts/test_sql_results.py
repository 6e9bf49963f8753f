"""A run's outcome, sums and result are written with its end, and begin anew when the run is reopened."""

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import MakeRun, ref_to

BANNED = CrawlResult(outcome="banned", stats={"items": 3, "why": "403"}, result={"next": 7})
MORE = CrawlResult(outcome="finished", stats={"items": 4, "pages": 9}, result="unused")


def test_a_completed_run_has_its_main_tasks_word_and_result_and_the_sums(database: Database, make_run: MakeRun) -> None:
    run, store = make_run(4), SqlStore(database)
    assert (run.outcome, run.stats, run.result) == (None, None, None)
    end_tasks(database, run, [BANNED, MORE, None, MORE], TaskStatus.SUCCEEDED, None)
    closed = store.runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    assert (closed.outcome, closed.stats, closed.result) == ("banned", {"items": 11, "pages": 18}, {"next": 7})
    (line,) = store.records.page(limit=1)
    assert (line.outcome, line.stats) == ("banned", {"items": 11, "pages": 18})
    details = store.records.details(run.run_id)
    assert [task.crawl_result for task in details.tasks] == [BANNED, MORE, None, MORE]
    assert details.run.result == {"next": 7}


@pytest.mark.parametrize(("reason", "outcome"), [("oom_killed", "killed by oom"), ("exit_3", "banned")])
def test_a_failed_run_has_the_word_of_its_failure(
    database: Database, make_run: MakeRun, reason: str, outcome: str
) -> None:
    run = make_run(1)
    end_tasks(database, run, [BANNED], TaskStatus.FAILED, reason)
    closed = SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "main_job_failed")
    assert (closed.outcome, closed.stats, closed.result) == (outcome, {"items": 3}, {"next": 7})


def test_a_run_without_results_has_a_word_all_the_same(database: Database, make_run: MakeRun) -> None:
    run = make_run(2)
    end_tasks(database, run, [None, None], TaskStatus.SUCCEEDED, None)
    closed = SqlStore(database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    assert (closed.outcome, closed.stats, closed.result) == ("finished", None, None)


def test_a_reopened_run_has_no_outcome_until_its_next_end(database: Database, make_run: MakeRun) -> None:
    run, runs = make_run(1), SqlStore(database).runs
    end_tasks(database, run, [BANNED], TaskStatus.FAILED, "exit_3")
    runs.close(ref_to(run), RunStatus.FAILED, "main_job_failed")
    again = runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "another"))
    assert (again.outcome, again.stats, again.result) == (None, None, None)
    end_tasks(database, again, [MORE], TaskStatus.SUCCEEDED, None)
    closed = runs.close(ref_to(again), RunStatus.COMPLETED, "all_succeeded")
    assert (closed.outcome, closed.stats, closed.result) == ("finished", {"items": 4, "pages": 9}, "unused")


def test_a_result_of_null_and_control_characters_are_kept(database: Database, make_run: MakeRun) -> None:
    run = make_run(1)
    odd = CrawlResult(outcome="wärm \N{SNOWMAN}", stats={"\0": 1, "b\N{SNOWMAN}": 2}, result=["\0", "\u202e", None])
    end_tasks(database, run, [odd], TaskStatus.SUCCEEDED, None)
    closed = SqlStore(database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    assert (closed.outcome, closed.stats, closed.result) == (odd.outcome, odd.stats, odd.result)
