"""Starts of jobs, and the reactions to their ends. Names have the numbers in docs/internals/manager-proofs.md."""

import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import (
    AsyncSchedulerCrawlManagerMixin,
    CachedFinishedJobsMixin,
    CrawlManager,
    GeneratorCrawlManager,
    JobDict,
    JobKey,
    JobParams,
    PeriodicCrawlManager,
)
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.managers.authors.owned_jobs import outcome_of
from crawler_lifecycle.managers.authors.parameters import merged
from crawler_lifecycle.model.manager_items import Job, JobState
from crawler_lifecycle.model.requests import RunParameters
from crawler_lifecycle.testing import ManagerPlay, completed, failed
from tests.managers.authors import Shops, shops_with


class Books(CrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60


# starts


def test_29_the_override_is_over_the_command_line() -> None:
    class Override(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"a": 1, "b": 1, "job_settings": {"X": 1}, "units": 3}
            yield {}

    line = ("--spider-args", '{"a": 0, "c": 0}', "--job-settings", '{"X": 0, "Y": 0}', "--units", "2")
    play = ManagerPlay(Override, *line)
    play.cycle()
    first, second = play.started
    assert (first.arguments, first.settings) == ({"a": "1", "b": "1", "c": "0"}, {"X": "1", "Y": "0"})
    assert (second.arguments, second.settings) == ({"a": "0", "c": "0"}, {"X": "0", "Y": "0"})
    assert (first.memory_factor, second.memory_factor) == (3, 2)


def test_30_reserved_names_on_the_command_line_are_no_arguments() -> None:
    line = '{"units": 9, "tags": ["x"], "job_settings": {"X": 1}, "country": "de"}'
    play = ManagerPlay(Books, "--spider-args", line, "--units", "2")
    play.cycle()
    (job,) = play.started
    assert (job.memory_factor, job.settings, job.arguments) == (9, {"X": "1"}, {"country": "de"})
    assert "x" in job.tags


def test_30_a_set_has_precedence_over_reserved_names_on_the_command_line() -> None:
    class Override(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"units": 3, "tags": ["y"], "job_settings": {"Y": 1}}

    play = ManagerPlay(Override, "--spider-args", '{"units": 9, "tags": ["x"], "job_settings": {"X": 1}}')
    play.cycle()
    (job,) = play.started
    assert (job.memory_factor, job.settings, job.arguments) == (3, {"Y": "1"}, {})
    assert {"x", "y"} <= set(job.tags)


@pytest.mark.parametrize(
    ("line", "problem"),
    [('{"spider": "toys"}', "names a spider"), ('{"tags": "x"}', "tags: expected a list"), ("[]", "a JSON object")],
)
def test_30_impossible_arguments_for_all_spiders_are_refused(line: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        ManagerPlay(Books, "--spider-args", line)


def test_31_32_a_started_job_is_on_record_with_its_override_and_counted() -> None:
    play = ManagerPlay(shops_with(names="ab"))
    play.cycle()
    jobs = list(play.manager.get_owned_jobs(state=["running"]))
    assert [(job["spider"], job["spider_args"]) for job in jobs] == [("books", {"shop": "a"}), ("books", {"shop": "b"})]
    assert play.stats["crawlmanager/scheduled_jobs"] == 2


@pytest.mark.parametrize("at", ["start on record", "after start"])
def test_33_b3_a_start_that_is_repeated_keeps_its_job(at: str) -> None:
    class Duplicates(Shops):
        def handle_schedule_duplicate_error(self, **schedule_kwargs: Any) -> None:
            raise AssertionError("a repeated start is no error")

    play = ManagerPlay(Duplicates)
    play.crash(at)
    play.cycle()
    assert [(job.number, job.attempt) for job in play.started] == [(1, 1), (2, 1), (3, 1)]
    assert play.stats["crawlmanager/scheduled_jobs"] == 3


class Refused(Shops):
    """One of two spiders is unknown to the catalogue."""

    def set_parameters_gen(self) -> Iterator[Any]:
        yield {"spider": "unknown", "page": 1, "units": 2, "job_settings": {"X": 1}, "tags": ["t"]}
        yield {"page": 2}


UNKNOWN = {"unknown": "there is no crawler 'unknown'"}


def test_34_a_start_that_is_refused_for_good_is_told_to_the_hook() -> None:
    errors: list[Any] = []

    class Hook(Refused):
        def handle_schedule_error(self, e: Exception, **schedule_kwargs: Any) -> None:
            errors.append((str(e), schedule_kwargs))
            super().handle_schedule_error(e, **schedule_kwargs)

    play = ManagerPlay(Hook, refuses=UNKNOWN)
    assert play.until_closed() == "finished_with_failures"
    ((message, arguments),) = errors
    assert message == UNKNOWN["unknown"]
    assert (arguments["spider"], arguments["job_args"], arguments["units"]) == ("unknown", {"page": "1"}, 2)
    assert "t" in arguments["add_tag"]
    assert next((item.state.value, item.problem) for item in play.items) == ("refused", UNKNOWN["unknown"])
    assert play.lines.count(f"unknown is refused: {UNKNOWN['unknown']}") == 1
    assert play.stats["crawlmanager/scheduled_jobs"] == 1


def test_34_n12_a_refused_start_ends_no_cycle_with_the_mixin() -> None:
    class Concurrent(AsyncSchedulerCrawlManagerMixin, Refused):
        pass

    play = ManagerPlay(Concurrent, refuses=UNKNOWN)
    assert play.until_closed() == "finished_with_failures"
    assert play.lines.count(f"unknown is refused: {UNKNOWN['unknown']}") == 1
    assert [job.spider for job in play.started] == ["books"]


def test_34_a_single_job_that_is_refused_is_the_close_reason() -> None:
    assert ManagerPlay(Books, refuses={"books": "no"}).until_closed() == "refused"


def test_37_values_are_texts_with_limits() -> None:
    class Values(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"a": "x", "b": 1, "c": 1.5, "d": True, "e": [1, {"z": 1, "y": None}], "f": {"b": 1, "a": 2}}
            yield {"a": None}
            yield {"a": "x" * 4097}
            yield {f"a{number}": "x" for number in range(101)}
            yield {f"a{number}": "x" * 4000 for number in range(20)}

    play = ManagerPlay(Values)
    play.cycle()
    (job,) = play.started
    assert job.arguments == {
        "a": "x", "b": "1", "c": "1.5", "d": "True", "e": '[1,{"y":null,"z":1}]', "f": '{"a":2,"b":1}',
    }  # fmt: skip
    problems = [item.problem or "" for item in play.items[1:]]
    assert [problem.startswith("spider_args") for problem in problems] == [True] * 4


# ends


def live_order(play: ManagerPlay, calls: list[JobKey]) -> list[int]:
    numbers = {job.key: job.number for job in play.started}
    return [numbers[key] for key in calls]


@pytest.mark.parametrize("backwards", [False, True])
def test_38_jobs_are_checked_by_number_and_not_by_text(backwards: bool) -> None:
    calls: list[JobKey] = []

    class Live(Shops):
        running_jobs_reverse_check = backwards
        names = "abcdefghijkl"

        def running_job_hook(self, jobkey: JobKey) -> None:
            calls.append(jobkey)

    play = ManagerPlay(Live, "--max-running-jobs", "12")
    play.cycle()
    play.skip(seconds=61)
    assert live_order(play, calls) == (list(range(12, 0, -1)) if backwards else list(range(1, 13)))


def test_39_a_live_job_is_told_with_its_key_alone_once_in_a_pause() -> None:
    calls: list[tuple[Any, ...]] = []

    class Live(Shops):
        names = "a"

        def running_job_hook(self, *arguments: Any) -> None:
            calls.append(arguments)

    play = ManagerPlay(Live)
    play.cycle(4)
    play.skip(seconds=125)
    assert calls == [(play.started[0].key,)] * len(calls)
    assert len(calls) == 3


def test_40_each_end_has_the_metadata_and_one_hook_in_order() -> None:
    calls: list[tuple[str, ...]] = []

    class Hooks(Shops):
        names = "ab"

        def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> None:
            calls.append(("metadata", metadata["spider_args"]["shop"], str(metadata["close_reason"])))

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> None:
            calls.append(("bad", (job_args_override["spider_args"] or {})["shop"], outcome))

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> None:
            calls.append(("ok", (job_args_override["spider_args"] or {})["shop"], outcome))

    play = ManagerPlay(Hooks)
    play.cycle()
    play.end(2, "killed by oom")
    play.end(1)
    play.cycle(3)
    assert calls == [
        ("metadata", "b", "killed by oom"),
        ("bad", "b", "killed by oom"),
        ("metadata", "a", "finished"),
        ("ok", "a", "finished"),
    ]


def test_41_a_hook_changes_only_its_own_copy() -> None:
    class Changes(Shops):
        MAX_RETRIES = 1

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"deep": {"list": [1]}, "tags": ["t"]}

        def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> None:
            metadata["spider_args"]["deep"]["list"].append(2)
            metadata["tags"].append("metadata")

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:
            changed: Any = job_args_override
            assert changed["spider_args"]["deep"] == {"list": [1]}
            assert "metadata" not in changed["tags"]
            answer = super().bad_outcome_hook(spider, outcome, job_args_override, jobkey)
            changed["spider_args"]["deep"]["list"].append(3)
            return answer

    play = ManagerPlay(Changes)
    play.until_closed("failed")
    assert [job.arguments["deep"] for job in play.started] == ['{"list":[1]}'] * 2


def test_42_n8_the_list_of_failed_outcomes_decides_and_a_failed_run_is_always_bad() -> None:
    class Extends(Shops):
        def __init__(self) -> None:
            super().__init__()
            self.failed_outcomes.append("banned")

    assert ManagerPlay(Extends).until_closed(completed("banned")) == "finished_with_failures"
    assert ManagerPlay(Shops).until_closed(completed("banned")) == "finished"
    assert ManagerPlay(Shops).until_closed(completed("memusage_exceeded")) == "finished_with_failures"
    assert ManagerPlay(Shops).until_closed(failed("never_started")) == "finished_with_failures"
    play = ManagerPlay(Extends)
    play.cycle()
    assert isinstance(play.manager, Extends)
    assert play.manager.failed_outcomes == [*Shops.base_failed_outcomes, "banned"]
    assert len(Shops.base_failed_outcomes) == 7


def test_43_b11_n14_an_end_without_a_word_is_unknown_and_bad() -> None:
    request = RunParameters(crawler="books")
    gone = Job(key="k", number=1, attempt=1, override={}, request=request, state=JobState.FINISHED)
    assert outcome_of(gone) == "unknown"
    play = ManagerPlay(Books)
    play.cycle()
    play.end(outcome="unknown")
    assert play.cycle() == "unknown"


@pytest.mark.long
def test_44_the_state_of_a_job_is_known_by_its_key() -> None:
    play = ManagerPlay(shops_with(names="ab"))
    play.cycle()
    first, second = (job.key for job in play.started)
    play.end(1, "failed")
    manager = play.manager
    assert (manager.is_finished(first), manager.is_running(first)) == ("failed", False)
    assert (manager.is_finished(second), manager.is_running(second)) == (None, True)
    assert (manager.is_finished("flow-other-1-1"), manager.is_running("nonsense")) == (None, False)


def test_45_n14_the_mixin_for_cached_ends_changes_nothing() -> None:
    class Cached(CachedFinishedJobsMixin, Shops):
        def base_loop_tasks(self) -> None:
            super().base_loop_tasks()
            self.stats.inc_value("tasks")

    play = ManagerPlay(Cached)
    assert play.until_closed() == "finished"
    assert play.stats["tasks"] == 2


def test_46_owned_jobs_are_listed_by_state_and_tag_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.managers.authors.owned_jobs.JOBS_IN_A_PAGE", 2)

    class Tagged(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            for number in range(7):
                yield {"page": number, "tags": ["even"] if number % 2 == 0 else []}

    play = ManagerPlay(Tagged)
    play.cycle()
    play.end(1)
    play.end(2)
    manager = play.manager
    assert [job["number"] for job in manager.get_finished_owned_jobs()] == [1, 2]
    assert [job["number"] for job in manager.get_owned_jobs(state=["running"])] == [3, 4, 5, 6, 7]
    assert [job["number"] for job in manager.get_owned_jobs(state=["pending", "running"])] == [3, 4, 5, 6, 7]
    assert [job["number"] for job in manager.get_owned_jobs(state=["running"], has_tag=["even"])] == [3, 5, 7]
    for states in ([], ["odd"]):
        with pytest.raises(BadInput, match="state"):
            list(manager.get_owned_jobs(state=states))


def test_46_owned_jobs_are_filtered_and_an_unknown_filter_is_refused() -> None:
    class Filters(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield from ({"n": n, "spider": "toys" if n == 2 else "books", "tags": [f"n{n}"]} for n in range(1, 5))

    play = ManagerPlay(Filters)
    play.cycle()
    play.end(4)
    manager = play.manager

    def numbers(**filters: Any) -> list[int]:
        return [job["number"] for job in manager.get_owned_jobs(**{"state": ["running"], **filters})]

    assert numbers(count=1) == [1]
    assert numbers(start=1, count=2, meta=["tags"]) == [2, 3]
    assert numbers(spider="toys") == [2]
    assert numbers(lacks_tag=["n1", "n3"]) == numbers(spider="toys", state="running", has_tag="n2") == [2]
    assert [job["number"] for job in manager.get_finished_owned_jobs(lacks_tag="n4")] == []
    with pytest.raises(BadInput, match="lack_tag"):
        manager.get_owned_jobs(state=["running"], lack_tag=["n1"])


class Waits(Shops):
    """Waits for the first job in a cycle."""

    names = "ab"
    timeout = math.inf
    beats = 0
    rest: Any = None

    def base_loop_tasks(self) -> None:
        keys = [job["key"] for job in self.get_owned_jobs(state=["running"])]
        if keys and self.rest is None:
            self.rest = self.wait_for(keys, interval=30, timeout=self.timeout, heartbeat=self.beat)

    def beat(self) -> None:
        self.beats += 1


def test_47_n13_a_wait_looks_at_once_and_ends_with_the_last_job() -> None:
    play = ManagerPlay(Waits)
    play.cycle(2)
    assert play.slept[-1] == 30
    play.end(1)
    play.cycle()
    play.end(2)
    play.cycle()
    manager = play.manager
    assert isinstance(manager, Waits)
    assert (set(manager.rest), manager.beats) == (set(), 1)


def test_47_a_wait_takes_a_single_key_and_a_number_as_heartbeat(caplog: pytest.LogCaptureFixture) -> None:
    waited: list[Any] = []

    class Seed(Shops):
        def on_start(self, resumed: bool = False) -> None:
            key = self.schedule_spider_with_jobargs({"spider_args": {"seed": 1}})
            waited.append(self.wait_for(key, interval=10, timeout=40, heartbeat=20) == {key})
            waited.append(self.wait_for(key, interval=10))

    caplog.set_level("INFO")
    play = ManagerPlay(Seed)
    play.cycle(5)
    assert waited == [True]
    assert [line.endswith("still running") for line in caplog.messages].count(True) == 2
    play.end(1)
    play.cycle()
    assert waited == [True, set()]


def test_47_n13_a_wait_tells_what_still_runs_after_its_time() -> None:
    play = ManagerPlay(type("Short", (Waits,), {"timeout": 45}))
    play.cycle(2)
    play.end(1)
    play.cycle()
    assert play.slept[-1] == 15
    play.cycle()
    manager = play.manager
    assert isinstance(manager, Waits)
    assert set(manager.rest) == {play.started[1].key}


def test_48_stats_are_summed_by_spider_once_over_deaths() -> None:
    class Sums(Shops):
        target_spider_stats = (r"mine/\w+$",)
        stats_only_total = False

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"page": 1}
            yield {"page": 2, "spider": "toys"}

    stats = {"item_scraped_count": 5, "downloader/request_count": 2, "mine/a": 1, "mine/a/b": 1, "other": 9}
    stats |= {"scrapy-zyte-api/429": 2, "zyte_api_proxy/response/status/429": 3}
    play = ManagerPlay(Sums)
    play.cycle()
    play.end(stats=stats)
    play.crash("before react")
    play.crash("after react")
    play.cycle()
    assert {name: value for name, value in play.stats.items() if not name.startswith("crawlmanager")} == {
        "item_scraped_count/total": 10, "item_scraped_count/books": 5, "item_scraped_count/toys": 5,
        "scrapy-zyte-api/429/total": 4, "scrapy-zyte-api/429/books": 2, "scrapy-zyte-api/429/toys": 2,
        "zyte_api_proxy/response/status/429/total": 6, "zyte_api_proxy/response/status/429/books": 3,
        "zyte_api_proxy/response/status/429/toys": 3,
        "mine/a/total": 2, "mine/a/books": 1, "mine/a/toys": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *("downloader/response_status_count/503", "downloader/response_count", "item_scraped_count"),
        *("spider_exceptions/ValueError", "scrapy-zyte-api/429", "scrapy-zyte-api/status_codes/520"),
        "zyte_api_proxy/response/status/429",
    ],
)
def test_48_each_base_stat_of_the_originals_is_summed(name: str) -> None:
    play = ManagerPlay(Books)
    play.cycle()
    play.end(stats={name: 3, "scrapy-zyte-api/success": 4})
    play.cycle()
    assert play.stats == {"crawlmanager/scheduled_jobs": 1, f"{name}/total": 3}


MIGRATION = (Path(__file__).parents[2] / "docs/howto/managers-from-shub-workflow.md").read_text()


def test_spider_args_in_a_yielded_set_reach_the_spider_as_the_page_says() -> None:
    class Nested(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"spider_args": {"shop": "a"}, "page": 1}

    play = ManagerPlay(Nested)
    play.cycle()
    assert [dict(job.arguments) for job in play.running] == [{"shop": "a", "page": "1"}]
    assert "| `spider_args` in a set that `set_parameters_gen` yields is dropped |" in MIGRATION


def test_stats_are_set_back_one_by_one_as_the_page_says() -> None:
    class Resets(Books):
        def on_start(self, resumed: bool = False) -> None:
            assert not hasattr(self.stats, "clear_stats")
            self.stats.inc_value("rounds", 3)
            self.stats.set_value("rounds", 0)

    play = ManagerPlay(Resets)
    play.cycle()
    assert play.stats["rounds"] == 0
    assert "| `stats.clear_stats()` | absent:" in MIGRATION


def test_48_stats_are_totals_alone_unless_asked() -> None:
    play = ManagerPlay(Books)
    play.cycle()
    play.end(stats={"items": 3})
    play.cycle()
    assert play.stats == {"crawlmanager/scheduled_jobs": 1, "items/total": 3}


def test_48_a_pattern_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(BadInput, match="target_spider_stats"):
        ManagerPlay(type("Wrong", (Books,), {"target_spider_stats": ("mine/(",)})).cycle()


def test_48_own_stats_have_the_methods_of_scrapys_and_whole_numbers_stay_whole() -> None:
    seen: list[str] = []

    class Own(Shops):
        def on_start(self, resumed: bool = False) -> None:
            seen.append(repr([self.stats.get_value(name) for name in ("none", "n", "half", "most", "least", "set")]))

        def finished_ok_hook(self, *_: Any) -> None:
            self.stats.inc_value("n", start=5)
            self.stats.inc_value("half", 0.5)
            for value in (3, 7, 5):
                self.stats.max_value("most", value, spider=None)
                self.stats.min_value("least", value)
            self.stats.set_stats({"set": 4})

    play = ManagerPlay(Own)
    play.cycle()
    play.end(1)
    play.cycle()
    play.replace()
    play.cycle()
    assert seen == ["[None, None, None, None, None, None]", "[None, 6, 0.5, 7, 3, 4]"]


def test_48_a_stat_may_be_a_text_which_stays_over_deaths() -> None:
    seen: list[Any] = []

    class Texts(Shops):
        names = "a"

        def on_start(self, resumed: bool = False) -> None:
            seen.append((self.stats.get_value("last"), "last" in self.stats, self.stats.get_stats().get("last")))
            self.stats.set_stats({"last": f"text {resumed}", "number": 1})

    play = ManagerPlay(Texts)
    play.cycle()
    assert play.stats["last"] == "text False"
    play.replace()
    assert play.until_closed() == "finished"
    assert seen == [(None, False, None), ("text False", True, "text False")]
    assert (play.stats["last"], play.stats["number"]) == ("text True", 1)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([True], "number or a text"),
        ([None], "number or a text"),
        ([[1]], "number or a text"),
        (["text", 1], "stays a text"),
        ([1, "text"], "stays a number"),
        (["x" * 4097], "4097 characters"),
    ],
)
def test_48_a_stat_stays_a_number_or_a_text(values: list[Any], problem: str) -> None:
    class Sets(Shops):
        def on_start(self, resumed: bool = False) -> None:
            for value in values:
                self.stats.set_value("last", value)

    with pytest.raises(AuthorsFailure, match=problem):
        ManagerPlay(Sets).cycle()


def test_48_no_number_is_added_to_a_text() -> None:
    class Adds(Shops):
        def on_start(self, resumed: bool = False) -> None:
            self.stats.set_value("last", "text")
            self.stats.inc_value("last")

    with pytest.raises(AuthorsFailure, match="is a text"):
        ManagerPlay(Adds).cycle()


@pytest.mark.parametrize("name", ["crawlmanager/scheduled_jobs", "crawlmanager/filtered"])
@pytest.mark.parametrize("value", ["text", 1])
def test_48_stats_of_the_ledger_are_counted_by_the_ledger_alone(name: str, value: Any) -> None:
    """A text ended each later write of the ledger, and a number changed the close reason."""

    class Sets(Shops):
        def on_start(self, resumed: bool = False) -> None:
            self.stats.set_value(name, value)

    with pytest.raises(AuthorsFailure, match="counted by the manager's ledger"):
        ManagerPlay(Sets).cycle()


def test_38_ends_are_told_backwards_on_request() -> None:
    order: list[int] = []

    class Backwards(Shops):
        running_jobs_reverse_check = True

        def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> None:
            order.append(metadata["number"])

    play = ManagerPlay(Backwards)
    play.cycle()
    play.end()
    play.cycle()
    assert order == [3, 2, 1]


def test_40_the_metadata_has_the_stats_and_the_times() -> None:
    seen: list[JobDict] = []

    class Metadata(Books):
        def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> None:
            seen.append(metadata)

    play = ManagerPlay(Metadata)
    play.cycle()
    play.end(1, stats={"item_scraped_count": 5})
    play.cycle()
    (job,) = seen
    assert repr(job["scrapystats"]) == "{'item_scraped_count': 5}"
    now = play.now.timestamp() * 1000
    times = [now - 120_000, job["pending_time"], job["running_time"], job["finished_time"], now]
    assert times == sorted(time for time in times if time is not None)


def test_a_job_under_way_has_no_numbers_rather_than_zeros() -> None:
    """A manager that stops crawls whose items stand still would have stopped each."""
    names = ("stats", "scrapystats", "items", "pages", "errors")
    seen: list[list[Any]] = []

    class Looks(Books):
        def look(self) -> None:
            seen.append([self.get_metadata_key(job, name) for job in self.get_jobs() for name in names])

        def running_job_hook(self, jobkey: JobKey) -> None:
            job = self.get_job_metadata(jobkey)
            seen.append([job[name] for name in names])
            self.aggregate_spider_stats(job)
            self.look()

        def on_close(self) -> None:
            self.look()

    play = ManagerPlay(Looks)
    play.cycle()
    play.skip(seconds=61)
    assert seen == [[None] * 5, [None] * 5]
    play.end(1, stats={"item_scraped_count": 5})
    play.cycle()
    assert seen[2:] == [[{"item_scraped_count": 5}, {"item_scraped_count": 5}, 5, 0, 0]]
    assert play.stats["item_scraped_count/total"] == 5


@pytest.mark.parametrize("outcome", ["finished", "failed", "cancelled", "killed by oom"])
def test_49_a_single_job_ends_its_manager_with_any_outcome(outcome: str) -> None:
    play = ManagerPlay(Books)
    assert play.until_closed(outcome) == outcome
    assert len(play.started) == 1


def test_50_a_periodic_manager_goes_on_whatever_happens() -> None:
    class Nightly(PeriodicCrawlManager):
        name, spider, loop_mode, quick_end = "nightly", "books", 60, 0

    play = ManagerPlay(Nightly)
    play.cycle()
    for outcome in ("finished", "failed", "cancelled", "killed by oom", "unknown"):
        play.end(outcome=outcome)
        assert play.cycle() is None
    assert play.manager.get_close_reason() is None
    assert len(play.started) == 6


def test_51_the_word_of_an_end_reaches_the_hooks() -> None:
    words: list[str] = []

    class Words(Shops):
        names = "abc"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> None:
            words.append(outcome)

    play = ManagerPlay(Words)
    play.cycle()
    for number, outcome in enumerate(("cancel_timeout", "max_duration", "lost"), 1):
        play.end(number, outcome)
    play.cycle()
    assert words == ["cancel_timeout", "max_duration", "lost"]


def test_63_parameters_are_merged_by_kind() -> None:
    former: JobParams = {"tags": ["a"], "spider_args": {"x": 1, "y": 1}, "job_settings": {"S": 1}, "units": 1}
    changed = merged(former, {"tags": ["b", "a"], "spider_args": {"x": 2}, "units": 3})
    assert changed == {"tags": ["a", "b"], "spider_args": {"x": 2, "y": 1}, "job_settings": {"S": 1}, "units": 3}
    assert former == {"tags": ["a"], "spider_args": {"x": 1, "y": 1}, "job_settings": {"S": 1}, "units": 1}


def test_a_refused_start_frees_its_place_at_once() -> None:
    """A pause of `loop_mode` after each pair of refused starts made a wrong name a matter of hours."""

    class Wrong(GeneratorCrawlManager):
        name, spider, loop_mode = "wrong", "nobody", 3600

        def set_parameters_gen(self) -> Iterator[Any]:
            yield from ({"page": page} for page in range(7))

    play = ManagerPlay(Wrong, "--max-running-jobs", "2", refuses={"nobody": "no such crawler"})
    began = play.now
    assert play.until_closed() == "finished_with_failures"
    assert play.counts.refused == 7
    assert play.now - began < timedelta(minutes=1)
