from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import RetryItems
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.managers.store import doors as manager_doors
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.managers import Managed, begun_again, counts, managed, over

pytestmark = pytest.mark.regression(
    "A retry of a stopped manager without failed items changed nothing, and its arguments missed unstarted items"
)


@pytest.fixture
def flow(database: Database) -> Managed:
    return managed(database)


def retry(flow: Managed, **fields: Any) -> FlowAnswer:
    return flow.store.manager_doors.retry_items(flow.id, RetryItems.model_validate(fields))


def completed(flow: Managed, number: int) -> None:
    flow.ended_run(flow.started(number))
    flow.react(flow.ended()[0])


def test_an_unread_generator_goes_on(flow: Managed) -> None:
    flow.offer("a", read=1)
    completed(flow, 1)
    over(flow, "drained")
    answer = retry(flow)
    assert (answer.count, answer.reopened, answer.changed) == (0, True, True)
    assert flow.events[-1] == "items retried"
    begun_again(flow)
    assert flow.offer("b", read=2) == [2]
    assert counts(flow) == Counts(completed=1, waiting=1)


def test_a_manager_that_was_stopped_before_its_first_set_goes_on(flow: Managed) -> None:
    over(flow, "cancelled")
    assert retry(flow).reopened
    begun_again(flow)


def test_crawls_that_a_manager_has_left_are_its_own_again(flow: Managed) -> None:
    flow.offer("a", read=1, is_exhausted=True)
    start = flow.started(1)
    over(flow, "left")
    assert (retry(flow).count, retry(flow).reopened) == (0, False), "the first retry has reopened the manager"
    begun_again(flow)
    flow.ended_run(start)
    flow.react(flow.ended()[0])
    assert counts(flow) == Counts(completed=1)


@pytest.mark.parametrize("is_exhausted", [True, False])
def test_a_manager_with_nothing_more_to_do_stays_closed(flow: Managed, is_exhausted: bool) -> None:
    if is_exhausted:
        flow.offer("a", read=1, is_exhausted=True)
        completed(flow, 1)
    over(flow, "finished")  # a manager without a generator reads no sets
    answer = retry(flow)
    assert (answer.count, answer.reopened, answer.changed) == (0, False, False)
    assert flow.store.manager_doors.statuses(flow.id)[0].closed_at is not None


def test_arguments_reach_items_that_had_not_started(flow: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_doors, "AT_ONCE", 2)
    flow.offer(*"abcdefg", read=7)
    for number in (2, 4, 6):
        flow.ended_run(flow.started(number), RunStatus.FAILED)
        flow.react(flow.ended()[0], Verdict.BAD)
    over(flow, "cancelled")
    answer = retry(flow, arguments={"depth": 3})
    assert (answer.count, answer.reopened) == (7, True)
    begun_again(flow)
    waiting = flow.waiting()
    assert [(item.number, item.request.arguments["depth"]) for item in waiting] == [
        *((number, "3") for number in (2, 4, 6)),
        *((number, "3") for number in (1, 3, 5, 7)),
    ]
    assert {item.override["spider_args"]["depth"] for item in waiting} == {3}  # type: ignore[index,call-overload]


def test_a_retry_by_number_says_that_the_manager_goes_on(flow: Managed) -> None:
    flow.offer("a", "b", read=2)
    over(flow, "drained")
    answer = retry(flow, numbers=(1,), arguments={"depth": 3})
    assert (answer.count, answer.reopened) == (1, True)
    begun_again(flow)
    assert [item.request.arguments.get("depth") for item in flow.waiting()] == ["3", None]
