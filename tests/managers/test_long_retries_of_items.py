from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.requests import CancelItems, RetryItems, RetryMembers
from crawler_lifecycle.flows.model.turns import Counts, Page
from crawler_lifecycle.managers.store import doors as manager_doors
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.model.manager_items import Item, ItemState, Verdict
from crawler_lifecycle.model.requests import RunParameters
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.managers import Managed, begun_again, counts, item, managed, numbers, over

pytestmark = pytest.mark.regression(
    "A retry of many items held its flow for seconds, and left the unstarted items of a stopped manager cancelled"
)


@pytest.fixture
def flow(database: Database) -> Managed:
    return managed(database)


def failed(flow: Managed, *names: str) -> None:
    flow.offer(*names, read=len(names))
    for number in range(1, len(names) + 1):
        flow.ended_run(flow.started(number), RunStatus.FAILED)
    for job in flow.ended():
        flow.react(job, Verdict.BAD)


def retry(flow: Managed, **fields: Any) -> int:
    return flow.store.manager_doors.retry_items(flow.id, RetryItems.model_validate(fields)).count


@pytest.mark.parametrize("chosen", [None, (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("arguments", [None, {"depth": 3}])
def test_a_retry_in_pages_goes_on_after_a_death(
    flow: Managed, monkeypatch: pytest.MonkeyPatch, chosen: Any, arguments: Any
) -> None:
    monkeypatch.setattr(manager_doors, "AT_ONCE", 2)
    failed(flow, *"abcde")
    over(flow, "finished_with_failures")
    pages: list[Any] = []
    repeat = manager_doors.repeat

    def dies(*given: Any) -> int:
        if len(pages) == 2:
            raise KeyboardInterrupt
        pages.append(given)
        return repeat(*given)

    with monkeypatch.context() as patch:
        patch.setattr(manager_doors, "repeat", dies)
        patch.setattr(manager_doors, "repeat", dies)
        with pytest.raises(KeyboardInterrupt):
            retry(flow, numbers=chosen, arguments=arguments)
    assert counts(flow) == Counts(waiting=4, failed=1)
    assert "items retried" not in flow.events
    assert retry(flow, numbers=chosen, arguments=arguments) == (1 if chosen is None else 5)
    assert counts(flow) == Counts(waiting=5)
    assert flow.events.count("items retried") == 1
    begun_again(flow)
    waiting = flow.waiting()
    assert numbers(waiting) == [1, 2, 3, 4, 5]
    assert [item.request.arguments.get("depth") for item in waiting] == [arguments and "3"] * 5
    assert retry(flow) == 0


def test_each_page_of_a_retry_has_its_own_transaction(flow: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"shop-{number}" for number in range(1001)]
    flow.offer(*names, read=len(names))
    pages: list[Any] = []
    page = manager_doors.ManagerRetries._retry_page

    def noted(*given: Any) -> Any:
        pages.append(page(*given))
        return pages[-1]

    monkeypatch.setattr(manager_doors.ManagerRetries, "_retry_page", noted)
    assert retry(flow, numbers=tuple(range(1, 1002)), arguments={"depth": 3}) == 1001
    assert [rest and rest.count for _, rest in pages] == [500, 1000, None]


@pytest.mark.parametrize("by_items", [False, True])
def test_a_stopped_manager_goes_on_with_its_unstarted_items(flow: Managed, by_items: bool) -> None:
    flow.offer("a", "b", "c", "d", read=4)
    flow.ended_run(flow.started(1))
    flow.react(flow.ended()[0])
    assert flow.store.manager_doors.cancel_items(flow.id, CancelItems(numbers=(2,))).count == 1
    flow.cancel("manager")
    over(flow, "cancelled", EndKind.CANCELLED)
    assert counts(flow) == Counts(completed=1, cancelled=3)
    problems = [record.problem for record in flow.store.manager_doors.items(flow.id, limit=9)]
    assert problems == [None, None, *["the manager was closed before the item could start"] * 2]
    if by_items:
        assert retry(flow) == 2
    else:
        flow.store.flow_doors.change(flow.id, RetryMembers(paths=("manager",)))
    begun_again(flow)
    assert numbers(flow.waiting()) == [3, 4], "an item that a person has cancelled stays cancelled"
    assert counts(flow) == Counts(completed=1, cancelled=1, waiting=2)
    assert flow.store.manager_doors.items(flow.id, limit=9)[1].state is ItemState.CANCELLED


@pytest.mark.parametrize("chosen", [None, (1, 2, 3)])
def test_a_retry_with_arguments_that_a_later_item_refuses_changes_no_item(
    flow: Managed, monkeypatch: pytest.MonkeyPatch, chosen: Any
) -> None:
    monkeypatch.setattr(manager_doors, "AT_ONCE", 2)
    full = RunParameters(crawler="books", arguments={f"argument-{number}": "x" for number in range(100)})
    flow.managers.offer(flow.mine, Page(items=(item("a"), item("b"), Item(request=full, override={}, key="c")), read=3))
    for number in (1, 2, 3):
        flow.ended_run(flow.started(number), RunStatus.FAILED)
    for job in flow.ended():
        flow.react(job, Verdict.BAD)
    over(flow, "finished_with_failures")
    with pytest.raises(BadInput, match="arguments"):
        retry(flow, numbers=chosen, arguments={"depth": 3})
    assert counts(flow) == Counts(failed=3)
    assert retry(flow, numbers=chosen) == 3
    begun_again(flow)
    assert [item.request.arguments.get("depth") for item in flow.waiting()] == [None] * 3
