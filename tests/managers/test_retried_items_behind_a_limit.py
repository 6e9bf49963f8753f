import pytest

from crawler_lifecycle.managers import PeriodicCrawlManager
from crawler_lifecycle.managers.authors.parameters import FullJobParams
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops
from tests.managers.play import retry_items

pytestmark = pytest.mark.regression(
    "Items that people tried again behind a limit of failures: the limit still held, and the items were cancelled"
)


class Limited(Shops):
    """The first two jobs may fail before the third starts. The fourth set is never read."""

    names = "abcd"
    default_max_jobs = 2
    max_failures = 1


class OneByOne(Limited):
    def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
        del params
        return not self.get_running_spiders()


class Hourly(PeriodicCrawlManager):
    name = "hourly"
    spider = "books"
    loop_mode = 60
    max_failures_in_a_row = 2


def shops(play: ManagerPlay) -> list[str]:
    return [job.arguments["shop"] for job in play.started]


def test_a_retried_item_starts_behind_max_failures() -> None:
    play = ManagerPlay(type("Three", (Limited,), {"default_max_jobs": 3}), family="shops")
    assert play.until_closed("failed") == "max_failures"
    retry_items(play, 1)
    assert play.until_closed() == "max_failures", "two items have failed for good"
    assert shops(play) == ["a", "b", "c", "a"]
    assert (play.counts.completed, play.counts.failed, play.counts.cancelled) == (1, 2, 0)


def test_a_delayed_retried_item_keeps_the_manager_open() -> None:
    play = ManagerPlay(type("Three", (OneByOne,), {"max_failures": 0}), family="shops")
    assert play.until_closed("failed") == "max_failures"
    retry_items(play)
    assert play.until_closed("failed") == "max_failures"
    # no failure is left, so the item that the close had cancelled starts first; the retried item waits behind the limit
    assert shops(play) == ["a", "b", "a"]


def test_a_manager_under_its_limit_again_goes_on_with_its_generator() -> None:
    play = ManagerPlay(Limited, family="shops")
    assert play.until_closed("failed") == "max_failures"
    retry_items(play)
    assert play.until_closed() == "finished"
    assert shops(play) == ["a", "b", "a", "b", "c", "d"]


def test_failures_in_a_row_count_anew_after_the_close() -> None:
    play = ManagerPlay(Hourly, family="shops")
    assert play.until_closed("failed") == "max_failures_in_a_row"
    assert len(play.started) == 2
    retry_items(play)
    assert play.until_closed("failed") == "max_failures_in_a_row"
    assert [(job.number, job.attempt) for job in play.started] == [(1, 1), (2, 1), (1, 2), (2, 2)]


def test_failures_in_a_row_survive_a_takeover() -> None:
    play = ManagerPlay(Hourly, family="shops")
    play.cycle()
    play.end(outcome="failed")
    play.cycle()
    play.skip(minutes=1)
    play.end(outcome="failed")
    play.crash("after react")
    assert play.cycle() == "max_failures_in_a_row"
