"""Looks are paced by Fibonacci and absolute, nudges are spaced, pauses grow."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.base.pacing import Backoff, earliest_nudged_look, look_time, next_look

ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
SPANS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30))


def test_the_first_looks_are_fibonacci_and_then_every_quarter_of_an_hour() -> None:
    minutes = [(look_time(ANCHOR, number) - ANCHOR) // timedelta(minutes=1) for number in range(1, 10)]
    assert minutes == [1, 3, 6, 11, 19, 34, 49, 64, 79]


@given(st.integers(min_value=1, max_value=3_000), SPANS)
def test_the_next_look_is_the_first_that_is_still_ahead(number: int, passed: timedelta) -> None:
    now = ANCHOR + passed
    following = next_look(ANCHOR, number, now)
    assert following >= number
    assert look_time(ANCHOR, following) > now
    assert following == number or look_time(ANCHOR, following - 1) <= now


@given(SPANS)
def test_nudged_looks_are_a_second_or_ten_looks_apart(took: timedelta) -> None:
    gap = earliest_nudged_look(ANCHOR, took) - ANCHOR
    assert gap >= timedelta(seconds=1)
    assert gap == max(timedelta(seconds=1), min(10 * took, timedelta(minutes=2)))


@given(st.integers(min_value=1, max_value=10_000))
def test_pauses_grow_to_the_longest(attempt: int) -> None:
    first, longest = timedelta(seconds=5), timedelta(minutes=5)
    backoff = Backoff(first, longest)
    assert first <= backoff.pause(attempt) <= longest
    assert backoff.pause(attempt + 1) == min(2 * backoff.pause(attempt), longest)
