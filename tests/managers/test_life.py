"""Identity, arguments and life of a manager. Names have the numbers in docs/internals/manager-proofs.md."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import (
    AsyncSchedulerCrawlManagerMixin,
    BaseLoopScript,
    BaseScript,
    CachedFinishedJobsMixin,
    CrawlManager,
    GeneratorCrawlManager,
    JobDict,
    JobParams,
    PeriodicCrawlManager,
    SpiderStatsAggregatorMixin,
    WorkFlowManager,
)
from crawler_lifecycle.managers.authors.arguments import command_line
from crawler_lifecycle.managers.authors.defining import build, family_of, flow_of
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.managers.authors.owned_jobs import STATES
from crawler_lifecycle.testing import ManagerPlay
from tests.kit.data.managers import managed
from tests.managers.authors import Shops, shops_with


class Books(CrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60


def manager_of(manager: type[WorkFlowManager], *arguments: str) -> WorkFlowManager:
    return build(manager, arguments)


# identity


def test_3_two_managers_with_a_name_are_the_same_flow() -> None:
    assert flow_of("m:Books", "nightly", "shops", []).id == flow_of("m:Other", "nightly", "shops", []).id
    assert flow_of("m:Books", "weekly", "shops", []).id != flow_of("m:Books", "nightly", "shops", []).id


def test_4_t3_a_family_is_generated_and_the_author_may_generate_it() -> None:
    assert UUID(family_of(manager_of(Books), None))

    class Own(Books):
        def generate_flow_id(self) -> str:
            return "mine"

    assert family_of(manager_of(Own), None) == "mine"


def test_5_t4_a_given_family_wins_and_two_different_are_refused() -> None:
    manager = manager_of(Books, "--flow-id", "shops")
    assert family_of(manager, None) == "shops"
    assert family_of(manager, "shops/nightly") == "shops"
    with pytest.raises(BadInput, match="family"):
        family_of(manager, "others")


def test_6_no_tag_changes_the_name() -> None:
    play = ManagerPlay(Books, "-t", "NAME=other")
    play.cycle()
    assert play.manager.name == "nightly"
    assert play.started[0].tags == ("FLOW_ID=play", "NAME=other", "PARENT_NAME=nightly")


def test_7_t25_t26_tags_are_sorted_and_unique_and_children_have_family_and_parent() -> None:
    class Tagged(Shops):
        children_tags = ("b=1",)

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"tags": ["z", "b=1"]}

    play = ManagerPlay(Tagged, "--children-tag", "c", "-t", "a", family="shops")
    play.cycle()
    tags = ("FLOW_ID=shops", "JOBSEQ=0000000001", "PARENT_NAME=nightly", "a", "b=1", "c", "z")
    assert play.started[0].tags == tags


def test_7_t27_without_a_family_there_is_no_parent_name() -> None:
    assert manager_of(Books).get_tags() == []
    assert manager_of(Books, "--flow-id", "x").get_tags() == ["FLOW_ID=x", "PARENT_NAME=nightly"]


class Tagging(PeriodicCrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60
    quick_end = 0

    def on_start(self, resumed: bool = False) -> None:
        if not resumed:
            self.append_flow_tag("a")
            self.append_flow_tag("b")

    def finished_ok_hook(self, *_: Any) -> None:
        self.remove_job_tags(["a", "FLOW_ID=play", "PARENT_NAME=nightly", "absent"])


@pytest.mark.parametrize("method", ["__init__", "parse_args"])
def test_8_a_flow_tag_of_the_constructor_holds_for_each_object(method: str) -> None:
    def tagged(self: Any) -> Any:
        answer = getattr(super(Tagged, self), method)()
        self.append_flow_tag("EXEC=1")
        return answer

    class Tagged(Shops):
        pass

    setattr(Tagged, method, tagged)
    play = ManagerPlay(Tagged, "--max-running-jobs", "2")
    play.cycle()
    play.end()
    play.replace()
    play.cycle()
    assert [list(job.tags).count("EXEC=1") for job in play.started] == [1, 1, 1]


def test_8_9_flow_tags_are_removed_for_good_and_the_family_stays() -> None:
    play = ManagerPlay(Tagging)
    play.cycle()
    play.end()
    play.cycle()
    play.replace()
    play.end()
    play.cycle()
    family = ("FLOW_ID=play", "PARENT_NAME=nightly")
    assert [job.tags for job in play.started] == [(*family, "a", "b"), (*family, "b"), (*family, "b")]


def test_9_tags_of_a_job_are_changed_but_for_its_family_and_parent() -> None:
    class Marks(Shops):
        names = "ab"

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            self.add_job_tags(jobkey, ["DONE", "TWICE"])
            self.remove_job_tags(["TWICE", "FLOW_ID=play", "PARENT_NAME=nightly"], jobkey)
            self.add_job_tags("unknown", ["DONE"])
            tags.append(self.get_job_tags(jobkey))

    tags: list[list[str]] = []
    play = ManagerPlay(Marks)
    play.cycle()
    play.end(1)
    play.crash("before react")
    play.cycle()
    marked = ["DONE", "FLOW_ID=play", "JOBSEQ=0000000001", "PARENT_NAME=nightly"]
    assert tags == [marked, marked]
    manager = play.manager
    assert [job["number"] for job in manager.get_owned_jobs(state=list(STATES), has_tag=["DONE"])] == [1]
    assert [job["number"] for job in manager.get_owned_jobs(state=list(STATES), lacks_tag=["DONE"])] == [2]
    assert next(item.tags for item in play.items) == tuple(marked)


def test_9_the_managers_own_tags_are_for_itself() -> None:
    class Marks(Shops):
        def on_start(self, resumed: bool = False) -> None:
            self.append_flow_tag("FLOW=1")
            if not resumed:
                self.add_job_tags(tags=["OWN=1", "OTHER", "NAME=x"])
                self.remove_job_tags(["OTHER"])
            seen.append(self.get_job_tags())

    seen: list[list[str]] = []
    play = ManagerPlay(Marks)
    play.cycle()
    play.replace()
    play.cycle()
    assert seen == [["FLOW_ID=play", "NAME=nightly", "FLOW=1", "OWN=1"]] * 2
    assert not any("OWN=1" in job.tags for job in play.started)


def test_9_a_tag_that_no_run_accepts_is_refused() -> None:
    class Marks(Shops):
        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            self.add_job_tags(jobkey, ["x" * 1000])

    play = ManagerPlay(Marks)
    play.cycle()
    play.end(1)
    with pytest.raises(AuthorsFailure, match="tags"):
        play.cycle()


def test_10_all_jobs_with_the_name_are_seen_and_repeats_and_numbers_stay_apart() -> None:
    seen: list[JobDict] = []

    class All(Shops):
        names = "ab"
        acquire_all_jobs = True

        def resume_finished_job_hook(self, job: JobDict) -> None:
            seen.append(job)

        def resume_running_job_hook(self, job: JobDict) -> None:
            seen.append(job)

    play = ManagerPlay(All)
    other = managed(play.managed.database, "elsewhere/nightly")
    other.offer("a", "b", read=2)
    other.ended_run(other.started(1))
    (ended,) = other.ended()
    other.react(ended)
    other.run_of(other.started(2))
    play.cycle()
    assert [(job["state"], job["spider_args"]) for job in seen] == [("running", {}), ("finished", {})]
    assert play.manager.is_resumed
    assert [(job.number, job.arguments) for job in play.started] == [(1, {"shop": "a"}), (2, {"shop": "b"})]
    assert len(list(play.manager.get_owned_jobs(state=["running", "finished"]))) == 4


def test_t10_t11_jobs_of_another_family_or_name_are_not_adopted() -> None:
    seen: list[JobDict] = []

    class Own(Books):
        def resume_running_job_hook(self, job: JobDict) -> None:
            seen.append(job)

    play = ManagerPlay(Own)
    for other in (managed(play.managed.database, "elsewhere/nightly"), managed(play.managed.database, "play/weekly")):
        other.offer("a", read=1)
        other.run_of(other.started(1))
    play.cycle()
    assert not play.manager.is_resumed
    assert (seen, len(play.started)) == ([], 1)
    play.replace()
    play.cycle()
    assert [job["spider"] for job in seen] == ["books"]
    assert len(play.started) == 1


def test_36_a_script_is_an_entry_of_the_catalogue() -> None:
    class Delivering(Looping):
        def workflow_loop(self) -> bool:
            self.schedule_script(["deliver.py", "--to", "a b"], tags=["last"], units=2, project_id=1999)
            return False

    play = ManagerPlay(Delivering)
    play.cycle()
    (job,) = play.started
    assert (job.spider, dict(job.arguments)) == ("py:deliver.py", {"cmd_args": "--to 'a b'"})
    assert ("last" in job.tags, job.memory_factor, job.labels) == (True, 2, ("project:1999",))


# the loop


class Looping(WorkFlowManager):
    """Makes three cycles."""

    name = "nightly"
    loop_mode = 60
    steps: list[str]

    def on_start(self, resumed: bool = False) -> None:
        self.steps = ["start"]

    def base_loop_tasks(self) -> None:
        self.steps.append("tasks")

    def workflow_loop(self) -> bool:
        self.steps.append("loop")
        return self.steps.count("loop") < 3

    def on_close(self) -> None:
        self.steps.append(f"close {self.is_closed()}")


def test_14_15_16_tasks_come_before_each_cycle_and_false_ends_the_loop() -> None:
    play = ManagerPlay(Looping)
    assert play.cycle(2) is None
    assert play.cycle() == "finished"
    manager = play.manager
    assert isinstance(manager, Looping)
    assert manager.steps == ["start", "tasks", "loop", "tasks", "loop", "tasks", "loop", "close False"]
    assert manager.is_closed()


def test_14_a_loop_with_a_coroutine_is_awaited() -> None:
    class Awaited(Looping):
        async def workflow_loop(self) -> bool:  # type: ignore[override]
            return False

    assert ManagerPlay(Awaited).cycle() == "finished"


def test_12_the_next_cycle_comes_after_the_pause_or_at_once_with_an_end() -> None:
    play = ManagerPlay(Books, "--loop-mode", "90")
    play.cycle()
    assert play.slept == [90]
    play.skip(seconds=30)
    play.end()
    assert play.skip(seconds=1) == "finished"


def test_12_without_wake_on_end_the_pause_alone_begins_the_next_cycle() -> None:
    class Rhythm(Books):
        wake_on_end = False

    play = ManagerPlay(Rhythm, "--loop-mode", "90")
    play.cycle()
    play.skip(seconds=30)
    play.end()
    assert play.skip(seconds=59) is None
    assert play.counts.running == 1
    assert play.skip(seconds=1) == "finished"


def test_16_on_close_is_on_record_once_and_comes_again_only_after_a_death() -> None:
    closes: list[str] = []

    class Closing(Books):
        def on_close(self) -> None:
            closes.append("close")
            self.stats.inc_value("closes")

    play = ManagerPlay(Closing)
    play.cycle()
    play.end()
    play.crash("before close")
    assert play.cycle() == "finished"
    assert (len(closes), play.stats["closes"]) == (2, 1)


@pytest.mark.parametrize("at_limit", ["leave", "drain", "stop"])
def test_17_at_the_end_of_its_time_a_manager_starts_nothing(at_limit: str) -> None:
    play = ManagerPlay(
        shops_with(at_limit=at_limit, names="abc"), "--max-running-jobs", "1", "--max-running-time", "600"
    )
    play.cycle()
    play.skip(seconds=601)
    play.cycle()
    assert play.stops == ([play.started[0].key] if at_limit == "stop" else [])
    if at_limit != "leave":
        assert play.close_reason is None
        play.end()
        play.cycle()
    assert play.close_reason == "max_running_time"
    assert len(play.started) == 1
    assert play.counts.running == (1 if at_limit == "leave" else 0)


def test_17_the_time_goes_on_over_three_objects() -> None:
    play = ManagerPlay(Books, "--max-running-time", "1000")
    for _ in range(3):
        play.replace()
        play.cycle()
        play.skip(seconds=300)
    assert play.skip(seconds=150) == "max_running_time"


def test_18_the_close_reason_is_the_authors() -> None:
    class Reason(Books):
        def finished_ok_hook(self, *_: Any) -> None:
            assert self.get_close_reason() is None
            assert not self.is_closed()
            self.set_close_reason("enough")

    assert ManagerPlay(Reason).until_closed() == "enough"
    assert ManagerPlay(Books).until_closed() == "finished"


def test_19_stats_are_on_record_with_each_reaction() -> None:
    class Counting(Shops):
        def finished_ok_hook(self, *_: Any) -> None:
            self.stats.inc_value("mine")

    play = ManagerPlay(Counting)
    play.cycle()
    play.end(1)
    play.crash("after react")
    assert play.stats["mine"] == 1


def test_21_n7_failures_count_in_the_close_reason() -> None:
    assert ManagerPlay(shops_with(names="ab")).until_closed("failed") == "finished_with_failures"

    class Own(Shops):
        def on_close(self) -> None:
            self.set_close_reason("mine")

    assert ManagerPlay(Own).until_closed("failed") == "mine"


def test_21_too_many_failures_end_a_manager() -> None:
    play = ManagerPlay(shops_with(names="abcdef", max_failures=1), "--max-running-jobs", "2")
    assert play.until_closed("failed") == "max_failures"
    assert len(play.started) == 2


def test_22_b13_crawls_go_on_after_the_managers_end() -> None:
    play = ManagerPlay(Shops)
    play.cycle()
    play.leave()
    assert play.cycle() == "left"
    assert play.counts.running == 3
    assert play.end() == 3  # the runs have supervisors of their own


# arguments


def test_23_every_argument_of_the_pages_is_known() -> None:
    class Programs(Books):
        PROGRAMS = {"deep": {"command_line": ["--max-running-jobs", "{jobs}"]}}

    options = {"--loop-mode": "5", "--max-running-time": "6", "--flow-id": "f", "-t": "a", "--children-tag": "b"}
    line = [word for pair in {**options, "-g": "deep", "-v": "jobs=7"}.items() for word in pair]
    manager = manager_of(Programs, *line)
    assert (manager.loop_mode, manager.max_running_time, manager.flow_id) == (5, 6, "f")
    assert manager.get_tags() == ["FLOW_ID=f", "PARENT_NAME=nightly", "a", "b"]
    assert manager.max_running_jobs == 7
    with pytest.raises(BadInput, match="load-sc-settings"):
        manager_of(Books, "--load-sc-settings")


def test_the_help_describes_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    class Programs(Books):
        PROGRAMS = {
            "wide": {"command_line": "--max-running-jobs 500"},
            "deep": {"command_line": "--max-running-jobs 5", "description": "All pages, at 100% depth"},
        }

    with pytest.raises(SystemExit):
        manager_of(Programs, "--help")
    assert "a program: deep (All pages, at 100% depth), wide." in " ".join(capsys.readouterr().out.split())


def test_23_a_thousand_jobs_by_default() -> None:
    assert manager_of(Books).max_running_jobs == 1000


def test_24_an_explicit_argument_wins_also_with_the_default_value() -> None:
    class Programs(Books):
        PROGRAMS = {"deep": {"command_line": "--max-running-jobs 5"}}

    assert manager_of(Programs, "-g", "deep", "--max-running-jobs", "1000").max_running_jobs == 1000


def test_25_parse_args_may_be_replaced() -> None:
    class Own(Books):
        def parse_args(self) -> Any:
            arguments = super().parse_args()
            arguments.max_running_jobs *= 2
            return arguments

    assert manager_of(Own, "--max-running-jobs", "3").max_running_jobs == 6


def test_27_without_a_spider_a_set_is_refused_and_the_rest_goes_on() -> None:
    class Anything(GeneratorCrawlManager):
        name = "nightly"
        loop_mode = 60

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"page": 1}
            yield {"page": 2, "spider": "toys"}

    play = ManagerPlay(Anything)
    play.cycle()
    assert [job.spider for job in play.started] == ["toys"]
    assert play.counts.refused == 1
    other = ManagerPlay(Anything, "books")
    other.cycle()
    assert [job.spider for job in other.started] == ["books", "toys"]


# types of the classes


def test_t20_t21_t22_t23_t24_classes_mix() -> None:
    class Flows:
        def append_flow_tag(self, tag: str) -> None:
            super().append_flow_tag(f"own-{tag}")  # type: ignore[misc]

    class Mixed(Flows, CachedFinishedJobsMixin, AsyncSchedulerCrawlManagerMixin, Shops):
        async def on_start(self, resumed: bool = False) -> None:
            self.append_flow_tag("x")

    play = ManagerPlay(Mixed)
    play.cycle()
    assert all("own-x" in job.tags for job in play.started)
    for manager in (WorkFlowManager, CrawlManager, PeriodicCrawlManager, GeneratorCrawlManager):
        with command_line(["name", "spider"][: 1 if manager in (WorkFlowManager, GeneratorCrawlManager) else 2]):
            assert manager().name == "name"


# the hierarchy


def test_the_hierarchy_has_the_names_of_the_pages() -> None:
    bases = [base for base in CrawlManager.__mro__ if base in (BaseScript, BaseLoopScript, WorkFlowManager)]
    assert bases == [WorkFlowManager, BaseLoopScript, BaseScript]
    assert issubclass(CrawlManager, SpiderStatsAggregatorMixin)


class Sums(SpiderStatsAggregatorMixin, BaseLoopScript):
    """A script without crawls of its own."""

    loop_mode = 60
    target_spider_stats = (r"custom/\w+/count",)
    stats_only_total = False

    def workflow_loop(self) -> bool:
        stats: dict[str, float] = {"custom/a/count": 2, "custom/a/other": 1, "item_scraped_count": 3}
        self.aggregate_spider_stats({"spider": "books", "stats": stats})
        self.aggregate_spider_stats({"spider": "books", "stats": stats}, "books")
        self.state["cycles"] = self.state.get("cycles", 0) + 1
        return int(self.state["cycles"]) < 2


def test_a_loop_script_runs_in_cycles_and_keeps_its_state_over_deaths() -> None:
    play = ManagerPlay(Sums)
    play.cycle()
    play.replace()
    play.cycle()
    assert (play.skip(minutes=1), play.manager.name, play.state) == ("finished", "Sums", {"cycles": 2})
    assert play.stats == {
        "custom/a/count/total": 4, "custom/a/count/books": 4, "books/custom/a/count": 4,
        "item_scraped_count/total": 6, "item_scraped_count/books": 6, "books/item_scraped_count": 6,
    }  # fmt: skip
