"""An author's own loop, which never calls the base loop. Names have the numbers in docs/internals/manager-proofs.md."""

import asyncio
from typing import Any

import pytest

from crawler_lifecycle.managers import (
    AsyncSchedulerCrawlManagerMixin,
    BaseLoopScript,
    BaseLoopScriptAsyncMixin,
    BaseScript,
    CrawlManager,
    GeneratorCrawlManager,
    JobDict,
    PeriodicCrawlManager,
    WorkFlowManager,
)
from crawler_lifecycle.managers.authors.arguments import command_line
from crawler_lifecycle.testing import ManagerPlay, assert_crash_safe
from tests.kit.samples import few

LINE = ["--spider-args", '{"country": "de"}']


class OneByOne(CrawlManager):
    """Starts three jobs, one after the end of the other."""

    name, spider, loop_mode = "own", "books", 10
    most = 3

    def workflow_loop(self) -> bool:
        self.check_running_jobs()
        if list(self.get_owned_jobs(state=["running", "pending"])):
            return True
        if self.stats.get_value("mine", 0) >= self.most:
            return False
        self.stats.inc_value("mine")
        self.begin(self.stats.get_value("mine"))
        return True

    def begin(self, number: int) -> None:
        self.schedule_spider_with_jobargs({"spider_args": {"n": number}})


class AsGiven(OneByOne):
    def begin(self, number: int) -> None:
        self.schedule_spider("toys", n=number)


class OwnStart(OneByOne):
    def schedule_spider(self, spider: str, *arguments: Any, **parameters: Any) -> Any:
        return super().schedule_spider(spider, *arguments, **{**parameters, "own": "1"})

    def schedule_spider_with_jobargs(self, job_args_override: Any = None, spider: str | None = None) -> Any:
        number = job_args_override["spider_args"]["n"]
        return super().schedule_spider_with_jobargs({"spider_args": {"n": number * 10}}, spider)


class Numbered(OneByOne, GeneratorCrawlManager):
    """Its jobs have the tag JOBSEQ."""

    def set_parameters_gen(self) -> Any:
        return ()


class Waits(AsyncSchedulerCrawlManagerMixin, GeneratorCrawlManager):
    name, spider, loop_mode = "own", "books", 10

    def set_parameters_gen(self) -> Any:
        return ()

    async def workflow_loop(self) -> bool:
        await self.check_running_jobs()
        if not list(self.get_owned_jobs(state=["running"])):
            if self.stats.get_value("mine", 0) >= 2:
                return False
            self.stats.inc_value("mine")
            await self.schedule_spider_with_jobargs({"spider_args": {"n": self.stats.get_value("mine")}})
        return True


@pytest.mark.parametrize(
    "manager", few([OneByOne, AsGiven, OwnStart, Numbered, Waits], [OneByOne, Waits], pytest.mark.long)
)
def test_67_a_death_loses_no_job_of_an_own_loop_and_starts_none_twice(manager: type[CrawlManager]) -> None:
    fewer = type("Fewer", (manager,), {"__module__": manager.__module__, "most": 2})
    assert assert_crash_safe(fewer, arguments=LINE, only=("after commit", "before start", "start on record")) > 3


def test_67_a_job_of_an_own_loop_runs_before_the_authors_code_looks() -> None:
    class Looks(OneByOne):
        def on_start(self, resumed: bool = False) -> None:
            seen.append(len(list(self.get_owned_jobs(state=["running"]))))

    seen: list[int] = []
    play = ManagerPlay(Looks)
    play.crash("before start")
    play.cycle()
    assert (seen, [job.number for job in play.started]) == ([0, 1], [1])


def test_67_a_job_that_a_pause_holds_back_starts_with_the_resume() -> None:
    class Once(OneByOne):
        def workflow_loop(self) -> bool:
            if not self.stats.get_value("mine", 0):
                self.stats.inc_value("mine")
                assert self.schedule_spider_with_jobargs() is None
            return True

    play = ManagerPlay(Once)
    play.pause()
    play.cycle(2)
    assert (play.started, play.counts.waiting) == ([], 1)
    play.replace()
    play.cycle()
    assert not play.started, "neither by another object"
    play.resume()
    play.cycle(3)
    assert [job.number for job in play.started] == [1]


def test_67_jobs_that_were_held_back_keep_to_the_maximum() -> None:
    class Three(OneByOne):
        def workflow_loop(self) -> bool:
            self.check_running_jobs()
            while self.stats.get_value("mine", 0) < 3:
                self.stats.inc_value("mine")
                self.schedule_spider("toys", n=self.stats.get_value("mine"))
            return True

    play = ManagerPlay(Three, "--max-running-jobs", "2")
    play.pause()
    play.cycle()
    play.resume()
    play.cycle(2)
    assert [job.number for job in play.running] == [1, 2]
    play.end(1)
    play.cycle(2)
    assert [job.number for job in play.running] == [2, 3]


def test_50_67_a_periodic_managers_job_is_started_once_after_a_death() -> None:
    class Nightly(PeriodicCrawlManager):
        name, spider, loop_mode = "nightly", "books", 60

    play = ManagerPlay(Nightly)
    play.crash("before start")
    play.cycle(2)
    assert [job.number for job in play.started] == [1]
    play.end()
    play.cycle(2)
    assert [job.number for job in play.started] == [1, 2]


def test_58_67_a_takeover_leaves_added_jobs_to_the_base_loop() -> None:
    class Adds(GeneratorCrawlManager):
        name, spider, loop_mode = "adds", "books", 60

        def set_parameters_gen(self) -> Any:
            return ()

        def on_start(self, resumed: bool = False) -> None:
            if not resumed:
                self.add_job("books", {"spider_args": {"n": 1}}, again=True)

        def can_schedule_job_with_params(self, params: Any) -> bool:
            return False

    play = ManagerPlay(Adds)
    play.crash("get_max_next_params")
    play.cycle(2)
    assert (play.started, play.counts.delayed) == ([], 1)


# scripts and managers without hooks for ends


class Script(BaseLoopScript):
    """Starts two jobs, and waits for their ends."""

    name, loop_mode = "own", 10

    def workflow_loop(self) -> bool:
        while self.state.setdefault("started", 0) < 2:
            self.state["started"] += 1
            self.schedule_spider("toys", tags=["MINE"], units=2, project_id=7, n=self.state["started"])
        return bool(list(self.get_owned_jobs(state=["running"])))


class Manager(Script, WorkFlowManager):
    """A manager with the same loop."""


class ScriptOnALoop(BaseLoopScriptAsyncMixin, Script):
    async def workflow_loop(self) -> bool:  # type: ignore[override]
        if not self.state.setdefault("started", 0):
            jobs = (self.async_schedule_spider("toys", ["MINE"], units=2, project_id=7, n=n) for n in (1, 2))
            self.state["started"] = len(await asyncio.gather(*jobs))
        return bool(list(self.get_owned_jobs(state=["running"])))


@pytest.mark.parametrize("script", [Script, Manager, ScriptOnALoop])
def test_a_script_without_a_spider_starts_jobs_and_continues_after_a_death(script: Any) -> None:
    assert issubclass(script, BaseScript)
    play = ManagerPlay(script)
    play.cycle()
    assert [(job.spider, job.arguments, job.memory_factor) for job in play.running] == [
        ("toys", {"n": "1"}, 2),
        ("toys", {"n": "2"}, 2),
    ]
    assert all("MINE" in job.tags and "project:7" in job.labels for job in play.running)
    play.replace()
    play.end(1, "failed")
    assert play.cycle() is None
    play.end(2)
    assert (play.cycle(), len(play.started)) == ("finished", 2)


@pytest.mark.parametrize("script", [Script, Manager])
@pytest.mark.long
def test_a_scripts_job_that_a_death_has_kept_from_starting_starts_once(script: Any) -> None:
    assert assert_crash_safe(script) > 3


def test_a_managers_resume_hooks_are_called_for_jobs_without_hooks_for_ends() -> None:
    class Remembers(Manager):
        def resume_running_job_hook(self, job: JobDict) -> None:
            self.log(f"running {job['number']}")

        def resume_finished_job_hook(self, job: JobDict) -> None:
            self.log(f"finished {job['number']}")

    play = ManagerPlay(Remembers)
    play.cycle()
    play.end(1)
    play.replace()
    play.cycle()
    assert {"running 2", "finished 1"} <= set(play.lines)


def test_a_start_outside_of_a_flow_is_refused() -> None:
    with command_line(()), pytest.raises(RuntimeError, match="has not begun"):
        BaseScript().schedule_spider("toys")
