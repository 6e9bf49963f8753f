"""A generator with a set in a minute: no set came on record before a page was full, so its host killed the page at its
time limit, and the manager was paused without a job."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "A host killed a slow generator before its first page was full, and paused the manager without a job"
)

MINUTE = timedelta(minutes=1)


class Slow(Shops):
    """Yields a set in a minute."""

    play: ManagerPlay

    def set_parameters_gen(self) -> Iterator[dict[str, Any]]:
        for name in self.names:
            self.play.managed.clock.now += MINUTE
            yield {"shop": name}


class SlowWithoutKeys(Slow):
    dedup = False


@pytest.mark.parametrize("make", [Slow, SlowWithoutKeys])
def test_each_set_of_a_slow_generator_starts_at_once(make: type[Slow]) -> None:
    play = ManagerPlay(make, family="shops")
    make.play = play
    for number in (1, 2):
        play.cycle()
        assert [job.arguments["shop"] for job in play.running] == list("abc")[:number]
    play.end(1)
    play.cycle()
    assert play.counts.completed == 1, "the reaction waits for a set, and not for all sets"
    assert play.slept == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("make", [Slow, SlowWithoutKeys])
def test_a_slow_generator_is_read_again_after_a_death(make: type[Slow]) -> None:
    play = ManagerPlay(make, family="shops")
    make.play = play
    play.cycle(2)
    play.replace()
    assert play.until_closed() == "finished"
    assert [job.arguments["shop"] for job in play.started] == list("abc")
