"""Graphs 1g: grafts, and the tasks of a crawl as a source of further jobs."""

from dataclasses import replace

import pytest

from crawler_lifecycle.base.ranges import from_ranges_by_value
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound
from crawler_lifecycle.flows import RunningJob, Workflow, any_of, crawl, each_task
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.requests import AppendMembers
from crawler_lifecycle.flows.rules.ends import RunSeen, TasksSeen
from crawler_lifecycle.flows.rules.merging import Merged, grow
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.slicing import reads
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.naming import host_of
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.flows.plays import FAILED, NOW, Play
from tests.kit.authors.work import UserNotifier, graft_function, item_and_context, plain, with_context


def flow() -> Play:
    workflow = Workflow().add("setup", plain).add_graft("g", UserNotifier.new({"account_id": 2}), deps="setup")
    play = Play(workflow.add_cascade("after", with_context, deps="g"))
    play.advance()
    play.end("setup")
    play.advance()
    return play


def attach(play: Play, *names: str, job: RunningJob | None = None) -> Merged:
    sub = Workflow()
    for name in names:
        sub.add(name, plain)
    row = play.row("g")
    job = job or RunningJob("flow", "g", attempt=row.attempt, generation=row.generation, is_grafter=True)
    return play.graft(Workflow.apply_graft(job, sub).request)


def test_069_only_a_running_grafter_attaches() -> None:
    play = flow()
    with pytest.raises(BadInput, match="'after' is no grafter"):
        Workflow.apply_graft(RunningJob("flow", "after"), Workflow())
    with pytest.raises(NotFound, match="has no graft 'after'"):
        attach(play, "x", job=RunningJob("flow", "after", is_grafter=True))
    for attempt, generation in ((2, 1), (1, 2)):
        with pytest.raises(Fenced, match="may attach no sub-workflow"):
            attach(play, "x", job=RunningJob("flow", "g", attempt=attempt, generation=generation, is_grafter=True))
    play.end("g")
    with pytest.raises(Fenced, match="attempt 1 of 'g' is over"):
        attach(play, "x")


def test_071_grafted_jobs_start_when_the_grafter_commits() -> None:
    play = flow()
    attach(play, "x", "y")
    assert not play.advance().starts
    assert play.states["g/x"] == "suspended"
    play.end("g")
    play.advance()
    assert play.order == ["setup", "g", "g/x", "g/y"]


@pytest.mark.parametrize("before", [(), ("inside",)], ids=["a grafter first", "a grafter behind a job"])
def test_grafted_jobs_name_the_results_around_their_graft(before: tuple[str, ...]) -> None:
    """A grafted job behind an approval read None for the decision while the write of the approval's end was late."""
    inner = Workflow()
    for name in before:
        inner.add(name, plain)
    inner.add_graft("g", UserNotifier.new({"account_id": 2}), deps=before)
    play = Play(Workflow().add_approval("ok").add_workflow("sub", inner, deps="ok"))
    play.advance()
    play.approve("ok")
    for name in before:
        play.advance()
        play.end(f"sub/{name}")
    play.advance()
    job = RunningJob("flow", "sub/g", is_grafter=True)
    play.graft(Workflow.apply_graft(job, Workflow().add("x", plain)).request)
    play.end("sub/g")
    play.advance()
    named = from_ranges_by_value(reads(play.planner, [play.row("sub/g/x").number]))
    assert named.keys() == {play.row(path).number for path in ("ok", "sub/g")}


def test_all_steps_of_a_flow_with_an_own_host_have_its_queue() -> None:
    play = flow()
    play.ledger.flow = replace(play.ledger.flow, own_host="flow")
    attach(play, "x")
    route = play.row("g/x").route
    assert route == f"default@flow:flow|{plain.__module__}|plain"
    assert host_of(route) == f"{plain.__module__} --flow flow"
    assert host_of("default@flow:the flow@managers|shops|Shops") == "shops --flow 'the flow'"


def test_071_a_repeated_grafter_replaces_what_has_not_started() -> None:
    play = flow()
    attach(play, "x", "y")
    assert attach(play, "x", "y").is_empty
    attach(play, "y", "z")
    assert [path for path in play.states if path.startswith("g/")] == ["g/y", "g/z"]
    play.end("g")
    assert play.run() is FlowState.COMPLETED
    assert play.order == ["setup", "g", "g/y", "g/z", "after"]


def test_071_a_repeated_grafter_removes_inner_sub_workflows_too() -> None:
    play = flow()
    job = RunningJob("flow", "g", is_grafter=True)
    play.graft(Workflow.apply_graft(job, Workflow().add_many("inner", [plain, plain])).request)
    assert "g/inner" in play.ledger.paths_of_groups()
    attach(play, "x")
    assert "g/inner" not in play.ledger.paths_of_groups()
    numbers = {row.number for row in play.ledger.members.values()}
    assert len(numbers) == len(play.ledger.members)
    play.end("g")
    assert play.run() is FlowState.COMPLETED


def test_071_jobs_of_a_failed_grafter_never_start() -> None:
    play = flow()
    job = RunningJob("flow", "g", is_grafter=True)
    stubborn = Workflow(ignore_cancelled=True, ignore_discarded=True).add("x", plain)
    play.graft(Workflow.apply_graft(job, stubborn).request)
    play.end("g", FAILED)
    assert play.run() is FlowState.DISCARDED
    assert play.row("g/x").reason == "dependency:g"
    assert "g/x" not in play.order


def test_072_a_grafter_without_a_graft_lets_its_dependents_go_on() -> None:
    play = flow()
    play.end("g")
    play.advance()
    assert play.order == ["setup", "g", "after"]


def test_072_a_discarded_grafter_cancels_its_dependents() -> None:
    play = flow()
    play.end("g", FAILED)
    assert play.run() is FlowState.DISCARDED
    assert play.states["after"] == "cancelled"
    assert play.retry() == 2
    attach_after_retry(play)
    assert play.run() is FlowState.COMPLETED


def attach_after_retry(play: Play) -> None:
    play.advance()
    attach(play, "x")
    play.end("g")


def test_072_dependents_see_the_nested_results() -> None:
    play = flow()
    attach(play, "x", "y")
    play.end("g")
    play.run(call=True)
    context = play.context_of(play.row("after"), RunningJob("flow", "after"))
    assert dict(context) == {"g": {"x": "plain", "y": "plain"}}


def test_021_a_function_may_return_the_sub_workflow() -> None:
    play = Play(Workflow().add_graft("g", graft_function).add("after", plain, deps="g"))
    assert play.run(call=True) is FlowState.COMPLETED
    assert play.order == ["g", "g/mails/0", "g/mails/1", "after"]


def test_063_a_cancel_of_everything_keeps_grafts_out() -> None:
    play = flow()
    play.cancel()
    with pytest.raises(Conflict, match="was cancelled and takes no further jobs"):
        attach(play, "x")


# the tasks of a crawl


def stream(**options: bool) -> Play:
    workflow = Workflow().add("shop", crawl("books"), retries=1)
    workflow.add_cascade("parse", each_task("shop", item_and_context), **options)  # type: ignore[arg-type]
    play = Play(workflow.add("after", plain, deps="parse"))
    play.advance()
    return play


def sees(play: Play, status: RunStatus = RunStatus.PROCESSING, tasks: int = 3) -> None:
    row = play.row("shop")
    play.planner.observe(RunSeen(row.number, row.attempt, status, 1, NOW, tasks=tasks))
    plan = play.advance()
    for group in plan.groups:
        definition = play.groups[group.path]
        merged = grow(play.ledger, group, definition, NOW)
        merged.apply(play.ledger)
        play.planner.restore(row for row, _ in merged.members)
    play.advance()
    if status.is_over:
        ends(play)  # the supervisor asks for the tasks once more


def ends(play: Play, **tasks: TaskStatus) -> None:
    row = play.row("shop")
    play.planner.observe(TasksSeen(row.number, row.generation, {int(name[1:]): end for name, end in tasks.items()}))
    play.advance()


def test_steps_start_as_each_task_of_a_crawl_ends() -> None:
    play = stream()
    sees(play)
    assert [path for path in play.states if path.startswith("parse/")] == ["parse/0", "parse/1", "parse/2"]
    ends(play, _1=TaskStatus.SUCCEEDED)
    assert play.order == ["shop", "parse/1"]
    ends(play, _1=TaskStatus.SUCCEEDED, _0=TaskStatus.SUCCEEDED, _2=TaskStatus.SUCCEEDED)
    assert play.order == ["shop", "parse/1", "parse/0", "parse/2"]
    for task in range(3):
        play.end(f"parse/{task}")
    play.advance()
    assert play.states["after"] == "suspended"  # a further attempt of the crawl could have more tasks
    sees(play, RunStatus.COMPLETED)
    assert play.states["after"] == "executing"


def test_a_share_of_the_steps_for_tasks_is_known_when_the_crawl_has_ended() -> None:
    workflow = Workflow().add("shop", crawl("books")).add_cascade("parse", each_task("shop", item_and_context))
    play = Play(workflow.add("after", plain, deps=any_of("parse", at_least=0.5)))
    play.advance()
    sees(play)
    ends(play, _0=TaskStatus.SUCCEEDED, _1=TaskStatus.SUCCEEDED, _2=TaskStatus.SUCCEEDED)
    play.end("parse/0")
    play.end("parse/1")
    play.advance()
    assert play.states["after"] == "suspended"  # there may be more tasks
    sees(play, RunStatus.COMPLETED)
    assert (play.states["parse/2"], play.states["after"]) == ("executing", "executing")


def test_a_failed_task_waits_for_the_next_attempt_of_its_crawl() -> None:
    play = stream()
    sees(play)
    ends(play, _0=TaskStatus.SUCCEEDED, _1=TaskStatus.FAILED, _2=TaskStatus.SUCCEEDED)
    sees(play, RunStatus.FAILED)
    assert play.states["parse/1"] == "suspended"
    play.later(minutes=5)
    play.advance()
    assert play.row("shop").attempt == 2
    ends(play, _1=TaskStatus.SUCCEEDED)
    assert play.states["parse/1"] == "executing"


def test_a_task_that_failed_for_good_cancels_its_step() -> None:
    play = stream()
    sees(play)
    ends(play, _0=TaskStatus.SUCCEEDED, _1=TaskStatus.LOST, _2=TaskStatus.STOPPED)
    sees(play, RunStatus.COMPLETED)
    assert (play.states["parse/0"], play.states["parse/1"], play.states["parse/2"]) == (
        "executing",
        "cancelled",
        "cancelled",
    )
    assert play.row("parse/1").reason == "dependency:shop task 1"
    play.end("parse/0")
    play.advance()
    assert play.states["after"] == "cancelled"


def test_a_step_for_tasks_may_ignore_failed_tasks() -> None:
    play = stream(ignore_discarded=True)
    group = play.ledger.groups[play.ledger.paths_of_groups()["parse"]]
    assert group.ignore_discarded


def test_a_crawl_that_never_ran_passes_its_failure_on() -> None:
    play = stream()
    for _ in range(2):
        play.end("shop", FAILED)
        play.advance()
        play.later(hours=1)
        play.advance()
    assert play.states == {"shop": "discarded", "after": "cancelled"}
    assert play.row("after").reason == "dependency:parse"


def test_a_planner_does_not_end_a_group_that_waits_for_its_jobs() -> None:
    play = stream()
    row = play.row("shop")
    play.planner.observe(RunSeen(row.number, row.attempt, RunStatus.COMPLETED, 1, NOW, tasks=2))
    plan = play.advance()
    assert [(group.path, group.expected) for group in plan.groups] == [("parse", 2)]
    fresh = Planner(play.ledger)
    assert fresh.advance(NOW).is_empty
    assert fresh.rows[play.row("after").number].state is MemberState.SUSPENDED


def test_a_flow_does_not_end_while_a_group_waits_for_its_jobs() -> None:
    play = Play(Workflow().add("shop", crawl("books")).add_cascade("parse", each_task("shop", item_and_context)))
    play.advance()
    play.planner.observe(RunSeen(0, 1, RunStatus.COMPLETED, 1, NOW, tasks=2))
    assert play.advance().flow_state is None


def test_a_retried_step_waits_for_the_task_of_the_retried_crawl() -> None:
    play = stream()
    sees(play)
    ends(play, _0=TaskStatus.SUCCEEDED, _1=TaskStatus.SUCCEEDED, _2=TaskStatus.SUCCEEDED)
    for task in range(3):
        play.end(f"parse/{task}")
    sees(play, RunStatus.COMPLETED)
    play.retry("shop", "parse/0", completed=True)
    play.advance()
    assert (play.states["parse/0"], play.states["parse/1"]) == ("suspended", "completed")
    ends(play, _0=TaskStatus.SUCCEEDED)
    assert play.states["parse/0"] == "executing"


def test_071_a_repeated_grafter_keeps_what_others_depend_on() -> None:
    play = flow()
    attach(play, "x", "y")
    extra = fragment_of(Workflow(check_deps=False).add("extra", plain, deps="g/x"))
    play.append(AppendMembers(key="k", fragment=extra))
    attach(play, "z")
    assert [path for path in play.states if path.startswith("g/")] == ["g/x", "g/z"]
    play.end("g")
    assert play.run() is FlowState.COMPLETED
    assert "extra" in play.order


def test_tasks_of_a_stopped_crawl_count_as_cancelled() -> None:
    play = stream(ignore_cancelled=True)
    sees(play)
    ends(play, _0=TaskStatus.FAILED)
    row = play.row("shop")
    play.planner.observe(RunSeen(row.number, row.attempt, RunStatus.FAILED, 1, NOW, "stopped", tasks=3))
    play.advance()
    ends(play)
    assert [play.states[path] for path in ("shop", "parse/0", "parse/1")] == ["cancelled", "executing", "executing"]


def test_the_last_ends_of_tasks_are_waited_for() -> None:
    play = stream()
    sees(play)
    row = play.row("shop")
    assert play.planner.crawls_to_ask == frozenset()
    play.planner.observe(RunSeen(row.number, row.attempt, RunStatus.COMPLETED, 1, NOW, tasks=3))
    play.advance()
    assert play.planner.crawls_to_ask == {row.number}
    assert {play.states[f"parse/{task}"] for task in range(3)} == {"suspended"}
    ends(play, _0=TaskStatus.SUCCEEDED, _1=TaskStatus.SUCCEEDED)
    assert [play.states[f"parse/{task}"] for task in range(3)] == ["executing", "executing", "cancelled"]
    assert play.planner.crawls_to_ask == frozenset()


def test_a_new_planner_asks_for_the_tasks_of_ended_crawls() -> None:
    play = stream()
    sees(play)
    row = play.row("shop")
    play.planner.observe(RunSeen(row.number, row.attempt, RunStatus.COMPLETED, 1, NOW, tasks=3))
    play.advance()
    play.rebuild()
    play.advance()
    assert play.planner.crawls_to_ask == {row.number}
    assert play.states["parse/0"] == "suspended"


def test_a_crawl_is_asked_for_its_tasks_before_its_group_has_members() -> None:
    assert stream().planner.wiring.crawls_with_tasks == {0}
    assert Play(Workflow().add("shop", crawl("books"))).planner.wiring.crawls_with_tasks == frozenset()
