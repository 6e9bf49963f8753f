"""Parts of a flow's supervisor without Temporal: restored rows, unconfirmed starts, and slices."""

import pytest

from crawler_lifecycle.flows import RetryPolicy, Workflow, any_of, crawl
from crawler_lifecycle.flows.rules.ends import AttemptEnd, RunSeen, TasksSeen, rule_before
from crawler_lifecycle.flows.rules.messages import FlowRef, LedgerPage
from crawler_lifecycle.flows.rules.plan import AttemptStart, Unconfirmed
from crawler_lifecycle.flows.rules.rows import FlowRow, MemberRow
from crawler_lifecycle.flows.rules.slicing import Slices
from crawler_lifecycle.flows.workflows.course import Bell, Course, Writes
from crawler_lifecycle.flows.workflows.steps import StepStarter
from crawler_lifecycle.model.flow_retrying import RetryRule
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.flows.plays import COMPLETED, FAILED, NOW, Play
from tests.kit.authors.work import graft_function, plain

START = AttemptStart(MemberRow(0, "a"))


# restored rows


def test_a_start_that_never_happened_is_planned_again() -> None:
    play = Play(Workflow(max_parallel=1).add("a", plain).add("b", plain))
    on_record = dict(play.ledger.members)
    assert [start.number for start in play.planner.advance(play.now).starts] == [0]
    play.planner.restore([on_record[0]._replace(state=MemberState.CANCELLED, reason="cancel_requested")])
    assert play.planner.in_flight == set()
    assert [start.number for start in play.planner.advance(play.now).starts] == [1]


def test_a_restored_row_takes_back_what_followed_from_it() -> None:
    play = Play(Workflow().add("shop", crawl("books"), retry=RetryPolicy(max_attempts=1)).add("b", plain, deps="shop"))
    play.advance()
    started = play.row("shop")
    play.end("shop", FAILED)
    plan = play.planner.advance(play.now)
    assert {change.row.state for change in plan.changes} == {MemberState.DISCARDED, MemberState.CANCELLED}
    play.planner.restore([started, play.row("b")])
    assert play.planner.advance(play.now).changes == ()
    assert play.planner.in_flight == {0}
    play.end("shop")
    assert [start.number for start in play.planner.advance(play.now).starts] == [1]


@pytest.mark.parametrize("by_a_door", [False, True])
def test_an_older_row_takes_back_the_end_of_a_step_until_it_is_observed_again(by_a_door: bool) -> None:
    play = Play(Workflow().add("a", plain).add("b", plain, deps="a"))
    play.advance()
    read = play.row("a")._replace(state=MemberState.CANCELLED) if by_a_door else play.row("a")
    play.planner.observe(AttemptEnd(0, 1, COMPLETED, play.now))
    play.planner.restore([read])
    assert play.planner.in_flight == {0}
    play.planner.observe(AttemptEnd(0, 1, COMPLETED, play.now))
    assert play.planner.in_flight == set()
    expected = MemberState.CANCELLED if by_a_door else MemberState.COMPLETED
    assert play.planner.rows[0].state is expected


def test_a_restored_pause_ends_at_its_time() -> None:
    play = Play(Workflow().add("a", plain, retry=RetryPolicy(max_attempts=2, pause_seconds=60)))
    play.advance()
    play.end("a", FAILED)
    waiting = play.row("a")
    play.advance()
    play.later(seconds=61)
    assert [start.attempt for start in play.planner.advance(play.now).starts] == [2]
    play.planner.restore([waiting])
    assert [start.attempt for start in play.planner.advance(play.now).starts] == [2]


def test_new_rows_and_groups_may_be_restored_together() -> None:
    play = Play(Workflow().add("a", plain))
    more = Play(Workflow().add("a", plain).add_many("m", [plain] * 2, deps="a"))
    play.planner.restore(more.ledger.members.values(), [row for row in more.ledger.groups.values() if row.number])
    assert [start.number for start in play.planner.advance(play.now).starts] == [0]
    play.planner.observe(AttemptEnd(0, 1, COMPLETED, play.now))
    assert [start.number for start in play.planner.advance(play.now).starts] == [1, 2]


@pytest.mark.regression("a member shown as available before a further try lost the outcome of its last try")
def test_a_member_without_a_host_is_shown_with_its_last_end() -> None:
    """The attempt's end and the next start come in one plan, so that the row between them is not stored."""
    rule = RetryRule(outcomes=("banned",), pause_seconds=0, arguments={"proxy": "b"}, max_attempts=3)
    play = Play(Workflow().add("a", plain, retry=RetryPolicy(max_attempts=3, rules=(rule,))))
    play.advance()
    play.planner.observe(AttemptEnd(0, 1, FAILED, play.now, "banned"))
    plan = play.planner.advance(play.now)
    bell = Bell()
    course = Course(FlowRef(uid="u", epoch=1, version=1), "w", play.planner, 1, Writes(bell), Unconfirmed())
    course.unconfirmed.add(plan.starts[0], 1, course.writes.overtake(plan.changes[0]))
    steps = StepStarter(bell)
    steps._look_at = play.now
    [shown] = steps.unbegun(course, play.now)
    assert shown.has_ended
    assert (shown.row.state, shown.row.attempt, shown.row.in_flight) == (MemberState.AVAILABLE, 1, False)
    assert rule_before(shown.row) == rule


# unconfirmed starts


def test_a_row_without_the_attempt_decides_only_behind_a_later_door() -> None:
    row = Play(Workflow().add("a", plain)).row("a")
    starts = Unconfirmed()
    starts.add(START, 3, row)
    assert starts.without_undecided([row], door=3) == []
    assert starts.find(0, 1) is not None
    assert starts.without_undecided([row], door=4) == [row]
    assert starts.find(0, 1) is None


def test_a_row_with_the_attempt_decides_at_once() -> None:
    row = Play(Workflow().add("a", plain)).row("a")
    starts = Unconfirmed()
    starts.add(START, 3, row)
    assert starts.without_undecided([row._replace(attempt=1)], door=3) == [row._replace(attempt=1)]
    assert list(starts.numbers) == []


def test_a_refusal_counts_for_the_door_of_its_plan_alone() -> None:
    row = Play(Workflow().add("a", plain)).row("a")
    starts = Unconfirmed()
    starts.add(START, 5, row)
    assert not starts.refuse(0, 1, door=3)
    assert (starts.door_of(0, default=9), starts.door_of(1, default=9)) == (5, 9)
    assert starts.has_outdated(6)
    assert starts.refuse(0, 1, door=5)
    assert not starts.has_outdated(6)


# messages


@pytest.mark.long
def test_ten_thousand_sights_fit_into_a_payload() -> None:
    runs = tuple(
        RunSeen(number, 1, RunStatus.COMPLETED, 1, NOW, "all_succeeded", "finished") for number in range(10_000)
    )
    tasks = (TasksSeen(0, 1, dict.fromkeys(range(10_000), TaskStatus.SUCCEEDED)),)
    page = LedgerPage(door=1, row=FlowRow("nightly"), runs=runs, tasks=tasks, ends=(AttemptEnd(7, 1, FAILED, NOW),))
    text = page.model_dump_json()
    assert len(text) < 500_000
    assert LedgerPage.model_validate_json(text) == page
    assert LedgerPage.model_validate_json(LedgerPage(door=1, row=FlowRow("nightly")).model_dump_json()).runs == ()


# slices


def sizes(workflow: Workflow, most_starts: int | None = None, slices: Slices | None = None) -> list[int]:
    play = Play(workflow)
    starts = play.planner.advance(play.now, most_starts).starts
    return [len(page) for page in (slices or Slices()).cut([start.number for start in starts], play.planner)]


def test_steps_of_a_group_share_activities_of_up_to_fifty() -> None:
    assert sizes(Workflow().add_many("m", [plain] * 7)) == [1] * 7
    assert sizes(Workflow().add_many("m", [plain] * 8)) == [8]
    assert sizes(Workflow().add_many("m", [plain] * 100)) == [13] * 7 + [9]
    assert sizes(Workflow().add_many("m", [plain] * 1000)) == [50] * 20


def test_waiting_steps_count_for_the_size() -> None:
    assert sizes(Workflow().add_many("m", [plain] * 1000), most_starts=100) == [50, 50]


def test_groups_and_functions_share_no_slice() -> None:
    workflow = Workflow().add_many("m", [plain] * 10).add_many("n", [plain] * 10)
    assert sizes(workflow) == [8, 2, 8, 2]
    assert sizes(Workflow().add_many("m", [plain] * 10 + [graft_function] * 10)) == [8, 2, 8, 2]


def test_an_awaited_step_goes_alone() -> None:
    alone = Workflow().add_many("m", [plain] * 10).add("after", plain, deps="m/3")
    assert sorted(sizes(alone)) == [1, 1, 8]
    quorum = Workflow().add_many("m", [plain] * 10).add("after", plain, deps=any_of("m", at_least=0.9))
    assert sizes(quorum) == [1] * 10


def test_slow_steps_go_one_by_one() -> None:
    slices, play = Slices(), Play(Workflow().add_many("m", [plain] * 20))
    slices.note(play.row("m/0").route, 10, seconds=9)
    assert sizes(Workflow().add_many("m", [plain] * 20), slices=slices) == [8, 8, 4]
    slices.note(play.row("m/0").route, 10, seconds=12)
    assert sizes(Workflow().add_many("m", [plain] * 20), slices=slices) == [1] * 20


def test_a_planner_names_what_a_supervisor_asks_for() -> None:
    play = Play(Workflow().add("shop", crawl("books")).add("a", plain).add("b", plain, deps="a"))
    assert play.planner.crawls_in_flight == set()
    play.advance()
    assert (play.planner.crawls_in_flight, play.planner.in_flight) == (frozenset({0}), frozenset({0, 1}))
    assert play.planner.counts == {MemberState.EXECUTING: 2, MemberState.SUSPENDED: 1}
