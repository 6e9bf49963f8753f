"""Jobs that authors add by `add_job`: repeats are dropped, and a requeue in a hook is a retry."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from crawler_lifecycle.managers import FullJobParams, GeneratorCrawlManager, Item, JobDict, JobParams
from crawler_lifecycle.testing import ManagerPlay, StartedJob, assert_crash_safe
from tests.managers.authors import Shops


def shops(play: ManagerPlay) -> list[str | None]:
    return [start.arguments.get("shop") for start in play.started]


def jobseqs(play: ManagerPlay) -> list[str]:
    return [tag for start in play.started for tag in start.tags if tag.startswith("JOBSEQ=")]


class Adds(Shops):
    """Adds three jobs by one of its methods."""

    names = "ab"
    at = ""

    def _add(self, at: str) -> None:
        if at == self.at:
            for shop in ("b", "c", "c"):
                self.add_job("books", {"spider_args": {"shop": shop}})

    def __init__(self) -> None:
        super().__init__()
        self._add("__init__")

    def on_start(self, resumed: bool = False) -> None:
        self._add("on_start")

    def base_loop_tasks(self) -> None:
        self._add("base_loop_tasks")

    def set_parameters_gen(self) -> Iterator[Any]:
        self._add("set_parameters_gen")
        yield from super().set_parameters_gen()

    def finished_metadata_hook(self, jobkey: str, metadata: JobDict) -> None:
        self._add("finished_metadata_hook")

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        self._add("finished_ok_hook")


PLACES = ["__init__", "on_start", "base_loop_tasks", "set_parameters_gen", "finished_metadata_hook", "finished_ok_hook"]


@pytest.mark.parametrize("place", PLACES)
def test_58_a_job_that_was_there_is_dropped_wherever_it_is_added(place: str) -> None:
    play = ManagerPlay(type("Some", (Adds,), {"at": place}), "--max-running-jobs", "1")
    play.cycle()
    for _ in range(3):
        play.replace()  # another object begins
        play.end()
        play.cycle()
    assert play.until_closed() == "finished"
    assert sorted(map(str, shops(play))) == ["a", "b", "c"]


def test_58_a_manager_that_adds_what_its_crawls_find_ends_and_counts_the_repeats() -> None:
    class Discovers(Shops):
        names = "a"

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            for shop in "abc":
                self.add_job(spider, {"spider_args": {"shop": shop}})

    play = ManagerPlay(Discovers)
    assert play.until_closed(most_jobs=10) == "finished"
    assert shops(play) == ["a", "b", "c"]
    assert play.counts.repeated == 7


def test_58_arguments_are_compared_as_texts_and_with_the_command_line() -> None:
    class Pages(Shops):
        names: Sequence[Any] = [1]

        def on_start(self, resumed: bool = False) -> None:
            self.add_job("", {"spider_args": {"shop": "1"}, "units": 2, "tags": ["own"]})
            self.add_job("books", {"spider_args": {"shop": 1, "country": "de"}})
            self.add_job("toys", {"spider_args": {"shop": 1}})

    play = ManagerPlay(Pages, "--spider-args", '{"country": "de"}')
    play.cycle()
    assert [start.spider for start in play.started] == ["books", "toys"]


@pytest.mark.parametrize("dedup", [True, False])
def test_58_a_job_is_added_again_on_purpose(dedup: bool) -> None:
    class Again(Shops):
        names = "a"

        def on_start(self, resumed: bool = False) -> None:
            self.add_job("books", {"spider_args": {"shop": "a"}}, again=self.dedup is True)

    play = ManagerPlay(type("Some", (Again,), {"dedup": dedup}))
    play.cycle()
    assert shops(play) == ["a", "a"]
    assert jobseqs(play) == ["JOBSEQ=0000000001", "JOBSEQ=0000000002"]


def test_58_starts_by_the_author_are_never_repeats() -> None:
    class Starts(Shops):
        names = "a"

        def on_start(self, resumed: bool = False) -> None:
            self.schedule_spider_with_jobargs({"spider_args": {"shop": "a"}})
            self.schedule_spider_with_jobargs({"spider_args": {"shop": "a"}})

    play = ManagerPlay(Starts)
    play.cycle()
    assert shops(play) == ["a", "a", "a"]


def test_58_a_refused_addition_is_on_record_once_over_deaths() -> None:
    class Refused(Shops):
        names = "a"

        def on_start(self, resumed: bool = False) -> None:
            self.add_job("books", {"spider_args": {"shop": None}})
            self.add_job("books", {"tags": "text"})  # type: ignore[typeddict-item]
            self.add_job("books", {"spider_args": {"shop": "c"}})

    play = ManagerPlay(Refused)
    play.cycle()
    play.replace()
    play.cycle()
    assert play.counts.refused == 2
    assert shops(play) == ["c", "a"]


def test_58_what_a_generator_adds_is_on_record_before_its_cursor() -> None:
    class Cursors(Shops):
        def set_parameters_gen(self, cursor: int | None = None) -> Iterator[Any]:
            for number in range(cursor or 0, 3):
                self.add_job("toys", {"spider_args": {"shop": f"found-{number}"}})
                yield Item({"shop": str(number)}, cursor=number + 1)

    play = ManagerPlay(Cursors, "--max-running-jobs", "1")
    play.crash("after offer")
    assert play.until_closed() == "finished"
    assert sorted(map(str, shops(play))) == ["0", "1", "2", "found-0", "found-1", "found-2"]


def test_57_an_own_id_of_a_job_decides_about_repeats() -> None:
    class ByShop(Shops):
        @staticmethod
        def get_job_unique_id(job: JobDict) -> str:
            return str(job["spider_args"]["shop"])

        def set_parameters_gen(self) -> Iterator[Any]:
            self.add_job("toys", {"spider_args": {"shop": "a", "page": 9}})
            for page in range(3):
                yield {"shop": "b", "page": page}

    play = ManagerPlay(ByShop)
    assert play.until_closed() == "finished"
    assert sorted(map(str, shops(play))) == ["a", "b"]
    default = GeneratorCrawlManager.get_job_unique_id
    assert default({"spider": "s", "spider_args": {"a": 1}}) == default({"spider": "s", "spider_args": {"a": "1"}})
    assert default({"spider": "s", "spider_args": {"a": 1}}) != default({"spider": "t", "spider_args": {"a": 1}})


def test_57_an_own_filter_may_extend_the_default() -> None:
    class Filters(Shops):
        @classmethod
        def create_dupe_filter(cls) -> Any:
            return super().create_dupe_filter()

    play = ManagerPlay(Filters)
    assert play.until_closed() == "finished"
    assert shops(play) == ["a", "b", "c"]
    assert "key" not in GeneratorCrawlManager.create_dupe_filter()


# requeues


class Changes(GeneratorCrawlManager):
    """Adds an argument to a job that has failed, and another after the second failure."""

    name = "test"
    loop_mode = 60
    default_max_jobs = 2
    sets: Sequence[Any] = ({"argA": "valA"}, {"argA": "valB"}, {"argB": "valC"})

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from self.sets

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        arguments = job_args_override["spider_args"]
        assert arguments is not None
        for name in ("argR", "argS"):
            if name not in arguments:
                arguments[name] = f"val{name[-1]}"
                self.add_job(spider, job_args_override)
                return


def test_t13_a_requeue_by_an_own_hook_keeps_the_number_of_its_item() -> None:
    play = ManagerPlay(Changes, "myspider")
    play.cycle(2)
    assert [dict(start.arguments) for start in play.started] == [{"argA": "valA"}, {"argA": "valB"}]
    play.end(1)
    play.cycle(2)
    assert dict(play.started[2].arguments) == {"argB": "valC"}
    play.end(2, "cancelled (stalled)")
    play.cycle()
    assert dict(play.started[3].arguments) == {"argA": "valB", "argR": "valR"}
    play.end(3)
    play.cycle()
    assert len(play.started) == 4
    play.end(2, "memusage_exceeded")
    play.cycle()
    assert dict(play.started[4].arguments) == {"argA": "valB", "argR": "valR", "argS": "valS"}
    play.end(2)
    assert play.cycle() == "finished"
    numbers = ["JOBSEQ=0000000001", "JOBSEQ=0000000002", "JOBSEQ=0000000003"]
    assert jobseqs(play) == [*numbers, "JOBSEQ=0000000002.r1", "JOBSEQ=0000000002.r2"]
    second, third, fourth = (play.started[at] for at in (1, 3, 4))
    assert f"RETRIED_FROM={second.key}" in third.tags
    assert [tag for tag in fourth.tags if tag.startswith("RETRIED_FROM=")] == [f"RETRIED_FROM={third.key}"]
    assert (play.counts.completed, play.counts.failed) == (3, 0)


def test_t17_a_requeue_after_a_takeover_keeps_the_number_of_its_item() -> None:
    class Single(Changes):
        spider = "myspider"
        sets = ({"argA": "valA"},)

    play = ManagerPlay(Single, family="3a20")
    play.cycle()
    play.replace()
    play.cycle()
    assert len(play.started) == 1
    play.end(1, "cancelled (stalled)")
    play.cycle()
    assert dict(play.started[1].arguments) == {"argA": "valA", "argR": "valR"}
    assert {"FLOW_ID=3a20", "PARENT_NAME=test", "JOBSEQ=0000000001.r1"} <= set(play.started[1].tags)


@pytest.mark.parametrize("has_tags", [True, False])
@pytest.mark.parametrize("pass_retry_num", [True, False])
def test_62_an_unchanged_requeue_is_a_numbered_retry(has_tags: bool, pass_retry_num: bool) -> None:
    class Requeues(Shops):
        names = "a"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            tags = {"tags": job_args_override["tags"]} if has_tags else {}
            self.add_job(spider, {"spider_args": job_args_override["spider_args"], **tags})  # type: ignore[typeddict-item]

    play = ManagerPlay(type("Some", (Requeues,), {"pass_retry_num": pass_retry_num}))
    play.cycle()
    for _ in range(2):
        play.end(1, "failed")
        play.crash("before react")
        play.cycle()
    assert jobseqs(play) == ["JOBSEQ=0000000001", "JOBSEQ=0000000001.r1", "JOBSEQ=0000000001.r2"]
    expected = [None, "1", "2"] if pass_retry_num else [None] * 3
    assert [start.arguments.get("retry_num") for start in play.started] == expected
    assert f"RETRIED_FROM={play.started[1].key}" in play.started[2].tags
    assert play.until_closed() == "finished"
    assert (play.counts.completed, play.counts.failed) == (1, 0)


def test_62_a_requeue_may_have_another_spider() -> None:
    class Others(Shops):
        names = "ab"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            if spider == "books":
                self.add_job("toys", job_args_override)

    def fails(job: StartedJob) -> str:
        return "failed" if job.spider == "books" else "finished"

    play = ManagerPlay(Others)
    assert play.until_closed(fails) == "finished"
    assert [(start.spider, start.number) for start in play.started] == [
        *(("books", 1), ("books", 2)),
        *(("toys", 1), ("toys", 2)),
    ]


def test_62_a_requeue_counts_once_and_a_further_addition_is_a_job_of_its_own() -> None:
    class Splits(Shops):
        names = "a"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            for half in ("a1", "a2"):
                changed: JobParams = {**job_args_override, "spider_args": {"shop": half}}
                self.add_job(spider, changed)

    play = ManagerPlay(Splits)
    assert play.until_closed(lambda job: "failed" if job.arguments["shop"] == "a" else "finished") == "finished"
    assert shops(play) == ["a", "a2", "a1"] or shops(play) == ["a", "a1", "a2"]
    assert sorted(jobseqs(play)) == ["JOBSEQ=0000000001", "JOBSEQ=0000000001.r1", "JOBSEQ=0000000002"]


@pytest.mark.parametrize("argument", [{}, {"deep": "yes"}])
@pytest.mark.parametrize("dies", [True, False])
def test_62_a_requeue_after_a_good_end_is_a_retry_of_its_item(argument: dict[str, str], dies: bool) -> None:
    """Such as with too few items. Elsewhere the job was another item, or was dropped with unchanged arguments."""

    class Deeper(Shops):
        names = "ab"

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            job = self.get_job_metadata(jobkey)
            if job["number"] == 1 and job["items"] < 3:
                arguments = {**(job_args_override["spider_args"] or {}), **argument}
                self.add_job(spider, {**job_args_override, "spider_args": arguments})

    play = ManagerPlay(Deeper)
    play.cycle()
    play.end(1, stats={"items": 1})
    if dies:
        play.crash("before react")
    play.cycle()
    expected = {"shop": "a", **(argument or {"retry_num": "1"})}
    assert dict(play.started[2].arguments) == expected
    assert {"JOBSEQ=0000000001.r1", f"RETRIED_FROM={play.started[0].key}"} <= set(play.started[2].tags)
    assert (play.counts.completed, play.counts.running) == (0, 2)
    play.end(1, stats={"items": 3})
    play.end(2)
    assert play.cycle() == "finished"
    assert (play.counts.completed, len(play.started)) == (2, 3)


def test_62_a_good_end_adds_jobs_of_their_own() -> None:
    class Follows(Shops):
        names = "a"

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            if len(play.started) < 3:
                self.add_job(spider, job_args_override, again=True)
            self.add_job(spider, {"spider_args": {"shop": "b"}})

    play = ManagerPlay(Follows)
    assert play.until_closed() == "finished"
    assert sorted(map(str, shops(play))) == ["a", "a", "b"]
    assert len(set(jobseqs(play))) == 3


def test_62_a_requeue_behind_the_default_retry_changes_nothing() -> None:
    class Both(Shops):
        names = "a"
        MAX_RETRIES = 1

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            super().bad_outcome_hook(spider, outcome, job_args_override, jobkey)
            if len(play.started) == 1:
                self.add_job(spider, {"spider_args": {"shop": "a"}})

    play = ManagerPlay(Both)
    assert play.until_closed("failed") == "finished_with_failures"
    assert jobseqs(play) == ["JOBSEQ=0000000001", "JOBSEQ=0000000001.r1"]


def test_62_a_bad_requeue_fails_its_item_alone() -> None:
    class Bad(Shops):
        names = "ab"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            self.add_job(spider, {**job_args_override, "spider_args": {"shop": None}})

    play = ManagerPlay(Bad)
    assert play.until_closed(lambda job: "failed" if job.number == 1 else "finished") == "finished_with_failures"
    assert shops(play) == ["a", "b"]


def test_60_delayed_jobs_are_added_once_over_deaths() -> None:
    class Delays(Shops):
        names = "a"

        def on_start(self, resumed: bool = False) -> None:
            self.add_delayed_jobs({"spider": "toys", "spider_args": {"shop": "delayed"}})

        def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
            return params["spider"] != "toys" or self.is_resumed

    play = ManagerPlay(Delays)
    play.cycle()
    play.replace()
    play.cycle()
    assert play.until_closed() == "finished"
    assert shops(play) == ["a", "delayed"]


def test_an_empty_list_of_delayed_jobs_delays_nothing() -> None:
    """The jobs that the cycle had added before were all delayed."""

    class Adds(Shops):
        names = ""

        def base_loop_tasks(self) -> None:
            for shop in "ab":
                self.add_job("books", {"spider_args": {"shop": shop}})
            self.add_delayed_jobs([])

    play = ManagerPlay(Adds, "--max-running-jobs", "1")
    play.cycle()
    assert shops(play) == ["a"]
    assert (play.counts.waiting, play.counts.delayed) == (1, 0)


@pytest.mark.long
def test_58_additions_are_crash_safe() -> None:
    assert_crash_safe(type("Some", (Adds,), {"at": "on_start"}), every=4)
