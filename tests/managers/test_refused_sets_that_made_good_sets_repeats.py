from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.requests import RetryItems
from crawler_lifecycle.managers.authors.arguments import command_line
from crawler_lifecycle.managers.authors.preview import preview
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "A refused parameter set swallowed a later good set with the same arguments, and a correction hid the wrong field"
)

SETS: list[dict[str, Any]] = [
    {"shop": "1"},
    {"shop": "2", "units": "x"},
    {"shop": "2", "units": "x"},
    {"shop": "2"},
    {"shop": "2"},
    {"shop": "3"},
]


class Mixed(Shops):
    def set_parameters_gen(self) -> Iterator[dict[str, Any]]:
        yield from SETS


def test_a_good_set_behind_an_equal_refused_set_is_a_job() -> None:
    play = ManagerPlay(Mixed, "--max-running-jobs", "2")
    play.cycle()
    assert [job.arguments["shop"] for job in play.started] == ["1", "2"]
    play.replace()  # the next object reads the generator again
    assert play.until_closed() == "finished_with_failures"
    assert [job.arguments["shop"] for job in play.started] == ["1", "2", "3"]
    assert (play.counts.refused, play.counts.completed, play.counts.repeated) == (1, 3, 2)


def test_a_check_says_the_same() -> None:
    with command_line(()):
        shown = preview(Mixed(), first=10, most=100)
    assert [job.number for job in shown.jobs] == [1, 4, 6]
    assert [(job.number, job.repeats) for job in shown.repeated] == [(3, 2), (5, 4)]
    assert [job.number for job in shown.refused] == [2]


@pytest.mark.parametrize("correction", [{"spider": "toys"}, {"arguments": {"shop": "9"}}])
def test_a_correction_of_another_field_names_the_way_out(correction: dict[str, Any]) -> None:
    play = ManagerPlay(Mixed, "--max-running-jobs", "2")
    play.cycle()
    with pytest.raises(BadInput, match=r"item 2: units: expected a number, not 'x'; .*: cancel the item to dismiss it"):
        play.managed.store.manager_doors.retry_items(play.managed.id, RetryItems(numbers=(2,), **correction))


def test_a_correction_of_a_set_with_wrong_parts_names_the_part() -> None:
    class Tagged(Shops):
        def set_parameters_gen(self) -> Iterator[dict[str, Any]]:
            yield {"shop": "1"}
            yield {"shop": "2", "tags": "x"}

    play = ManagerPlay(Tagged, "--max-running-jobs", "2")
    play.cycle()
    with pytest.raises(BadInput, match=r"item 2 keeps its wrong parameters \(tags: expected a list of texts\): cancel"):
        play.managed.store.manager_doors.retry_items(play.managed.id, RetryItems(numbers=(2,), spider="toys"))
