"""Graphs 1a: what authors build, and what is refused while they build it."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from crawler_lifecycle.base.limits import LARGEST_ARGUMENTS, LARGEST_CONTEXT
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import (
    Context,
    CrawlJob,
    RetryPolicy,
    RunningJob,
    StepJob,
    Workflow,
    WorkflowStep,
    any_of,
    crawl,
    each_task,
    worker,
)
from crawler_lifecycle.flows.model.definition import CallForm, CrawlWork, StepWork
from crawler_lifecycle.flows.model.values import TooLarge
from crawler_lifecycle.flows.rules.states import StepState, WorkflowState
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.testing import run_inline
from tests.flows.plays import Play
from tests.kit.authors import work
from tests.kit.authors.work import StepWorker, by_name, greet, item_and_context, marked, plain, with_context


def refused(build: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as caught:
        build()
    assert "\n" not in caught.value.message
    return caught.value.message


def test_001_the_constructor() -> None:
    workflow = Workflow()
    assert (workflow.name, workflow.check_deps) == (None, True)
    assert (workflow.ignore_cancelled, workflow.ignore_discarded) == (False, False)
    assert Workflow("nightly").name == Workflow(name="nightly").name == "nightly"
    assert "an id is given as id=" in refused(lambda: Workflow("nightly", "id"))  # type: ignore[arg-type]


def test_001_a_workflow_is_built_from_its_steps_as_in_chancy() -> None:
    moment = datetime(2026, 11, 28, tzinfo=UTC)
    steps = {"a": WorkflowStep(plain, "a"), "b": WorkflowStep(job=plain, step_id="b", dependencies=["a"])}
    workflow = Workflow(
        name="n", steps=steps, state=Workflow.State.RUNNING, id="i", created_at=moment, updated_at=moment
    )
    assert (workflow.id, workflow.is_running, workflow.created_at, workflow.updated_at) == ("i", True, moment, moment)
    assert workflow == Workflow("n", steps, "running", "i", moment, moment)
    assert workflow != Workflow("n", steps, "pending", "i", moment, moment)
    assert [member.path for member in workflow.definition().members] == ["a", "b"]


def test_022_a_step_that_is_set_is_kept() -> None:
    workflow = Workflow("w").add("a", plain)
    workflow.steps["b"] = WorkflowStep(plain, "b", ["a"])
    workflow.steps["a"] = WorkflowStep(greet, "a")  # in place of the first
    assert [(member.path, member.work.title) for member in workflow.definition().members] == [
        ("a", "greet"),
        ("b", "plain"),
    ]
    workflow["b"].dependencies.append("c")
    assert "'b' depends on 'c'" in refused(workflow.check)
    assert "has the step_id 'b'" in refused(lambda: workflow.steps.update(x=workflow["b"]))
    assert workflow.steps == {"a": workflow["a"], "b": workflow["b"]}
    workflow.add_many("many", [plain])
    assert "is the name of a sub-workflow" in refused(lambda: workflow.steps.update(many=WorkflowStep(plain, "many")))
    with pytest.raises(KeyError):
        workflow.steps["many"]
    assert (len(workflow.steps), workflow.steps.pop("b").step_id, list(workflow.parts)) == (2, "b", ["a", "many"])


def test_022_positions_and_keywords_of_a_step_are_chancys() -> None:
    step = WorkflowStep(plain, "s", ["a"], StepState.RUNNING, "id")
    assert step == WorkflowStep(job=plain, step_id="s", dependencies=["a"], state="running", job_id="id")
    assert (step.state, step.job_id, step.ignore_cancelled, step.ignore_discarded) == (
        StepState.RUNNING,
        "id",
        None,
        None,
    )
    assert step != WorkflowStep(plain, "s", ["a"], StepState.RUNNING, "another")
    assert WorkflowStep(plain, "s", state=None).state is StepState.PENDING


def test_004_keywords_of_both_pages() -> None:
    sub = Workflow().add(name="x", job=plain)
    workflow = (
        Workflow()
        .add(step_id="a", job=plain)
        .add(step_id="b", job=plain, dependencies=["a"])
        .add_group(jobs=[("c", plain)], dependencies=["b"])
        .add_workflow(name="sub", sub_workflow=sub, deps="c")
        .add_cascade(name="d", func_or_tuple=with_context, deps="sub")
        .add_cascade(name="e", func_or_tuple=([1, 2], item_and_context), deps="d")
        .add_graft(name="f", job=plain, deps="e")
        .add_context(value={"k": 1})
    )
    assert list(workflow.paths()) == ["a", "b", "c", "sub", "sub/x", "d", "e", "e/0", "e/1", "f"]
    job = RunningJob("flow", "f", is_grafter=True)
    assert Workflow.apply_graft(job=job, sub_workflow=sub).workflow is sub


def module_of_workflows() -> ModuleType:
    """Import the module a second time. The module chooses the kind of its ids at its import."""
    spec = find_spec("crawler_lifecycle.flows.authors.workflow")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_002_an_id_is_made_before_the_push() -> None:
    generated = Workflow().add("a", plain)
    assert uuid.UUID(generated.id).version == (7 if hasattr(uuid, "uuid7") else 4)
    assert generated.definition().id == generated.id
    assert Workflow().id != Workflow().id


def test_002_ids_are_in_the_order_of_time_if_python_has_such_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = uuid.UUID("019ac7a1-0000-7000-8000-000000000000")
    monkeypatch.setattr(uuid, "uuid7", lambda: ordered, raising=False)  # as in Python 3.14
    assert module_of_workflows().Workflow().id == str(ordered)
    monkeypatch.delattr(uuid, "uuid7")
    assert uuid.UUID(module_of_workflows().Workflow().id).version == 4


@pytest.mark.parametrize("flow_id", ["nightly-2026-11-22", "family/name", "Ümläut 漢字", "x" * 128])
def test_003_a_custom_id_is_kept(flow_id: str) -> None:
    assert Workflow(id=flow_id).add("a", plain).definition().id == flow_id


@pytest.mark.parametrize("flow_id", ["", " ", "x" * 129, "line\nbreak", "nul\0"])
def test_003_an_unusable_id_is_refused(flow_id: str) -> None:
    assert refused(lambda: Workflow(id=flow_id)).startswith("id: ")


def test_004_add_returns_the_workflow_and_takes_both_forms() -> None:
    workflow = Workflow()
    assert workflow.add("a", plain).add("b", plain, ["a"]).add("c", plain, dependencies=["b"]) is workflow
    assert workflow.add(plain, "d", ["c"])["d"].dependencies == ["c"]


def test_005_deps_are_a_text_or_a_list_without_repetitions() -> None:
    workflow = Workflow().add("a", plain).add("b", plain, deps="a").add("c", plain, deps=["a", "b", "a"])
    assert workflow["b"].dependencies == ["a"]
    assert workflow["c"].dependencies == ["a", "b"]
    assert "expected names of jobs" in refused(lambda: workflow.add("d", plain, deps=[3]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    "again",
    [
        lambda w: w.add("a", plain),
        lambda w: w.add("sub", plain),
        lambda w: w.add_many("a", [plain]),
        lambda w: w.add_workflow("a", Workflow()),
        lambda w: w.add_graft("a", plain),
        lambda w: w.__iadd__(WorkflowStep(plain, "a")),
    ],
)
def test_007_a_second_part_with_a_name_is_refused(again: Callable[[Workflow], object]) -> None:
    workflow = Workflow().add("a", plain).add_many("sub", [plain])
    assert "is already in the workflow" in refused(lambda: again(workflow))


def test_008_an_unknown_dependency_is_refused_at_once_or_at_the_push() -> None:
    assert "'b' is not in the workflow yet" in refused(lambda: Workflow().add("a", plain, deps="b"))
    forward = Workflow(check_deps=False).add("a", plain, deps="b")
    assert "'a' depends on 'b', which is not in the flow" in refused(forward.check)
    assert Play(forward.add("b", plain)).run() is FlowState.COMPLETED


def test_009_a_cycle_is_refused_with_its_path() -> None:
    circle = Workflow(check_deps=False)
    circle.add("a", plain, deps="c").add("b", plain, deps="a").add("c", plain, deps="b")
    assert "cycle: " in refused(circle.check)
    assert "a -> b -> c -> a" in refused(circle.check)
    own = Workflow(check_deps=False).add("a", plain, deps="a")
    assert "a -> a" in refused(own.check)


def test_009_a_cycle_by_way_of_a_sub_workflow_is_refused() -> None:
    circle = Workflow(check_deps=False)
    circle.add_many("many", [plain, plain], deps="last").add("last", plain, deps="many/1")
    assert "last -> many/1 -> last" in refused(circle.check)


def test_009_a_cycle_by_way_of_an_empty_sub_workflow_is_refused() -> None:
    circle = Workflow(check_deps=False).add_many("none", [], deps="b").add("b", plain, deps="none")
    assert "cycle: b -> none -> b" in refused(circle.check)


def graft_an_empty_workflow(context: Context) -> Workflow:
    return Workflow()


def graft_nothing(context: Context) -> None:
    """Return no sub-workflow."""


EMPTY: dict[str, Callable[[Workflow, list[str]], Workflow]] = {
    "many": lambda w, deps: w.add_many("none", [], deps=deps),
    "fan-out": lambda w, deps: w.add_cascade("none", ([], item_and_context), deps=deps),
    "fan-out by key": lambda w, deps: w.add_cascade("none", ({}, item_and_context), deps=deps),
    "graft of an empty workflow": lambda w, deps: w.add_graft("none", graft_an_empty_workflow, deps=deps),
    "graft of nothing": lambda w, deps: w.add_graft("none", graft_nothing, deps=deps),
}


def test_010_an_empty_workflow_is_refused() -> None:
    assert "has no jobs" in refused(Workflow("empty").check)


@pytest.mark.parametrize("kind", EMPTY)
def test_010_an_empty_collection_is_completed_at_once(kind: str) -> None:
    workflow = EMPTY[kind](Workflow().add("a", plain), ["a"]).add_cascade("b", with_context, deps="none")
    result = run_inline(workflow, takes={"*": 60}).assert_completed()
    before = ["a", "none"] if "graft" in kind else ["a"]  # a grafter is a job itself
    assert result.order == [*before, "b"]
    assert result.started["b"] == result.ended[before[-1]]
    assert result.contexts["b"]["none"] == {}


@pytest.mark.parametrize("kind", EMPTY)
def test_010_an_empty_collection_alone_is_completed(kind: str) -> None:
    assert run_inline(EMPTY[kind](Workflow(), [])).state is FlowState.COMPLETED


NESTED: dict[str, Callable[[list[Any]], Workflow]] = {
    "alone": lambda jobs: Workflow().add("x", plain).add_many("s", jobs, deps="x"),
    "that ignores": lambda jobs: Workflow(ignore_discarded=True).add("x", plain).add_many("s", jobs, deps="x"),
    "inside, beside a job": lambda jobs: (
        Workflow().add("x", plain).add_workflow("s", Workflow().add("g", plain).add_many("e", jobs), deps="x")
    ),
    "inside, behind a job": lambda jobs: (
        Workflow().add("x", plain).add_workflow("s", Workflow().add("g", plain).add_many("e", jobs, deps="g"), deps="x")
    ),
    "two levels inside": lambda jobs: (
        Workflow()
        .add("x", plain)
        .add_workflow("s", Workflow().add_workflow("t", Workflow().add_many("e", jobs)), deps="x")
    ),
    "behind an open job, too": lambda jobs: (
        Workflow().add("x", plain).add_approval("o").add_many("s", jobs, deps=["x", "o"])
    ),
    "behind a cancelled job": lambda jobs: (
        Workflow().add("w", plain).add("x", plain, deps="w").add_many("s", jobs, deps="x")
    ),
}


@pytest.mark.parametrize("shape", NESTED)
@pytest.mark.parametrize("outcome", ["fails", "completes"])
def test_010_an_empty_collection_ends_as_one_with_a_job(shape: str, outcome: str) -> None:
    """Its dependents and its status do not depend on the number of its items."""
    seen = []
    for jobs in ([], [plain]):
        workflow = NESTED[shape](jobs).add("ic", plain, deps="s", ignore_cancelled=True)
        workflow.add("id", plain, deps="s", ignore_discarded=True).add("plain", plain, deps="s")
        first = next(iter(workflow.steps))
        play = Play(workflow)
        play.run(fails={first: [None]} if outcome == "fails" else {})
        ends = {path: (play.row(path).state, play.row(path).reason) for path in ("ic", "id", "plain")}
        shown = play.status.subs["s"]
        subs = {name: (sub.state, sub.ok) for name, sub in shown.subs.items()}
        seen.append((ends, shown.state, shown.ok, subs, play.status.state, play.status.ok))
    assert seen[0] == seen[1]


def test_010_why_leads_through_an_empty_collection() -> None:
    play = Play(Workflow().add("a", plain).add_many("none", [], deps="a").add("b", plain, deps="none"))
    play.advance()
    assert (play.status.subs["none"].state, play.status.subs["none"].ok) == (FlowState.EXECUTING, False)
    assert [inner.path for inner in play.why("b").because] == ["a"]
    assert play.run(fails={"a": [None]}) is FlowState.DISCARDED
    assert (play.row("b").state, play.row("b").reason) == ("cancelled", "dependency:none")
    assert [inner.path for inner in play.why("b").because] == ["a"]


def test_011_a_group_has_common_dependencies() -> None:
    workflow = Workflow().add("setup", plain).add_group([("a", plain), ("b", marked)], ["setup"])
    assert [workflow[name].dependencies for name in ("a", "b")] == [["setup"], ["setup"]]


def test_012_the_first_jobs_of_a_sub_workflow_wait_for_its_dependencies() -> None:
    inner = Workflow().add("root", plain)
    outer = Workflow().add_workflow("inner", inner).add("beside", plain).add("after", plain, deps="beside")
    play = Play(Workflow().add("first", plain).add_workflow("outer", outer, deps="first"))
    assert [start.number for start in play.advance().starts] == [0]
    play.end("first")
    play.advance()
    assert play.order == ["first", "outer/inner/root", "outer/beside"]


def test_012_sub_workflows_are_nested_up_to_a_limit() -> None:
    deep = Workflow().add("job", plain)
    for _ in range(20):
        deep = Workflow().add_workflow("sub", deep)
    assert Play(deep).run() is FlowState.COMPLETED
    assert "nested more than 20 deep" in refused(Workflow().add_workflow("sub", deep).check)


def test_012_a_workflow_cannot_contain_itself() -> None:
    outer = Workflow().add("a", plain)
    inner = Workflow().add_workflow("outer", outer)
    assert "contains the workflow" in refused(lambda: outer.add_workflow("inner", inner))
    assert "contains the workflow" in refused(lambda: outer.add_workflow("itself", outer))


def test_013_a_dependency_on_a_sub_workflow_waits_for_all_its_jobs() -> None:
    sub = Workflow().add("a", plain).add_many("more", [plain, plain])
    play = Play(Workflow().add_workflow("sub", sub).add("after", plain, deps="sub"))
    play.advance()
    for path in ("sub/a", "sub/more/1"):
        play.end(path)
        assert not play.advance().starts
    play.end("sub/more/0")
    play.advance()
    assert play.order[-1] == "after"


def test_013_a_sub_workflow_is_discarded_before_it_is_cancelled() -> None:
    sub = Workflow().add("fails", plain).add("behind", plain, deps="fails")
    workflow = Workflow().add_workflow("sub", sub).add("a", plain, deps="sub", ignore_discarded=True)
    workflow.add("b", plain, deps="sub", ignore_cancelled=True)
    play = Play(workflow)
    play.run(fails={"sub/fails": [None]})
    assert play.states["a"] == "completed"
    assert play.states["b"] == "cancelled"


def test_015_collections_are_named_by_numbers_or_keys() -> None:
    workflow = Workflow().add_many("listed", (job for job in (plain, marked))).add_many("named", {3: plain, "x": plain})
    assert list(workflow.subs["listed"].steps) == ["0", "1"]
    assert list(workflow.subs["named"].steps) == ["3", "x"]
    assert "two keys with the same text" in refused(lambda: Workflow().add_many("twins", {1: plain, "1": plain}))
    assert "expected a list or a dict" in refused(lambda: Workflow().add_many("text", "abc"))  # type: ignore[arg-type]


def test_016_a_dependency_may_reach_into_a_sub_workflow() -> None:
    play = Play(Workflow().add_many("process", [plain, plain]).add("after", plain, deps="process/0"))
    play.advance()
    play.end("process/0")
    play.advance()
    assert play.order == ["process/0", "process/1", "after"]
    assert "must not contain '/'" in refused(lambda: Workflow().add("a/b", plain))
    inner = Workflow(check_deps=False).add("inner", plain, deps="outer")
    outer = Workflow().add("outer", plain).add_workflow("sub", inner)
    assert "'sub/inner' depends on 'sub/outer'" in refused(outer.check)


def test_017_contexts_are_merged_and_overlaid() -> None:
    sub = Workflow().add_context({"b": "sub"}).add_cascade("inner", with_context)
    workflow = Workflow().add_context({"a": 1, "b": 2}).add_context({"b": 3}).add_workflow("sub", sub)
    assert workflow.context == {"a": 1, "b": 3}
    play = Play(workflow)
    job = RunningJob("id", "sub/inner")
    assert dict(play.context_of(play.row("sub/inner"), job)) == {"a": 1, "b": "sub"}


def test_017_a_context_key_that_is_a_job_is_refused() -> None:
    assert "is the name of a job" in refused(lambda: Workflow().add("a", plain).add_context({"a": 1}))
    assert "is a key of the context" in refused(lambda: Workflow().add_context({"a": 1}).add("a", plain))
    inherited = Workflow().add_context({"a": 1}).add_workflow("sub", Workflow().add("a", plain))
    assert "is the name of a job" in refused(inherited.check)
    assert "texts as keys" in refused(lambda: Workflow().add_context({1: 2}))  # type: ignore[dict-item]


def test_018_a_cascade_takes_the_context() -> None:
    (member,) = Workflow().add_cascade("a", with_context).definition().members
    assert isinstance(member.work, StepWork)
    assert member.work.form is CallForm.CONTEXT
    assert "is called as function(context)" in refused(lambda: Workflow().add_cascade("a", plain))
    assert "expected a function" in refused(lambda: Workflow().add_cascade("a", "text"))  # type: ignore[arg-type]


def test_019_a_cascade_fans_out_over_items() -> None:
    workflow = Workflow().add("first", plain).add_cascade("items", (["x", "y"], item_and_context), deps="first")
    play = Play(workflow)
    play.run(call=True)
    assert play.order == ["first", "items/0", "items/1"]
    assert play.recorded("items/1")["item"] == "y"
    assert "function(item, context)" in refused(lambda: Workflow().add_cascade("a", ([1], with_context)))
    assert "expected (items, function)" in refused(lambda: Workflow().add_cascade("a", (1, 2, 3)))  # type: ignore[arg-type]


def test_020_options_of_jobs() -> None:
    workflow = Workflow().add("a", plain, queue="slow", priority=5, max_attempts=3, timeout=timedelta(minutes=1))
    workflow.add("b", crawl("books"), retries=2, when="archived", schedule_in=60)
    first, second = workflow.definition().members
    assert isinstance(first.work, StepWork)
    assert (first.work.queue, first.work.timeout_seconds, first.priority) == ("slow", 60.0, 5)
    assert (first.retry.max_attempts, second.retry.max_attempts) == (3, 3)
    assert second.delay_seconds == 60.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "colour: is no option"),
        ({"sla": 3600}, "sla: is no option"),
        ({"priority": "high"}, "priority: expected a whole number"),
        ({"max_attempts": 0}, "max_attempts: makes 0 attempts, 1 to 100"),
        ({"retries": 100}, "retries: makes 101 attempts"),
        ({"timeout": -1}, "timeout: expected a positive number of seconds"),
        ({"scheduled_at": "now"}, "scheduled_at: expected a time with a time zone"),
        ({"queue": 3}, "queue: expected str"),
        ({"when": "archived"}, "when: is no option"),
        ({"retry": {}}, "retry: expected RetryPolicy"),
    ],
)
def test_020_a_wrong_option_is_refused(options: Any, message: str) -> None:
    assert message in refused(lambda: Workflow().add("a", plain, **options))


def test_020_worker_classes_and_marked_functions_keep_their_options() -> None:
    job = work.SlowWorker.new({"x": 1}, priority=4)
    assert (job.queue, job.priority, job.retry.max_attempts) == ("slow", 4, 2)
    assert marked.job.timeout_seconds == 60
    assert greet.job.with_kwargs(name="you").arguments == {"name": "you"}
    assert greet.job.with_kwargs({"name": "you"}).arguments == {"name": "you"}
    assert greet() == "hello nobody"
    play = Play(Workflow().add("slow", job).add("greet", greet.job.with_kwargs(name="you")))
    play.run(call=True)
    assert play.recorded("slow") == {"args": {"x": 1}}
    assert play.recorded("greet") == "hello you"


def test_020_a_worker_class_needs_its_method_and_is_added_by_new() -> None:
    assert "add StepWorker.new(...)" in refused(lambda: Workflow().add("a", StepWorker))
    assert "has no method process" in refused(lambda: worker()(BaseModel))


def test_021_a_graft_takes_functions_and_worker_jobs_only() -> None:
    workflow = Workflow().add_graft("worker", work.UserNotifier.new({"account_id": 1}))
    workflow.add_graft("function", work.graft_function).add_graft("items", ([1], item_and_context))
    assert [step.name for _, step in workflow] == ["worker", "function", "items"]
    assert "expected a function or a worker's job" in refused(lambda: workflow.add_graft("crawl", crawl("books")))


def graft_for_users(users: list[int], context: Context) -> Workflow:
    mails = {f"{context['first']}-{user}": work.NotifyWorker.new({"user_id": user}) for user in users}
    return Workflow().add_many("mails", mails)


def test_021_a_graft_with_items_calls_its_function_once_with_all_items() -> None:
    workflow = Workflow().add("first", plain).add_graft("g", ([7, 8], graft_for_users), deps="first")
    result = run_inline(workflow.add_cascade("after", with_context, deps="g")).assert_completed()
    assert result.order == ["first", "g", "g/mails/plain-7", "g/mails/plain-8", "after"]
    assert result.contexts["after"]["g"] == {"mails": {"plain-7": 7, "plain-8": 8}}


def test_022_a_workflow_is_a_container_of_steps() -> None:
    workflow = Workflow("w").add("a", plain).add("b", plain, deps="a")
    assert (workflow.state, workflow.created_at, workflow.updated_at) == (WorkflowState.PENDING, None, None)
    assert len(workflow) == 2
    assert list(dict(workflow)) == ["a", "b"]
    assert (workflow["a"].step_id, workflow["a"].state, workflow["a"].job_id) == ("a", StepState.PENDING, None)
    assert isinstance(workflow["a"].job, StepJob)
    workflow += WorkflowStep(plain, "c", ["b"])
    assert workflow["c"].dependencies == ["b"]
    assert workflow.steps_by_state == {StepState.PENDING: [workflow["a"], workflow["b"], workflow["c"]]}
    assert (workflow.is_complete, workflow.is_running) == (False, False)
    del workflow["c"]
    assert list(workflow.steps) == ["a", "b"]
    with pytest.raises(KeyError):
        workflow["c"]
    workflow.state = WorkflowState.FAILED
    assert workflow.is_complete
    assert workflow.state is Workflow.State.FAILED


def local_steps() -> list[Any]:
    def inner(context: Any) -> None:
        """Stand for a function that no other process can find."""

    return [work.anonymous, inner, work.Holder().method, work.Holder.method, work.partial]


@pytest.mark.parametrize("function", local_steps())
@pytest.mark.parametrize("how", ["add", "add_cascade"])
def test_023_functions_that_no_other_process_can_find_are_refused(function: Any, how: str) -> None:
    message = refused(lambda: getattr(Workflow(), how)("a", function))
    assert "a step is a function at the top level of a module" in message


def test_023_a_function_under_the_name_of_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "plain", work.with_context)
    assert "is not the function that tests.kit.authors.work has under its name" in refused(
        lambda: Workflow().add("a", plain)
    )


def test_023_the_main_module_has_the_name_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    monkeypatch.setattr(plain, "__module__", "__main__")
    monkeypatch.setattr(__main__, "__spec__", None)
    monkeypatch.setattr(__main__, "__file__", "/somewhere/nightly-crawls.py", raising=False)
    (member,) = Workflow().add("a", plain).definition().members
    assert isinstance(member.work, StepWork)
    assert member.work.function == "nightly-crawls:plain"


def test_023_parameters_come_from_dependencies_and_the_context() -> None:
    workflow = Workflow().add_context({"greeting": "good"}).add("plain", plain).add("both", by_name, deps="plain")
    play = Play(workflow)
    play.run(call=True)
    assert play.recorded("both") == "good plain"
    missing = Workflow().add("plain", plain).add("both", by_name, deps="plain")
    assert "by_name needs 'greeting'" in refused(missing.check)


def test_024_pictures_work_before_the_push() -> None:
    workflow = Workflow().add("a", plain)
    assert workflow.to_graph().vertices == {"a": workflow["a"]}
    assert '"a"' in workflow.to_dot()
    assert "a[" in workflow.to_mermaid()


def test_a_crawl_is_checked_while_it_is_built() -> None:
    assert isinstance(crawl("books", arguments={"lang": "de"}, tasks=4), CrawlJob)
    assert "tasks" in refused(lambda: crawl("books", tasks=0))
    assert "run_id: is no parameter" in refused(lambda: crawl("books", run_id=3))  # type: ignore[call-arg]
    assert "expected ended or archived" in refused(lambda: Workflow().add("a", crawl("books"), when="later"))


def reports_of(workflow: Workflow) -> dict[str, str]:
    members = workflow.definition().members
    return {member.path: member.work.request.report for member in members if isinstance(member.work, CrawlWork)}


def test_a_workflow_has_a_report_for_crawls_without_their_own() -> None:
    sub = Workflow().add("inner", crawl("books")).add("own", crawl("books", report="all"))
    other = Workflow(report="none").add("quiet", crawl("books"))
    workflow = Workflow(report="end").add("top", crawl("books")).add_workflow("sub", sub).add_workflow("other", other)
    reports = {"top": "end", "sub/inner": "end", "sub/own": "all", "other/quiet": "none"}
    assert reports_of(workflow.add("step", plain)) == reports
    assert reports_of(Workflow().add("top", crawl("books"))) == {"top": "all"}
    assert "report: expected all, end, none, not 'some'" in refused(lambda: crawl("books", report="some"))
    assert "report" in refused(lambda: Workflow(report="some"))


def test_arguments_that_are_too_large_or_have_no_form_in_json_are_refused() -> None:
    with pytest.raises(TooLarge, match="at most 65536"):
        work.SlowWorker.new({"x": "y" * LARGEST_ARGUMENTS})
    with pytest.raises(TooLarge, match=r"context: .* bytes"):
        Workflow().add_context({"x": "y" * LARGEST_CONTEXT})
    assert "arguments.x: a value with the type object cannot be kept as JSON" in refused(
        lambda: work.SlowWorker.new({"x": object()})
    )
    circle: list[Any] = []
    circle.append(circle)
    assert "contains itself" in refused(lambda: Workflow().add_cascade("a", ([circle], item_and_context)))


def test_quorums_and_tasks_are_checked_while_they_are_built() -> None:
    for at_least in (0, 1.5, -1, "half", True):
        assert "at_least" in refused(lambda at_least=at_least: any_of("a", at_least=at_least))  # type: ignore[misc]
    assert "at least one name" in refused(lambda: any_of([]))
    no_crawl = Workflow().add("a", plain).add_cascade("b", each_task("a", item_and_context))
    assert "'b' follows the tasks of 'a', which is no crawl" in refused(no_crawl.check)


def test_max_parallel_is_checked() -> None:
    assert "max_parallel" in refused(lambda: Workflow(max_parallel=0))
    assert Workflow(max_parallel=3).add("a", plain).definition().max_parallel == 3


def test_a_retry_policy_is_part_of_the_definition() -> None:
    policy = RetryPolicy(max_attempts=4, pause_seconds=1)
    (member,) = Workflow().add("a", plain, retry=policy).definition().members
    assert member.retry == policy


def test_a_workflow_without_jobs_is_true() -> None:
    workflow = Workflow(id="empty")
    assert workflow, "an author's `if workflow` asks for None"
    assert len(workflow) == 0
