from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from crawler_lifecycle.managers.authors import generator
from crawler_lifecycle.managers.authors.generator import LARGEST_PAGE
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "Refused and repeated parameter sets without an end: the manager's cycle noticed neither stops nor ends"
)


class Endless(Shops):
    """Yields sets without an end. A play's act comes behind half a page."""

    play: ManagerPlay
    pulled = 0

    def set_parameters_gen(self) -> Iterator[dict[str, Any]]:
        for number in count():
            type(self).pulled = number
            if number == LARGEST_PAGE // 2:
                self.play.stop()
            yield self.parameters(number)

    def parameters(self, number: int) -> dict[str, Any]:
        return {"shop": str(number), "page": None} if number else {"shop": "first"}


class EndlessRepeats(Endless):
    def parameters(self, number: int) -> dict[str, Any]:
        del number
        return {"shop": "same"}


@pytest.mark.parametrize("make", [Endless, EndlessRepeats])
def test_a_stop_is_noticed_among_refused_and_repeated_sets(make: type[Endless]) -> None:
    play = ManagerPlay(make, family="shops")
    make.play = play
    play.cycle()
    assert make.pulled < 2 * LARGEST_PAGE
    play.end(outcome="cancelled")
    assert play.until_closed() == "cancelled"


def test_a_stopping_manager_waits_after_a_cut_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut cycle goes on at once; the cycle behind a stop reads nothing, and waits for the job's end."""
    monkeypatch.setattr(generator, "MOST_PAGES", 1)
    play = ManagerPlay(EndlessRepeats, family="shops")
    EndlessRepeats.play = play
    play.cycle()
    assert (len(play.running), play.slept) == (1, [0.0])
    play.stop()
    play.cycle()
    assert play.slept == [0.0, 60.0]
