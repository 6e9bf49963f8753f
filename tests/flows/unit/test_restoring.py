"""A workflow from its rows equals the workflow that was pushed: a push of the restored workflow changes nothing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow, any_of, crawl, each_task
from crawler_lifecycle.flows.authors.dependencies import OneTask
from crawler_lifecycle.flows.authors.restoring import OnRecord, restored
from crawler_lifecycle.flows.authors.steps import WorkflowStep
from crawler_lifecycle.flows.model.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.rules.rows import TOP
from tests.flows.plays import NOW, Play
from tests.kit.authors.work import (
    MOMENT,
    SlowWorker,
    UserNotifier,
    item_and_context,
    plain,
    process_user,
    summarize,
    top,
    with_context,
)


def on_record(play: Play) -> OnRecord:
    """The flow with definitions that were written as JSON and read again."""
    members = {
        number: MemberDefinition.model_validate_json(definition.model_dump_json())
        for number, definition in play.definitions.items()
    }
    groups = {
        number: GroupDefinition.model_validate_json(definition.model_dump_json())
        for number, definition in play.group_definitions.items()
    }
    return OnRecord("uid", play.ledger, members, groups, play.group_contexts[TOP], NOW, NOW)


def everything() -> Workflow:
    inner = Workflow(ignore_cancelled=True).add_context({"level": 2}).add("x", plain).add("y", top, deps="x")
    middle = Workflow().add("first", crawl("books", arguments={"lang": "de"}), when="archived", retries=2)
    middle.add_workflow("inner", inner, deps="first", max_parallel=3)
    workflow = Workflow("all", id="all-1", ignore_discarded=True, max_parallel=7).add_context(
        {"when": MOMENT, "parts": (1, {2})}
    )
    workflow.add("shop", crawl("shop", tasks=3, allowed_failures=0.5), priority=4)
    workflow.add_workflow("middle", middle, deps="shop")
    jobs: dict[str, Any] = {"a": plain, "b": SlowWorker.new({"n": 1})}
    workflow.add_many("many", jobs, deps="shop", max_parallel=1)
    workflow.add_cascade("process", ([1, 2], process_user), deps=["many", "middle/first"], schedule_in=3)
    workflow.add_cascade("summary", summarize, deps=any_of("process", at_least=0.5, wait=True), timeout=5)
    workflow.add_cascade("parse", each_task("shop", item_and_context), max_attempts=2)
    workflow.add_graft("graft", UserNotifier.new({"account_id": 2}), deps="summary", ignore_cancelled=True)
    workflow.add_approval("release", deps="graft", note="may we?", timeout=timedelta(days=1))
    return workflow.add("end", with_context, deps=["release", "parse"])


def test_26_a_fetched_workflow_pushes_as_no_change() -> None:
    play = Play(everything())
    again = restored(on_record(play))
    assert again.definition() == everything().definition()
    assert play.push(again).is_empty
    assert list(again.parts) == list(everything().parts)
    assert again.to_mermaid() == everything().to_mermaid()


def test_26_a_fetched_workflow_takes_further_jobs() -> None:
    play = Play(everything())
    merged = play.push(restored(on_record(play)).add("extra", plain, deps="end"))
    assert [row.path for row, _ in merged.members] == ["extra"]
    assert merged.members[0][0].ignore_discarded, "the workflow's own flags are for later jobs, too"


def test_26_jobs_that_joined_later_are_restored_and_not_pushed_twice() -> None:
    play = Play(Workflow().add_graft("graft", UserNotifier.new({"account_id": 2})).add("end", plain, deps="graft"))
    play.run(call=True)
    again = restored(on_record(play))
    assert list(again.subs["graft"].steps) == ["0", "1"]
    assert play.push(again).is_empty


def test_26_jobs_for_the_tasks_of_a_crawl_are_restored_and_come_from_the_crawl() -> None:
    play = Play(
        Workflow("tasks").add("shop", crawl("shop", tasks=2)).add_cascade("parse", each_task("shop", item_and_context))
    )
    group = play.ledger.paths_of_groups()["parse"]
    play.ledger.put(groups=[replace(play.ledger.groups[group], expected=2)])
    play.grow(group)
    again = restored(on_record(play))
    assert list(again.subs["parse"].steps) == ["0", "1"]
    assert play.push(again).is_empty


def test_26_groups_for_tasks_keep_their_places_whichever_grows_first() -> None:
    workflow = Workflow("tasks").add("one", crawl("one", tasks=2))
    workflow.add_cascade("each_of_one", each_task("one", item_and_context)).add("between", plain, deps="each_of_one")
    inner = Workflow().add("shop", crawl("three", tasks=1)).add_cascade("parse", each_task("shop", item_and_context))
    workflow.add_workflow("inner", inner.add("sum", plain, deps="parse")).add("two", crawl("two", tasks=1))
    workflow.add_cascade("each_of_two", each_task("two", item_and_context)).add("end", plain, deps="each_of_two")
    play = Play(workflow)
    assert restored(on_record(play)).to_mermaid() == workflow.to_mermaid()
    for path in ("each_of_two", "inner/parse", "each_of_one"):
        group = play.ledger.paths_of_groups()[path]
        play.ledger.put(groups=[replace(play.ledger.groups[group], expected=1)])
        play.grow(group)
    again = restored(on_record(play))
    assert list(again.subs["each_of_one"].steps) == ["0"]
    assert list(again.parts) == list(workflow.parts)
    assert list(again.subs["inner"].parts) == ["shop", "parse", "sum"]
    assert play.push(again).is_empty


def test_26_a_need_for_one_task_is_kept() -> None:
    workflow = Workflow("one").add("shop", crawl("shop", tasks=2))
    workflow += WorkflowStep(plain, "after", OneTask("shop", 1))
    again = restored(on_record(Play(workflow)))
    assert again["after"].needs == (OneTask("shop", 1),)
    assert again["after"].sources == ["shop"]


def test_22_states_and_ids_of_jobs_are_restored() -> None:
    workflow = Workflow("w", id="w-1").add("a", plain).add("b", plain, deps="a")
    play = Play(workflow)
    pending = restored(on_record(play))
    assert (pending.state, pending["a"].state, pending["a"].job_id) == ("pending", "pending", None)
    assert (pending.id, pending.name, pending.created_at) == ("w-1", "w", NOW)
    play.advance()
    running = restored(on_record(play))
    assert (running.state, running["a"].state, running["a"].job_id) == ("running", "running", "uid:a:1")
    assert running["b"].job_id is None
    play.run()
    ended = restored(on_record(play))
    assert (ended.state, ended.is_complete) == ("completed", True)
    assert [step.state for _, step in ended] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("path", ["", "middle", "middle/inner"])
def test_56_sub_workflows_are_handles_for_their_level(path: str) -> None:
    level = restored(on_record(Play(everything())))
    for name in path.split("/") if path else ():
        level = level.subs[name]  # type: ignore[assignment]
    assert level.path == path
