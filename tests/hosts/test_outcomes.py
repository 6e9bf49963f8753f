"""Every way in which a function may end, and what of it is on record."""

import math
from typing import Any

import pytest
import pytest_asyncio

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.authors.modules import load
from crawler_lifecycle.hosts.host import code_version
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from tests.hosts import authors
from tests.hosts.attempts import attempts
from tests.hosts.supervised import MODULE, Hosted, hosted, single


@pytest.mark.parametrize(
    ("function", "outcome", "words"),
    [
        (authors.fail, "LookupError", "no such shop"),
        (authors.async_fail, "LookupError", "no such shop"),
        (authors.leave, "SystemExit", "SystemExit: 3"),
        (authors.async_leave, "SystemExit", "SystemExit: 3"),
        (authors.interrupt, "KeyboardInterrupt", "KeyboardInterrupt"),
        (authors.fail_terribly, "Terrible", "Terrible"),
    ],
)
async def test_an_exception_fails_the_attempt_and_not_the_host(
    host: Hosted, function: Any, outcome: str, words: str
) -> None:
    flow = await host.play(single(function))
    row = flow.row("step")
    assert row.state == "discarded"
    assert (row.reason or "").startswith(outcome), "lists of jobs tell why a job has failed"
    [attempt] = await attempts(flow)
    assert (attempt.kind, attempt.outcome) == ("failed", outcome)
    assert words in (attempt.error or "")
    assert "crawler_lifecycle/hosts" not in (attempt.error or ""), "a traceback shows the author's frames alone"
    assert (await host.play(single(authors.nothing))).row("step").state == "completed"


async def test_a_failed_attempt_is_tried_again(host: Hosted) -> None:
    flow = await host.play(single(authors.fail, retry=RetryPolicy(max_attempts=3, pause_seconds=0)))
    assert [attempt.outcome for attempt in await attempts(flow)] == ["LookupError"] * 3


async def test_an_attempt_has_the_version_of_its_code(host: Hosted, flows_database: Database) -> None:
    [by_hash] = await attempts(await host.play(single(authors.nothing)))
    async with hosted(flows_database, code_version="shop:2026.11") as other:
        [by_setting] = await attempts(await other.play(single(authors.nothing)))
    assert (by_hash.code_version, by_setting.code_version) == (code_version(load([MODULE])), "shop:2026.11")


@pytest.mark.parametrize("function", [authors.cancel_by_return, authors.cancel_by_raise])
async def test_a_step_cancels_itself(host: Hosted, function: Any) -> None:
    flow = await host.play(single(function, max_attempts=3))
    assert (flow.row("step").state, flow.row("step").reason) == ("cancelled", "nothing to do")
    assert len(await attempts(flow)) == 1


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.long
async def test_a_snoozed_step_is_called_again_as_the_same_try(host: Hosted, isolate: bool) -> None:
    flow = await host.play(single(authors.snooze_once, max_attempts=1, isolate=isolate))
    assert await host.result(flow, "step") == {"errors": 0, "id": True}
    first, second = await attempts(flow)
    assert (first.kind, first.reason, second.kind) == ("snoozed", "snoozed:1", "completed")
    assert flow.row("step").tries == 1


async def test_a_recorded_result_is_checked_as_a_returned_one(host: Hosted) -> None:
    flow = await host.play(Workflow("wrong").add("step", authors.record_a_wrong_shelf))
    assert (flow.row("step").state, flow.row("step").reason) == ("discarded", "result_mismatch")


@pytest_asyncio.fixture(loop_scope="session")
async def narrow(flows_database: Database) -> Any:
    async with hosted(flows_database, largest_result=1000) as running:
        yield running


@pytest.mark.parametrize(
    ("function", "reason", "words"),
    [
        (authors.unusable, "result_unusable", "result.socket: a value with the type lock cannot be kept as JSON"),
        (authors.deep, "result_unusable", "is nested more than 100 deep, or contains itself"),
        (authors.graft, "result_unusable", "a workflow is only for a job of add_graft to return"),
        (authors.too_large, "result_too_large", "result: 2002 bytes as JSON, at most 1000 are possible"),
    ],
)
async def test_a_result_that_cannot_be_kept_discards_at_once(
    narrow: Hosted, function: Any, reason: str, words: str
) -> None:
    flow = await narrow.play(single(function, max_attempts=3))
    assert (flow.row("step").state, flow.row("step").reason) == ("discarded", reason)
    [attempt] = await attempts(flow)
    assert words in (attempt.error or "")


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (authors.wrong_book, "1 validation error for Book\nyear\n  Input should be a valid integer"),
        (authors.wrong_shelf, "1 validation error for Shelf\nnumber\n  Input should be a valid integer"),
        (authors.terrible_book, ""),
        (authors.Shelver.new(), "1 validation error for list[int]\n0\n  Input should be a valid integer"),
    ],
)
async def test_a_result_against_its_annotation_discards_at_once(host: Hosted, job: Any, words: str) -> None:
    flow = await host.play(Workflow("wrong").add("step", job, max_attempts=3))
    assert (flow.row("step").state, flow.row("step").reason) == ("discarded", "result_mismatch")
    [attempt] = await attempts(flow)
    assert words in (attempt.error or "")


async def test_an_isolated_function_has_its_result_checked(host: Hosted) -> None:
    flow = await host.play(Workflow("wrong").add("step", authors.wrong_book, isolate=True))
    assert flow.row("step").reason == "result_mismatch"


async def test_a_result_is_read_by_its_name_in_its_type(host: Hosted) -> None:
    workflow = Workflow("right").add("shelf", authors.right_shelf).add("number", authors.number_of, deps="shelf")
    flow = await host.play(workflow.add("none", authors.cancelled_shelf))
    assert flow.states == {"shelf": "completed", "number": "completed", "none": "cancelled"}
    assert await host.result(flow, "number") == 3


async def test_strange_values_survive(host: Hosted) -> None:
    flow = await host.play(single(authors.strange))
    result = await host.result(flow, "step")
    assert math.isnan(result.pop("nan"))
    assert result == {"endless": -math.inf, "nul": "a\0b", "half": "\ud800", "bytes": b"\xff", "big": 10**30}
