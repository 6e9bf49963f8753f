"""The comparison of flows at the end of a soak sees each kind of divergence, and none in the truth."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from crawler_lifecycle.flows.model.records import MemberRecord
from crawler_lifecycle.flows.ports.records import AttemptRecord
from crawler_lifecycle.model.flow_states import EndKind, FlowState, MemberState
from crawler_lifecycle.model.records import FlowPlace, RunSummary
from crawler_lifecycle.model.states import RunStatus
from tests.chaos.flow_comparison import ToldFlow, compared_flow
from tests.chaos.flow_lives import ENDLESS, FlowDeed, flow_lives
from tests.kit.data.shown import a_run

NOW = datetime(2026, 11, 25, tzinfo=UTC)
STEPS = ("begin", "items/0", "items/1", "merge")


def member(path: str, kind: str = "step", **fields: Any) -> MemberRecord:
    known = {"flow_id": "f", "number": 0, "title": "x", "state": MemberState.COMPLETED, "attempt": 1}
    return MemberRecord(path=path, kind=kind, **{**known, **fields})


def attempt(run_id: int | None = None, **fields: Any) -> AttemptRecord:
    known: dict[str, Any] = {"attempt": 1, "ended_at": NOW, "kind": EndKind.COMPLETED, "deaths": 0}
    others = dict.fromkeys(("outcome", "reason", "error", "host"))
    own = {**others, **known, **fields}
    return AttemptRecord(generation=1, created_at=NOW, run_id=run_id, run_uid=None, code_version=None, **own)


def a_crawls_run(number: int = 1, status: RunStatus = RunStatus.COMPLETED) -> RunSummary:
    place = FlowPlace(id="f", path="shop", attempt=1)
    return a_run(status, run_id=number, flow=place).run


def a_truth() -> ToldFlow:
    steps = [member(path) for path in STEPS]
    return ToldFlow(
        state=FlowState.COMPLETED,
        items=2,
        members=[*steps, member("shop", "crawl")],
        attempts={path: [attempt()] for path in STEPS} | {"shop": [attempt(1)]},
        results={"begin": 1, "items": {"0": 10, "1": 20}, "merge": 30},
        runs=[a_crawls_run()],
        events=Counter(ended=1),
        calls=[(path, 1) for path in STEPS],
    )


def test_the_truth_has_no_divergence() -> None:
    assert compared_flow(a_truth()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda seen: replace(seen, state=FlowState.CANCELLED), "it is cancelled"),
        (lambda seen: replace(seen, events=Counter()), "its end was never told"),
        (lambda seen: _with_attempt(seen, "merge", ended_at=None), "merge has attempts without an end"),
        (lambda seen: _with_attempt(seen, "merge", attempt=2), "merge is at attempt 1"),
        (lambda seen: replace(seen, runs=[*seen.runs, a_crawls_run(2)]), "attempts have several runs"),
        (lambda seen: replace(seen, runs=[]), "is completed, and has no run"),
        (lambda seen: replace(seen, runs=[a_crawls_run(1, RunStatus.FAILED)]), "run 1 is FAILED"),
        (lambda seen: replace(seen, calls=[*seen.calls, ("begin", 1)]), "was called 2 times, with 0 deaths"),
        (lambda seen: replace(seen, calls=[*seen.calls, ("begin", 2)]), "calls of no attempt"),
        (lambda seen: replace(seen, calls=seen.calls[1:]), "its function was never called"),
        (lambda seen: replace(seen, results={**seen.results, "merge": 60}), "the sum is 60"),
        (lambda seen: replace(seen, results={**seen.results, "items": {"0": 10}}), "the items' results are"),
    ],
)
def test_each_divergence_is_seen(change: Callable[[ToldFlow], ToldFlow], message: str) -> None:
    assert message in "; ".join(compared_flow(change(a_truth())))


def test_lives_of_flows_are_those_of_their_seed() -> None:
    lives = list(flow_lives(7, 3600))
    assert lives == list(flow_lives(7, 3600))
    assert {deed for life in lives for _, deed in life.deeds} == set(FlowDeed)
    assert {life.crawler for life in lives} > set(ENDLESS)


def _with_attempt(seen: ToldFlow, path: str, **fields: Any) -> ToldFlow:
    return replace(seen, attempts={**seen.attempts, path: [attempt(**fields)]})
