from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.requests import ItemFilter, RetryItems
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.managers import Managed, begun_again, managed, over

pytestmark = pytest.mark.regression(
    "Items of a closed manager were shown as running for ever, though their crawls had ended"
)

ENDS: dict[int, Any] = {
    1: (RunStatus.COMPLETED, "all_succeeded"),
    2: (RunStatus.FAILED, "main_job_failed"),
    3: (RunStatus.FAILED, "stopped"),
}
STATES = {
    1: ItemState.COMPLETED,
    2: ItemState.FAILED,
    3: ItemState.CANCELLED,
    4: ItemState.RUNNING,
    5: ItemState.CANCELLED,
    6: ItemState.COMPLETED,
}


@pytest.fixture
def flow(database: Database) -> Managed:
    """A manager that has left four crawls, an item that has not started, and a completed item. Three crawls end."""
    flow = managed(database)
    flow.offer(*"abcdef", read=6)
    flow.ended_run(flow.started(6))
    flow.react(flow.ended()[0])
    runs = {number: flow.run_of(flow.started(number)) for number in (1, 2, 3, 4)}
    over(flow, "left")
    for number, end in ENDS.items():
        flow.close(runs[number], *end)
    return flow


def states(flow: Managed, *chosen: ItemState) -> dict[int, ItemState]:
    records = flow.store.manager_doors.items(flow.id, ItemFilter(states=chosen), limit=9)
    return {record.number: record.state for record in records}


def test_all_readings_show_the_ends(flow: Managed) -> None:
    doors = flow.store.manager_doors
    assert states(flow) == STATES
    for state in ItemState:
        assert states(flow, state) == {number: shown for number, shown in STATES.items() if shown is state}
    both = (ItemState.FAILED, ItemState.RUNNING)
    assert states(flow, *both) == {number: shown for number, shown in STATES.items() if shown in both}
    counts = Counts(running=1, completed=2, failed=1, cancelled=2)
    assert doors.statuses(flow.id)[0].counts == counts
    sums = doors.sums([flow.uid])[flow.uid]
    assert (sums.total, sums.completed, sums.failed, sums.cancelled, sums.open) == (6, 2, 1, 2, 1)


def test_a_named_item_says_that_the_manager_has_to_go_on(flow: Managed) -> None:
    answer = flow.store.manager_doors.retry_items(flow.id, RetryItems(numbers=(2,)))
    assert answer.left_out[0].reason.startswith("was left by the closed manager: a retry without numbers")


def test_a_manager_that_goes_on_reacts_to_the_ends(flow: Managed) -> None:
    assert flow.store.manager_doors.retry_items(flow.id, RetryItems()).reopened
    begun_again(flow)
    assert states(flow, ItemState.RUNNING).keys() == {1, 2, 3, 4}
    for job in flow.ended():
        flow.react(job)
    assert flow.store.manager_doors.statuses(flow.id)[0].counts == Counts(running=1, waiting=1, completed=4)
