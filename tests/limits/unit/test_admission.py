"""Which runs may begin, and which tasks may be deployed: limits hold, room is used, every run gets its turn."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.limits import rules
from crawler_lifecycle.limits.rules import AdmissionPlan, Hold, OpenRun, total_use
from crawler_lifecycle.model.limits import INSTALLATION, ScopeLimits
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED, RUN_LIMIT

SITE, TENANT = "label:site:a", "label:tenant:acme"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def limits(*more: ScopeLimits, tasks: int | None = 1000, **values: Any) -> dict[str, ScopeLimits]:
    own = ScopeLimits.model_validate({"scope": INSTALLATION, "tasks": tasks, **values})
    return {own.scope: own, **{scope_limits.scope: scope_limits for scope_limits in more}}


def plan(runs: list[OpenRun], by_scope: Mapping[str, ScopeLimits], most: int) -> AdmissionPlan:
    return rules.plan(runs, by_scope, most, total_use(runs))


def obstacle_in_turn(run: OpenRun, runs: list[OpenRun], by_scope: Mapping[str, ScopeLimits]) -> Hold | None:
    return rules.obstacle_in_turn(run, runs, by_scope, total_use(runs))


def waiting(run_id: int, *scopes: str, children: int = 0, **values: Any) -> OpenRun:
    """A run that waits for its permit."""
    return replace(OpenRun(run_id, (INSTALLATION, *scopes), main_is_ready=True, children_queued=children), **values)


def begun(run_id: int, *scopes: str, children: int = 0, in_cluster: int = 0, **values: Any) -> OpenRun:
    """A run whose main job runs, with child tasks that wait and child tasks that have a job."""
    tasks = {"children_queued": children, "children_ready": children, "children_in_cluster": in_cluster}
    run = OpenRun(run_id, (INSTALLATION, *scopes), is_admitted=True, main_in_cluster=True)
    return replace(run, **tasks | values)


def test_a_free_installation_admits_everybody() -> None:
    new = plan([waiting(1), waiting(2), begun(3, children=4)], limits(), 100)
    assert new == AdmissionPlan(granted={1: 1, 2: 1, 3: 4})


def test_a_cap_on_runs_counts_the_runs_that_have_begun() -> None:
    new = plan(
        [begun(1, SITE), waiting(2, SITE), waiting(3, SITE), waiting(4)], limits(ScopeLimits(scope=SITE, runs=2)), 100
    )
    assert new.granted == {2: 1, 4: 1}
    assert (new.holds[3].cause, new.holds[3].scope) == (ADMISSION, SITE)


def test_a_run_in_the_limit_keeps_a_place_for_its_first_child_task() -> None:
    runs = [waiting(number, children=1) for number in range(1, 301)]
    new = plan(runs, limits(tasks=200), 1000)
    assert sorted(new.granted) == list(range(1, 101))
    assert {hold.scope for hold in new.holds.values()} == {INSTALLATION}


def test_main_tasks_leave_the_last_place_for_child_tasks_that_may_be_added() -> None:
    new = plan([waiting(number) for number in range(1, 301)], limits(tasks=200), 1000)
    assert len(new.granted) == 199


def test_child_tasks_of_a_run_do_not_take_the_place_that_is_kept_for_another_run() -> None:
    greedy, patient = begun(1, children=10, in_cluster=1), begun(2, children=1)
    assert plan([greedy, patient], limits(tasks=4), 100).granted == {2: 1}
    assert plan([greedy, replace(patient, children_ready=0)], limits(tasks=4), 100).granted == {}


def test_where_main_tasks_fill_a_lowered_limit_one_child_task_at_a_time_goes_on() -> None:
    runs = [begun(number, children=2) for number in range(1, 6)]
    assert plan(runs, limits(tasks=3), 100).granted == {1: 1}
    first = replace(runs[0], children_in_cluster=1)
    assert plan([first, *runs[1:]], limits(tasks=3), 100).granted == {}


def test_a_lowered_limit_lets_no_run_begin() -> None:
    new = plan([begun(1), begun(2), begun(3), waiting(4)], limits(tasks=2), 100)
    assert (new.granted, new.holds[4].cause) == ({}, ADMISSION)


def test_a_pause_holds_what_is_new_of_its_scope() -> None:
    pause = ScopeLimits(scope=SITE, paused_at=NOW, paused_reason="the site is down")
    new = plan([waiting(1, SITE), begun(2, SITE, children=3), waiting(3)], limits(pause), 100)
    assert new.granted == {3: 1}
    assert {(new.holds[run_id].cause, new.holds[run_id].scope) for run_id in (1, 2)} == {(PAUSED, SITE)}
    assert new.holds[1].message == "label site:a is paused: the site is down"


def test_a_runs_own_limit_names_no_scope() -> None:
    new = plan([begun(1, children=3, max_parallel=2)], limits(), 100)
    assert (new.granted, new.holds[1].cause, new.holds[1].scope) == ({1: 1}, RUN_LIMIT, None)


def test_a_main_task_between_two_attempts_keeps_its_place_in_the_runs_own_limit() -> None:
    run = begun(1, children=3, in_cluster=1, max_parallel=2, main_in_cluster=False)
    assert plan([run], limits(), 100).granted == {}
    assert plan([replace(run, main_is_ready=True)], limits(), 100).granted == {1: 1}


def test_higher_priorities_come_first() -> None:
    runs = [waiting(1), waiting(2, priority=5), begun(3, children=9, priority=-1)]
    assert plan(runs, limits(), 2).granted == {2: 1, 1: 1}


def test_a_new_run_comes_before_the_further_tasks_of_a_big_run() -> None:
    big, small = begun(1, children=10_000, in_cluster=150), waiting(2, children=1)
    assert plan([big, small], limits(tasks=200), 1).granted == {2: 1}
    small = begun(2, children=1)
    assert plan([big, small], limits(tasks=200), 1).granted == {2: 1}


def test_a_run_that_needs_two_places_gets_them_while_places_become_free_one_by_one() -> None:
    """The place that is free went to the big run again and again."""
    big, small = begun(1, children=10_000, in_cluster=18), waiting(2, children=1)
    new = plan([big, small], limits(tasks=20), 8)
    assert (new.granted, new.holds[2].scope) == ({}, INSTALLATION)
    assert plan([replace(big, children_in_cluster=17), small], limits(tasks=20), 8).granted == {2: 1}


def test_a_place_that_is_kept_for_a_waiting_run_is_no_other_runs_kept_place() -> None:
    big, other, small = begun(1, children=9, in_cluster=16), begun(2, children=1), waiting(3, children=1)
    assert plan([big, other, small], limits(tasks=20), 8).granted == {2: 1}


def test_weights_share_the_cluster_between_tenants() -> None:
    acme, other = "label:tenant:acme", "label:tenant:other"
    weights = (ScopeLimits(scope=acme, weight=3), ScopeLimits(scope=other, weight=1))
    runs = [
        *(waiting(number, acme, share=acme) for number in range(1, 101)),
        *(waiting(number, other, share=other) for number in range(101, 201)),
    ]
    granted = plan(runs, limits(*weights), 40).granted
    assert sum(run_id <= 100 for run_id in granted) == 30


def test_a_run_with_two_limited_labels_gets_its_turn() -> None:
    """Whenever one label has a place, the other has none: the first run that waits keeps the place."""
    caps = (ScopeLimits(scope=SITE, runs=1), ScopeLimits(scope=TENANT, runs=1))
    both = waiting(2, SITE, TENANT)
    new = plan([begun(1, SITE), both, waiting(3, TENANT), waiting(4)], limits(*caps), 100)
    assert new.granted == {4: 1}
    assert plan([both, waiting(3, TENANT)], limits(*caps), 100).granted == {2: 1}


def test_a_paused_run_keeps_no_place() -> None:
    caps = (ScopeLimits(scope=SITE, paused_at=NOW, paused_reason="down"), ScopeLimits(scope=TENANT, runs=1))
    assert plan([waiting(2, SITE, TENANT), waiting(3, TENANT)], limits(*caps), 100).granted == {3: 1}


def test_a_pause_is_told_before_a_full_scope_and_keeps_no_place() -> None:
    """A full installation hid the pause of a label, and the run kept places in its other label for the whole pause."""
    pause = ScopeLimits(scope=SITE, paused_at=NOW, paused_reason="down")
    runs = [begun(1), waiting(2, SITE, TENANT), waiting(3, TENANT)]
    new = plan(runs, limits(pause, ScopeLimits(scope=TENANT, runs=1), runs=1), 100)
    assert (new.holds[2].cause, new.holds[3].message) == (
        PAUSED,
        "the installation is at its limit of 1 run",
    )
    own = begun(4, SITE, children=3, in_cluster=1, max_parallel=2)
    assert plan([own], limits(pause), 100).holds[4].cause == PAUSED


def test_a_run_that_asks_itself_gets_the_answer_of_the_plan() -> None:
    caps = limits(ScopeLimits(scope=SITE, runs=1), ScopeLimits(scope=TENANT, runs=1))
    first, both, asking = begun(1, SITE), waiting(2, SITE, TENANT, held_by=SITE), waiting(3, TENANT)
    asking = replace(asking, is_deployable=False)  # no dispatcher deploys its main task yet
    hold = obstacle_in_turn(asking, [first, both, asking], caps)
    assert hold == Hold(ADMISSION, TENANT, "other runs are ahead of this run in the line for label tenant:acme")
    assert obstacle_in_turn(asking, [first, asking], caps) is None
    assert obstacle_in_turn(asking, [first, replace(both, is_wanted=False), asking], caps) is None


def test_the_answer_does_not_wait_for_a_plan_of_all_tasks() -> None:
    big, asking = begun(1, children=1_000_000, priority=-1), waiting(2)
    assert obstacle_in_turn(asking, [big, asking], limits(tasks=1_000_000)) is None


def test_who_is_stopped_or_without_a_supervisor_gets_nothing_and_still_counts() -> None:
    runs = [
        begun(1, SITE, children=3, is_wanted=False),
        begun(2, SITE, children=3, is_deployable=False),
        waiting(3, SITE),
    ]
    new = plan(runs, limits(ScopeLimits(scope=SITE, runs=2)), 100)
    assert (new.granted, list(new.holds)) == ({}, [3])


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_pass_decides_only_about_runs_it_reaches(most: int) -> None:
    new = plan([waiting(1), waiting(2), waiting(3)], limits(), most)
    assert (len(new.granted), len(new.undecided)) == (most, 3 - most)


SCOPES = st.lists(st.sampled_from(["crawler:books", SITE, TENANT]), unique=True).map(tuple)
CAPS = st.none() | st.integers(1, 8)
TASK_CAPS = st.none() | st.integers(2, 12)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[OpenRun], dict[str, ScopeLimits]]:
    by_scope = limits(tasks=draw(st.integers(2, 20)), runs=draw(CAPS))
    for scope in ("crawler:books", SITE, TENANT):
        by_scope[scope] = ScopeLimits(scope=scope, runs=draw(CAPS), tasks=draw(TASK_CAPS))
    runs = [
        waiting(number, *draw(SCOPES), children=draw(st.integers(0, 4)), priority=draw(st.integers(-1, 1)),
                max_parallel=draw(st.none() | st.integers(1, 3)))
        for number in range(1, draw(st.integers(1, 25)))
    ]  # fmt: skip
    return runs, by_scope


def assert_limits_hold(runs: list[OpenRun], by_scope: Mapping[str, ScopeLimits]) -> None:
    for scope, use in total_use(runs).items():
        caps = by_scope[scope]
        assert caps.runs is None or use.runs <= caps.runs
        assert caps.tasks is None or use.tasks <= caps.tasks


@given(worlds(), st.integers(1, 6), st.randoms(use_true_random=False))
@pytest.mark.long
def test_whatever_ends_in_whatever_order_limits_hold_and_every_run_ends(
    world: tuple[list[OpenRun], dict[str, ScopeLimits]], most: int, random: Random
) -> None:
    """A main job waits for all child tasks of its run, the worst that a crawl may do."""
    (runs, by_scope), added = world, 0
    for _ in range(2_000):
        if not runs:
            return
        new = plan(runs, by_scope, most)
        runs = [_deployed(run, new.granted.get(run.run_id, 0)) for run in runs]
        assert_limits_hold(runs, by_scope)
        runs = [_with_an_added_task(run) if added < 30 and random.random() < 0.3 else run for run in runs]
        added += len(runs)
        runs = _after_an_end(runs, random)
    raise AssertionError(f"runs wait for ever: {runs}")


@given(worlds(), st.integers(0, 60))
@pytest.mark.long
def test_with_room_for_all_that_wait_nobody_is_in_the_way(
    world: tuple[list[OpenRun], dict[str, ScopeLimits]], more: int
) -> None:
    runs, by_scope = world
    rooms = {
        scope: own.model_copy(update={"runs": own.runs and own.runs + more, "tasks": own.tasks and own.tasks + more})
        for scope, own in by_scope.items()
    }
    first = plan(runs, by_scope, 100).granted
    begun_and_waiting = [_deployed(run, first.get(run.run_id, 0)) for run in runs]
    used = total_use(begun_and_waiting)
    for run in begun_and_waiting:
        others = [other for other in begun_and_waiting if other is not run]
        tasks = sum(other.main_is_ready + other.children_queued for other in others)
        if not run.is_admitted and rules.Rooms(rooms, used).has_room_beside(run, tasks):
            assert rules.obstacle_in_turn(run, begun_and_waiting, rooms, used) is None


def test_without_room_for_all_that_wait_the_line_decides() -> None:
    rooms = rules.Rooms(limits(tasks=3), total_use([]))
    assert rooms.has_room_beside(waiting(1), waiting=1)
    assert not rooms.has_room_beside(waiting(1), waiting=2), "the last place is kept for a child task"


def _deployed(run: OpenRun, count: int) -> OpenRun:
    for _ in range(count):
        run = run.with_next_job()
    if not run.main_is_ready:  # the main job has started: the child tasks may be deployed
        run = replace(run, children_ready=run.children_queued)
    return run


def _with_an_added_task(run: OpenRun) -> OpenRun:
    return replace(run, children_queued=run.children_queued + 1) if run.main_in_cluster else run


def _after_an_end(runs: list[OpenRun], random: Random) -> list[OpenRun]:
    """Let a job end that may end: a child task, or a main task whose child tasks are over."""
    waits_for_main = [run for run in runs if run.max_parallel == 1 and run.main_in_cluster]
    may_end = (
        [run for run in runs if run.children_in_cluster]
        + [run for run in runs if run.main_in_cluster and not run.children_in_cluster and not run.children_queued]
        + waits_for_main
    )
    if not may_end:
        return runs
    chosen = random.choice(may_end)
    if chosen.children_in_cluster:
        later = replace(chosen, children_in_cluster=chosen.children_in_cluster - 1)
    else:
        later = replace(chosen, main_in_cluster=False, main_is_alive=False)
    is_over = not later.main_is_alive and not later.children_queued and not later.children_in_cluster
    others = [run for run in runs if run is not chosen]
    return others if is_over else sorted([*others, later], key=lambda run: run.run_id)
