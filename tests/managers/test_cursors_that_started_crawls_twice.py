from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.managers import Item
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "Cursors on some parameter sets: the sets behind the last cursor were read again, and became jobs a second time"
)


class Pages(Shops):
    """Yields a cursor behind each page with three sets."""

    def set_parameters_gen(self, cursor: int | None = None) -> Iterator[Any]:
        for page in range(cursor or 0, 3):
            yield {"shop": f"{page}a"}
            yield {"shop": f"{page}b"}
            yield Item({"shop": f"{page}c"}, cursor=page + 1)


class PagesWithoutKeys(Pages):
    dedup = False


class WithoutParameter(Shops):
    def set_parameters_gen(self) -> Iterator[Any]:
        yield {"shop": "a"}
        yield Item({"shop": "b"}, cursor=1)


@pytest.mark.parametrize("make", [Pages, PagesWithoutKeys])
@pytest.mark.parametrize("at_once", ["1", "2", "4", "5"])
@pytest.mark.long
def test_sets_behind_the_last_cursor_become_no_second_jobs(make: type[Pages], at_once: str) -> None:
    play = ManagerPlay(make, "--max-running-jobs", at_once, family="shops")
    while play.close_reason is None:
        play.cycle()
        play.replace()
        play.end()
    assert [job.arguments["shop"] for job in play.started] == [f"{page}{shop}" for page in range(3) for shop in "abc"]
    assert play.counts.completed == 9


def test_cursors_without_a_parameter_for_them_are_refused() -> None:
    play = ManagerPlay(WithoutParameter, family="shops")
    with pytest.raises(AuthorsFailure, match="has no parameter `cursor`"):
        play.cycle()
    assert play.started == []
