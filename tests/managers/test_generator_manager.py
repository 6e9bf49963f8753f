"""GeneratorCrawlManager. Names begin with numbers of the requirements; B, N, T: shub-workflow's faults and tests."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.managers import (
    AsyncSchedulerCrawlManagerMixin,
    CrawlManager,
    FullJobParams,
    GeneratorCrawlManager,
    Item,
    JobDict,
    JobParams,
    StopRetry,
    get_jobseq,
)
from crawler_lifecycle.managers.authors import generator
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops, shops_with
from tests.managers.play import Play, nothing, play_of


def shops(play: Play) -> list[str]:
    return [arguments["shop"] for arguments in play.arguments]


# the stream


def test_52_t15_special_keys_are_no_arguments() -> None:
    class Special(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"spider": "toys", "units": 2, "tags": ["t"], "job_settings": {"DELAY": 1}, "page": 1}
            yield {"page": 2, "nested": {"b": 1, "a": [1]}}

    play = play_of(Special, "--job-settings", '{"DELAY": 0, "ROBOTS": "no"}')
    play.run(nothing)
    assert play.spiders == ["toys", "books"]
    assert play.arguments == [{"page": "1"}, {"page": "2", "nested": '{"a":[1],"b":1}'}]
    assert play.started[0].settings == {"DELAY": "1", "ROBOTS": "no"}
    assert "t" in play.tags[0]


def test_53_t29_at_most_so_many_jobs_run_at_once() -> None:
    play = play_of(shops_with(names="abcde"), "--max-running-jobs", "2")
    sizes: list[int] = []

    def end_all(p: Play) -> None:
        sizes.append(p.counts.running)
        p.end_now()

    assert play.run(end_all, end_all, end_all) == "finished"
    assert sizes == [2, 2, 1]
    assert shops(play) == list("abcde")


def test_54_55_the_number_may_change() -> None:
    class Dynamic(Shops):
        names = "abcde"

        @property
        def max_running_jobs(self) -> int:
            return int(self.state.get("most", 1))

    def more(p: Play) -> None:
        assert p.manager is not None
        p.manager.state["most"] = 3

    play = play_of(Dynamic)
    play.run(nothing, more, nothing)
    assert shops(play) == ["a", "b", "c"]


def test_61_jobs_have_their_number_and_retries_keep_it() -> None:
    play = play_of(shops_with(names="ab", MAX_RETRIES=1))
    play.run(play.end(1, outcome="failed"), nothing)
    sequences = [tag for tags in play.tags for tag in tags if tag.startswith("JOBSEQ")]
    assert sequences == ["JOBSEQ=0000000001", "JOBSEQ=0000000002", "JOBSEQ=0000000001.r1"]


# repeats


def test_56_b1_repeats_in_a_cycle_are_skipped() -> None:
    play = play_of(shops_with(names="ABABA"))
    assert play.run(play.end()) == "finished"
    assert shops(play) == ["A", "B"]
    assert play.counts.repeated == 3


def test_56_the_command_line_counts_and_settings_do_not() -> None:
    class Repeats(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"shop": "a"}
            yield {"shop": "a", "job_settings": {"X": 1}, "units": 2, "tags": ["t"]}
            yield {"shop": "a", "spider": "toys"}

    play = play_of(Repeats, "--spider-args", '{"depth": 1}')
    play.run(nothing)
    assert play.spiders == ["books", "toys"]


def test_57_own_keys_and_no_dedup() -> None:
    class Keys(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield Item({"shop": "a"}, key="1")
            yield Item({"shop": "b"}, key="1")

    play = play_of(Keys)
    play.run(nothing)
    assert play.arguments == [{"shop": "a"}]


def test_57_an_argument_named_key_is_an_argument() -> None:
    class Keys(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"key": "api", "page": 1}
            yield {"key": "api", "page": 2}

    play = play_of(Keys)
    play.run(nothing)
    assert play.arguments == [{"key": "api", "page": "1"}, {"key": "api", "page": "2"}]


def test_57_arguments_are_compared_as_texts() -> None:
    class Texts(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"page": 1}
            yield {"page": "1"}
            yield {"page": 1.0}
            yield {"page": None}
            yield {"pages": {"a": 1, "b": 2}}
            yield {"pages": {"b": 2, "a": 1}}

    play = play_of(Texts)
    play.run(nothing)
    assert play.arguments == [{"page": "1"}, {"page": "1.0"}, {"pages": '{"a":1,"b":2}'}]
    assert (play.counts.repeated, play.counts.refused) == (2, 1)


def test_57_without_dedup_equal_sets_are_jobs() -> None:
    play = play_of(shops_with(names="aaa", dedup=False))
    play.run(nothing)
    play.run(nothing)
    assert shops(play) == ["a", "a", "a"]


def test_b2_n4_a_resumed_manager_runs_nothing_again() -> None:
    play = play_of(
        shops_with(names="abcd", dont_acquire_finished_jobs=True),
        "--spider-args",
        '{"x": 1}',
        "--max-running-jobs",
        "2",
    )
    play.run(play.end(), nothing)
    assert play.run(play.end()) == "finished"
    assert shops(play) == list("abcd")


# refused sets


def test_28_37_a_bad_set_is_refused_and_the_rest_goes_on() -> None:
    class Bad(Shops):
        spider = ""

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"page": 1}
            yield {"spider": "books", "page": None}
            yield {"spider": "books", "page": object()}
            yield {"spider": "books", "page": 3}

    play = play_of(Bad)
    assert play.run(play.end()) == "finished_with_failures"
    assert play.arguments == [{"page": "3"}]
    assert play.counts.refused == 3
    problems = [item.problem or "" for item in play.flow.store.manager_doors.items(play.flow.id, limit=9)]
    assert "spider" in problems[0]
    assert "spider_args.page" in problems[1]


def test_28_refused_sets_may_be_skipped() -> None:
    class Skips(Shops):
        on_refused = "skip"

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"page": None}

    assert play_of(Skips).run(nothing) == "finished"


# throttles


class OneEach(Shops):
    """At most one job of a spider at once."""

    def set_parameters_gen(self) -> Iterator[Any]:
        for number in range(5):
            yield {"spider": "books" if number < 4 else "toys", "page": number}

    def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
        return self.spider_running_count(params["spider"]) < 1


def test_59_n1_the_choices_of_the_cycle_count() -> None:
    play = play_of(OneEach)
    play.run(nothing)
    assert play.spiders == ["books", "toys"]
    assert play.counts.delayed == 3
    assert play.run(play.end(), play.end(), play.end(), play.end()) == "finished"
    assert [arguments["page"] for arguments in play.arguments] == ["0", "4", "1", "2", "3"]


def test_60_delayed_jobs_are_listed() -> None:
    play = play_of(OneEach)
    play.run(nothing)
    manager = play.manager
    assert isinstance(manager, OneEach)
    assert manager.get_delayed_spiders() == {"books"}
    assert manager.spider_delayed_count("books") == 3
    assert manager.spider_delayed_count("toys") == 0
    assert [params["spider_args"] for params in manager.get_delayed_jobs()] == [{"page": 1}, {"page": 2}, {"page": 3}]
    assert manager.get_running_spiders() == {"books", "toys"}


def test_b4_delayed_jobs_keep_the_manager_open() -> None:
    class Closed(Shops):
        def can_schedule_job_with_params(self, _: FullJobParams) -> bool:
            return bool(self.state.get("open"))

    def open_up(p: Play) -> None:
        assert p.manager is not None
        p.manager.state["open"] = True

    play = play_of(Closed)
    assert play.run(nothing, open_up, play.end()) == "finished"
    assert shops(play) == ["a", "b", "c"]


def test_59_many_delayed_jobs_hold_the_generator() -> None:
    pulled: list[int] = []

    class Endless(Shops):
        max_delayed = 20

        def set_parameters_gen(self) -> Iterator[Any]:
            for number in range(10_000):
                pulled.append(number)
                yield {"page": number}

        def can_schedule_job_with_params(self, _: FullJobParams) -> bool:
            return False

    play_of(Endless).run(nothing, nothing)
    assert len(pulled) <= 40


# retries


def test_62_t19_a_failed_job_is_tried_again() -> None:
    play = play_of(shops_with(names="a", MAX_RETRIES=2))
    fail = play.end(outcome="failed")
    assert play.run(fail, fail, fail) == "finished_with_failures"
    assert [arguments.get("retry_num") for arguments in play.arguments] == [None, "1", "2"]
    sources = [tag for tags in play.tags for tag in tags if tag.startswith("RETRIED_FROM")]
    assert sources == [f"RETRIED_FROM=flow-{play.flow.uid}-1-{attempt}" for attempt in (1, 2)]


def test_62_t18_no_retry_by_default_and_none_after_a_cancel() -> None:
    play = play_of(shops_with(names="a"))
    assert play.run(play.end(outcome="failed")) == "finished_with_failures"
    again = play_of(shops_with(names="a", MAX_RETRIES=3))
    again.run(again.end(outcome="cancelled"))
    assert len(again.started) == 1


def test_63_64_a_retry_changes_parameters_or_is_given_up() -> None:
    class Changes(Shops):
        names = "ab"
        MAX_RETRIES = 3
        pass_retry_num = False

        def get_retry_override(self, spider: str, outcome: str, override: JobParams, jobkey: str) -> JobParams:
            if override["spider_args"] == {"shop": "b"}:
                raise StopRetry
            return {"spider_args": {"slow": "1"}, "job_settings": {"DELAY": 5}, "tags": ["again"], "units": 4}

    play = play_of(Changes)
    play.run(play.end(outcome="failed"), nothing)
    assert play.arguments[2:] == [{"shop": "a", "slow": "1"}]
    assert play.started[2].settings == {"DELAY": "5"}
    assert "again" in play.tags[2]


def test_63_get_retry_override_sees_the_next_try_and_may_change_it() -> None:
    seen: list[Any] = []

    class Sees(Shops):
        names = "a"
        MAX_RETRIES = 2

        def get_retry_override(self, spider: str, outcome: str, override: Any, jobkey: str) -> JobParams:
            sources = [tag for tag in override["tags"] if tag.startswith("RETRIED_FROM=")]
            seen.append((override["spider_args"]["retry_num"], sources == [f"RETRIED_FROM={jobkey}"]))
            override["spider_args"]["proxy"] = "yes"
            return {}

    play = play_of(Sees)
    fail = play.end(outcome="failed")
    play.run(fail, fail, fail)
    assert seen == [("1", True), ("2", True)]
    assert [arguments.get("proxy") for arguments in play.arguments] == [None, "yes", "yes"]


def test_61_a_hook_sees_the_number_of_its_job_in_the_tags() -> None:
    seen: list[Any] = []

    class Sees(Shops):
        MAX_RETRIES = 1

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"shop": "a", "tags": ["own"]}

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: Any, jobkey: str) -> Any:
            seen.append(("own" in job_args_override["tags"], get_jobseq(job_args_override["tags"])))
            return super().bad_outcome_hook(spider, outcome, job_args_override, jobkey)

    play = play_of(Sees)
    fail = play.end(outcome="failed")
    play.run(fail, fail)
    assert seen == [(True, (1, 0)), (True, (1, 1))]
    numbers = [[tag for tag in tags if tag.startswith("JOBSEQ=")] for tags in play.tags]
    assert numbers == [["JOBSEQ=0000000001"], ["JOBSEQ=0000000001.r1"]]
    assert get_jobseq(["own"]) == (0, 0)


def test_61_a_job_that_a_hook_adds_has_a_number_of_its_own() -> None:
    class Adds(Shops):
        names = "a"

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: Any, jobkey: str) -> None:
            if spider == "books":
                self.add_job("toys", job_args_override)

    play = play_of(Adds)
    play.run(play.end(), nothing)
    assert [tag for tag in play.tags[1] if tag.startswith("JOBSEQ=")] == ["JOBSEQ=0000000002"]


def test_64_a_retry_may_wait() -> None:
    class Waits(Shops):
        names = "a"
        MAX_RETRIES = 1

        def retry_delay(self, outcome: str, number: int) -> float:
            return 3600

    play = play_of(Waits)
    assert play.run(play.end(outcome="failed"), nothing) is None
    assert play.counts.retrying == 1
    assert len(play.started) == 1


def test_58_65_n3_an_own_hook_requeues_by_add_job() -> None:
    class Requeues(Shops):
        names = "ab"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            if not self.state.get("again"):
                self.state["again"] = True
                self.add_job(spider, job_args_override)

    play = play_of(Requeues, "--max-running-jobs", "1")
    fail = play.end(outcome="failed")
    assert play.run(fail, play.end(), play.end()) == "finished"
    assert shops(play) == ["a", "a", "b"]


# crashes


class Watched(Shops):
    """Overrides the methods around starts and ends, as an author does."""

    def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
        return bool(super().can_schedule_job_with_params(params))

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        """React by the engine alone."""


POINTS = ["after offer", "start on record", "after start", "before react", "after react"]
AUTHORS = ["can_schedule_job_with_params", "finished_ok_hook"]


@pytest.mark.parametrize(
    ("make", "call"), [*((Shops, call) for call in POINTS), *((Watched, call) for call in (*POINTS, *AUTHORS))]
)
def test_67_b7_a_death_loses_no_job_and_starts_none_twice(make: type[Shops], call: str) -> None:
    play = play_of(type("Some", (make,), {"names": "abcd", "MAX_RETRIES": 1}), "--max-running-jobs", "2")
    play.crash(call, play.end(1, outcome="failed"), play.end())
    reason = play.run(*[play.end()] * 6)
    assert reason == "finished"
    assert sorted({start.number for start in play.started}) == [1, 2, 3, 4]
    assert len(play.started) == len({start.key for start in play.started})
    assert play.counts.completed == 4


@pytest.mark.parametrize(("make", "reactions"), [(Shops, 1), (Watched, 3)])
def test_ends_without_an_authors_hook_are_reacted_to_together(make: type[Shops], reactions: int) -> None:
    play = play_of(make)
    assert play.run(play.end()) == "finished"
    assert play.kit.stage.calls.count("after react") == reactions
    assert play.counts.completed == 3


def test_a_failing_job_does_not_undo_the_reactions_before() -> None:
    class Raises(Shops):
        def bad_outcome_hook(self, *_: Any) -> None:
            raise ValueError("no")

    play = play_of(Raises)

    def end_all(p: Play) -> None:
        p.end_now(1)
        p.end_now(2, outcome="failed")

    with pytest.raises(AuthorsFailure, match="no") as failure:
        play.run(end_all)
    assert failure.value.phase == "bad_outcome_hook"
    assert play.counts.completed == 1


def test_n5_a_generator_that_raises_keeps_the_sets_before() -> None:
    class Raises(Shops):
        broken = True

        def set_parameters_gen(self) -> Iterator[Any]:
            yield from ({"shop": name} for name in "ab")
            if self.broken:
                raise ValueError("no")
            yield {"shop": "c"}

    play = play_of(Raises)
    with pytest.raises(AuthorsFailure) as failure:
        play.run(nothing)
    assert failure.value.phase == "set_parameters_gen"
    assert play.flow.managers.counts(play.flow.mine).waiting == 2
    Raises.broken = False
    assert play.run(play.end()) == "finished"
    assert shops(play) == ["a", "b", "c"]


def test_68_a_cursor_goes_on_behind_the_last_page() -> None:
    begun_at: list[Any] = []

    class Cursor(Shops):
        def set_parameters_gen(self, cursor: int | None = None) -> Iterator[Any]:
            begun_at.append(cursor)
            for number in range(cursor or 0, 4):
                yield Item({"page": number}, cursor=number + 1)

    play = play_of(Cursor, "--max-running-jobs", "2")
    play.run(nothing)
    assert play.run(play.end(), play.end()) == "finished"
    assert begun_at == [None, 2]
    assert [arguments["page"] for arguments in play.arguments] == ["0", "1", "2", "3"]


def test_b6_resume_hooks_see_jobs_with_settings_and_units() -> None:
    seen: dict[str, list[JobDict]] = {"running": [], "finished": []}

    class Resumes(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"shop": "a", "job_settings": {"DELAY": 1}, "units": 2}
            yield {"shop": "b"}

        def resume_running_job_hook(self, job: JobDict) -> None:
            seen["running"].append(job)

        def resume_finished_job_hook(self, job: JobDict) -> None:
            seen["finished"].append(job)

    play = play_of(Resumes)
    play.run(play.end(2), nothing)
    play.run(nothing)
    (running,), (finished,) = seen["running"], seen["finished"]
    assert (running["spider_args"], running["job_settings"], running["units"]) == ({"shop": "a"}, {"DELAY": 1}, 2)
    assert (finished["spider_args"], finished["close_reason"]) == ({"shop": "b"}, "finished")


# methods around a start


def test_3c2_an_override_around_each_start() -> None:
    keys: list[Any] = []

    class Around(Shops):
        def schedule_spider_with_jobargs(self, job_args_override: Any = None, spider: str | None = None) -> Any:
            changed: Any = {**(job_args_override or {}), "tags": ["mine"]}
            keys.append(super().schedule_spider_with_jobargs(changed, spider))
            return keys[-1]

    play = play_of(Around)
    play.run(nothing)
    assert keys == [f"flow-{play.flow.uid}-{number}-1" for number in (1, 2, 3)]
    assert all("mine" in tags for tags in play.tags)


def test_3c2_an_override_of_the_loop_calls_super() -> None:
    class Loops(Shops):
        def workflow_loop(self) -> bool:
            self.stats.inc_value("loops")
            return bool(super().workflow_loop())

    play = play_of(Loops)
    assert play.run(play.end()) == "finished"
    assert play.flow.begun().stats["loops"] == 2


def test_66_coroutines_are_awaited() -> None:
    class Concurrent(AsyncSchedulerCrawlManagerMixin, Shops):
        async def finished_ok_hook(self, *_: Any) -> None:
            await asyncio.sleep(0)
            self.stats.inc_value("awaited")

        async def can_schedule_job_with_params(self, _: FullJobParams) -> bool:
            await asyncio.sleep(0)
            return True

    play = play_of(Concurrent)
    assert play.run(play.end()) == "finished"
    assert play.flow.begun().stats["awaited"] == 3


def test_66_a_coroutine_without_the_mixin_is_awaited_too() -> None:
    class Awaited(Shops):
        async def finished_ok_hook(self, *_: Any) -> None:
            await asyncio.sleep(0)
            self.stats.inc_value("awaited")

    play = play_of(Awaited)
    assert play.run(play.end()) == "finished"
    assert play.flow.begun().stats["awaited"] == 3


def test_the_example_of_the_page_runs() -> None:
    class Example(GeneratorCrawlManager):
        name = "crawl"
        loop_mode = 60
        default_max_jobs = 4
        spider = "example_spider"

        @property
        def description(self) -> str:
            return "Schedule example_spider for each input."

        def set_parameters_gen(self) -> Iterator[Any]:
            for n in range(10):
                yield {"page": n}

    play = play_of(Example)
    assert play.run(*[play.end()] * 3) == "finished"
    assert [arguments["page"] for arguments in play.arguments] == [str(n) for n in range(10)]
    assert issubclass(Example, CrawlManager)


@pytest.mark.long
def test_endless_repeats_do_not_hold_up_reactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "LARGEST_PAGE", 10)
    play = play_of(shops_with(names=itertools.chain("ab", itertools.repeat("a"))))
    assert play.run(play.end(), nothing) is None
    assert play.counts.completed == 2
    assert play.slept == [0.0, 0.0, 0.0]


@pytest.mark.long
def test_a_long_generator_is_read_again_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "LARGEST_PAGE", 2)
    names = [f"shop-{number}" for number in range(220)]
    play = play_of(shops_with(names=names), "--max-running-jobs", "210")
    play.run(nothing, nothing, nothing)
    assert play.run(*[play.end()] * 6) == "finished"
    assert shops(play) == names
    lines = [line.message for line in play.flow.store.flow_records.lines(play.flow.id, after=0, limit=100)]
    assert "reads its generator again: 100 of 210 parameter sets" in lines


def test_t16_a_fixed_list_continues_after_a_takeover_with_the_same_numbers() -> None:
    class Fixed(GeneratorCrawlManager):
        name, spider, loop_mode, default_max_jobs = "fixed", "books", 60, 2

        def set_parameters_gen(self) -> Any:
            return [{"argA": "valA"}, {"argA": "valB", "tags": ["CHECKED"]}, {"argB": "valC"}]

    play = ManagerPlay(Fixed)
    play.cycle()
    play.end(1)
    play.replace()
    play.cycle()
    assert play.manager.is_resumed
    assert [job.number for job in play.running] == [2, 3]
    play.replace()
    assert play.until_closed() == "finished"
    assert [dict(job.arguments) for job in play.started] == [{"argA": "valA"}, {"argA": "valB"}, {"argB": "valC"}]
    assert [tag for job in play.started for tag in job.tags if tag.startswith(("JOBSEQ=", "CHECKED"))] == [
        *("JOBSEQ=0000000001", "CHECKED", "JOBSEQ=0000000002", "JOBSEQ=0000000003"),
    ]


def test_with_room_for_no_job_nothing_starts_until_a_stop() -> None:
    class Closed(Shops):
        names = "ab"

    play = ManagerPlay(Closed, "--max-running-jobs", "0")
    for _ in range(3):
        assert play.skip(minutes=1) is None
    manager: Any = play.manager
    assert (play.started, manager.get_max_next_params(), manager.max_running_jobs) == ([], 0, 0)
