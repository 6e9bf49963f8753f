"""The audit's readings of crawl managers, and its repairs: attempts, runs and ends that do not agree."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, update

from crawler_lifecycle.audits.ports import DoubtfulAttempt
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flow_attempts
from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.turns import NO_EFFECTS
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.model.manager_items import CodeProblem, ItemState
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.flows import pushed
from tests.kit.data.managers import Managed, managed

A_MOMENT = timedelta(seconds=5)


@pytest.fixture
def flow(database: Database) -> Managed:
    flow = managed(database)
    flow.offer(*"abc")
    return flow


def later() -> datetime:
    return datetime.now(UTC) + A_MOMENT


def doubtful(flow: Managed, **fields: object) -> list[DoubtfulAttempt]:
    return list(flow.store.manager_audits.doubtful(later(), **{"limit": 100, **fields}))  # type: ignore[arg-type]


def test_an_attempt_without_a_run_is_found_with_its_request(flow: Managed) -> None:
    start = flow.started(2)
    (entry,) = doubtful(flow)
    assert (entry.number, entry.attempt, entry.key, entry.run_id) == (2, 1, start.job.key, None)
    assert entry.request == start.request
    assert flow.store.manager_audits.doubtful(datetime.now(UTC) - A_MOMENT, limit=9) == []


def test_an_attempt_with_a_run_under_way_is_in_no_doubt(flow: Managed) -> None:
    flow.run_of(flow.started())
    assert doubtful(flow) == []


def test_pages_follow_each_other(flow: Managed) -> None:
    for number in (1, 2, 3):
        flow.started(number)
    (first,) = doubtful(flow, limit=1)
    assert [entry.number for entry in doubtful(flow, after=first.position)] == [2, 3]


@pytest.mark.parametrize("has_ended", [False, True])
def test_an_attempt_that_does_not_know_its_run_is_told(flow: Managed, database: Database, has_ended: bool) -> None:
    start = flow.started()
    run = flow.ended_run(start, RunStatus.FAILED) if has_ended else flow.run_of(start)
    blank = {"run_id": None, "run_uid": None, "ended_at": None, "outcome": None}
    with database.transaction() as tx:
        tx.execute(update(manager_attempts).values(**blank))
    (entry,) = doubtful(flow)
    assert (entry.run_id, entry.knows_run) == (run.run_id, False)
    assert flow.store.manager_audits.copy_run(entry.flow_uid, entry.member, entry.attempt)
    (job,) = flow.ended() if has_ended else flow.managers.running(flow.mine)
    assert (job.run_id, job.is_failed) == (run.run_id, has_ended)
    assert [entry.knows_run for entry in doubtful(flow)] == [True] * has_ended  # nobody has reacted to the end yet


def test_an_end_without_a_reaction_is_found_until_the_reaction(flow: Managed) -> None:
    flow.ended_run(flow.started())
    (entry,) = doubtful(flow)
    assert entry.knows_run
    assert not entry.is_failing
    flow.managers.pause(flow.mine, CodeProblem(phase="hook", error="ValueError: no"))
    assert [entry.is_failing for entry in doubtful(flow)] == [True]
    flow.react(flow.ended()[0])
    assert doubtful(flow) == []


def test_the_runs_of_a_closed_manager_are_left_alone_and_missing_starts_are_found(flow: Managed) -> None:
    flow.run_of(flow.started(1))
    flow.ended_run(flow.started(2))
    flow.started(3)
    flow.managers.close(flow.mine, "left", NO_EFFECTS, 0)
    (entry,) = doubtful(flow)
    assert (entry.number, entry.run_id) == (3, None)
    assert flow.store.manager_audits.refuse(entry.flow_uid, entry.member, entry.attempt, Refusal("no such crawler"))
    assert doubtful(flow) == []


def test_a_refusal_ends_the_item_and_no_other(flow: Managed) -> None:
    flow.started(1)
    flow.run_of(flow.started(2))
    attempts = [(entry.flow_uid, entry.member, entry.attempt) for entry in doubtful(flow)]
    assert [flow.store.manager_audits.refuse(*attempt, Refusal("no such crawler")) for attempt in attempts] == [True]
    assert [flow.store.manager_audits.refuse(*attempt, Refusal("again")) for attempt in attempts] == [False]
    records = flow.store.manager_doors.items(flow.id, limit=9)
    assert [record.state for record in records] == [ItemState.REFUSED, ItemState.RUNNING, ItemState.WAITING]
    assert records[0].problem == "no such crawler"
    assert flow.managers.counts(flow.mine).refused == 1


def test_a_run_without_an_attempt_is_found(flow: Managed, database: Database) -> None:
    run = flow.run_of(flow.started())
    audits = flow.store.manager_audits
    assert audits.unknown_runs(later(), 9) == []
    with database.transaction() as tx:
        tx.execute(delete(manager_attempts))
    (entry,) = audits.unknown_runs(later(), 9)
    assert (entry.run_id, entry.run_uid, entry.flow_id) == (run.run_id, run.run_uid, flow.id)
    assert not audits.copy_run(flow.uid, 99, 1)


def test_a_run_of_a_graph_without_an_attempt_is_found(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")))
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    run = flow.run(start)
    audits = flow.store.manager_audits
    assert audits.unknown_runs(later(), 9) == []
    with database.transaction() as tx:
        tx.execute(delete(flow_attempts))
    (entry,) = audits.unknown_runs(later(), 9)
    assert (entry.run_id, entry.run_uid, entry.flow_id) == (run.run_id, run.run_uid, "w")
