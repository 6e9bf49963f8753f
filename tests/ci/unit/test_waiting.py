"""A wait ends with what it waited for, or says what it saw last."""

from itertools import count

import pytest

from tests.kit.waiting import InVain, eventually, eventually_async, until


def test_the_first_answer_that_is_true_is_returned() -> None:
    numbers = count()
    assert until(lambda: (number := next(numbers)) > 2 and number, pause=0) == 3


async def test_a_coroutine_is_awaited() -> None:
    numbers = count()

    async def look() -> int:
        return next(numbers)

    assert await eventually_async(look, pause=0) == 1
    assert await eventually(lambda: next(numbers), pause=0) == 2


async def test_a_wait_in_vain_says_what_was_seen_last() -> None:
    message = r"waited 0.01 s in vain for the jobs to end; seen last: \[\]"
    with pytest.raises(InVain, match=message):
        until(list, "the jobs to end", patience=0.01)
    with pytest.raises(InVain, match=message):
        await eventually(list, "the jobs to end", patience=0.01)


async def test_a_wait_in_vain_says_how_things_stand() -> None:
    with pytest.raises(InVain, match="seen last: 'task 3 is RUNNING'"):
        until(list, patience=0.01, seen=lambda: "task 3 is RUNNING")
    with pytest.raises(InVain, match="seen last: 'task 3 is RUNNING'"):
        await eventually(list, patience=0.01, seen=lambda: "task 3 is RUNNING")


@pytest.mark.parametrize("error", [ValueError, AssertionError])
def test_an_error_ends_the_wait_at_once(error: type[Exception]) -> None:
    looks = []

    def look() -> bool:
        looks.append(1)
        raise error("a bug")

    with pytest.raises(error, match="a bug"):
        until(look)
    assert looks == [1]
