"""People prevented a manager's end in the moment of its close. The manager kept the close reason of the prevented end,
and a resume during a drain was lost: the manager closed as drained, and its items were cancelled."""

from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.requests import AddItems
from crawler_lifecycle.flows.model.turns import NO_EFFECTS
from crawler_lifecycle.model.manager_items import ItemState
from tests.kit.data.managers import added, managed
from tests.managers.authors import Shops
from tests.managers.play import Play, play_of

pytestmark = pytest.mark.regression(
    "A manager's end that people prevented kept its close reason, and a resume during a drain was lost"
)


class OneShop(Shops):
    names = "a"


def fed_at_its_close(make: type[Shops]) -> Play:
    """Return a play in which people add an item when the manager is about to close for the first time."""

    def on_close(_: Any) -> None:
        items = (added("late"),)
        play.kit.managed.store.manager_doors.add_items(play.kit.managed.id, AddItems(key="once", items=items))

    play = play_of(type("Fed", (make,), {"on_close": on_close}))
    return play


def test_an_item_added_at_the_close_counts_in_the_close_reason() -> None:
    play = fed_at_its_close(OneShop)
    play.run(play.end(), play.end(outcome="failed"))
    assert play.kit.close_reason == "finished_with_failures"
    assert [item.state for item in play.kit.items] == [ItemState.COMPLETED, ItemState.FAILED]


@pytest.mark.parametrize("then", ["run", "pause"])
def test_a_resume_in_the_moment_of_a_drained_end_is_not_lost(database: Database, then: str) -> None:
    flow = managed(database)
    flow.offer("a")
    flow.hold("drain")
    door = flow.begun("child-2").items_door
    flow.hold(then)
    assert flow.managers.close(flow.mine, "drained", NO_EFFECTS, door) == door + 1
    assert [item.state for item in flow.store.manager_doors.items(flow.id, limit=9)] == [ItemState.WAITING]
    assert flow.managers.close(flow.mine, "finished", NO_EFFECTS, door + 1) is None
