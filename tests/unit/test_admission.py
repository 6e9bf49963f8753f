"""Who may deploy how many tasks: limits hold, room is used, nobody starves."""

from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.domain.admission import Demand, admitted, causes
from crawler_lifecycle.domain.reasons import INSTALLATION_LIMIT, RUN_LIMIT

COUNTS = st.integers(min_value=0, max_value=500)
DEMANDS = st.lists(
    st.builds(Demand, st.integers(0, 10**6), COUNTS, COUNTS, st.none() | st.integers(1, 500)),
    unique_by=lambda demand: demand.run_id,
    max_size=12,
)
ROOM = st.integers(min_value=-50, max_value=2_000)


@given(DEMANDS, ROOM)
def test_limits_hold_and_room_is_used(demands: list[Demand], room: int) -> None:
    granted = admitted(demands, room)
    for demand in demands:
        assert 0 <= granted[demand.run_id] <= demand.waiting
        if demand.max_in_cluster is not None and granted[demand.run_id]:
            assert demand.in_cluster + granted[demand.run_id] <= demand.max_in_cluster
    assert sum(granted.values()) == min(max(room, 0), sum(demand.allowed for demand in demands))


@given(DEMANDS, st.integers(min_value=12, max_value=2_000))
def test_every_run_that_may_gets_something(demands: list[Demand], room: int) -> None:
    granted = admitted(demands, room)
    assert all(granted[demand.run_id] > 0 for demand in demands if demand.allowed)


@given(DEMANDS, ROOM)
def test_whatever_stays_queued_has_a_cause(demands: list[Demand], room: int) -> None:
    granted = admitted(demands, room)
    why = causes(demands, granted)
    for demand in demands:
        assert (demand.run_id in why) == (granted[demand.run_id] < demand.waiting)


def test_the_cause_names_the_limit_that_bites() -> None:
    narrow, wide = Demand(1, 10, 2, 4), Demand(2, 10, 0, None)
    assert causes([narrow, wide], admitted([narrow, wide], 100)) == {1: RUN_LIMIT}
    assert causes([narrow, wide], admitted([narrow, wide], 4)) == {1: RUN_LIMIT, 2: INSTALLATION_LIMIT}
