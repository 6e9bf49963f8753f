"""Crawls of flows: starts on record, their runs, refused starts and stops."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.definition import Need
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.words import ARCHIVE, START_REFUSED
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.flow_retrying import RetryPolicy, RetryRule
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.requests import FlowLink, RunRequest
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from tests.kit.authors.work import plain
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.flows import COMPLETED, FAILED, Flow, pushed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIVEN: dict[str, Any] = {"arguments": {"lang": "de"}, "settings": {"DELAY": "2"}}


def shop(**options: object) -> Workflow:
    return Workflow(id="w").add("shop", crawl("books", **GIVEN, label="site:shop"), **options)  # type: ignore[arg-type]


def test_a_start_has_the_request_for_its_run(database: Database) -> None:
    flow = pushed(database, shop())
    ref = flow.start("shop")
    starts = flow.start_crawls(ref)
    (start,) = starts.crawls
    assert (starts.stale, starts.ended) == ([], [])
    assert (start.start, start.workflow_id) == (ref, f"flow-{flow.uid}-0-1")
    link = FlowLink(flow_uid=flow.uid, flow_id="w", member=0, path="shop", generation=1, attempt=1)
    assert start.request == RunRequest(crawler="books", **GIVEN, labels=["site:shop"], flow=link)
    assert (flow.row("shop").state, flow.row("shop").attempt) == ("executing", 1)
    (record,) = flow.store.flow_records.page(limit=9)
    assert record.started_at


def test_labels_tags_and_priorities_reach_the_runs(database: Database) -> None:
    workflow = Workflow(id="w").add("high", crawl("books"), priority=500).add("low", crawl("books"), priority=-3)
    own = crawl("books", label="site:shop", labels=["lang:de"], tags=["nightly"], priority=7)
    workflow.add("own", own, priority=500).add("plain", crawl("books"))
    flow = pushed(database, workflow)
    starts = flow.start_crawls(*(flow.start(path) for path in ("high", "low", "own", "plain"))).crawls
    assert [start.request.priority for start in starts] == [100, -3, 7, None]
    assert (starts[2].request.labels, starts[2].request.tags) == (["lang:de", "site:shop"], ["nightly"])


def test_a_start_comes_again_whatever_doors_did(database: Database) -> None:
    flow = pushed(database, shop())
    ref = flow.start("shop")
    known = flow.flow
    first = flow.start_crawls(ref)
    flow.hold("pause")
    flow.cancel()
    flow.ref = known
    again = flow.start_crawls(ref, door=1)
    assert (again.crawls, again.stale, again.ended) == (first.crawls, first.stale, first.ended)
    assert (first.version, again.version) == (1, 1), "all tries have one number"
    assert flow.row("shop").attempt == 1


@pytest.mark.parametrize("hold", ["pause", "drain"])
def test_no_crawl_starts_behind_a_door_or_against_a_hold(database: Database, hold: str) -> None:
    flow = pushed(database, shop().add("other", crawl("books")))
    refs = flow.start("shop"), flow.start("other")
    flow.cancel("other")
    assert flow.start_crawls(*refs, door=1).stale == [0, 1]
    assert flow.start_crawls(*refs).stale == [1]
    flow.retry("other")
    flow.hold(hold)
    assert flow.start_crawls(flow.start("other")).stale == [1]
    wrong = flow.start("other").model_copy(update={"attempt": 2}), flow.start("other").model_copy(update={"number": 9})
    flow.hold("run")
    assert flow.start_crawls(*wrong).stale == [1, 9]


def test_an_attempt_has_a_single_run(database: Database) -> None:
    flow = pushed(database, shop())
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    run = flow.run(start, "execution")
    assert flow.run(start, "execution").run_id == run.run_id
    flow.close(run)
    with pytest.raises(Conflict, match=f"attempt 1 of 'shop' in flow 'w' has run {run.run_id} already"):
        flow.run(start, "another execution")


def test_the_next_attempt_may_start_before_the_write_about_the_last_one(database: Database) -> None:
    rule = RetryRule(outcomes=("failed",), pause_seconds=0, arguments={"lang": "fr"})
    flow = pushed(database, shop(retry=RetryPolicy(max_attempts=3, rules=(rule,))))
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    flow.close(flow.run(start), RunStatus.FAILED, "main_job_failed")
    assert flow.states["shop"] == "retryable"
    (again,) = flow.start_crawls(flow.start("shop")).crawls
    assert (again.start.attempt, again.request.arguments) == (2, {"lang": "fr"})
    row = flow.row("shop")
    assert (row.state, row.tries, row.attempt) == (MemberState.EXECUTING, 2, 2)
    assert flow.start_crawls(again.start).crawls == [again]
    first = start.start
    assert flow.start_crawls(first).crawls[0].request.arguments == {"lang": "de"}
    flow.close(flow.run(again))
    records = flow.store.flow_records.attempts("w", 0)
    assert [(item.attempt, item.kind, item.outcome) for item in records] == [
        (1, FAILED, "failed"),
        (2, COMPLETED, "finished"),
    ]
    assert records[1].run_id == flow.store.flow_records.kept("w").last_runs[0]


def test_memory_grows_with_every_attempt_that_ran_out_of_memory(database: Database) -> None:
    """A rule's `memory_factor` had no effect."""
    rule = RetryRule(outcomes=("killed by oom",), pause_seconds=0, memory_factor=2)
    flow = pushed(database, shop(retry=RetryPolicy(max_attempts=5, rules=(rule,))))
    factors = []
    for _ in range(3):
        (start,) = flow.start_crawls(flow.start("shop")).crawls
        factors.append(start.request.memory_factor)
        assert flow.start_crawls(start.start).crawls == [start], "a repeated start has the same request"
        run = flow.run(start)
        end_tasks(database, run, [None], TaskStatus.FAILED, "oom_killed")
        flow.close(run, RunStatus.FAILED, "main_job_failed")
    assert factors == [1, 2, 4]
    flow.cancel()
    flow.retry()
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    assert (start.start.generation, start.request.memory_factor) == (2, 4)


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED])
def test_the_own_word_of_a_crawl_chooses_the_rule(database: Database, status: RunStatus) -> None:
    rule = RetryRule(outcomes=("banned",), max_attempts=2, pause_seconds=3600)
    flow = pushed(database, shop(retry=RetryPolicy(rules=(rule,))))
    run = flow.run(flow.start_crawls(flow.start("shop")).crawls[0])
    is_completed = status is RunStatus.COMPLETED
    end_tasks(
        database, run, [CrawlResult(outcome="banned")], TaskStatus.SUCCEEDED if is_completed else TaskStatus.FAILED
    )
    flow.close(run, status, "all_succeeded" if is_completed else "main_job_failed")
    row = flow.row("shop")
    assert (row.state, row.outcome) == (MemberState.RETRYABLE, "banned")
    assert row.due == flow.store.runs.get(run.run_id).finished_at + timedelta(hours=1)  # type: ignore[operator]
    (seen,) = flow.read().runs
    assert (seen.status, seen.outcome) == (status, "banned")


def test_a_crawl_waits_for_its_archive(database: Database) -> None:
    flow = pushed(database, shop(when="archived"))
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    run = flow.run(start)
    flow.close(run)
    assert (flow.row("shop").state, flow.row("shop").cause) == (MemberState.EXECUTING, ARCHIVE)
    (seen,) = flow.read().runs
    assert not seen.archived
    with database.transaction() as connection:
        connection.execute(update(histories).values(export_state=ExportState.DONE))
    assert flow.row("shop").state is MemberState.COMPLETED


def test_a_refused_start_is_on_record_once(database: Database) -> None:
    flow = pushed(database, shop().add("after", plain, deps="shop"))
    ref = flow.start("shop")
    flow.start_crawls(ref)
    end = AttemptEnd(0, 1, FAILED, NOW, reason=START_REFUSED)
    ledger = flow.store.flow_ledger
    ledger.end_attempts(flow.flow, [end], {0: "unknown crawler"})
    ledger.end_attempts(flow.flow, [AttemptEnd(0, 1, COMPLETED, NOW)], {0: "another"})
    again = flow.start_crawls(ref)
    assert (again.crawls, again.ended) == ([], [end])
    assert flow.read().ends == (end,)
    assert flow.states["shop"] == "discarded"
    (record,) = flow.store.flow_records.page(limit=9)
    assert record.counts == {"discarded": 1, "suspended": 1}
    (attempt,) = flow.store.flow_records.attempts("w", 0)
    assert (attempt.reason, attempt.error, attempt.run_id) == (START_REFUSED, "unknown crawler", None)
    flow.go_on()
    assert flow.states == {"shop": "discarded", "after": "cancelled"}


def test_stops_reach_the_crawls_that_have_not_ended(database: Database) -> None:
    workflow = Workflow(id="w").add("step", plain)
    for name in ("running", "ended", "without", "waiting"):
        workflow.add(name, crawl("books"))
    flow = pushed(database, workflow)
    flow.begin_steps(flow.start("step"))
    crawls = flow.start_crawls(flow.start("running"), flow.start("ended"), flow.start("without")).crawls
    run = flow.run(crawls[0])
    flow.close(flow.run(crawls[1]))
    flow.cancel()
    ledger = flow.store.flow_ledger
    for _ in range(2):
        stops = ledger.crawls_to_stop(flow.flow, range(5))
        assert [(stop.number, stop.attempt, stop.run_id) for stop in stops] == [(1, 1, run.run_id), (3, 1, None)]
        assert stops[0].workflow_id == crawls[0].workflow_id
    assert flow.store.step_ledger.renew("host", timedelta(minutes=1), [(flow.uid, 0, 1)]) == {(flow.uid, 0, 1): True}
    unlinked = ledger.unlinked_crawls(flow.flow, datetime.now(UTC) + timedelta(minutes=1))
    assert [(stop.number, stop.workflow_id) for stop in unlinked] == [(3, crawls[2].workflow_id)]
    assert ledger.unlinked_crawls(flow.flow, NOW) == []


def test_only_a_crawl_with_dependents_on_its_tasks_tells_of_tasks(database: Database) -> None:
    definition = shop().add("other", crawl("books")).add("first", plain).definition()
    first = definition.members[2].model_copy(update={"needs": (Need(on=("shop",), task=3),)})
    members = (*definition.members[:2], first)
    store = SqlStore(database)
    answer = store.flow_doors.push(PushFlow(definition=definition.model_copy(update={"members": members})))
    flow = Flow(store, answer.flow_id, answer.flow_uid)
    links = [start.request.flow for start in flow.start_crawls(flow.start("shop"), flow.start("other")).crawls]
    assert [link.tells_tasks for link in links if link] == [True, False]


def counts(flow: Flow) -> dict[str, int]:
    (record,) = flow.store.flow_records.page(limit=9)
    return {state.value: count for state, count in record.counts.items()}


def test_lists_count_the_end_of_a_run_at_once(database: Database) -> None:
    flow = pushed(database, shop().add("other", crawl("books")))
    assert counts(flow) == {"available": 2}
    crawls = flow.start_crawls(flow.start("shop"), flow.start("other")).crawls
    assert counts(flow) == {"executing": 2}
    flow.close(flow.run(crawls[0]))
    assert counts(flow) == {"executing": 1, "completed": 1}
