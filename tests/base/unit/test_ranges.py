"""Task numbers travel as ranges."""

from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.base.ranges import from_ranges, to_ranges


def test_neighbours_share_a_span() -> None:
    assert to_ranges([7, 2, 1, 0, 3]) == "0-3,7"
    assert from_ranges("0-3,7") == [0, 1, 2, 3, 7]
    assert (to_ranges([]), from_ranges("")) == ("", [])


@given(st.sets(st.integers(min_value=0, max_value=20_000)))
def test_there_and_back(numbers: set[int]) -> None:
    assert from_ranges(to_ranges(numbers)) == sorted(numbers)


def test_ten_thousand_tasks_in_the_worst_order_fit_a_payload() -> None:
    assert len(to_ranges(range(0, 20_000, 2))) < 100_000
