"""Claims of hosts on attempts of steps, and the ends of these attempts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from sqlalchemy import delete, select

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import attempt_ends, flow_attempts, step_leases
from crawler_lifecycle.errors import NotFound, TemporaryError
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.ports.claims import StepEnd
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.flows.rules.words import snoozed
from crawler_lifecycle.model.flow_retrying import RetryPolicy, RetryRule
from crawler_lifecycle.model.flow_states import EndKind, MemberState
from tests.contracts.flows import CANCELLED, COMPLETED, FAILED, MINUTE, Flow, pushed
from tests.unit.flows.work import SlowWorker, plain

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


def test_a_claim_has_everything_for_the_call(flow: Flow) -> None:
    refs = flow.start("a"), flow.start("b")
    claimed = flow.claim(*refs)
    assert (claimed.held, claimed.ended, claimed.stale) == ([], [], [])
    step = claimed.mine[0]
    definition = flow.store.flow_records.kept("w").definitions[0]
    assert (step.start, step.path, step.definition, step.arguments) == (refs[0], "a", definition, {"name": "a"})
    assert (step.flow_id, step.flow_name, step.flow_uid) == ("w", "nightly", flow.uid)
    assert (step.is_grafter, step.deaths) == (False, 0)
    assert flow.states == {"a": "executing", "b": "executing"}


def test_a_host_gets_its_own_claims_again(flow: Flow) -> None:
    ref = flow.start("a")
    first = flow.claim(ref)
    assert flow.claim(ref) == first
    assert flow.claim(ref, lasts=EXPIRED) == first
    assert flow.claim(ref) == first  # the host lives, so no death is counted
    assert attempts_of(flow) == [(1, 0, "host of host")]
    assert flow.row("a").tries == 1


def test_another_host_waits_for_a_claim(flow: Flow) -> None:
    ref = flow.start("a")
    flow.claim(ref)
    claimed = flow.claim(ref, token="other")
    assert (claimed.mine, claimed.held) == ([], [0])
    flow.store.step_claims.release("host")
    (step,) = flow.claim(ref, token="other").mine
    assert step.deaths == 0
    assert flow.claim(ref).held == [0]


def test_a_host_gives_single_claims_back(flow: Flow) -> None:
    refs = flow.start("a"), flow.start("b")
    flow.claim(*refs)
    claims = flow.store.step_claims
    claims.release("host", [(flow.uid, 0, 1), ("unknown", 0, 1), (flow.uid, 9, 9)])
    claims.release("host", [])
    claimed = flow.claim(*refs, token="other")
    assert ([step.path for step in claimed.mine], claimed.held) == (["a"], [1])


def test_two_claims_at_once_have_one_winner(database: Database, flow: Flow) -> None:
    for path in ("a", "b"):
        ref, barrier = flow.start(path), Barrier(4)

        def claim_at_once(token: str, ref: AttemptRef = ref, barrier: Barrier = barrier) -> tuple[int, int]:
            other = Flow(SqlStore(database), flow.id, flow.uid, flow.flow)
            barrier.wait()
            claimed = other.claim(ref, token=token, door=1)
            assert not claimed.stale
            return len(claimed.mine), len(claimed.held)

        with ThreadPoolExecutor(4) as pool:
            outcomes = sorted(pool.map(claim_at_once, ("1", "2", "3", "4")))
        assert outcomes == [(0, 1), (0, 1), (0, 1), (1, 0)]
        assert flow.row(path).tries == 1


def test_expired_claims_count_deaths_once_their_function_began(flow: Flow) -> None:
    ref, claims = flow.start("a"), flow.store.step_claims
    deaths = []
    for number, token in enumerate(("1", "2", "3", "4", "5")):
        (step,) = flow.claim(ref, token=token, lasts=EXPIRED).mine
        deaths.append(step.deaths)
        if number != 1:  # an attempt with deaths begins by itself, and this one did not
            assert claims.begin(flow.uid, ref, token)
            assert not claims.begin(flow.uid, ref, "a token without claims")
    assert deaths == [0, 1, 1, 2, 3]


def test_an_isolated_attempt_begins_by_itself(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("a", plain, isolate=True))
    ref, deaths = flow.start("a"), []
    for token in ("1", "2", "3"):
        (step,) = flow.claim(ref, token=token, lasts=EXPIRED).mine
        deaths.append(step.deaths)
        assert token == "1" or flow.store.step_claims.begin(flow.uid, ref, token)
    assert deaths == [0, 0, 1]


def test_a_release_is_no_death(flow: Flow) -> None:
    ref, claims = flow.start("a"), flow.store.step_claims
    flow.claim(ref, token="1", lasts=EXPIRED)
    claims.release("1")
    claims.release("1")
    (step,) = flow.claim(ref, token="2").mine
    assert step.deaths == 0


def test_a_renewal_keeps_all_claims_of_the_host(flow: Flow) -> None:
    claims = flow.store.step_claims
    refs = flow.start("a"), flow.start("b")
    flow.claim(*refs, lasts=EXPIRED)
    assert claims.renew("host", MINUTE) == {(flow.uid, 0, 1): False, (flow.uid, 1, 1): False}
    assert flow.claim(*refs, token="other").held == [0, 1]
    flow.end(refs[0])
    flow.cancel("b")
    flow.store.flow_ledger.crawls_to_stop(flow.flow, [1])
    assert claims.renew("host", MINUTE) == {(flow.uid, 1, 1): True}
    assert claims.renew("other", MINUTE) == {}


def test_a_host_without_a_lease_claims_nothing(flow: Flow) -> None:
    ref, claims = flow.start("a"), flow.store.step_claims
    for lasts in (None, EXPIRED):
        if lasts is not None:
            claims.renew("late", lasts)
        with pytest.raises(TemporaryError, match="lease is over"):
            claims.claim(flow.flow, flow.door, [ref], "late", "host")
    assert flow.row("a").tries == 0
    claims.renew("late", MINUTE)
    assert claims.claim(flow.flow, flow.door, [ref], "late", "host").mine


def test_leases_of_dead_hosts_are_deleted(database: Database, flow: Flow) -> None:
    claims = flow.store.step_claims
    claims.renew("dead", timedelta(days=-2))
    claims.renew("ill", EXPIRED)
    claims.renew("new", MINUTE)
    with database.read() as connection:
        tokens = set(connection.scalars(select(step_leases.c.token)))
    assert "dead" not in tokens
    assert {"ill", "new"} <= tokens


def test_a_lost_claim_is_not_renewed(flow: Flow) -> None:
    ref = flow.start("a")
    flow.claim(ref, lasts=EXPIRED)
    flow.claim(ref, token="other")
    assert flow.store.step_claims.renew("host", MINUTE) == {}


@pytest.mark.parametrize("door", [0, 2])
def test_a_step_behind_a_door_does_not_start(flow: Flow, door: int) -> None:
    refs = flow.start("a"), flow.start("b")
    flow.claim(refs[0])
    claimed = flow.claim(*refs, door=door)
    assert ([step.path for step in claimed.mine], claimed.stale) == (["a"], [1])
    assert flow.states["b"] == "available"


def test_an_attempt_on_record_goes_on_whatever_doors_and_supervisors_did(flow: Flow) -> None:
    ref = flow.start("a")
    flow.claim(ref)
    former = flow.flow
    flow.cancel("b")
    flow.hold("pause")
    flow.begin("second")
    flow.ref = former
    assert [step.path for step in flow.claim(ref, door=1).mine] == ["a"]


@pytest.mark.parametrize("hold", ["pause", "drain"])
def test_people_hold_starts_back(flow: Flow, hold: str) -> None:
    flow.hold(hold)
    assert flow.claim(flow.start("a")).stale == [0]


def test_only_the_next_attempt_of_a_waiting_member_starts(flow: Flow) -> None:
    ref = flow.start("a")
    for fields in ({"attempt": 2}, {"generation": 2}, {"number": 7}):
        wrong = ref.model_copy(update=fields)
        assert flow.claim(wrong).stale == [wrong.number]
    flow.claim(ref)
    flow.end(ref, kind=FAILED)
    assert flow.claim(flow.start("a")).stale == [0]  # the member is discarded
    flow.cancel("b")
    assert flow.claim(flow.start("b")).stale == [1]  # a person has cancelled the member


def test_a_retry_waits_for_the_former_attempt(flow: Flow) -> None:
    flow.claim(flow.start("a"))
    flow.cancel("a")
    flow.retry("a")
    assert flow.claim(flow.start("a")).stale == [0]
    flow.end(flow.last("a"))
    assert [step.start.attempt for step in flow.claim(flow.start("a")).mine] == [2]


def test_a_member_that_waits_for_its_dependencies_may_start(database: Database) -> None:
    """The supervisor starts a member before its own write about the satisfied dependencies is on record."""
    flow = pushed(database, steps("a").add("b", plain, deps="a"))
    assert flow.row("b").state is MemberState.SUSPENDED
    assert flow.claim(flow.start("b")).mine


def test_an_end_is_on_record_with_its_result(flow: Flow) -> None:
    refs = flow.start("a"), flow.start("b")
    flow.claim(*refs)
    ends = [
        StepEnd(flow.uid, refs[1], FAILED, NOW, reason="no luck", outcome="Oops", error="Traceback: no luck"),
        StepEnd(flow.uid, refs[0], COMPLETED, NOW, result='{"n": [1, null]}'),
    ]
    expected = {
        (flow.uid, 0, 1): AttemptEnd(0, 1, COMPLETED, NOW),
        (flow.uid, 1, 1): AttemptEnd(1, 1, FAILED, NOW, "Oops", "no luck"),
    }
    claims = flow.store.step_claims
    assert claims.end(ends, "host") == expected
    assert flow.states == {"a": "completed", "b": "discarded"}
    assert claims.end([replace(end, kind=CANCELLED, result=None) for end in ends], "other") == expected
    assert flow.claim(*refs, token="other").ended == list(expected.values())
    assert claims.results(flow.uid, [0, 1, 7]) == {0: {"n": [1, None]}, 1: None, 7: None}
    (attempt,) = flow.store.flow_records.attempts("w", 1)
    assert (attempt.kind, attempt.error, attempt.ended_at) == (FAILED, "Traceback: no luck", NOW)
    assert claims.renew("host", MINUTE) == {}


def test_an_end_without_its_claim_is_left_out(flow: Flow) -> None:
    ref = flow.start("a")
    flow.claim(ref, lasts=EXPIRED)
    assert flow.end(ref, token="other") == []
    flow.claim(ref, token="other")
    assert flow.end(ref, result="1") == []
    assert flow.states["a"] == "executing"
    assert flow.end(ref, token="other", result="2")
    assert flow.end(ref, result="1")[0].kind is COMPLETED
    assert flow.store.step_claims.results(flow.uid, [0]) == {0: 2}


def test_an_expired_claim_ends_if_no_other_host_came(flow: Flow) -> None:
    ref = flow.start("a")
    flow.claim(ref, lasts=EXPIRED)
    assert flow.end(ref)
    assert flow.states["a"] == "completed"


def test_the_result_of_a_cancelled_step_is_dropped(flow: Flow) -> None:
    """Graphs 62."""
    refs = flow.start("a"), flow.start("b")
    flow.claim(*refs)
    flow.cancel()
    flow.retry("b")
    flow.end(*refs, result='"late"')
    assert [(row.state, row.in_flight) for row in flow.ledger.members.values()] == [
        ("cancelled", False),
        ("available", False),
    ]
    assert flow.store.step_claims.results(flow.uid, [0, 1]) == {0: None, 1: None}


def test_results_stay_with_their_attempt(flow: Flow) -> None:
    """Graphs 65."""
    claims = flow.store.step_claims
    for number in (1, 2):
        flow.claim(flow.start("a"))
        flow.end(flow.last("a"), result=str(number))
        assert claims.results(flow.uid, [0]) == {0: number}
        flow.retry("a", completed=True)
        assert claims.results(flow.uid, [0]) == {0: None}


def test_ends_of_several_flows_go_in_one_transaction(database: Database) -> None:
    flows = [pushed(database, Workflow(id=name).add("a", plain).add("b", plain)) for name in ("one", "two", "three")]
    ends = []
    for flow in flows:
        flow.claim(flow.start("a"), flow.start("b"))
        ends += [StepEnd(flow.uid, flow.last(path), COMPLETED, NOW, result=f'"{flow.id}"') for path in ("b", "a")]
    ends.append(StepEnd("pruned", flows[0].last("a"), COMPLETED, NOW))
    claims = SqlStore(database).step_claims
    assert len(claims.end(ends, "host")) == 6
    for flow in flows:
        assert flow.states == {"a": "completed", "b": "completed"}
        assert claims.results(flow.uid, [0, 1]) == {0: flow.id, 1: flow.id}
    assert claims.end([], "host") == {}


def test_a_failure_is_tried_again_by_its_rule(database: Database) -> None:
    rule = RetryRule(outcomes=("Banned",), pause_seconds=60, arguments={"proxy": "b"}, max_attempts=3)
    flow = pushed(database, steps("a", retry=RetryPolicy(max_attempts=2, pause_seconds=5, rules=(rule,))))
    flow.claim(flow.start("a"))
    flow.end(flow.last("a"), kind=FAILED, outcome="Banned")
    row = flow.row("a")
    assert (row.state, row.tries_by_outcome) == (MemberState.RETRYABLE, (("Banned", 1),))
    assert row.due is not None
    assert row.since is not None
    assert row.due - row.since == timedelta(seconds=60)
    (step,) = flow.claim(flow.start("a")).mine
    assert step.arguments == {"name": "a", "proxy": "b"}
    (again,) = flow.claim(flow.last("a")).mine
    assert again.arguments == step.arguments


def test_a_cause_is_noted_for_unstarted_members(flow: Flow) -> None:
    flow.claim(flow.start("b"))
    claims = flow.store.step_claims
    claims.note_cause(flow.uid, [0, 1, 9], "unknown_step")
    claims.note_cause(flow.uid, [], "unknown_step")
    assert (flow.row("a").cause, flow.row("b").cause) == ("unknown_step", None)
    assert (flow.row("a").since, flow.door) == (flow.row("b").started_at and flow.row("a").since, 1)
    with pytest.raises(NotFound):
        claims.note_cause("unknown", [0], "x")


def test_ended_attempts_keep_no_claim(database: Database, flow: Flow) -> None:
    """Otherwise a renewal would read all attempts that the host ever had."""
    ref = flow.start("a")
    flow.claim(ref)
    flow.end(ref)
    with database.read() as connection:
        tokens = connection.scalars(select(flow_attempts.c.claim_token)).all()
    assert tokens == [None]


def test_a_follower_starts_only_after_the_steps_before_it(database: Database) -> None:
    flow = pushed(database, steps("a").add("b", plain, deps="a"))
    first, following, before = flow.start("a"), flow.start("b"), {flow.row("a").number: 1}
    flow.claim(first)
    early = flow.claim(following, reads=before)
    assert (early.stale, early.has_lost) == ([following.number], True)
    flow.end(first)
    [step] = (claimed := flow.claim(following, reads=before)).mine
    assert (step.path, claimed.has_lost) == ("b", False)
    assert flow.claim(following, reads={**before, following.number: 1}).mine  # an attempt on record stays the host's


def test_after_a_door_no_end_is_missed(database: Database) -> None:
    flow = pushed(database, steps("a").add("b", plain, deps="a"))
    following, before = flow.start("b"), {flow.row("a").number: 1}
    flow.append("more", steps("c"))
    claimed = flow.claim(following, door=0, reads=before)
    assert (claimed.stale, claimed.has_lost) == ([following.number], False)


def test_a_named_attempt_has_its_result_whatever_its_row_says(flow: Flow) -> None:
    claims = flow.store.step_claims
    flow.claim(flow.start("a"))
    flow.end(flow.last("a"), result="1")
    flow.retry("a", completed=True)
    assert claims.results(flow.uid, [0]) == {0: None}
    assert claims.results(flow.uid, [0], {0: 1}) == {0: 1}


def test_a_lost_result_is_an_error_and_not_none(database: Database, flow: Flow) -> None:
    flow.claim(flow.start("a"))
    flow.end(flow.last("a"), result="1")
    with database.transaction() as tx:
        tx.execute(delete(attempt_ends))
    with pytest.raises(NotFound, match="lost the result of 'a', attempt 1"):
        flow.store.step_claims.results(flow.uid, [0], {0: 1})


def test_a_snoozed_attempt_is_on_record_with_its_pause(database: Database) -> None:
    flow = pushed(database, steps("a", max_attempts=1))
    ref = flow.start("a")
    flow.claim(ref)
    (end,) = flow.end(ref, kind=EndKind.SNOOZED, reason=snoozed(60))
    row = flow.row("a")
    assert (row.state, row.cause, row.tries, row.due) == (MemberState.RETRYABLE, "snoozed", 0, end.at + MINUTE)
    assert flow.claim(ref).ended == [end]  # the supervisor may ask again
    assert not flow.plan()[1].starts
    flow.ahead = timedelta(minutes=2)
    assert [start.attempt for start in flow.plan()[1].starts] == [2]


def test_a_claim_has_the_time_from_which_its_attempt_may_start(database: Database) -> None:
    flow = pushed(database, steps("a", scheduled_at=NOW, retry=RetryPolicy(max_attempts=2, pause_seconds=60)))
    (first,) = flow.claim(flow.start("a")).mine
    (end,) = flow.end(first.start, kind=FAILED, reason="ValueError: first")
    (second,) = flow.claim(flow.start("a")).mine
    assert (first.scheduled_at, second.scheduled_at) == (NOW, end.at + MINUTE)


def test_a_claim_has_the_errors_of_earlier_attempts(database: Database) -> None:
    flow = pushed(database, steps("a", "b", retry=RetryPolicy(max_attempts=3, pause_seconds=0)))
    for reason in ("ValueError: first", "ValueError: second"):
        refs = flow.start("a"), flow.start("b")
        assert flow.claim(*refs).mine
        flow.end(refs[0], kind=FAILED, reason=reason)
        flow.end(refs[1], kind=EndKind.SNOOZED, reason=snoozed(0))
    refs = flow.start("a"), flow.start("b")
    first, second = flow.claim(*refs).mine
    assert [(error["attempt"], error["error"]) for error in first.errors] == [
        (1, "ValueError: first"),
        (2, "ValueError: second"),
    ]
    assert datetime.fromisoformat(first.errors[0]["at"]).tzinfo is not None
    assert second.errors == ()
