"""A crawl's own account counts as it is written, or is refused with the mistake; no text breaks its reader."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.model.crawl_results import (
    LARGEST_FILE,
    LARGEST_NUMBER,
    LARGEST_SUMS,
    CrawlResult,
    is_meant_as_result,
    read_result,
    summed,
)
from crawler_lifecycle.model.looks import OutcomeFacts
from crawler_lifecycle.model.outcome_words import outcome_word
from crawler_lifecycle.model.states import RunStatus

FULL = {"crawl_result": 1, "outcome": "banned", "stats": {"items": 3, "why": "403"}, "result": {"next": [1, None]}}
NUMBERS = st.integers(-LARGEST_NUMBER, LARGEST_NUMBER) | st.floats(-1e15, 1e15)
ANY_NUMBER = st.integers() | st.floats() | st.sampled_from([10**400, -(10**309), 2**63])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


def test_a_result_has_its_outcome_stats_and_any_json() -> None:
    result, problem = read_result(json.dumps(FULL))
    assert problem is None
    assert result == CrawlResult(outcome="banned", stats={"items": 3, "why": "403"}, result={"next": [1, None]})
    assert read_result('{"crawl_result": 1}') == (CrawlResult(), None)
    assert read_result(" \n") == (None, None), "no result was written"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("out of memory", "expected value"),
        ('{"crawl_result": 1, "stats": ', "EOF"),
        ('{"outcome": "finished"}', "crawl_result"),
        ('{"crawl_result": 2}', "crawl_result"),
        ('{"crawl_result": true}', "crawl_result"),
        ("[1]", "object"),
        ('{"crawl_result": 1, "outcome": 7}', "outcome"),
        ('{"crawl_result": 1, "outcome": ""}', "outcome"),
        ('{"crawl_result": 1, "outcome": "a\\nb"}', "printable"),
        (json.dumps(FULL | {"outcome": "x" * 65}), "outcome"),
        ('{"crawl_result": 1, "stats": [1]}', "stats"),
        ('{"crawl_result": 1, "stats": {"items": NaN}}', "numbers"),
        ('{"crawl_result": 1, "stats": {"items": 1e400}}', "numbers"),
        ('{"crawl_result": 1, "result": -9007199254740993}', "numbers"),
        ('{"crawl_result": 1, "result": ' + "[" * 30 + "]" * 30 + "}", "20 nested"),
        ('{"crawl_result": 1, "result": ' + "[" * 1500 + "]" * 1500 + "}", "recursion"),
        ('{"crawl_result": 1, "status": "?"}', "status"),
        ('{"crawl_result": 1, "result": 1' + "0" * 400 + "}", "numbers"),
        ('{"crawl_result": 1, "stats": {"n": -1' + "0" * 3900 + "}}", "numbers"),
        ('{"crawl_result": 1, "stats": {"a\\nb": 1}}', "printable names"),
        (json.dumps(FULL | {"stats": {"n" * 101: 1}}), "printable names"),
        (json.dumps(FULL | {"a\nb" * 300: 1}), "a\\nb"),
        (json.dumps(FULL | {"result": "x" * LARGEST_FILE}), f"{LARGEST_FILE} are allowed"),
        (json.dumps(FULL | {"result": "ä" * 1990}, ensure_ascii=False), f"{LARGEST_FILE} are allowed"),
    ],
)
def test_a_mistake_is_named(text: str, mistake: str) -> None:
    result, problem = read_result(text)
    assert result is None
    assert problem
    assert mistake in problem
    assert len(problem) < 300


@given(
    st.text()
    | st.builds(lambda number: json.dumps(FULL | {"result": number}), ANY_NUMBER)
    | st.builds(json.dumps, JSON)
    | st.builds(lambda value: json.dumps(FULL | {"result": value}), JSON)
)
def test_no_text_breaks_the_reader_and_what_counts_is_read_back(text: str) -> None:
    result, problem = read_result(text)
    if result is not None:
        assert problem is None
        facts = OutcomeFacts(job_uid="u", result=result)
        assert OutcomeFacts.model_validate_json(facts.model_dump_json(exclude_none=True)).result == result


def test_log_text_after_a_failure_is_no_result() -> None:
    assert is_meant_as_result(json.dumps(FULL))
    assert is_meant_as_result('{"crawl_result": 1, "stats": {"it'), "cut off by the cluster"
    assert is_meant_as_result('{"outcome": "banned", "crawl_result": 7}')
    for text in (
        "Traceback ...",
        '{"level": "error"}',
        'wrote {"crawl_result": 1}',
        "",
        '{"log": 1}\n{"crawl_result": 1}',
    ):
        assert not is_meant_as_result(text)


def test_sums_are_of_numbers_alone() -> None:
    tasks: list[dict[str, Any]] = [{"items": 3, "ratio": 0.5}, {"items": 4, "why": "403", "late": True}, {"pages": 1}]
    assert summed(CrawlResult(stats=stats) for stats in tasks) == {"items": 7, "ratio": 0.5, "pages": 1}
    assert summed([]) == {}
    assert summed(CrawlResult(stats={"ratio": 0.1}) for _ in range(3)) == {"ratio": 0.3}


@given(st.lists(st.dictionaries(st.text(max_size=60), NUMBERS, max_size=40), max_size=8))
@pytest.mark.long
def test_sums_are_bounded_and_keep_the_best_known(tasks: list[dict[str, Any]]) -> None:
    sums = summed(CrawlResult(stats=stats | {"items": 1}) for stats in tasks)
    assert len(json.dumps(sums)) <= LARGEST_SUMS
    assert not tasks or sums["items"] == len(tasks)


@pytest.mark.parametrize(
    ("status", "reason", "main_reason", "own", "expected"),
    [
        (RunStatus.COMPLETED, "all_succeeded", None, None, "finished"),
        (RunStatus.COMPLETED, "failures_allowed", None, None, "finished"),
        (RunStatus.COMPLETED, "all_succeeded", None, "closespider_timeout", "closespider_timeout"),
        (RunStatus.COMPLETED, "all_succeeded", None, "cancelled", "finished"),
        (RunStatus.COMPLETED, "all_succeeded", None, "lost", "finished"),
        (RunStatus.FAILED, "stopped", "stopped", "shutdown", "cancelled"),
        (RunStatus.FAILED, "stopped_forced", "stopped_forced", None, "cancel_timeout"),
        (RunStatus.FAILED, "main_job_failed", "oom_killed", "finished", "killed by oom"),
        (RunStatus.FAILED, "main_job_failed", "exit_2", "finished", "failed"),
        (RunStatus.FAILED, "main_job_failed", "exit_1", "banned", "banned"),
        (RunStatus.FAILED, "main_job_failed", "exit_1", "lost", "failed"),
        (RunStatus.FAILED, "main_job_failed", "exit_1", "cancelled", "failed"),
        (RunStatus.FAILED, "main_job_failed", "oom_killed", "banned", "killed by oom"),
        (RunStatus.FAILED, "main_job_failed", "drained", "partial", "failed"),
        (RunStatus.FAILED, "main_job_failed", "disrupted", "partial", "failed"),
        (RunStatus.FAILED, "tasks_failed", None, "banned", "failed"),
        (RunStatus.FAILED, "main_job_lost", "job_disappeared", "banned", "lost"),
        (RunStatus.FAILED, "main_job_failed", "deadline_exceeded", None, "max_duration"),
        (RunStatus.FAILED, "main_job_failed", None, None, "failed"),
        (RunStatus.FAILED, "tasks_failed", None, "finished", "failed"),
        (RunStatus.FAILED, "main_job_lost", "job_disappeared", None, "lost"),
        (RunStatus.FAILED, "tasks_lost", None, None, "lost"),
        (RunStatus.FAILED, "never_started", None, None, "never_started"),
        (RunStatus.FAILED, "max_duration", "stopped", None, "max_duration"),
        (RunStatus.FAILED, "deployment_refused", "no_such_crawler", None, "deployment_refused"),
    ],
)
def test_each_end_has_a_word(
    status: RunStatus, reason: str, main_reason: str | None, own: str | None, expected: str
) -> None:
    assert outcome_word(status, reason, main_reason, own) == expected
