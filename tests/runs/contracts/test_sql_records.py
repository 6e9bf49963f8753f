"""Do people read what was written, newest first, page by page?"""

from datetime import UTC, datetime

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import task_histories
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunCounts, RunFilter, RunSummary
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import ListedStatus, RunStatus, TaskStatus, Trigger
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.data.statements import plan_of

REQUESTERS = [("ann", Trigger.API), ("bob", Trigger.API), (None, Trigger.API), ("ann", Trigger.MANUAL)]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_pages_go_from_the_newest_to_the_oldest(database: Database, make_run: MakeRun) -> None:
    made = [make_run(2).run_id for _ in range(5)]
    records, seen, before = SqlStore(database).records, list[int](), None
    while page := records.page(limit=2, before=before):
        seen.extend(run.run_id for run in page)
        before = seen[-1]
    assert seen == made[::-1]


def test_a_line_of_the_list_is_a_short_form_of_the_run(database: Database, make_run: MakeRun) -> None:
    run = make_run(3, trigger=Trigger.MANUAL)
    (line,) = SqlStore(database).records.page(limit=10)
    assert line == RunSummary(**{name: getattr(run, name) for name in RunSummary.model_fields})
    assert line.tasks == {TaskStatus.QUEUED: 3}


def test_lists_by_status_and_crawler(database: Database, make_run: MakeRun) -> None:
    books, upper = make_run(entry=Crawler(name="books")), make_run(entry=Crawler(name="BOOKS"))
    SqlStore(database).runs.mark_started(ref_to(upper))
    records = SqlStore(database).records

    def ids(status: RunStatus | None, crawler: str | None) -> list[int]:
        chosen = RunFilter(status=() if status is None else (status,), crawler=crawler)
        return [run.run_id for run in records.page(chosen, limit=9)]

    assert ids(None, "books") == [books.run_id]
    assert ids(RunStatus.PROCESSING, None) == [upper.run_id]
    assert ids(RunStatus.PROCESSING, "books") == []
    assert ids(None, "' OR 1=1 --") == []


def test_a_requester_is_found_with_and_without_the_token(database: Database, make_run: MakeRun) -> None:
    by_token, records = make_run(requested_by="dan_ (token shop)").run_id, SqlStore(database).records

    def ids(requester: str) -> list[int]:
        return [run.run_id for run in records.page(RunFilter(requested_by=requester), limit=9)]

    assert ids("dan_") == ids("dan_ (token shop)") == [by_token]
    assert ids("dan") == ids("dan%") == ids("danx") == ids("shop") == []


def test_lists_and_counts_choose_alike(database: Database, make_run: MakeRun) -> None:
    runs = [make_run(requested_by=name, trigger=trigger) for name, trigger in REQUESTERS]
    store = SqlStore(database)
    for run, reason in zip(runs, ("stopped", "stopped_forced", "too_many_failures"), strict=False):
        store.tasks.cancel_queued(ref_to(run), "stopped")
        store.runs.close(ref_to(run), RunStatus.FAILED, reason)
    records = store.records

    def numbers(chosen: RunFilter) -> list[int]:
        numbered = [
            runs.index(run) + 1 for run in runs for line in records.page(chosen, limit=9) if line.run_id == run.run_id
        ]
        assert sum(records.counts(chosen).counts.values()) == len(numbered)
        return numbered

    assert numbers(RunFilter(listed=(ListedStatus.STOPPED,))) == [1, 2]
    assert numbers(RunFilter(listed=(ListedStatus.FAILED,))) == [3]
    assert numbers(RunFilter(listed=(ListedStatus.FAILED, ListedStatus.INITIALIZING))) == [3, 4]
    assert numbers(RunFilter(status=(RunStatus.FAILED,))) == [1, 2, 3]
    assert numbers(RunFilter(reason="stopped_forced")) == [2]
    assert numbers(RunFilter(requested_by="ann")) == [1, 4]
    assert numbers(RunFilter(trigger=(Trigger.MANUAL,), requested_by="ann")) == [4]
    assert numbers(RunFilter(since=runs[1].created_at, until=runs[3].created_at)) == [2, 3]
    assert numbers(RunFilter(search=str(runs[2].run_id))) == [3]
    counts = {ListedStatus.STOPPED: 2, ListedStatus.FAILED: 1, ListedStatus.INITIALIZING: 1}
    assert records.counts(RunFilter()) == RunCounts(counts=counts)


def test_lists_and_counts_by_outcome_and_label(database: Database, make_run: MakeRun) -> None:
    labels = [["site:a.example"], ["site:a.example", "tenant:acme"], []]
    banned, finished, other = (make_run(1, labels=own) for own in labels)
    records = SqlStore(database).records
    for run, word in ((banned, "banned"), (finished, None)):
        end_tasks(database, run, [CrawlResult(outcome=word)])
        SqlStore(database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")

    def ids(**chosen: str) -> list[int]:
        numbers = [run.run_id for run in records.page(RunFilter(**chosen), limit=9)]
        assert sum(records.counts(RunFilter(**chosen)).counts.values()) == len(numbers)
        return numbers

    assert ids(outcome="banned") == [banned.run_id]
    assert ids(outcome="finished") == [finished.run_id]
    assert ids(outcome="Banned") == ids(outcome="banned ") == []
    assert ids(label="site:a.example") == [finished.run_id, banned.run_id]
    assert ids(label="tenant:acme", outcome="finished") == [finished.run_id]
    assert ids(label="site:a") == []
    assert other.run_id not in ids(label="tenant:acme")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("chosen", "index"),
    [({"outcome": "banned"}, "ix_histories_outcome"), ({"label": "a:b"}, "ix_history_labels_label")],
)
def test_an_outcome_and_a_label_are_found_by_an_index(database: Database, chosen: dict[str, str], index: str) -> None:
    plan = plan_of(database, lambda: SqlStore(database).records.page(RunFilter(**chosen), limit=9))
    assert index in plan, plan
    assert "SCAN histories" not in plan.replace("SCAN histories USING INDEX", ""), plan


def test_each_crawler_has_its_latest_run_and_its_latest_ends(database: Database, make_run: MakeRun) -> None:
    """However many runs of other crawlers came later."""
    records, runs = SqlStore(database).records, SqlStore(database).runs
    ended = [make_run(1, entry=Crawler(name="rare")) for _ in range(12)]
    for number, run in enumerate(ended):
        end_tasks(database, run, [CrawlResult(outcome="banned" if number == 11 else None)])
        runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    stopped, latest = (make_run(1, entry=Crawler(name="rare")) for _ in range(2))
    SqlStore(database).tasks.cancel_queued(ref_to(stopped), "stopped")
    runs.close(ref_to(stopped), RunStatus.FAILED, "stopped")
    busy = [make_run(1, entry=Crawler(name="busy")) for _ in range(3)]
    rare, never, other = records.by_crawler(["rare", "never", "busy"])
    assert (rare.crawler, rare.latest and rare.latest.run_id) == ("rare", latest.run_id)
    assert rare.latest == records.summaries([latest.run_id])[0]
    assert [(end.run_id, end.status, end.outcome) for end in rare.ends[:3]] == [
        (stopped.run_id, ListedStatus.STOPPED, "cancelled"),
        (ended[11].run_id, ListedStatus.COMPLETED, "banned"),
        (ended[10].run_id, ListedStatus.COMPLETED, "finished"),
    ]
    assert len(rare.ends) == 10
    assert (never.crawler, never.latest, never.ends) == ("never", None, [])
    assert (other.latest and other.latest.run_id, other.ends) == (busy[-1].run_id, [])


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_runs_of_crawlers_are_found_by_an_index(database: Database) -> None:
    plan = plan_of(database, lambda: SqlStore(database).records.by_crawler(["a", "b"]))
    assert "SCAN histories" not in plan, plan
    assert "ix_histories_crawler" in plan, plan


def test_why_a_run_failed_stands_in_every_list_and_record_of_it(database: Database, make_run: MakeRun) -> None:
    failed, stopped, running = (make_run(3, requested_by=name) for name in ("ann", "bob", "cid"))
    store = SqlStore(database)
    with database.transaction() as connection:
        of = task_histories.c
        third = task_histories.update().where(of.history_id == failed.run_id, of.task == 2)
        connection.execute(third.values(status=TaskStatus.FAILED, reason="exit_3", exit_code=3, log_tail="no room\n"))
    store.runs.request_stop(stopped.run_id, StopRequest(actor="ann", door="api", reason="wrong site"), NOW)
    for run, reason in ((failed, "too_many_failures"), (stopped, "stopped")):
        store.tasks.cancel_queued(ref_to(run), "stopped")
        store.runs.close(ref_to(run), RunStatus.FAILED, reason)
    records = store.records
    listed = {run.run_id: run for run in records.page(limit=9)}
    live = {run.run_id: run for run in records.summaries(list(listed))}
    for run in (failed, stopped, running):
        shown = records.overview(run.run_id).run
        assert listed[run.run_id].explanation == shown.explanation == live[run.run_id].explanation
    why = listed[failed.run_id].explanation
    assert why is not None
    assert (why.task, why.exit_code, why.last_line) == (2, 3, "no room")
    assert why.text == "task 2 FAILED with exit code 3: no room"
    by_ann = listed[stopped.run_id].explanation
    assert by_ann is not None
    assert by_ann.text.startswith("stopped by ann (api): ")
    assert listed[running.run_id].explanation is None


def test_details_are_all_there_is(database: Database, make_run: MakeRun) -> None:
    run = make_run(12, requested_by="ann")
    details = SqlStore(database).records.details(run.run_id)
    assert details.run == run
    assert [task.task for task in details.tasks] == list(range(12))
    (line,) = details.log
    assert (line.event, line.actor, line.at, line.message) == (
        "created",
        "ann",
        run.created_at,
        "api run of books, 12 tasks",
    )
    with pytest.raises(NotFound):
        SqlStore(database).records.details(run.run_id + 999)


def test_runs_are_found_by_their_execution_and_by_their_uid(database: Database, make_run: MakeRun) -> None:
    run, records = make_run(), SqlStore(database).records
    runs = SqlStore(database).runs
    assert runs.find(run.workflow_id, run.first_execution_run_id) == run
    assert runs.find(run.workflow_id, "another") is None
    assert records.run_id(run.run_uid) == run.run_id
    with pytest.raises(NotFound):
        records.run_id("00000000-0000-0000-0000-000000000000")


def test_who_made_which_run(database: Database, make_run: MakeRun) -> None:
    first, second = sorted((make_run() for _ in range(2)), key=lambda run: run.workflow_id)
    made = SqlStore(database).records.scheduled_runs(first.workflow_id, second.workflow_id)
    mine = [each for each in made if each.workflow_id in (first.workflow_id, second.workflow_id)]
    assert {(each.workflow_id, each.first_execution, each.created_at, each.finished_at) for each in mine} == {
        (run.workflow_id, run.first_execution_run_id, run.created_at, None) for run in (first, second)
    }
    only = SqlStore(database).records.scheduled_runs(first.workflow_id, first.workflow_id)
    assert [each.workflow_id for each in only] == [first.workflow_id]
