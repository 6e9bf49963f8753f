"""Streams of jobs from generators. Names have the numbers in docs/internals/manager-proofs.md."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.managers import (
    AsyncSchedulerCrawlManagerMixin,
    FullJobParams,
    GeneratorCrawlManager,
    JobDict,
    JobParams,
    StopRetry,
)
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops, shops_with


def shops(play: ManagerPlay) -> list[str]:
    return [job.arguments["shop"] for job in play.started]


def test_52_the_generator_is_the_authors() -> None:
    class Missing(GeneratorCrawlManager):
        name, spider, loop_mode = "nightly", "books", 60

    with pytest.raises(AuthorsFailure, match="has to define set_parameters_gen"):
        ManagerPlay(Missing).cycle()


def test_28_a_value_that_is_no_dict_is_refused_and_the_rest_goes_on() -> None:
    class Strange(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield ["a"]
            yield None
            yield {"shop": "a"}

    play = ManagerPlay(Strange)
    assert play.until_closed() == "finished_with_failures"
    assert shops(play) == ["a"]
    assert [item.problem for item in play.items[:2]] == [
        "the generator yields a list, and not a dict",
        "the generator yields a NoneType, and not a dict",
    ]


def test_53_58_delayed_jobs_come_first_then_added_jobs_then_the_generator() -> None:
    class Ordered(Shops):
        names = "abc"

        def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
            return bool(self.state.get("open")) or (params["spider_args"] or {})["shop"] != "a"

        def finished_ok_hook(self, *_: Any) -> None:
            if not self.state.get("open"):
                self.state["open"] = True
                self.add_job("toys", {"spider_args": {"shop": "added"}})

    play = ManagerPlay(Ordered, "--max-running-jobs", "1")
    assert play.until_closed() == "finished"
    assert shops(play) == ["b", "a", "added", "c"]


def test_54_55_a_lower_number_stops_nothing_and_starts_nothing() -> None:
    class Dynamic(Shops):
        names = "abcdef"
        most = 3

        @property
        def max_running_jobs(self) -> int:
            return self.most

    play = ManagerPlay(Dynamic)
    play.cycle()
    manager = play.manager
    assert isinstance(manager, Dynamic)
    manager.most = 1
    play.end(1)
    play.cycle()
    assert (len(play.started), len(play.running)) == (3, 2)
    manager.most = 0
    play.end()
    play.cycle()
    assert len(play.started) == 3
    manager.most = 5
    assert play.until_closed() == "finished"
    assert shops(play) == list("abcdef")


def test_54_the_number_for_the_next_cycle_is_the_authors() -> None:
    play = ManagerPlay(type("Slow", (Shops,), {"names": "abc", "get_max_next_params": lambda _: 1}))
    play.cycle()
    assert shops(play) == ["a"]
    play.cycle()
    assert shops(play) == ["a", "b"]


@pytest.mark.long
def test_56_b10_thousands_of_sets_are_told_apart_exactly() -> None:
    class Many(Shops):
        default_max_jobs = 3001

        def set_parameters_gen(self) -> Iterator[Any]:
            for number in range(3000):
                yield {"page": number}
                yield {"page": number // 2}

    play = ManagerPlay(Many)
    play.cycle()
    assert sorted(int(job.arguments["page"]) for job in play.started) == list(range(3000))
    assert play.counts.repeated == 3000


def test_57_a_function_gives_the_key_of_a_set() -> None:
    class Keyed(Shops):
        @staticmethod
        def dedup(params: FullJobParams) -> str:
            return str((params["spider_args"] or {})["shop"])[0]

        names = ("a1", "b1", "a2", "c1")

    play = ManagerPlay(Keyed)
    play.cycle()
    assert shops(play) == ["a1", "b1", "c1"]


class Filter(set[str]):
    """A filter in which one further key is known."""


def test_57_a_filter_holds_sets_off_and_lets_no_repeat_through() -> None:
    holds: list[Filter] = []

    class Filtered(Shops):
        names = ("a", "b", "a", "c")

        @classmethod
        def create_dupe_filter(cls) -> Filter:
            assert not super().create_dupe_filter()
            holds.append(Filter())
            return holds[-1]

    play = ManagerPlay(Filtered, "--max-running-jobs", "1")
    play.cycle()
    (key,) = holds[0]
    assert play.counts.repeated == 0
    play.end()
    play.cycle()
    play.end()
    play.cycle()
    assert shops(play) == ["a", "b", "c"]
    assert (play.counts.repeated, len(holds[0])) == (1, 3)

    class Knows(Filtered):
        def create_dupe_filter(self) -> Filter:  # type: ignore[override]
            return Filter([key])

    held = ManagerPlay(Knows)
    assert held.until_closed() == "finished"
    assert shops(held) == ["b", "c"]
    assert [(item.number, item.problem) for item in held.items if item.state.value == "refused"] == [
        (1, "the manager's filter, from create_dupe_filter, has the parameters")
    ]
    assert held.stats["crawlmanager/filtered"] == 1


def test_57_a_filter_lets_a_former_reading_pass_after_a_death() -> None:
    play = ManagerPlay(type("Own", (Shops,), {"create_dupe_filter": lambda _: Filter()}), "--max-running-jobs", "1")
    play.crash("after start")
    assert play.until_closed() == "finished"
    assert shops(play) == ["a", "b", "c"]


def test_58_n3_an_added_job_is_no_repeat_of_itself_over_a_death() -> None:
    class Requeues(Shops):
        names = "a"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            self.add_job(spider, job_args_override)

    play = ManagerPlay(Requeues)
    play.cycle()
    play.end(outcome="failed")
    play.crash("before react")
    play.crash("after react")
    play.cycle()
    assert shops(play) == ["a", "a"]
    assert play.until_closed() == "finished"


def test_59_the_author_is_asked_for_one_job_after_the_other() -> None:
    counts: list[tuple[str, int]] = []

    class OneByOne(Shops):
        names = "abc"

        def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
            counts.append((params["spider"], self.spider_running_count(params["spider"])))
            return True

    ManagerPlay(OneByOne).cycle()
    assert counts == [("books", 0), ("books", 1), ("books", 2)]


def test_60_jobs_may_be_added_as_delayed_jobs() -> None:
    class Delays(Shops):
        names = "a"

        def on_start(self, resumed: bool = False) -> None:
            if not resumed:
                self.add_delayed_jobs({"spider": "toys", "spider_args": {"shop": "delayed"}})

        def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
            return params["spider"] != "toys" or bool(self.state.get("open"))

    play = ManagerPlay(Delays)
    play.cycle()
    manager = play.manager
    assert isinstance(manager, Delays)
    assert manager.get_delayed_spiders() == {"toys"}
    copies = manager.get_delayed_jobs()
    copies[0]["spider_args"] = {}
    assert manager.get_delayed_jobs()[0]["spider_args"] == {"shop": "delayed"}
    manager.state["open"] = True
    assert play.until_closed() == "finished"
    assert shops(play) == ["a", "delayed"]


def test_61_numbers_go_on_after_a_death_and_gaps_are_refused_sets() -> None:
    play = ManagerPlay(shops_with(names=["a", None, "b", "c"]), "--max-running-jobs", "2")
    play.cycle()
    play.replace()
    play.end()
    play.cycle()
    sequence = [tag for job in play.started for tag in job.tags if tag.startswith("JOBSEQ")]
    assert sequence == ["JOBSEQ=0000000001", "JOBSEQ=0000000003", "JOBSEQ=0000000004"]


def test_62_t19_each_retry_replaces_the_former_source_and_counts_in_the_argument() -> None:
    play = ManagerPlay(shops_with(names="a", MAX_RETRIES=2))
    play.until_closed("failed")
    first, second, third = play.started
    assert [job.arguments.get("retry_num") for job in play.started] == [None, "1", "2"]
    assert [tag for tag in second.tags if tag.startswith("RETRIED")] == [f"RETRIED_FROM={first.key}"]
    assert [tag for tag in third.tags if tag.startswith("RETRIED")] == [f"RETRIED_FROM={second.key}"]
    assert [tag for tag in third.tags if tag.startswith("JOBSEQ")] == ["JOBSEQ=0000000001.r2"]


def test_62_b7_a_failure_that_nobody_has_seen_is_retried_after_a_death() -> None:
    play = ManagerPlay(shops_with(names="a", MAX_RETRIES=1))
    play.crash("after start")
    play.end(outcome="failed")
    play.cycle()
    assert [job.attempt for job in play.started] == [1, 2]


def test_64_a_retry_is_given_up_by_the_author() -> None:
    class Stops(Shops):
        names = "a"
        MAX_RETRIES = 5

        def get_retry_override(self, *_: Any) -> JobParams:
            raise StopRetry

    play = ManagerPlay(Stops)
    assert play.until_closed("failed") == "finished_with_failures"
    assert len(play.started) == 1


@pytest.mark.parametrize("at", ["before react", "after react"])
def test_64_the_cause_of_a_given_up_retry_is_stored_once_with_its_end(at: str) -> None:
    class Stops(Shops):
        names = "a"
        MAX_RETRIES = 5

        def get_retry_override(self, *_: Any) -> JobParams:
            raise StopRetry("the shop has closed")

    play = ManagerPlay(Stops)
    play.cycle()
    play.end(1, "failed")
    play.crash(at)
    play.cycle()
    assert [line for line in play.lines if "the shop has closed" in line] == [
        "job 1 is not tried again: the shop has closed"
    ]


def test_66_b1_coroutines_start_a_cycles_jobs_with_the_same_rules() -> None:
    class Concurrent(AsyncSchedulerCrawlManagerMixin, Shops):
        names = "ABABA"

        async def schedule_spider_with_jobargs(
            self, job_args_override: JobParams | None = None, spider: str | None = None
        ) -> Any:
            await asyncio.sleep(0)
            return await super().schedule_spider_with_jobargs(job_args_override, spider)

        async def workflow_loop(self) -> bool:
            self.stats.inc_value("loops")
            return await super().workflow_loop()

    play = ManagerPlay(Concurrent)
    assert play.until_closed() == "finished"
    assert shops(play) == ["A", "B"]
    assert play.stats["loops"] == 2


# resume


def test_67_b8_ends_in_an_absence_go_through_the_normal_hooks_alone() -> None:
    calls: list[tuple[str, str]] = []

    class Resumes(Shops):
        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            calls.append(("ok", (job_args_override["spider_args"] or {})["shop"]))

        def resume_running_job_hook(self, job: JobDict) -> None:
            calls.append(("running", job["spider_args"]["shop"]))

        def resume_finished_job_hook(self, job: JobDict) -> None:
            calls.append(("finished", job["spider_args"]["shop"]))

        def on_start(self, resumed: bool = False) -> None:
            calls.append(("start", str(resumed)))

    play = ManagerPlay(Resumes)
    play.cycle()
    play.end(1)
    play.cycle()
    play.end(2)
    play.replace()
    play.cycle()
    assert calls == [
        ("start", "False"), ("ok", "a"),
        ("running", "c"), ("finished", "a"), ("start", "True"), ("ok", "b"),
    ]  # fmt: skip


def test_67_n4_the_opt_out_leaves_repeats_and_numbers_alone() -> None:
    finished: list[JobDict] = []

    class OptOut(Shops):
        names = "abcd"
        dont_acquire_finished_jobs = True

        def resume_finished_job_hook(self, job: JobDict) -> None:
            finished.append(job)

    play = ManagerPlay(OptOut, "--max-running-jobs", "2")
    play.cycle()
    play.end()
    play.cycle()
    play.replace()
    assert play.until_closed() == "finished"
    assert (finished, shops(play)) == ([], list("abcd"))
    assert [job.number for job in play.started] == [1, 2, 3, 4]


def test_68_b2_a_generator_that_is_read_again_starts_nothing_twice() -> None:
    play = ManagerPlay(shops_with(names="abcdef"), "--max-running-jobs", "2", "--spider-args", '{"x": 1}')
    for _ in range(3):
        play.cycle()
        play.replace()
        play.end()
    assert play.until_closed() == "finished"
    assert shops(play) == list("abcdef")
