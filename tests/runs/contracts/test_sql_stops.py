"""Is a stop from any door on record at once and for good, told once, and only for a run that is under way?"""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Conflict, Fenced, NotFound
from crawler_lifecycle.model.records import LogRecord, RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase
from crawler_lifecycle.runs.ports import Runs, SupervisorExecution
from tests.kit.data.databases import MakeRun, give_away, ref_to

ASKED = datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)
BY_ANN = StopRequest(actor="ann", reason="wrong site", door="crawlctl")
BY_BOB = StopRequest(actor="bob", door="page", force=True)


@pytest.fixture
def stops(database: Database) -> Runs:
    return SqlStore(database).runs


def end(database: Database, run: RunRecord) -> RunRecord:
    """The run ends FAILED: its tasks never ran."""
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    return SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")


def told(database: Database, run: RunRecord) -> list[LogRecord]:
    return SqlStore(database).records.details(run.run_id).log[1:]


def test_a_stop_from_a_door_is_on_record_at_once(stops: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run(2)
    asked = stops.request_stop(run.run_id, BY_ANN, ASKED)
    assert (asked.status, asked.intent, asked.epoch) == (RunStatus.STOPPING, Intent.STOP, run.epoch)
    assert SqlStore(database).runs.get(run.run_id) == asked
    assert told(database, run) == [
        LogRecord(at=ASKED, event="stop", message="wrong site", actor="ann", door="crawlctl")
    ]


def test_what_its_supervisor_logs_of_the_same_stop_is_the_same_line(
    stops: Runs, make_run: MakeRun, database: Database
) -> None:
    run = make_run()
    for _ in range(2):
        stops.request_stop(run.run_id, BY_ANN, ASKED)
        assert stops.log_stop(ref_to(run), BY_ANN, ASKED) is Intent.STOP
    assert len(told(database, run)) == 1
    stops.log_stop(ref_to(run), BY_ANN.model_copy(update={"actor": "bob"}), ASKED)
    stops.request_stop(run.run_id, BY_ANN, ASKED + timedelta(microseconds=1))
    assert [(line.actor, line.at - ASKED) for line in told(database, run)] == [
        ("ann", timedelta()),
        ("bob", timedelta()),
        ("ann", timedelta(microseconds=1)),
    ]


def test_a_force_escalates_and_is_not_taken_back(stops: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run()
    wishes = [(BY_ANN, ASKED), (BY_BOB, ASKED), (BY_ANN, ASKED + timedelta(seconds=1))]
    assert [stops.request_stop(run.run_id, *wish).intent for wish in wishes] == [
        Intent.STOP,
        Intent.FORCE,
        Intent.FORCE,
    ]
    assert [line.event for line in told(database, run)] == ["stop", "force stop", "stop"]


def test_stops_of_nobody_in_one_moment_are_told_apart_by_what_they_want(
    stops: Runs, make_run: MakeRun, database: Database
) -> None:
    """All that came while there was no worker has the time at which one took it up."""
    run = make_run()
    wishes = [StopRequest(reason="one"), StopRequest(reason="two", force=True), StopRequest(door="page")]
    for _ in range(2):
        for wish in wishes:
            stops.log_stop(ref_to(run), wish, ASKED)
    assert [(line.event, line.message, line.door) for line in told(database, run)] == [
        ("stop", "one", "temporal"),
        ("force stop", "two", "temporal"),
        ("stop", "no reason given", "page"),
    ]


def test_a_run_that_is_over_has_nothing_to_stop(stops: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run()
    end(database, run)
    before = SqlStore(database).records.details(run.run_id)
    with pytest.raises(Conflict, match=r"run \d+ is over \(FAILED, stopped\): there is nothing to stop"):
        stops.request_stop(run.run_id, BY_BOB, ASKED)
    assert SqlStore(database).records.details(run.run_id) == before


def test_a_run_that_does_not_exist_cannot_be_stopped(stops: Runs, make_run: MakeRun) -> None:
    with pytest.raises(NotFound, match="there is no run"):
        stops.request_stop(make_run().run_id + 999, BY_ANN, ASKED)


def test_a_run_of_another_installation_is_not_stopped(
    stops: Runs, make_run: MakeRun, database: Database, database_url: str
) -> None:
    run = make_run(2)
    other = give_away(database_url)
    before = SqlStore(database).records.details(run.run_id)
    with pytest.raises(Conflict, match=f"run {run.run_id} belongs to installation {other}"):
        stops.request_stop(run.run_id, BY_BOB, ASKED)
    assert SqlStore(database).records.details(run.run_id) == before


def test_many_doors_at_once_are_one_stop_with_a_line_for_each(
    stops: Runs, make_run: MakeRun, database: Database
) -> None:
    run, together = make_run(), threading.Barrier(8)

    def ask(number: int) -> Intent:
        together.wait(timeout=30)
        actor = StopRequest(actor=f"actor-{number % 4}", force=number == 5)
        return stops.request_stop(run.run_id, actor, ASKED).intent

    with ThreadPoolExecutor(8) as pool:
        intents = list(pool.map(ask, range(8)))
    assert intents[5] is Intent.FORCE
    assert SqlStore(database).runs.get(run.run_id).intent is Intent.FORCE
    lines = [(line.event, line.actor) for line in told(database, run)]
    assert sorted(lines) == [("force stop", "actor-1"), *(("stop", f"actor-{number}") for number in range(4))]


def test_a_stop_and_the_end_of_its_run_exclude_each_other(stops: Runs, make_run: MakeRun, database: Database) -> None:
    """Either the stop is refused, or the run was not over yet when it came."""
    for _ in range(10):
        run, together = make_run(), threading.Barrier(2)
        SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")

        def close(run: RunRecord = run, together: threading.Barrier = together) -> RunRecord:
            together.wait(timeout=30)
            return SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "tasks_lost")

        with ThreadPoolExecutor(1) as pool:
            closed = pool.submit(close)
            together.wait(timeout=30)
            try:
                stopped = stops.request_stop(run.run_id, BY_ANN, ASKED).status is RunStatus.STOPPING
            except Conflict:
                stopped = False
            assert closed.result(timeout=30).status is RunStatus.FAILED
        events = [line.event for line in told(database, run)]
        assert events == (["stop", "ended"] if stopped else ["ended"])


def test_a_phase_is_noted_once_for_each_end(stops: Runs, make_run: MakeRun, database: Database) -> None:
    run = make_run()
    stops.request_stop(run.run_id, BY_ANN, ASKED)
    for message in ("2 jobs", "3 jobs"):
        stops.note_stop_phase(ref_to(run), StopPhase.JOBS_ASKED, message)
    stops.note_stop_phase(ref_to(run), StopPhase.PROVED, "nothing is left")
    end(database, run)
    again = SqlStore(database).runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "second"))
    for message in ("4 jobs", "5 jobs"):
        stops.note_stop_phase(ref_to(again), StopPhase.JOBS_ASKED, message)
    noted = [(line.event, line.message) for line in told(database, run) if line.event in list(StopPhase)]
    assert noted == [
        (StopPhase.JOBS_ASKED, "2 jobs"),
        (StopPhase.PROVED, "nothing is left"),
        (StopPhase.JOBS_ASKED, "4 jobs"),
    ]


def test_a_phase_of_a_supervisor_that_was_replaced_is_refused(
    stops: Runs, make_run: MakeRun, database: Database
) -> None:
    run = make_run()
    SqlStore(database).runs.take_over(run.run_id, SupervisorExecution(run.workflow_id, "second"))
    before = told(database, run)
    with pytest.raises(Fenced):
        stops.note_stop_phase(ref_to(run), StopPhase.PROVED, "nothing is left")
    assert told(database, run) == before


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wishes=st.lists(
        st.tuples(st.sampled_from(["ann", "bob", None]), st.booleans(), st.integers(0, 2), st.booleans()), min_size=1
    )
)
def test_whatever_is_asked_in_whatever_order(
    stops: Runs, make_run: MakeRun, database: Database, wishes: list[tuple[str | None, bool, int, bool]]
) -> None:
    """The intent is the strongest of all; there is one line for each actor, moment and force, by door or supervisor."""
    run = make_run()
    for actor, force, second, by_door in wishes:
        stop, at = StopRequest(actor=actor, force=force), ASKED + timedelta(seconds=second)
        if by_door:
            stops.request_stop(run.run_id, stop, at)
        else:
            stops.log_stop(ref_to(run), stop, at)
    forced = any(force for _, force, _, _ in wishes)
    assert SqlStore(database).runs.get(run.run_id).intent is (Intent.FORCE if forced else Intent.STOP)
    lines = [(line.actor, line.event, (line.at - ASKED).seconds) for line in told(database, run)]
    asked = {(actor, "force stop" if force else "stop", second) for actor, force, second, _ in wishes}
    assert sorted(lines, key=str) == sorted(asked, key=str)
