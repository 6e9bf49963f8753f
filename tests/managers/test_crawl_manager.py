"""CrawlManager and PeriodicCrawlManager. Names begin with the numbers of the requirements; T: shub-workflow's tests."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import CrawlManager, JobDict, JobParams, PeriodicCrawlManager, WorkFlowManager
from crawler_lifecycle.managers.authors.arguments import BadArguments, command_line
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops
from tests.managers.play import later, nothing, play_of


class Books(CrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60


class Unnamed(WorkFlowManager):
    pass


def parsed(manager: type[WorkFlowManager], *arguments: str) -> WorkFlowManager:
    with command_line(arguments):
        return manager()


# identity and command line


def test_1_and_t1_a_manager_needs_a_name() -> None:
    with pytest.raises(BadArguments, match="the following arguments are required: name"):
        parsed(Unnamed)


def test_2_and_t2_the_name_comes_from_the_command_line_without_an_attribute() -> None:
    assert parsed(Unnamed, "mine").name == "mine"
    with pytest.raises(BadArguments, match="unrecognized arguments: mine another"):
        parsed(Books, "mine", "another")


def test_7_and_26_jobs_have_the_tags_of_family_manager_and_command_line() -> None:
    play = play_of(Books, "-t", "k=v", "--children-tag", "a", "--spider-args", '{"depth": 2}')
    play.run(nothing)
    assert play.tags == [("FLOW_ID=shops", "PARENT_NAME=nightly", "a", "k=v")]
    assert play.arguments == [{"depth": "2"}]


def test_8_and_t28_a_flow_tag_reaches_all_further_jobs_and_stays() -> None:
    class Tagging(PeriodicCrawlManager):
        name, spider, loop_mode = "nightly", "books", 60

        def finished_ok_hook(self, *_: Any) -> None:
            self.append_flow_tag("seen=1")

    play = play_of(Tagging)
    play.run(play.end(), nothing)
    play.run(play.end())
    assert ["seen=1" in tags for tags in play.tags] == [False, True, True]


@pytest.mark.parametrize(
    ("line", "default", "variable", "expected"),
    [
        (("--project-id", "888"), 777, "999", "888"),
        (("--project-id=eu",), None, None, "eu"),
        ((), 777, "999", "777"),
        ((), None, "999", "999"),
        ((), None, None, None),
    ],
)
def test_11_t2_t5_the_project_comes_from_the_line_the_class_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    line: Sequence[str],
    default: int | None,
    variable: str | None,
    expected: str | None,
) -> None:
    monkeypatch.delenv("PROJECT_ID", raising=False)
    if variable is not None:
        monkeypatch.setenv("PROJECT_ID", variable)
    play = ManagerPlay(type("Some", (Books,), {"default_project_id": default}), *line)
    play.cycle()
    assert list(play.started[0].labels) == ([] if expected is None else [f"project:{expected}"])
    manager = play.manager
    assert (None if manager.project_id is None else str(manager.project_id)) == expected
    assert manager.get_project().key == str(manager.project_id)
    assert manager.get_project(7).key == "7"


def test_11_t15_t30_a_job_may_have_a_project_of_its_own() -> None:
    class Projects(Shops):
        labels = ("site:{shop}",)

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"shop": "a", "project_id": 999}
            yield {"shop": "b"}
            yield {"shop": "c", "project_id": "no project"}

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            projects.append(job_args_override.get("project_id"))

    projects: list[Any] = []
    play = ManagerPlay(Projects, "--project-id", "888")
    play.cycle()
    labels = [list(job.labels) for job in play.started]
    assert labels == [["project:999", "site:a"], ["project:888", "site:b"]]
    assert [dict(job.arguments) for job in play.started] == [{"shop": "a"}, {"shop": "b"}]
    assert [job["number"] for job in play.manager.get_owned_jobs(999, state=["running"])] == [1]
    assert [job["number"] for job in play.manager.get_jobs(888)] == [2]
    assert play.counts.refused == 1
    play.end()
    play.cycle()
    assert projects == [999, None]


class Own(WorkFlowManager):
    name = "own"

    def workflow_loop(self) -> bool:
        self.schedule_spider("books")
        return False


@pytest.mark.parametrize("manager", [Books, Own, Shops])
@pytest.mark.parametrize("loop_mode", [0, 60])
def test_a_crawler_that_does_not_exist_is_no_success(manager: type[WorkFlowManager], loop_mode: int) -> None:
    """In a single cycle and in an own loop, the close reason was `finished`, so `flow run` exited with 0."""
    variant = type("Some", (manager,), {"loop_mode": loop_mode})
    play = ManagerPlay(variant, refuses={"books": "there is no such crawler"})
    reason = "refused" if manager is Books else "finished_with_failures"
    assert play.cycle(3) == reason


@pytest.mark.parametrize("project", [" ", "no project"])
def test_11_an_impossible_project_is_refused(project: str) -> None:
    with pytest.raises(BadInput, match="project"):
        parsed(Books, "--project-id", project)


def test_24_a_program_alias_gives_arguments() -> None:
    class Programs(Books):
        PROGRAMS = {"deep": {"command_line": "--max-running-jobs {jobs} --units 2"}}

    manager = parsed(Programs, "-g", "deep", "-v", "jobs:7", "--units", "3")
    assert (manager.max_running_jobs, manager.args.units) == (7, 3)
    with pytest.raises(BadArguments, match="known are: deep"):
        parsed(Programs, "-g", "absent")


def test_25_authors_add_own_arguments() -> None:
    class Own(Books):
        def add_argparser_options(self) -> None:
            super().add_argparser_options()
            self.argparser.add_argument("--own", type=int)

    play = play_of(Own, "--own", "3")
    play.run(nothing)
    assert play.manager is not None
    assert play.manager.args.own == 3


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--job-settings", "[1]", "expected a JSON object"),
        ("--job-settings", "{x", "is no JSON: Expecting property name"),
        ("--spider-args", '{"depth": 2', "is no JSON: Expecting ',' delimiter"),
        ("--spider-args", "2", "expected a JSON object"),
        ("--units", "x", "invalid int value: 'x'"),
        ("--children-tag", None, "expected one argument"),
    ],
)
def test_26_json_options_are_checked(option: str, value: str | None, expected: str) -> None:
    with pytest.raises(BadArguments) as refusal:
        parsed(Books, option, *([] if value is None else [value]))
    assert refusal.value.field == option
    assert refusal.value.expected.startswith(expected)
    assert refusal.value.message == f"{option}: {refusal.value.expected}"
    assert refusal.value.sentence.startswith("nightly: error: argument ")


def test_26_a_line_that_no_option_is_to_blame_for_has_the_field_arguments() -> None:
    with pytest.raises(BadArguments) as refusal:
        parsed(Books, "--colour", "red")
    assert (refusal.value.field, refusal.value.expected) == ("arguments", "unrecognized arguments: --colour red")


def test_t7_the_spider_comes_from_the_command_line_without_an_attribute() -> None:
    class AnySpider(CrawlManager):
        name, loop_mode = "nightly", 60

    play = play_of(AnySpider, "toys")
    play.run(nothing)
    assert play.spiders == ["toys"]


# one job


def test_t6_49_a_job_is_started_watched_and_not_started_again() -> None:
    play = play_of(Books)
    assert play.run(nothing, play.end()) == "finished"
    assert play.numbers == [1]
    assert play.counts.completed == 1


def test_12_a_single_cycle_leaves_the_job_running() -> None:
    play = play_of(Books, "--loop-mode", "0")
    assert play.run() == "finished"
    assert play.counts.running == 1


def test_20_and_t8_the_first_bad_outcome_is_the_close_reason() -> None:
    play = play_of(Books)
    assert play.run(play.end(outcome="cancelled")) == "cancelled"


def test_t9_67_a_job_of_a_former_object_is_adopted() -> None:
    resumed: list[JobDict] = []

    class Resumed(Books):
        def resume_running_job_hook(self, job: JobDict) -> None:
            resumed.append(job)

    play = play_of(Resumed, "--spider-args", '{"a": 1}')
    assert play.run(nothing) is None
    assert play.run(play.end()) == "finished"
    assert play.numbers == [1]
    assert [(job["spider"], job["state"], job["number"]) for job in resumed] == [("books", "running", 1)]


@pytest.mark.parametrize("call", ["after commit", "start on record", "after start", "after react", "after close"])
def test_a_death_starts_no_job_twice(call: str) -> None:
    play = play_of(Books)
    play.crash(call, play.end())
    play.run(play.end(), nothing)
    assert [(start.number, start.attempt) for start in play.started] == [(1, 1)]
    assert play.counts.completed == 1


# hooks


def test_40_47_a_hook_gets_copies_and_each_end_has_one_hook() -> None:
    calls: list[Any] = []

    class Hooks(Books):
        def finished_metadata_hook(self, jobkey: str, metadata: JobDict) -> None:
            calls.append(("metadata", metadata["close_reason"]))

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            calls.append(("bad", outcome, self.is_finished(jobkey), self.is_running(jobkey)))

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            calls.append(("ok", outcome))
            assert self.wait_for(jobkey) == set()

    play_of(Hooks).run(nothing)
    play = play_of(Hooks)
    play.run(play.end(outcome="failed"))
    assert calls == [("metadata", "failed"), ("bad", "failed", "failed", False)]
    calls.clear()
    waits = play_of(Hooks)
    assert waits.run(waits.end()) == "finished"
    assert calls == [("metadata", "finished"), ("ok", "finished")]


def test_20_the_first_close_reason_stays() -> None:
    class First(Books):
        def finished_metadata_hook(self, jobkey: str, metadata: JobDict) -> None:
            self.set_close_reason("mine")

    play = play_of(First)
    assert play.run(play.end(outcome="failed")) == "mine"


def test_39_live_jobs_are_told_once_in_a_pause() -> None:
    calls: list[str] = []

    class Live(Books):
        def running_job_hook(self, jobkey: str) -> None:
            calls.append(jobkey)

    play = play_of(Live)
    play.run(nothing, nothing, nothing)
    assert len(calls) == 1


def test_n5_a_hook_that_raises_has_no_effect_and_is_called_again() -> None:
    class Raises(Books):
        def bad_outcome_hook(self, *_: Any) -> None:
            self.stats.inc_value("calls")
            raise ValueError("no")

    play = play_of(Raises)
    with pytest.raises(AuthorsFailure) as failure:
        play.run(play.end(outcome="failed"))
    assert (failure.value.phase, failure.value.job) == ("bad_outcome_hook", f"flow-{play.flow.uid}-1-1")
    assert "ValueError: no" in failure.value.error
    assert play.counts.running == 1
    play.kit.replace(Books)
    assert play.run() == "failed"
    assert "calls" not in play.flow.begun().stats


def test_16_on_start_and_on_close() -> None:
    calls: list[Any] = []

    class Life(Books):
        def on_start(self, resumed: bool = False) -> None:
            calls.append(resumed)
            self.state["starts"] = self.state.get("starts", 0) + 1

        def on_close(self) -> None:
            calls.append(self.state["starts"])

    play = play_of(Life)
    play.run(nothing)
    play.run(play.end())
    assert calls == [False, True, 2]


def test_17_the_time_counts_from_the_first_beginning() -> None:
    play = play_of(Books, "--max-running-time", "100")
    assert play.run(nothing) is None
    assert play.slept[-1] is not None
    assert play.slept[-1] <= 60
    later(101)(play)
    assert play.run(nothing) == "max_running_time"
    assert play.counts.running == 1


def test_48_stats_are_summed_once() -> None:
    play = play_of(Books)
    play.run(play.end())
    assert play.flow.begun().stats == {"crawlmanager/scheduled_jobs": 1}


# people


def test_a_pause_starts_nothing_and_hooks_go_on() -> None:
    play = play_of(PeriodicBooks)
    play.run(lambda p: p.flow.hold("pause"), play.end(), nothing, lambda p: p.flow.hold("run"), nothing)
    assert play.numbers == [1, 2]
    assert play.counts.completed == 1


def test_a_drain_ends_after_the_last_job() -> None:
    play = play_of(PeriodicBooks)
    assert play.run(lambda p: p.flow.hold("drain"), nothing, play.end()) == "drained"
    assert play.numbers == [1]


def test_a_leave_ends_at_once() -> None:
    play = play_of(PeriodicBooks)
    assert play.run(lambda p: p.flow.cancel("manager", terminate=False)) == "left"
    assert play.counts.running == 1


class PeriodicBooks(PeriodicCrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60
    quick_end = 0


# periodic


def test_13_a_periodic_manager_needs_a_pause() -> None:
    with pytest.raises(BadInput, match="loop_mode"):
        play_of(PeriodicBooks, "--loop-mode", "0").run()


def test_t12_50_a_periodic_manager_starts_again_after_any_end() -> None:
    play = play_of(PeriodicBooks)
    assert play.run(play.end(), play.end(outcome="cancelled"), play.end(outcome="failed")) is None
    assert play.numbers == [1, 2, 3, 4]


def test_50_a_job_that_fails_at_once_makes_the_pause_grow() -> None:
    class Quick(PeriodicBooks):
        quick_end = 10

    play = play_of(Quick)
    play.run(play.end(outcome="failed"), nothing)
    assert play.numbers == [1]
    assert play.slept[-1] is not None
    assert play.slept[-1] <= 2
    later(3)(play)
    play.run(nothing)
    assert play.numbers == [1, 2]
