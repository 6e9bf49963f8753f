"""The comparison of crawl managers at the end of a soak sees each divergence, and none in rare but legal ends."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from crawler_lifecycle.flows.model.manager_records import ItemRecord, ManagerStatus
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.manager_items import ItemState, Origin
from crawler_lifecycle.model.records import FlowPlace, RunRecord
from crawler_lifecycle.model.states import RunStatus
from tests.chaos.manager_comparison import ToldManager, compared_manager
from tests.chaos.manager_people import COURSES, LINES, ManagerDeed, manager_lives
from tests.chaos.managing import REPEATED
from tests.kit.data.shown import NOW, a_run

Change = Callable[[ToldManager], ToldManager]
BY_STATE = {
    ItemState.COMPLETED: "completed",
    ItemState.FAILED: "failed",
    ItemState.CANCELLED: "cancelled",
    ItemState.REFUSED: "refused",
}


def an_item(number: int, state: ItemState = ItemState.COMPLETED, **fields: Any) -> ItemRecord:
    known = {"origin": Origin.GENERATOR, "override": {"spider_args": {"shop": str(number)}}, "attempt": 1}
    return ItemRecord(number=number, state=state, generation=1, tries=1, **{**known, **fields})


def runs_of(item: ItemRecord) -> list[RunRecord]:
    """Return a run for each attempt: all have failed, and the last of a completed item has completed."""
    runs = []
    for attempt in range(1, item.attempt + (item.outcome != "refused")):
        is_good = attempt == item.attempt and item.state is ItemState.COMPLETED
        status = RunStatus.COMPLETED if is_good else RunStatus.FAILED
        place = FlowPlace(id="f", path=f"manager/{item.number}", attempt=attempt)
        runs.append(a_run(status, run_id=10 * item.number + attempt, flow=place, workflow_id=_key(item, attempt)).run)
    return runs


def _key(item: ItemRecord, attempt: int) -> str:
    return f"flow-u-{item.number}-{attempt}"


def ended(*items: ItemRecord, reason: str = "finished", read: int = 3, events: Sequence[str] = ()) -> ToldManager:
    """Return a manager that is told as it was. `read`: parameter sets without the repeats."""
    runs = [run for item in items for run in runs_of(item)]
    states = Counter(BY_STATE[item.state] for item in items)
    counts = Counts(repeated=REPEATED, **states)
    stats = {"hooks": float(len(runs)), "crawlmanager/scheduled_jobs": float(len(runs))}
    status = ManagerStatus(
        path="manager",
        function="m:Shops",
        counts=counts,
        stats=stats,
        incarnation=1,
        close_reason=reason,
        closed_at=NOW,
    )
    return ToldManager(
        state=FlowState.CANCELLED if "cancelled" in events else FlowState.COMPLETED,
        shops=read,
        status=status,
        items=items,
        runs=runs,
        hooks=[run.workflow_id for run in runs],
        events=Counter(events),
        accepted={},
    )


def a_truth() -> ToldManager:
    """Return a manager with a failure that was mended, and an item that people have added."""
    added = an_item(4, origin=Origin.ADDED)
    return ended(an_item(1), an_item(2, attempt=2), an_item(3), added, events=["items added"])


def status(**changes: Any) -> Change:
    return lambda seen: replace(seen, status=seen.status.model_copy(update=changes))


def counted(**changes: int) -> Change:
    return lambda seen: status(counts=seen.status.counts.model_copy(update=changes))(seen)


def put(**changes: Any) -> Change:
    return lambda seen: replace(seen, **changes)


def first_item(**changes: Any) -> Change:
    return lambda seen: replace(seen, items=[seen.items[0].model_copy(update=changes), *seen.items[1:]])


def first_run(**changes: Any) -> Change:
    return lambda seen: replace(seen, runs=[seen.runs[0].model_copy(update=changes), *seen.runs[1:]])


def test_the_truth_has_no_divergence() -> None:
    assert compared_manager(a_truth()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(state=FlowState.DISCARDED), "its flow is discarded"),
        (put(state=FlowState.CANCELLED), "0 stops are on record"),
        (put(events=Counter()), "1 added items, and its timeline 0"),
        (put(accepted={"paused": 1}), "1 requests were accepted, and 0 lines say `paused`"),
        (put(failures=["on_start failed 5 times"]), "its author's code failed: on_start"),
        (status(closed_at=None), "the manager is not closed"),
        (status(close_reason="finished_with_failures"), "and 0 items have failed"),
        (status(close_reason="drained"), "nobody has asked for its end"),
        (status(close_reason="max_failures"), "nobody has asked for its end"),
        (counted(waiting=1), "and its items are"),
        (counted(completed=3), "its counts of"),
        (counted(repeated=1), "3 shops and 1 repeats"),
        (put(shops=4), "and its author gave 4"),
        (first_item(number=5), "its items have the numbers"),
        (first_item(override={"spider_args": {"shop": "3"}}), "on record twice"),
        (first_item(state=ItemState.RUNNING), "and these items have not: [1]"),
        (first_item(state=ItemState.FAILED), "its last run is COMPLETED"),
        (first_item(attempt=2), "is at attempt 2, and has runs for [1]"),
        (first_item(outcome="refused"), "is at attempt 1, and has runs for [1]"),
        (first_run(status=RunStatus.PROCESSING), "run 11 is PROCESSING"),
        (lambda seen: replace(seen, runs=[*seen.runs, *runs_of(an_item(7))]), "runs of no item: ['7']"),
        (lambda seen: replace(seen, hooks=seen.hooks[1:]), "no hook was called"),
        (lambda seen: replace(seen, hooks=[*seen.hooks, "flow-u-9-1"]), "for jobs without a run"),
        (status(stats={"hooks": 6, "crawlmanager/scheduled_jobs": 5}), "6 reactions are on record for 5 jobs"),
        (status(stats={"hooks": 5, "crawlmanager/scheduled_jobs": 6}), "6 starts are on record for 5 jobs"),
    ],
)
def test_each_divergence_is_seen(change: Change, message: str) -> None:
    assert message in "; ".join(compared_manager(change(a_truth())))


def test_an_item_whose_workflow_never_made_a_run_is_refused() -> None:
    refused = an_item(3, ItemState.REFUSED, outcome="refused")
    assert compared_manager(ended(an_item(1), an_item(2), refused, reason="finished_with_failures")) == []


def test_an_item_is_refused_before_its_first_attempt() -> None:
    refused = an_item(3, ItemState.REFUSED, attempt=0)
    assert compared_manager(ended(an_item(1), an_item(2), refused, reason="finished_with_failures")) == []


@pytest.mark.parametrize("event", ["cancelled", "drained"])
def test_a_stop_or_a_drain_comes_before_the_first_object(event: str) -> None:
    seen = replace(ended(reason="", events=[event]), state=FlowState.CANCELLED)
    blank = {"counts": Counts(), "stats": {}, "incarnation": 0, "close_reason": None, "closed_at": None}
    assert compared_manager(status(**blank)(seen)) == []
    assert compared_manager(status(**blank | {"incarnation": 1})(replace(seen, events=Counter()))) != []


@pytest.mark.parametrize(("reason", "event"), [("drained", "drained"), ("cancelled", "cancelled")])
def test_people_end_a_manager_before_its_generator_has_ended(reason: str, event: str) -> None:
    items = [an_item(1), an_item(2, ItemState.FAILED, attempt=2), an_item(3, ItemState.CANCELLED, attempt=0)]
    assert compared_manager(ended(*items, reason=reason, read=8, events=[event])) == []


def test_a_retry_after_a_failure_waits_when_a_drain_ends_the_manager() -> None:
    waiting = an_item(2, ItemState.CANCELLED, attempt=1, outcome="failed")
    assert compared_manager(ended(an_item(1), waiting, reason="drained", read=8, events=["drained"])) == []


def test_a_run_completes_in_a_stop() -> None:
    seen = ended(an_item(1), an_item(2), reason="cancelled", read=8, events=["cancelled"])
    assert compared_manager(seen) == []


def test_a_stop_comes_after_the_close_or_after_the_step_s_end() -> None:
    closed = ended(an_item(1), an_item(2), an_item(3), events=["cancelled"])
    assert compared_manager(closed) == []
    assert compared_manager(replace(closed, state=FlowState.COMPLETED)) == []
    late = replace(ended(an_item(1), reason="cancelled", read=8, events=["cancelled"]), state=FlowState.COMPLETED)
    assert "its close reason is cancelled" in "; ".join(compared_manager(late))


def test_a_hook_is_called_again_after_a_death() -> None:
    seen = a_truth()
    assert compared_manager(replace(seen, hooks=[*seen.hooks, *seen.hooks])) == []


def test_a_request_without_an_answer_is_on_record() -> None:
    seen = ended(*(an_item(number) for number in (1, 2, 3)), events=["paused", "resumed"])
    assert compared_manager(replace(seen, accepted={"paused": 0, "resumed": 1})) == []


def test_lives_of_managers_are_those_of_their_seed() -> None:
    lives = list(manager_lives(7, 3600))
    assert lives == list(manager_lives(7, 3600))
    assert {deed for life in lives for _, deed in life.deeds} == set(ManagerDeed)
    assert LINES.keys() == {deed for course in COURSES for deed in course} - {ManagerDeed.TERMINATE}
