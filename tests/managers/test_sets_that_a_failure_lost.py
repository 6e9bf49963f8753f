from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crawler_lifecycle.managers import Item
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "Parameter sets that a failure in author's code lost: the cursor was behind them, or the generator seemed to end"
)

NOTHING: Iterator[str] = iter(())


def key_that_stops(_: Any) -> str:
    return next(NOTHING)


class StopsInItsSettings(Shops):
    def get_job_settings(self, override: dict[str, Any] | None = None) -> dict[str, Any]:
        next(NOTHING)
        return super().get_job_settings(override)


class FullFilter:
    def __contains__(self, key: str) -> bool:
        return bool(next(NOTHING))


class StopsInItsFilter(Shops):
    @classmethod
    def create_dupe_filter(cls) -> FullFilter:
        return FullFilter()


class StopsInItsKey(Shops):
    dedup = staticmethod(key_that_stops)


class StopsInAPlainMethod(Shops):
    def set_parameters_gen(self) -> Iterator[Any]:
        next(NOTHING)
        return iter([{"shop": "a"}])


def test_a_set_whose_key_fails_is_not_lost_behind_its_cursor() -> None:
    failures: list[str] = []

    def key(params: Any) -> str:
        shop = str(params["spider_args"]["shop"])
        if shop == "2" and not failures:
            failures.append(shop)
            raise ConnectionError("once")
        return shop

    class Pages(Shops):
        dedup = staticmethod(key)

        def set_parameters_gen(self, cursor: int | None = None) -> Iterator[Any]:
            for number in range(cursor or 0, 5):
                yield Item({"shop": str(number)}, cursor=number + 1)

    play = ManagerPlay(Pages, family="shops")
    with pytest.raises(AuthorsFailure):
        play.cycle()
    play.until_closed()
    assert [job.arguments["shop"] for job in play.started] == list("01234")


@pytest.mark.parametrize("make", [StopsInItsKey, StopsInItsSettings, StopsInItsFilter, StopsInAPlainMethod])
def test_a_stop_iteration_in_authors_code_is_no_end(make: Callable[[], Shops]) -> None:
    play = ManagerPlay(make, family="shops")
    with pytest.raises(AuthorsFailure, match="StopIteration"):
        play.cycle()
    assert play.close_reason is None
