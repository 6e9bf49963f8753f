"""Begins of steps' attempts by hosts, and the ends of these attempts."""

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import attempt_begins, attempt_ends, flow_members, step_leases
from crawler_lifecycle.errors import Conflict, NotFound, TemporaryError
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.ports.steps import StepEnd
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.words import snoozed
from crawler_lifecycle.model.flow_retrying import RetryPolicy, RetryRule
from crawler_lifecycle.model.flow_states import EndKind, MemberState
from tests.kit.authors.work import SlowWorker, plain
from tests.kit.data.flows import CANCELLED, COMPLETED, FAILED, MINUTE, Flow, pushed

EXPIRED = timedelta(seconds=-1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def steps(*names: str, **options: object) -> Workflow:
    workflow = Workflow(id="w", name="nightly")
    for name in names:
        workflow.add(name, SlowWorker.new({"name": name}), **options)  # type: ignore[arg-type]
    return workflow


@pytest.fixture
def flow(database: Database) -> Flow:
    """A flow with two steps that may start."""
    return pushed(database, steps("a", "b", max_attempts=1))


def attempts_of(flow: Flow, path: str = "a") -> list[tuple[int, int, str | None]]:
    number = flow.row(path).number
    return [(item.attempt, item.deaths, item.host) for item in flow.store.flow_records.attempts("w", number)]


def test_a_begin_has_everything_for_the_call(flow: Flow) -> None:
    refs = flow.start("a"), flow.start("b")
    begun = flow.begin_steps(*refs)
    assert (begun.held, begun.ended, begun.stale) == ([], [], [])
    step = begun.mine[0]
    definition = flow.store.flow_records.kept("w").definitions[0]
    assert (step.start, step.path, step.definition, step.arguments) == (refs[0], "a", definition, {"name": "a"})
    assert (step.flow_id, step.flow_name, step.flow_uid) == ("w", "nightly", flow.uid)
    assert (step.is_grafter, step.deaths) == (False, 0)
    assert flow.states == {"a": "executing", "b": "executing"}


def test_a_host_gets_its_own_begins_again(flow: Flow) -> None:
    ref = flow.start("a")
    first = flow.begin_steps(ref)
    assert flow.begin_steps(ref) == first
    assert flow.begin_steps(ref, lasts=EXPIRED) == first
    assert flow.begin_steps(ref) == first  # the host lives, so no death is counted
    assert attempts_of(flow) == [(1, 0, "host of host")]
    assert flow.row("a").tries == 1


def test_another_host_waits_for_a_begun_attempt(flow: Flow) -> None:
    ref = flow.start("a")
    flow.begin_steps(ref)
    begun = flow.begin_steps(ref, token="other")
    assert (begun.mine, begun.held) == ([], [0])
    flow.store.step_ledger.withdraw("host", [(flow.uid, 0, 1)])
    (step,) = flow.begin_steps(ref, token="other").mine
    assert step.deaths == 0, "a withdrawn begin is no death"
    assert flow.begin_steps(ref).held == [0]


def test_only_own_begins_without_an_end_are_withdrawn(flow: Flow) -> None:
    refs, ledger = (flow.start("a"), flow.start("b")), flow.store.step_ledger
    flow.begin_steps(*refs)
    flow.end(refs[1])
    ledger.withdraw("other", [(flow.uid, 0, 1)])
    ledger.withdraw("host", [(flow.uid, 1, 1), ("unknown", 0, 1), (flow.uid, 9, 9)])
    ledger.withdraw("host", [])
    begun = flow.begin_steps(*refs, token="other")
    assert (begun.held, [end.number for end in begun.ended]) == ([0], [1])
    assert attempts_of(flow, "b") == [(1, 0, "host of host")]
    ledger.withdraw("host", [(flow.uid, 0, 1)])
    assert flow.states["a"] == "available"
    assert attempts_of(flow) == []


def test_a_begin_whose_function_was_called_stays_as_a_death(flow: Flow) -> None:
    ref, ledger = flow.start("a"), flow.store.step_ledger
    for deaths in (0, 1):
        (step,) = flow.begin_steps(ref).mine
        assert step.deaths == deaths
        ledger.withdraw("other", [(flow.uid, 0, 1)], are_deaths=True)
        assert flow.begin_steps(ref, token="other").held == [0]
        ledger.withdraw("host", [(flow.uid, 0, 1)], are_deaths=True)
        assert ledger.renew("host", MINUTE, [(flow.uid, 0, 1)]) == {}
    (step,) = flow.begin_steps(ref, token="other").mine
    assert step.deaths == 2
    flow.end(ref, token="other")
    ledger.withdraw("other", [(flow.uid, 0, 1)], are_deaths=True)
    assert attempts_of(flow) == [(1, 2, "host of other")]


def test_a_begin_waits_for_a_renewal_of_the_former_host(database: Database, flow: Flow) -> None:
    ref = flow.start("a")
    flow.begin_steps(ref, lasts=EXPIRED)
    flow.store.step_ledger.renew("other", MINUTE)
    former, lasts = step_leases.c.token == "host", datetime.now(UTC) + MINUTE
    with ThreadPoolExecutor(1) as pool, database.transaction() as tx:
        tx.execute(update(step_leases).where(former).values(expires_at=lasts))
        begun = pool.submit(flow.store.step_ledger.begin, flow.flow, 0, [ref], "other", "host of other")
        wait([begun], timeout=0.5)  # without a lock, the answer comes now
    assert begun.result().held == [0]


def test_rows_are_inserted_although_other_hosts_were_first_again_and_again(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, ref = flow.store.step_ledger, flow.start("a")

    def insert_late(method: Any) -> Any:
        conflicts = [Conflict("the database refuses a row")] * 3
        return lambda *given, **named: _raise(conflicts.pop()) if conflicts else method(*given, **named)

    for name in ("_begin", "_end"):
        monkeypatch.setattr(ledger, name, insert_late(getattr(ledger, name)))
    assert flow.begin_steps(ref).mine
    assert flow.end(ref)


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("is_noted", [False, True])
def test_an_attempt_that_people_stopped_does_not_begin_again(flow: Flow, *, is_noted: bool) -> None:
    """Its host died, and a dead host cannot stop it."""
    ref = flow.start("a")
    flow.begin_steps(ref, lasts=EXPIRED)
    if is_noted:
        flow.act()
    flow.cancel("a")
    begun = flow.begin_steps(ref, token="other", in_process=False)
    assert (begun.mine, begun.apart, begun.held) == ([], [], [])
    assert [(end.number, end.kind, end.reason) for end in begun.ended] == [(0, CANCELLED, "cancel_requested")]
    assert flow.begin_steps(ref).ended == begun.ended
    assert attempts_of(flow) == [(1, 0, "host of host")]
    assert (flow.row("a").state, flow.row("a").in_flight) == (MemberState.CANCELLED, False)


def test_a_late_withdrawal_leaves_the_begin_of_another_host(flow: Flow) -> None:
    ref, ledger = flow.start("a"), flow.store.step_ledger
    flow.begin_steps(ref, lasts=EXPIRED)
    flow.begin_steps(ref, token="other")
    ledger.withdraw("host", [(flow.uid, 0, 1)])
    assert attempts_of(flow) == [(1, 1, "host of other")]


def test_a_host_that_lost_an_attempt_does_not_hold_it_after_a_withdrawal(flow: Flow) -> None:
    """The first host lives again, without the attempt."""
    ref, ledger = flow.start("a"), flow.store.step_ledger
    flow.begin_steps(ref, lasts=EXPIRED)
    flow.begin_steps(ref, token="other")
    assert ledger.renew("host", MINUTE, [(flow.uid, 0, 1)]) == {}
    ledger.withdraw("other", [(flow.uid, 0, 1)])
    (step,) = flow.begin_steps(ref, token="third").mine
    assert step.deaths == 1


def test_two_begins_at_once_have_one_winner(database: Database, flow: Flow) -> None:
    refs, barrier = [flow.start("a"), flow.start("b")], Barrier(4)

    def begin_at_once(token: str, order: int) -> tuple[int, int]:
        other = Flow(SqlStore(database), flow.id, flow.uid, flow.flow)
        barrier.wait()
        begun = other.begin_steps(*refs[::order], token=token, door=1)
        assert not begun.stale
        return len(begun.mine), len(begun.held)

    with ThreadPoolExecutor(4) as pool:
        outcomes = sorted(pool.map(begin_at_once, ("1", "2", "3", "4"), (1, -1, 1, -1)))
    assert outcomes == [(0, 2), (0, 2), (0, 2), (2, 0)]
    assert [flow.row(path).tries for path in ("a", "b")] == [1, 1]


def test_begins_without_a_lease_are_deaths(flow: Flow) -> None:
    ref, deaths = flow.start("a"), []
    for token in ("1", "2", "3"):
        (step,) = flow.begin_steps(ref, token=token, lasts=EXPIRED).mine
        deaths.append(step.deaths)
    assert deaths == [0, 1, 2]
    assert attempts_of(flow) == [(1, 2, "host of 3")]
    assert flow.row("a").tries == 1


def test_the_death_of_a_host_counts_for_the_function_that_had_a_slot(flow: Flow) -> None:
    refs = (flow.start("b"), flow.start("a"))
    assert [step.deaths for step in flow.begin_steps(*refs, lasts=EXPIRED).mine] == [0, 0]
    for token, deaths in (("1", {"a": 0, "b": 1}), ("2", {"a": 1, "b": 2})):
        begun = flow.begin_steps(*refs, token=token, lasts=EXPIRED).mine
        assert {step.path: step.deaths for step in begun} == deaths
    assert (attempts_of(flow, "a"), attempts_of(flow, "b")) == ([(1, 1, "host of 2")], [(1, 2, "host of 2")])


def test_an_attempt_that_needs_a_process_begins_in_it(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("isolated", plain, isolate=True).add("dead", plain).add("new", plain))
    refs = [flow.start(path) for path in ("isolated", "dead", "new")]
    flow.begin_steps(refs[1], token="dead", lasts=EXPIRED)
    begun = flow.begin_steps(*refs, in_process=False)
    assert ([step.path for step in begun.mine], begun.apart) == (["new"], [0, 1])
    assert flow.states == {"isolated": "available", "dead": "executing", "new": "executing"}
    (step,) = flow.begin_steps(refs[0]).mine
    (again,) = flow.begin_steps(refs[1]).mine
    assert (step.deaths, again.deaths) == (0, 1)
    assert flow.begin_steps(*refs, in_process=False).apart == [], "a lost answer comes again"


def test_an_attempt_may_begin_again_whatever_its_row_knows(flow: Flow) -> None:
    """The supervisor has noted the begin, and its host withdraws it."""
    ref = flow.start("a")
    flow.begin_steps(ref)
    flow.act()
    flow.cancel("b")
    flow.store.step_ledger.withdraw("host", [(flow.uid, 0, 1)])
    (step,) = flow.begin_steps(ref, token="other", door=1).mine
    assert (step.deaths, flow.row("a").tries) == (0, 1)


def test_a_renewal_keeps_the_attempts_of_the_host(flow: Flow) -> None:
    ledger, refs = flow.store.step_ledger, (flow.start("a"), flow.start("b"))
    keys = [(flow.uid, 0, 1), (flow.uid, 1, 1)]
    flow.begin_steps(*refs, lasts=EXPIRED)
    assert ledger.renew("host", MINUTE, keys) == dict.fromkeys(keys, False)
    assert flow.begin_steps(*refs, token="other").held == [0, 1]
    flow.cancel("b")
    assert ledger.renew("host", MINUTE, [*keys, ("pruned", 0, 1), (flow.uid, 0, 2)]) == {keys[0]: False, keys[1]: True}
    assert ledger.renew("other", MINUTE, keys) == {}
    assert ledger.renew("host", MINUTE) == {}


def test_a_cancel_without_a_stop_reaches_no_host(flow: Flow) -> None:
    flow.begin_steps(flow.start("a"))
    flow.cancel("a", terminate=False)
    assert flow.store.step_ledger.renew("host", MINUTE, [(flow.uid, 0, 1)]) == {(flow.uid, 0, 1): False}


def test_a_host_without_a_lease_begins_nothing(flow: Flow) -> None:
    ref, ledger = flow.start("a"), flow.store.step_ledger
    for lasts in (None, EXPIRED):
        if lasts is not None:
            ledger.renew("late", lasts)
        with pytest.raises(TemporaryError, match="lease is over"):
            ledger.begin(flow.flow, flow.door, [ref], "late", "host")
    assert flow.row("a").tries == 0
    ledger.renew("late", MINUTE)
    assert ledger.begin(flow.flow, flow.door, [ref], "late", "host").mine


def test_leases_of_dead_hosts_are_deleted(database: Database, flow: Flow) -> None:
    ledger = flow.store.step_ledger
    ledger.renew("dead", timedelta(days=-2))
    ledger.renew("ill", EXPIRED)
    ledger.renew("new", MINUTE)
    with database.read() as connection:
        tokens = set(connection.scalars(select(step_leases.c.token)))
    assert "dead" not in tokens
    assert {"ill", "new"} <= tokens


def test_a_lost_attempt_is_not_renewed(flow: Flow) -> None:
    ref = flow.start("a")
    flow.begin_steps(ref, lasts=EXPIRED)
    flow.begin_steps(ref, token="other")
    assert flow.store.step_ledger.renew("host", MINUTE, [(flow.uid, 0, 1)]) == {}


@pytest.mark.parametrize("door", [0, 2])
def test_a_step_behind_a_door_does_not_start(flow: Flow, door: int) -> None:
    refs = flow.start("a"), flow.start("b")
    flow.begin_steps(refs[0])
    begun = flow.begin_steps(*refs, door=door)
    assert ([step.path for step in begun.mine], begun.stale) == (["a"], [1])
    assert flow.states["b"] == "available"


def test_an_attempt_on_record_goes_on_whatever_doors_and_supervisors_did(flow: Flow) -> None:
    ref = flow.start("a")
    flow.begin_steps(ref)
    former = flow.flow
    flow.cancel("b")
    flow.hold("pause")
    flow.begin("second")
    flow.ref = former
    assert [step.path for step in flow.begin_steps(ref, door=1).mine] == ["a"]


@pytest.mark.parametrize("hold", ["pause", "drain"])
def test_people_hold_starts_back(flow: Flow, hold: str) -> None:
    flow.hold(hold)
    assert flow.begin_steps(flow.start("a")).stale == [0]


def test_only_the_next_attempt_of_a_waiting_member_starts(flow: Flow) -> None:
    ref = flow.start("a")
    for fields in ({"attempt": 2}, {"generation": 2}, {"number": 7}):
        wrong = ref.model_copy(update=fields)
        assert flow.begin_steps(wrong).stale == [wrong.number]
    flow.begin_steps(ref)
    flow.end(ref, kind=FAILED)
    assert flow.begin_steps(flow.start("a")).stale == [0]  # the member is discarded
    flow.cancel("b")
    assert flow.begin_steps(flow.start("b")).stale == [1]  # a person has cancelled the member


def test_a_retry_waits_for_the_former_attempt(flow: Flow) -> None:
    flow.begin_steps(flow.start("a"))
    flow.cancel("a")
    flow.retry("a")
    assert flow.begin_steps(flow.start("a")).stale == [0]
    flow.end(flow.last("a"))
    assert [step.start.attempt for step in flow.begin_steps(flow.start("a")).mine] == [2]


def test_a_member_that_waits_for_its_dependencies_may_start(database: Database) -> None:
    """The supervisor starts a member before its own write about the satisfied dependencies is on record."""
    flow = pushed(database, steps("a").add("b", plain, deps="a"))
    assert flow.row("b").state is MemberState.SUSPENDED
    assert flow.begin_steps(flow.start("b")).mine


def test_an_end_is_on_record_with_its_result(flow: Flow) -> None:
    refs = flow.start("a"), flow.start("b")
    flow.begin_steps(*refs)
    ends = [
        StepEnd(flow.uid, refs[1], FAILED, NOW, reason="no luck", outcome="Oops", error="Traceback: no luck"),
        StepEnd(flow.uid, refs[0], COMPLETED, NOW, result='{"n": [1, null]}'),
    ]
    expected = {
        (flow.uid, 0, 1): AttemptEnd(0, 1, COMPLETED, NOW),
        (flow.uid, 1, 1): AttemptEnd(1, 1, FAILED, NOW, "Oops", "no luck"),
    }
    ledger = flow.store.step_ledger
    assert ledger.end(ends, "host") == expected
    assert flow.states == {"a": "completed", "b": "discarded"}
    assert ledger.end([replace(end, kind=CANCELLED, result=None) for end in ends], "other") == expected
    assert flow.begin_steps(*refs, token="other").ended == list(expected.values())
    assert ledger.results(flow.uid, [0, 1, 7]) == {0: {"n": [1, None]}, 1: None, 7: None}
    (attempt,) = flow.store.flow_records.attempts("w", 1)
    assert (attempt.kind, attempt.error, attempt.ended_at) == (FAILED, "Traceback: no luck", NOW)


def test_an_end_without_its_begin_is_left_out(flow: Flow) -> None:
    ref = flow.start("a")
    flow.begin_steps(ref, lasts=EXPIRED)
    assert flow.end(ref, token="other") == []
    flow.begin_steps(ref, token="other")
    assert flow.end(ref, result="1") == []
    assert flow.states["a"] == "executing"
    assert flow.end(ref, token="other", result="2")
    assert flow.end(ref, result="1")[0].kind is COMPLETED
    assert flow.store.step_ledger.results(flow.uid, [0]) == {0: 2}


def test_an_attempt_without_a_lease_ends_if_no_other_host_came(flow: Flow) -> None:
    ref = flow.start("a")
    flow.begin_steps(ref, lasts=EXPIRED)
    assert flow.end(ref)
    assert flow.states["a"] == "completed"


def test_the_result_of_a_cancelled_step_is_dropped(flow: Flow) -> None:
    """Graphs 62."""
    refs = flow.start("a"), flow.start("b")
    flow.begin_steps(*refs)
    flow.cancel()
    flow.retry("b")
    flow.end(*refs, result='"late"')
    assert [(row.state, row.in_flight) for row in flow.ledger.members.values()] == [
        ("cancelled", False),
        ("available", False),
    ]
    assert flow.store.step_ledger.results(flow.uid, [0, 1]) == {0: None, 1: None}


def test_results_stay_with_their_attempt(flow: Flow) -> None:
    """Graphs 65."""
    ledger = flow.store.step_ledger
    for number in (1, 2):
        flow.begin_steps(flow.start("a"))
        flow.end(flow.last("a"), result=str(number))
        assert ledger.results(flow.uid, [0]) == {0: number}
        flow.retry("a", completed=True)
        assert ledger.results(flow.uid, [0]) == {0: None}


def test_ends_of_several_flows_go_in_one_transaction(database: Database) -> None:
    flows = [pushed(database, Workflow(id=name).add("a", plain).add("b", plain)) for name in ("one", "two", "three")]
    ends = []
    for flow in flows:
        flow.begin_steps(flow.start("a"), flow.start("b"))
        ends += [StepEnd(flow.uid, flow.last(path), COMPLETED, NOW, result=f'"{flow.id}"') for path in ("b", "a")]
    ends.append(StepEnd("pruned", flows[0].last("a"), COMPLETED, NOW))
    ledger = SqlStore(database).step_ledger
    assert len(ledger.end(ends, "host")) == 6
    for flow in flows:
        assert flow.states == {"a": "completed", "b": "completed"}
        assert ledger.results(flow.uid, [0, 1]) == {0: flow.id, 1: flow.id}
    assert ledger.end([], "host") == {}


def test_a_failure_is_tried_again_by_its_rule(database: Database) -> None:
    rule = RetryRule(outcomes=("Banned",), pause_seconds=60, arguments={"proxy": "b"}, max_attempts=3)
    flow = pushed(database, steps("a", retry=RetryPolicy(max_attempts=2, pause_seconds=5, rules=(rule,))))
    flow.begin_steps(flow.start("a"))
    flow.end(flow.last("a"), kind=FAILED, outcome="Banned")
    row = flow.row("a")
    assert (row.state, row.tries_by_outcome) == (MemberState.RETRYABLE, (("Banned", 1),))
    assert row.due is not None
    assert row.since is not None
    assert row.due - row.since == timedelta(seconds=60)
    (step,) = flow.begin_steps(flow.start("a")).mine
    assert step.arguments == {"name": "a", "proxy": "b"}
    (again,) = flow.begin_steps(flow.last("a")).mine
    assert again.arguments == step.arguments


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_person_changes_the_arguments_of_a_waiting_retry(database: Database, *, is_noted: bool) -> None:
    rule = RetryRule(outcomes=("Banned",), arguments={"proxy": "b"}, max_attempts=3)
    flow = pushed(database, steps("a", retry=RetryPolicy(max_attempts=5, pause_seconds=60, rules=(rule,))))
    for outcome in ("Banned", "ValueError"):  # the second begin has arguments by the rule
        (step,) = flow.begin_steps(flow.start("a")).mine
        flow.end(flow.last("a"), kind=FAILED, outcome=outcome)
    assert step.arguments == {"name": "a", "proxy": "b"}
    if is_noted:
        flow.act()
    flow.retry("a", arguments={"name": "by a person"})
    (step,) = flow.begin_steps(flow.start("a")).mine
    assert step.arguments == {"name": "by a person", "proxy": "b"}


def test_a_cause_is_noted_for_unstarted_members(flow: Flow) -> None:
    flow.begin_steps(flow.start("b"))
    ledger = flow.store.step_ledger
    ledger.note_cause(flow.uid, [0, 1, 9], "unknown_step")
    ledger.note_cause(flow.uid, [], "unknown_step")
    assert (flow.row("a").cause, flow.row("b").cause) == ("unknown_step", None)
    assert (flow.row("a").since, flow.door) == (flow.row("b").started_at and flow.row("a").since, 1)
    with pytest.raises(NotFound):
        ledger.note_cause("unknown", [0], "x")


def test_begins_write_no_member(database: Database, flow: Flow) -> None:
    """Readers count begins and ends at once, and the supervisor writes both."""
    ref = flow.start("a")
    flow.begin_steps(ref)
    flow.end(ref)
    with database.read() as connection:
        assert connection.execute(select(flow_members.c.attempt, flow_members.c.state)).all() == [(0, "available")] * 2
        assert connection.scalars(select(attempt_begins.c.noted)).all() == [False]
    assert flow.states == {"a": "completed", "b": "available"}
    assert [begun.number for begun in flow.written().begins] == [0]
    with database.read() as connection:
        assert connection.execute(select(flow_members.c.attempt, flow_members.c.state)).all() == [
            (1, "executing"),
            (0, "available"),
        ]
        assert connection.scalars(select(attempt_begins.c.noted)).all() == [True]
    assert flow.states == {"a": "completed", "b": "available"}


def test_a_follower_starts_only_after_the_steps_before_it(database: Database) -> None:
    flow = pushed(database, steps("a").add("b", plain, deps="a"))
    first, following, before = flow.start("a"), flow.start("b"), {flow.row("a").number: 1}
    flow.begin_steps(first)
    early = flow.begin_steps(following, reads=before)
    assert (early.stale, early.has_lost) == ([following.number], True)
    flow.end(first)
    [step] = (begun := flow.begin_steps(following, reads=before)).mine
    assert (step.path, begun.has_lost) == ("b", False)
    again = flow.begin_steps(following, reads={**before, following.number: 1})
    assert again.mine, "a begun attempt stays the host's"


def test_after_a_door_no_end_is_missed(database: Database) -> None:
    flow = pushed(database, steps("a").add("b", plain, deps="a"))
    following, before = flow.start("b"), {flow.row("a").number: 1}
    flow.append("more", steps("c"))
    begun = flow.begin_steps(following, door=0, reads=before)
    assert (begun.stale, begun.has_lost) == ([following.number], False)


def test_a_named_attempt_has_its_result_whatever_its_row_says(flow: Flow) -> None:
    ledger = flow.store.step_ledger
    flow.begin_steps(flow.start("a"))
    flow.end(flow.last("a"), result="1")
    flow.retry("a", completed=True)
    assert ledger.results(flow.uid, [0]) == {0: None}
    assert ledger.results(flow.uid, [0], {0: 1}) == {0: 1}


def test_a_lost_result_is_an_error_and_not_none(database: Database, flow: Flow) -> None:
    flow.begin_steps(flow.start("a"))
    flow.end(flow.last("a"), result="1")
    with database.transaction() as tx:
        tx.execute(delete(attempt_ends))
    with pytest.raises(NotFound, match="lost the result of 'a', attempt 1"):
        flow.store.step_ledger.results(flow.uid, [0], {0: 1})


def test_a_snoozed_attempt_is_on_record_with_its_pause(database: Database) -> None:
    flow = pushed(database, steps("a", max_attempts=1))
    ref = flow.start("a")
    flow.begin_steps(ref)
    (end,) = flow.end(ref, kind=EndKind.SNOOZED, reason=snoozed(60))
    row = flow.row("a")
    assert (row.state, row.cause, row.tries, row.due) == (MemberState.RETRYABLE, "snoozed", 0, end.at + MINUTE)
    assert flow.begin_steps(ref).ended == [end]  # the supervisor may ask again
    assert not flow.plan()[1].starts
    flow.ahead = timedelta(minutes=2)
    assert [start.attempt for start in flow.plan()[1].starts] == [2]


def test_a_snooze_between_two_begins_is_no_try(database: Database) -> None:
    """The supervisor writes only after the second begin."""
    flow = pushed(database, steps("a", max_attempts=1))
    flow.begin_steps(flow.start("a"))
    flow.end(flow.last("a"), kind=EndKind.SNOOZED, reason=snoozed(0))
    assert flow.begin_steps(flow.start("a")).mine
    flow.act()
    row = flow.row("a")
    assert (row.state, row.attempt, row.tries) == (MemberState.EXECUTING, 2, 1)


def test_a_begin_has_the_time_from_which_its_attempt_may_start(database: Database) -> None:
    flow = pushed(database, steps("a", scheduled_at=NOW, retry=RetryPolicy(max_attempts=2, pause_seconds=60)))
    (first,) = flow.begin_steps(flow.start("a")).mine
    (end,) = flow.end(first.start, kind=FAILED, reason="ValueError: first")
    (second,) = flow.begin_steps(flow.start("a")).mine
    assert (first.scheduled_at, second.scheduled_at) == (NOW, end.at + MINUTE)


def test_a_begin_has_the_errors_of_earlier_attempts(database: Database) -> None:
    flow = pushed(database, steps("a", "b", retry=RetryPolicy(max_attempts=3, pause_seconds=0)))
    for reason in ("ValueError: first", "ValueError: second"):
        refs = flow.start("a"), flow.start("b")
        assert flow.begin_steps(*refs).mine
        flow.end(refs[0], kind=FAILED, reason=reason)
        flow.end(refs[1], kind=EndKind.SNOOZED, reason=snoozed(0))
    refs = flow.start("a"), flow.start("b")
    first, second = flow.begin_steps(*refs).mine
    assert [(error["attempt"], error["error"]) for error in first.errors] == [
        (1, "ValueError: first"),
        (2, "ValueError: second"),
    ]
    assert datetime.fromisoformat(first.errors[0]["at"]).tzinfo is not None
    assert second.errors == ()
