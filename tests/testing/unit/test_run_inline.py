"""The kit runs workflows in memory: real functions, chosen outcomes, virtual time."""

import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crawler_lifecycle.errors import BadInput, PermanentError
from crawler_lifecycle.flows import RetryPolicy, RetryRule, Workflow, any_of, crawl, each_task
from crawler_lifecycle.testing import (
    Play,
    Scenario,
    approved,
    completed,
    failed,
    killed_by_oom,
    refused,
    rejected,
    run_inline,
    stopped,
)
from tests.kit.authors import steps
from tests.kit.authors.steps import (
    Fetch,
    broken,
    count_items,
    details,
    give_up,
    is_released,
    note,
    note_later,
    parse,
    too_deep,
    total,
)

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    steps.CALLS.clear()


def diamond() -> Workflow:
    workflow = Workflow("diamond").add_cascade("top", note).add_cascade("left", note_later, deps="top")
    return workflow.add_cascade("right", note, deps="top").add_cascade("end", note, deps=["left", "right"])


def test_functions_are_called_in_the_order_of_the_dependencies() -> None:
    result = run_inline(diamond(), now=START).assert_completed()
    assert result.order == steps.CALLS == ["top", "left", "right", "end"]
    assert result.states == dict.fromkeys(result.order, "completed")
    assert result.results == {name: name for name in result.order}
    assert dict(result.contexts["end"]) == {"left": "left", "right": "right"}
    assert result.counts == {"completed": 4}
    assert (result.ok, result.open, result.reasons, result.errors) == (True, [], {}, {})


async def test_an_async_test_may_run_async_functions() -> None:
    assert run_inline(diamond()).state == "completed"


def test_time_is_virtual() -> None:
    workflow = diamond().add_cascade("late", note, deps="end", schedule_in=3600)
    result = run_inline(workflow, takes={"left": 60, "*": timedelta(seconds=1)}, now=START)
    assert result.started["left"] == result.started["right"] == START + timedelta(seconds=1)
    assert result.ended["end"] == START + timedelta(seconds=62)
    assert result.ended["late"] == START + timedelta(seconds=3601)
    assert result.duration == timedelta(seconds=3601)


def test_a_step_beyond_its_timeout_fails() -> None:
    workflow = Workflow().add("a", note, timeout=30)
    result = run_inline(workflow, takes={"a": 31}, now=START)
    assert (result.state, result.reasons["a"], steps.CALLS) == ("discarded", "the function did not end within 30 s", [])
    assert result.duration == timedelta(seconds=30)
    assert run_inline(workflow, takes={"a": 29}).state == "completed"


def test_a_crawls_receipt_has_the_chosen_values() -> None:
    workflow = Workflow().add("shop", crawl("bookshop", tasks=4)).add("count", count_items, deps="shop")
    result = run_inline(workflow, crawls={"bookshop": completed(items=3, result={"next": 4})})
    assert result.recorded("count") == 3
    receipt = result.results["shop"]
    assert (receipt["run_id"], receipt["status"], receipt["tasks"]) == (1, "COMPLETED", 4)
    assert (receipt["outcome"], receipt["reason"], receipt["result"]) == ("finished", "all_succeeded", {"next": 4})


@pytest.mark.parametrize(
    ("end", "state", "reason"),
    [
        (failed(), "discarded", "main_job_failed"),
        (failed("lost", reason="main_job_lost"), "discarded", "main_job_lost"),
        (stopped(), "cancelled", "stopped"),
        (stopped(forced=True), "cancelled", "stopped"),
        (refused(), "discarded", "start_refused"),
    ],
)
def test_a_crawl_may_end_otherwise(end: object, state: str, reason: str) -> None:
    workflow = Workflow().add("shop", crawl("bookshop")).add_cascade("after", note, deps="shop")
    result = run_inline(workflow, crawls={"shop": end})  # type: ignore[dict-item]
    assert (result.state, result.states) == (state, {"shop": state, "after": "cancelled"})
    assert result.reasons == {"shop": reason, "after": "dependency:shop"}
    assert "shop" not in result.results


def test_a_retried_crawl_has_an_end_per_attempt() -> None:
    rule = RetryRule(outcomes=("killed by oom",), pause_seconds=300, arguments={"pages": "10"}, memory_factor=2)
    workflow = Workflow().add("shop", crawl("bookshop"), retry=RetryPolicy(max_attempts=3, rules=(rule,)))
    result = run_inline(workflow, crawls={"shop": [killed_by_oom(), completed(items=1)]}, now=START)
    assert result.assert_completed().attempts == {"shop": 2}
    assert result.ended["shop"] == START + timedelta(seconds=300)
    again = {"crawler": "bookshop", "arguments": {"pages": "10"}, "memory_factor": 2.0}
    assert result.requests["shop"] == [{"crawler": "bookshop"}, again]
    assert result.results["shop"]["run_id"] == 2


def test_a_rule_makes_the_own_word_of_a_completed_crawl_a_failure() -> None:
    rule = RetryRule(outcomes=("banned",), max_attempts=2, pause_seconds=3600)
    workflow = Workflow().add("shop", crawl("bookshop"), retry=RetryPolicy(rules=(rule,)))
    result = run_inline(workflow, crawls={"shop": [completed("banned"), completed()]}, now=START)
    assert (result.assert_completed().attempts, result.ended["shop"]) == ({"shop": 2}, START + timedelta(hours=1))
    result = run_inline(workflow, crawls={"shop": completed("banned")})
    assert (result.states, result.reasons) == ({"shop": "discarded"}, {"shop": "outcome:banned"})
    assert "shop" not in result.results


def test_steps_fail_as_often_as_chosen() -> None:
    workflow = Workflow().add_many("parse", [note, note], retries=2)
    result = run_inline(workflow, fails={"parse/1": 2})
    assert (result.state, result.attempts) == ("completed", {"parse/0": 1, "parse/1": 3})
    result = run_inline(workflow, fails={"parse/*": 3, "parse/0": ["banned", TimeoutError()]})
    assert result.states == {"parse/0": "completed", "parse/1": "discarded"}
    assert result.reasons == {"parse/1": "chosen by the test"}


def test_a_word_chooses_the_rule() -> None:
    rules = (RetryRule(outcomes=("banned",), pause_seconds=60), RetryRule(outcomes=("TimeoutError",), pause_seconds=5))
    workflow = Workflow().add("a", note, retry=RetryPolicy(max_attempts=3, rules=rules))
    result = run_inline(workflow, fails={"a": ["banned", TimeoutError("slow")]}, now=START)
    assert result.ended["a"] == START + timedelta(seconds=65)


def test_an_exception_is_the_cause_of_a_failed_assertion() -> None:
    workflow = Workflow().add("a", broken).add_cascade("b", note, deps="a")
    result = run_inline(workflow)
    assert isinstance(result.errors["a"], ValueError)
    assert result.reasons == {"a": "ValueError: no such page", "b": "dependency:a"}
    with pytest.raises(AssertionError, match="the flow is discarded") as caught:
        result.assert_completed()
    assert isinstance(caught.value.__cause__, ValueError)
    assert "a: discarded, ValueError: no such page" in str(caught.value)
    assert "b: cancelled, dependency:a" in str(caught.value)


def test_results_without_a_form_in_json_and_cancels() -> None:
    result = run_inline(Workflow().add("a", too_deep, retries=3).add("b", give_up))
    assert result.states == {"a": "discarded", "b": "cancelled"}
    assert (result.reasons["a"], result.reasons["b"]) == ("result_unusable", "nothing to do")
    assert result.attempts["a"] == 1


def test_results_may_take_the_place_of_calls() -> None:
    result = run_inline(diamond(), results={"top": {"rows": 3}, "left": None})
    assert steps.CALLS == ["right", "end"]
    assert dict(result.contexts["right"]) == {"top": {"rows": 3}}
    assert dict(result.contexts["end"]) == {"left": None, "right": "right"}


def test_a_flow_may_be_played_without_calls() -> None:
    assert run_inline(diamond(), calls=False).assert_completed().order == ["top", "left", "right", "end"]
    assert steps.CALLS == []


def test_steps_get_each_task_of_a_crawl_with_its_files() -> None:
    workflow = Workflow().add("shop", crawl("bookshop", tasks=2))
    workflow.add_cascade("parse", each_task("shop", parse)).add("total", total, deps="parse")
    files = {"items-0.jsonl": "{}\n{}\n", "items-1.jsonl": "{}\n"}
    result = run_inline(workflow, crawls={"shop": completed(files=files, after=100)}, now=START)
    assert (result.assert_completed().recorded("total"), result.order) == (3, ["shop", "parse/0", "parse/1", "total"])
    assert result.started["parse/0"] == START + timedelta(seconds=50)  # the crawl still executes
    assert result.started["total"] == START + timedelta(seconds=100)
    with zipfile.ZipFile(result.results["shop"]["archive"]) as archive:
        assert archive.namelist() == ["files/items-0.jsonl", "files/items-1.jsonl", "manifest.json"]


def test_files_may_come_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "items-0.jsonl").write_text("{}\n")
    workflow = Workflow().add("shop", crawl("bookshop")).add_cascade("parse", each_task("shop", parse))
    result = run_inline(workflow, crawls={"shop": completed(files=tmp_path)})
    assert result.assert_completed().recorded("parse") == {"0": 1}


def test_a_task_may_fail_alone() -> None:
    workflow = Workflow().add("shop", crawl("bookshop", tasks=3)).add_cascade("parse", each_task("shop", note_task))
    workflow.add_cascade("most", note, deps=any_of("parse", at_least=0.6))
    result = run_inline(workflow, crawls={"shop": completed(failed_tasks={1})})
    assert result.states["parse/1"] == "cancelled"
    assert result.states["most"] == "completed"


def note_task(task: dict[str, object], context: object) -> object:
    return task["task"]


def test_dependents_may_wait_for_the_archive() -> None:
    workflow = Workflow().add("shop", crawl("bookshop"), when="archived").add_cascade("after", note, deps="shop")
    result = run_inline(workflow, crawls={"shop": completed(after=10, archived_after=5)}, now=START)
    assert result.started["after"] == START + timedelta(seconds=15)


def test_an_approval_waits_for_its_answer() -> None:
    workflow = Workflow().add_approval("release").add("load", is_released, deps="release")
    waiting = run_inline(workflow)
    assert (waiting.state, waiting.open) == ("executing", ["release", "load"])
    assert waiting.why("load").because[0].cause == "approval"
    result = run_inline(workflow, approvals={"release": approved(actor="ann", after=60)}, now=START)
    assert result.assert_completed().recorded("load") is True
    assert result.results["release"]["actor"] == "ann"
    assert result.ended["release"] == START + timedelta(seconds=60)
    assert run_inline(workflow, approvals={"release": True}).state == "completed"
    assert run_inline(workflow, approvals={"release": rejected(note="no")}).reasons["release"] == "rejected"


def test_an_approval_is_discarded_after_its_timeout() -> None:
    workflow = Workflow().add_approval("release", timeout=60)
    result = run_inline(workflow, approvals={"release": approved(after=61)})
    assert (result.state, result.reasons) == ("discarded", {"release": "approval_timeout"})


def test_a_grafter_attaches_jobs() -> None:
    workflow = Workflow().add_graft("details", details).add_cascade("after", note, deps="details")
    result = run_inline(workflow, fails={"details/pages/0": 1})
    assert result.states["details/pages/0"] == "discarded"
    result = run_inline(workflow)
    assert result.assert_completed().recorded("details") == {"pages": {"0": 10, "1": 20}}
    assert dict(result.contexts["after"]) == {"details": {"pages": {"0": 10, "1": 20}}}


def test_a_process_may_die_after_the_function() -> None:
    workflow = Workflow().add("a", note)
    assert run_inline(workflow, deaths={"a": 2}).assert_completed().attempts == {"a": 1}
    assert steps.CALLS == ["a", "a", "a"]
    result = run_inline(workflow, deaths={"a": 3})
    assert (result.state, result.reasons) == ("discarded", {"a": "process_died"})


def test_a_choice_for_no_job_is_refused() -> None:
    workflow = Workflow().add("shop", crawl("bookshop")).add("load", note)
    with pytest.raises(BadInput, match="crawls: the flow has no crawl 'shp'; did you mean 'shop'"):
        run_inline(workflow, crawls={"shp": completed()})
    with pytest.raises(BadInput, match="fails: the flow has no step 'shop'"):
        run_inline(workflow, fails={"shop": 1})
    with pytest.raises(BadInput, match="approvals: the flow has no approval 'load'"):
        run_inline(workflow, approvals={"load": True})
    with pytest.raises(BadInput, match="is no detail of a crawl"):
        completed(item=3)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="after: expected a time from 0 on"):
        completed(after=-1)


def test_people_act_between_two_parts_of_a_play() -> None:
    workflow = Workflow().add("shop", crawl("bookshop")).add("load", broken, deps="shop")
    play = Play(workflow, Scenario(crawls={"shop": completed(after=600)}), now=START)
    assert play.run(minutes=5) == "executing"
    assert play.cancel("shop") == 1
    assert (play.run(), play.stops, play.states["shop"]) == ("cancelled", ["shop"], "cancelled")
    play.change(Scenario(results={"load": 1}))
    assert play.retry("shop", arguments={"lang": "de"}) == 1
    assert (play.run(), play.order) == ("completed", ["shop", "shop", "load"])
    assert play.played_runs["shop"][1].request.arguments == {"lang": "de"}
    assert play.now == START + timedelta(minutes=5)


def test_a_retry_keeps_earlier_results_and_changes_arguments() -> None:
    play = Play(Workflow().add("a", Fetch.new({"page": 1, "lang": "de"})).add_cascade("b", broken, deps="a"))
    assert (play.run(), play.recorded("a")) == ("discarded", 1)
    assert play.retry("b") == 1
    assert (play.run(), play.order, play.recorded("a")) == ("discarded", ["a", "b", "b"], 1)
    assert play.retry("a", completed=True, arguments={"page": 2}) == 1
    play.run()
    assert play.recorded("a") == 2
    with pytest.raises(PermanentError, match="no job 'c'"):
        play.retry("c")


def test_a_cancelled_job_is_not_called() -> None:
    play = Play(Workflow().add("a", note), Scenario(takes={"a": 60}))
    play.run(seconds=30)
    play.cancel()
    assert (play.run(), steps.CALLS) == ("cancelled", [])
