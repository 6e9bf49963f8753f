"""Rules as data: retries by outcome, breakers, limits by key, labels, alerts, and a generator that has changed."""

from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.managers import Breaker, Item, PeriodicCrawlManager, RetryRule
from crawler_lifecycle.managers.authors.link import GeneratorChanged
from crawler_lifecycle.managers.authors.policies import key_of
from crawler_lifecycle.managers.store.rows import NOT_TRIED_AGAIN
from crawler_lifecycle.model.manager_items import CodeProblem
from crawler_lifecycle.testing import ManagerPlay, completed, failed, stopped
from tests.managers.authors import Shops, shops_with

# retries


def test_a_rule_gives_more_memory_up_to_a_limit() -> None:
    policy = {"killed by oom": RetryRule(tries=4, memory_factor=2)}
    play = ManagerPlay(shops_with(names="a", retry_policy=policy))
    assert play.until_closed("killed by oom") == "finished_with_failures"
    assert [job.memory_factor for job in play.started] == [1, 2, 4, 8, 8]


def test_memory_grows_from_the_units_of_the_command_line_and_never_shrinks() -> None:
    policy = {"killed by oom": RetryRule(tries=1, memory_factor=2, most_memory=8)}
    play = ManagerPlay(shops_with(names="a", retry_policy=policy), "--units", "12")
    play.until_closed("killed by oom")
    assert [job.memory_factor for job in play.started] == [12, 12]


@pytest.mark.long
def test_a_rule_gives_a_growing_pause() -> None:
    policy = {"banned": RetryRule(tries=3, pause=3600, pause_factor=2, longest_pause=5000)}
    play = ManagerPlay(shops_with(names="a", retry_policy=policy))
    play.cycle()
    for seconds in (3600, 5000, 5000):
        attempts = len(play.started)
        play.end(1, completed("banned"))
        play.skip(seconds=seconds - 1)
        assert len(play.started) == attempts
        play.skip(seconds=1)
        assert len(play.started) == attempts + 1


def test_the_tries_belong_to_an_outcome() -> None:
    policy = {"banned": RetryRule(tries=1), "failed": RetryRule(tries=0), "*": RetryRule(tries=2)}
    for outcome, starts in (("banned", 2), ("failed", 1), ("memusage_exceeded", 3)):
        play = ManagerPlay(shops_with(names="a", retry_policy=policy))
        play.until_closed(outcome)
        assert len(play.started) == starts, outcome


def test_an_outcome_with_a_rule_is_a_failure() -> None:
    play = ManagerPlay(shops_with(names="a", retry_policy={"banned": RetryRule()}))
    assert play.until_closed(completed("banned")) == "finished_with_failures"
    assert ManagerPlay(shops_with(names="a")).until_closed(completed("banned")) == "finished"


@pytest.mark.parametrize("outcome", ["cancelled", "cancel_timeout"])
def test_a_job_that_people_stopped_is_tried_again_only_by_its_own_rule(outcome: str) -> None:
    for policy, starts in (({"*": RetryRule(tries=1)}, 1), ({outcome: RetryRule(tries=1)}, 2)):
        play = ManagerPlay(shops_with(names="a", retry_policy=policy))
        play.until_closed(outcome)
        assert len(play.started) == starts


def test_the_word_of_an_item_that_was_stopped_with_its_manager_is_true() -> None:
    for act, end, state, problem in (
        (ManagerPlay.stop, stopped(forced=True), "failed", None),
        (ManagerPlay.drain, failed("killed by oom"), "cancelled", NOT_TRIED_AGAIN),
    ):
        play = ManagerPlay(shops_with(names="a", MAX_RETRIES=2))
        play.cycle()
        act(play)
        play.end(1, end)
        assert play.cycle() is not None
        (item,) = play.items
        assert (item.state, item.problem, item.outcome) == (state, problem, end.outcome)


def test_a_rule_changes_arguments_and_the_authors_override_wins() -> None:
    class Slow(Shops):
        names = "a"
        retry_policy = {"failed": RetryRule(tries=1, spider_args={"delay": 5, "x": 1}, job_settings={"ROBOTS": "no"})}

        def get_retry_override(self, *_: Any) -> Any:
            return {"spider_args": {"delay": 9}}

    play = ManagerPlay(Slow)
    play.until_closed("failed")
    assert play.started[1].arguments == {"shop": "a", "retry_num": "1", "delay": "9", "x": "1"}
    assert play.started[1].settings == {"ROBOTS": "no"}


# circuit breakers


class Sites(Shops):
    """Jobs of a failing and of a good site."""

    default_max_jobs = 2
    breakers = (Breaker(key="site:{site}", failures=2, last=3, pause=600),)

    def set_parameters_gen(self) -> Iterator[Any]:
        for number in range(5):
            yield {"site": "bad.example", "page": number}
            yield {"site": "good.example", "page": number}


def bad_site_fails(job: Any) -> str:
    return "failed" if job.arguments["site"] == "bad.example" else "finished"


def test_a_breaker_holds_a_failing_site_back_and_the_others_go_on() -> None:
    play = ManagerPlay(Sites)
    play.cycle()
    for _ in range(4):
        for job in play.running:
            play.end(job.number, bad_site_fails(job))
        play.cycle()
    sites = [job.arguments["site"] for job in play.started]
    assert (sites.count("bad.example"), sites.count("good.example")) == (2, 5)
    assert play.counts.delayed == 3
    held = "holds site:bad.example back for 600 s: 2 of the last 2 jobs have failed"
    assert play.lines.count(held) == 1


def test_a_breaker_closes_again_by_itself_and_over_a_death() -> None:
    play = ManagerPlay(Sites)
    play.cycle()
    for job in play.running:
        play.end(job.number, bad_site_fails(job))
    play.cycle()
    for job in play.running:
        play.end(job.number, bad_site_fails(job))
    play.crash("after react")
    play.cycle()
    started = [job.arguments["site"] for job in play.started].count("bad.example")
    assert started == 2
    play.skip(minutes=9)
    assert [job.arguments["site"] for job in play.started].count("bad.example") == started
    assert play.until_closed(lambda _: "finished") == "finished_with_failures"
    assert [job.arguments["site"] for job in play.started].count("bad.example") == 5
    assert "crawler_lifecycle" not in play.manager.state


def test_a_breakers_memory_is_no_value_of_the_author() -> None:
    class Counting(Sites):
        def finished_ok_hook(self, *_: Any) -> None:
            self.state["oks"] = self.state.get("oks", 0) + 1

    play = ManagerPlay(Counting)
    play.cycle()
    play.end(1, "failed")
    play.end(2)
    play.cycle()
    play.replace()
    play.cycle()
    assert play.manager.state == {"oks": 1}
    assert play.state["crawler_lifecycle"] == {"breakers": {"ends": {"site:{site} site:bad.example": "x"}, "held": {}}}


def test_a_key_needs_all_fields_of_its_template() -> None:
    params: Any = {"spider": "books", "spider_args": {"site": "a"}}
    assert key_of("{spider}/{site}", params) == "books/a"
    assert key_of("{spider}/{absent}", params) is None


# limits, labels, reading ahead


def test_limits_hold_a_number_of_jobs_by_key() -> None:
    play = ManagerPlay(type("Limited", (Sites,), {"limits": {"site:{site}": 1}, "default_max_jobs": 6, "breakers": ()}))
    play.cycle()
    assert [job.arguments["site"] for job in play.started] == ["bad.example", "good.example"]
    play.end(1)
    play.cycle()
    assert [job.arguments["site"] for job in play.started] == ["bad.example", "good.example", "bad.example"]
    assert play.until_closed() == "finished"


def test_labels_and_priority_reach_the_runs() -> None:
    class Labelled(Shops):
        labels = ("site:{site}",)
        priority = 5

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"site": "a.example"}
            yield Item({"page": 1}, labels=["account:7"], priority=9)

    play = ManagerPlay(Labelled)
    play.cycle()
    assert [(job.labels, job.priority) for job in play.started] == [(("site:a.example",), 5), (("account:7",), 9)]
    assert play.started[0].arguments == {"site": "a.example"}


def test_a_label_that_no_run_accepts_refuses_the_set() -> None:
    class Labelled(Shops):
        labels = ("site:{site}",)

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"site": "two words"}

    play = ManagerPlay(Labelled)
    assert play.cycle() == "finished_with_failures"
    assert "labels" in (play.items[0].problem or "")


def test_a_manager_reads_ahead() -> None:
    play = ManagerPlay(shops_with(names="abcdefgh", read_ahead=3), "--max-running-jobs", "2")
    play.cycle()
    assert (len(play.started), play.counts.waiting) == (2, 3)
    assert play.until_closed() == "finished"


# alerts


@pytest.mark.long
def test_an_alert_is_told_once_in_a_quiet_time() -> None:
    alerts: list[float] = []

    class Quiet(Shops):
        names = "ab"
        alert_after = 3600

        def no_progress_hook(self, seconds: float) -> None:
            alerts.append(seconds)

    play = ManagerPlay(Quiet, "--max-running-jobs", "1")
    play.cycle()
    play.skip(minutes=59)
    assert alerts == []
    play.skip(hours=3)
    assert [round(seconds / 60) for seconds in alerts] == [60]
    assert play.stats["crawlmanager/alerts"] == 1
    line = "no job has started or ended for 3600 s: 1 running, 0 waiting, 0 delayed, 0 in pauses"
    assert play.lines.count(line) == 1
    play.end()
    play.skip(hours=2)
    assert len(alerts) == 2


@pytest.mark.long
def test_no_alert_without_a_limit() -> None:
    play = ManagerPlay(shops_with(names="a"))
    play.cycle()
    play.skip(hours=10)
    assert "crawlmanager/alerts" not in play.stats


# periodic


class Nightly(PeriodicCrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60
    quick_end = 0
    max_failures_in_a_row = 3


def test_50_failures_in_a_row_close_a_periodic_manager() -> None:
    play = ManagerPlay(Nightly)
    play.cycle()
    for outcome in ("failed", "failed", "finished", "failed", "killed by oom"):
        play.end(outcome=outcome)
        assert play.cycle() is None
        play.replace()  # the count outlives the object
        play.cycle()
    play.end(outcome="failed")
    assert play.cycle() == "max_failures_in_a_row"
    assert len(play.started) == 6


# a changed generator


def test_68_another_generator_without_keys_waits_for_people() -> None:
    play = ManagerPlay(shops_with(names="abc", dedup=False), "--max-running-jobs", "2")
    play.cycle()
    play.replace(shops_with(names="xbc", dedup=False))
    play.end(1)
    for _ in range(2):
        with pytest.raises(GeneratorChanged):
            play.cycle()
    assert len(play.started) == 2
    problem = CodeProblem(phase="generator_changed", error="ValueError: no")
    play.managed.store.managers.pause(play.managed.ref, problem)
    play.resume()
    assert play.managed.store.managers.problem(play.managed.ref) is None
    assert play.until_closed() == "finished"
    assert [job.arguments["shop"] for job in play.started] == ["a", "b", "c"]


def test_68_a_shorter_generator_without_keys_waits_for_people() -> None:
    play = ManagerPlay(shops_with(names="abcd", dedup=False), "--max-running-jobs", "2")
    play.cycle()
    play.replace(shops_with(names="a", dedup=False))
    play.end()
    with pytest.raises(GeneratorChanged):
        play.cycle()


def test_68_the_same_generator_without_keys_goes_on() -> None:
    play = ManagerPlay(shops_with(names=["a", "a", object(), "b"], dedup=False), "--max-running-jobs", "1")
    play.cycle()
    play.replace(shops_with(names=["a", "a", object(), "b"], dedup=False))
    assert play.until_closed() == "finished_with_failures"
    assert [job.arguments["shop"] for job in play.started] == ["a", "a", "b"]
