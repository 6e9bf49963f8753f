"""Failures of authors' code and of crawls: every job is started once, and every end has its reaction once."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.managers import GeneratorCrawlManager, Item
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.managers.authors.parameters import FullJobParams, JobKey, JobParams
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops, shops_with

ENDS = 500  # at once after an outage; `python -m bench managers` has more


def shops(play: ManagerPlay) -> list[str]:
    return [job.arguments["shop"] for job in play.started]


# generators


def resumed_with(names: str, former: str = "abcd") -> ManagerPlay:
    """Return a play whose generator has changed after the first two jobs."""
    play = ManagerPlay(shops_with(names=former), "--max-running-jobs", "2", family="shops")
    play.cycle()
    play.replace(shops_with(names=names))
    return play


@pytest.mark.parametrize(
    ("names", "expected"), [("dcba", "abdc"), ("xaby", "abxy"), ("a", "ab"), ("", "ab"), ("abcdcba", "abcd")]
)
def test_another_order_other_sets_and_fewer_sets_start_nothing_twice(names: str, expected: str) -> None:
    play = resumed_with(names)
    assert play.until_closed() == "finished"
    assert sorted(shops(play)) == sorted(expected)


def test_an_endless_generator_starts_as_many_jobs_as_may_run() -> None:
    endless = shops_with(names=(str(number) for number in itertools.count()))
    play = ManagerPlay(endless, "--max-running-jobs", "3", family="shops")
    for number in (3, 6, 9):
        play.cycle()
        assert len(play.started) == number
        play.end()
    play.drain()
    assert play.until_closed() == "drained"
    assert play.counts.completed == 9


class BackAndForth(Shops):
    """Yields a cursor that goes back behind each second set."""

    def set_parameters_gen(self, cursor: int | None = None) -> Iterator[Any]:
        for number in range(cursor or 0, 6):
            yield Item({"shop": "abcdef"[number]}, cursor=0 if number % 2 else number + 1)


def test_a_cursor_that_goes_back_starts_nothing_twice() -> None:
    play = ManagerPlay(BackAndForth, "--max-running-jobs", "2", family="shops")
    for _ in range(4):
        play.cycle()
        play.replace()
        play.end()
    assert play.until_closed() == "finished"
    assert sorted(shops(play)) == list("abcdef")


class WithoutJson(Shops):
    def set_parameters_gen(self, cursor: Any = None) -> Iterator[Any]:
        yield Item({"shop": "a"}, cursor=1)
        nonsense: Any = object()
        yield Item({"shop": "b"}, cursor={"at": nonsense})


def test_a_cursor_that_is_no_json_fails_its_page_and_keeps_the_sets_before() -> None:
    play = ManagerPlay(WithoutJson, family="shops")
    with pytest.raises(AuthorsFailure) as failure:
        play.cycle()
    assert failure.value.phase == "set_parameters_gen"
    assert [item.override["spider_args"] for item in play.items] == [{"shop": "a"}]


class Odd(Shops):
    def set_parameters_gen(self) -> Iterator[Any]:
        yield {"shop": {1, 2}}
        yield {"shop": "x", "job_settings": {"large": "y" * 66_560}}
        yield Item({"shop": "first"}, key="same")
        yield Item({"shop": "second"}, key="same")
        yield {"shop": "last"}


def test_sets_that_are_no_json_or_too_large_are_refused_and_a_known_key_is_a_repeat() -> None:
    play = ManagerPlay(Odd, family="shops")
    assert play.until_closed() == "finished_with_failures"
    assert shops(play) == ["first", "last"]
    assert (play.counts.refused, play.counts.repeated, play.counts.completed) == (2, 1, 2)
    problems = [item.problem or "" for item in play.items if item.state is ItemState.REFUSED]
    assert ["JSON" in problems[0], "settings" in problems[1]] == [True, True]


@pytest.mark.parametrize("at", ["before offer", "after offer"])
def test_a_changed_bundle_goes_on_in_the_middle_of_a_page(at: str) -> None:
    play = ManagerPlay(shops_with(names="abc"), "--max-running-jobs", "2", family="shops")
    play.crash(at)
    play.replace(shops_with(names="abcd", MAX_RETRIES=1))
    assert play.until_closed() == "finished"
    assert shops(play) == list("abcd")


# throttles


class Throttled(Shops):
    raises = True

    def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
        if type(self).raises and params["spider_args"] == {"shop": "b"}:
            raise ValueError("no quota")
        return True


def test_a_throttle_that_raises_starts_nothing_and_is_asked_again() -> None:
    play = ManagerPlay(Throttled, family="shops")
    for _ in range(2):
        with pytest.raises(AuthorsFailure, match="no quota"):
            play.cycle()
    assert (shops(play), play.counts.waiting) == ([], 3)
    Throttled.raises = False
    assert play.until_closed() == "finished"
    assert shops(play) == list("abc")


# crawls


@pytest.mark.parametrize("outcome", ["lost", "deployment_refused", "never_started"])
def test_crawls_that_are_lost_or_never_start_are_failures_and_are_tried_again(outcome: str) -> None:
    play = ManagerPlay(shops_with(names="a", MAX_RETRIES=1), family="shops")
    play.cycle()
    play.end(1, outcome)
    assert play.until_closed() == "finished"
    assert [job.attempt for job in play.started] == [1, 2]


class Counting(GeneratorCrawlManager):
    """Counts its reactions."""

    name = "counting"
    spider = "books"
    loop_mode = 60
    default_max_jobs = ENDS

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": str(number)} for number in range(ENDS))

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> None:
        del spider, outcome, job_args_override
        self.stats.inc_value(jobkey)


@pytest.mark.sequences
def test_many_ends_at_once_after_an_outage_have_one_reaction_each() -> None:
    play = ManagerPlay(Counting, family="shops")
    play.cycle()
    play.replace()
    play.end()
    play.crash("after react")
    assert play.until_closed() == "finished"
    assert {play.stats[job.key] for job in play.started} == {1}
    assert (len(play.started), play.counts.completed) == (ENDS, ENDS)
