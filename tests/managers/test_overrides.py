"""Methods that authors override, with an own part before, after and instead of `super()`."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.managers import AsyncSchedulerCrawlManagerMixin, GeneratorCrawlManager, JobDict
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

BEFORE, AFTER, INSTEAD = "before", "after", "instead"
PLACES = [BEFORE, AFTER, INSTEAD]
CALLS = "calls"  # stat


def own_part(manager: Any) -> None:
    manager.stats.inc_value(CALLS)


def around(name: str, place: str, instead: Callable[..., Any]) -> dict[str, Any]:
    """A method that counts its calls before, after or instead of its `super()`. `instead`: the author's answer."""

    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if place == INSTEAD:
            own_part(self)
            return instead(self, *arguments, **keywords)
        if place == BEFORE:
            own_part(self)
        inherited: Any = getattr(GeneratorCrawlManager, name)
        is_property = isinstance(inherited, property)
        if inspect.ismethod(inherited):  # of the class
            answer = inherited(*arguments, **keywords)
        else:
            answer = inherited.__get__(self) if is_property else inherited(self, *arguments, **keywords)
        if place == AFTER:
            own_part(self)
        return answer

    return {name: property(method) if name == "max_running_jobs" else method}


def overriding(name: str, place: str, instead: Callable[..., Any], **attributes: Any) -> type[Shops]:
    return type("Overriding", (Shops,), {**attributes, **around(name, place, instead)})


def nothing(*_: Any, **__: Any) -> None:
    return None


def starts_one(manager: Any) -> bool:
    """The author's own cycle, without the engine's."""
    if not manager.link.counts().running:
        manager.schedule_spider_with_jobargs({"spider_args": {"shop": "own"}})
    return not manager.link.ended(1)


def one_argument(manager: Any, override: Any = None, spider: str | None = None) -> Any:
    """A start with other arguments, by the method of the class above."""
    return Shops.schedule_spider_with_jobargs(manager, {"spider_args": {"own": "1"}}, spider)


# name: the author's answer, further attributes, whether the manager still starts its three shops
METHODS: dict[str, tuple[Callable[..., Any], dict[str, Any], int]] = {
    "on_start": (nothing, {}, 3),
    "on_close": (nothing, {}, 3),
    "base_loop_tasks": (nothing, {}, 3),
    "workflow_loop": (starts_one, {}, 1),
    "schedule_spider_with_jobargs": (one_argument, {}, 3),
    "get_job_settings": (lambda *_: {"OWN": "1"}, {}, 3),
    "max_running_jobs": (lambda _: 2, {}, 3),
    "get_max_next_params": (lambda _: 1, {}, 3),
    "can_schedule_job_with_params": (lambda *_: True, {}, 3),
    "create_dupe_filter": (nothing, {}, 3),
    "append_flow_tag": (nothing, {"on_start": lambda self, resumed=False: self.append_flow_tag("x")}, 3),
    "finished_metadata_hook": (nothing, {}, 3),
    "finished_ok_hook": (nothing, {}, 3),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", METHODS)
def test_3c2_a_method_is_overridden(name: str, place: str) -> None:
    instead, attributes, starts = METHODS[name]
    play = ManagerPlay(overriding(name, place, instead, **attributes))
    play.until_closed()
    assert play.stats[CALLS] >= 1
    assert len(play.started) == (starts if place == INSTEAD else 3)
    assert play.counts == Counts(completed=len(play.started)) or (name, place) == ("workflow_loop", INSTEAD)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.long
def test_3c2_what_super_does_is_there_with_and_gone_without_it(name: str, place: str) -> None:
    """The effects of the engine's own methods, as far as they have any."""
    instead, attributes, _ = METHODS[name]
    play = ManagerPlay(overriding(name, place, instead, **attributes), "--job-settings", '{"LINE": "1"}')
    play.cycle()
    is_instead = place == INSTEAD
    seen = {
        "append_flow_tag": "x" in play.started[0].tags,
        "get_job_settings": play.started[0].settings == {"LINE": "1"},
        "schedule_spider_with_jobargs": play.started[0].arguments == {"shop": "a"},
        "max_running_jobs": len(play.started) == 3,
        "get_max_next_params": len(play.started) == 3,
        "workflow_loop": len(play.started) == 3,
    }
    assert seen.get(name, not is_instead) is not is_instead


@pytest.mark.parametrize("place", PLACES)
def test_3c2_check_running_jobs(place: str) -> None:
    play = ManagerPlay(overriding("check_running_jobs", place, nothing))
    play.cycle()
    play.end()
    assert play.cycle() == (None if place == INSTEAD else "finished")
    assert play.counts.running == (3 if place == INSTEAD else 0)  # without super(), ends wait for a reaction
    assert play.stats[CALLS] == 2


@pytest.mark.parametrize("place", PLACES)
def test_3c2_bad_outcome_hook_and_get_retry_override(place: str) -> None:
    hook = ManagerPlay(overriding("bad_outcome_hook", place, nothing, names="a", MAX_RETRIES=1))
    hook.until_closed("failed")
    assert len(hook.started) == (1 if place == INSTEAD else 2)
    changed = overriding(
        "get_retry_override", place, lambda *_: {"spider_args": {"own": "1"}}, names="a", MAX_RETRIES=1
    )
    retry = ManagerPlay(changed)
    retry.until_closed("failed")
    own = {"own": "1"} if place == INSTEAD else {}
    assert retry.started[1].arguments == {"shop": "a", "retry_num": "1", **own}


@pytest.mark.parametrize("place", PLACES)
def test_3c2_add_job_and_set_close_reason(place: str) -> None:
    def add(self: Any, resumed: bool = False) -> None:
        if not resumed:
            self.add_job("toys", {"spider_args": {"shop": "added"}})

    added = ManagerPlay(overriding("add_job", place, nothing, on_start=add))
    added.cycle()
    assert ("toys" in [job.spider for job in added.started]) is (place != INSTEAD)
    closes = {"on_close": lambda self: self.set_close_reason("own")}
    closed = ManagerPlay(overriding("set_close_reason", place, nothing, **closes))
    assert closed.until_closed() == ("finished" if place == INSTEAD else "own")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["resume_running_job_hook", "resume_finished_job_hook"])
def test_3c2_the_resume_hooks(name: str, place: str) -> None:
    play = ManagerPlay(overriding(name, place, nothing))
    play.cycle()
    play.end(1)
    play.cycle()
    assert CALLS not in play.stats
    play.replace()
    play.cycle()
    assert play.stats[CALLS] == (2 if name == "resume_running_job_hook" else 1)


@pytest.mark.parametrize("place", PLACES)
def test_3c2_resume_workflow(place: str) -> None:
    hooks: list[tuple[str, int]] = []
    attributes = {
        "resume_running_job_hook": lambda _, job: hooks.append(("running", job["number"])),
        "resume_finished_job_hook": lambda _, job: hooks.append(("finished", job["number"])),
        "on_start": lambda self, resumed: hooks.append(("on_start", int(resumed))),
    }
    play = ManagerPlay(overriding("resume_workflow", place, nothing, **attributes))
    play.cycle()
    play.end(1)
    play.cycle()
    assert (play.stats.get(CALLS, 0), hooks) == (0, [("on_start", 0)])
    hooks.clear()
    play.replace()
    play.cycle()
    assert play.stats[CALLS] == 1
    jobs = [] if place == INSTEAD else [("running", 2), ("running", 3), ("finished", 1)]
    assert hooks == [*jobs, ("on_start", 1)]


def test_3c2_coroutines_for_the_resume() -> None:
    jobs: list[int] = []

    class Coroutines(AsyncSchedulerCrawlManagerMixin, Shops):
        async def resume_workflow(self) -> None:
            own_part(self)
            await super().resume_workflow()

        async def resume_running_job_hook(self, job: JobDict) -> None:
            jobs.append(job["number"])

    play = ManagerPlay(Coroutines)
    play.cycle()
    play.replace()
    play.cycle()
    assert (play.stats[CALLS], jobs) == (1, [1, 2, 3])


@pytest.mark.parametrize("place", PLACES)
def test_3c2_each_beginning_and_the_end_have_a_line_in_the_flows_timeline(place: str) -> None:
    both = {**around("on_start", place, nothing), **around("on_close", place, nothing)}
    play = ManagerPlay(type("Overriding", (Shops,), both))
    play.cycle()
    play.replace()
    play.crash("before commit")
    play.until_closed()
    begun = ["the manager begins", *(f"process {number} has taken the manager over" for number in (2, 3))]
    lines = [line for line in play.lines if "manager" in line]
    assert lines == [*begun, "the manager is closed: finished"]


@pytest.mark.parametrize("place", PLACES)
def test_3c2_a_start_returns_the_key_of_a_job_on_record(place: str) -> None:
    keys: list[str] = []

    class Keys(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"shop": "a"}

        def schedule_spider_with_jobargs(self, job_args_override: Any = None, spider: str | None = None) -> Any:
            if place == BEFORE:
                job_args_override = {**job_args_override, "tags": ["own"]}
            if place == INSTEAD:
                job_args_override, spider = {"spider_args": {"own": 1}}, "toys"
            key = super().schedule_spider_with_jobargs(job_args_override, spider)
            keys.append(key)
            assert self.is_running(key)
            return key

    play = ManagerPlay(Keys)
    assert play.until_closed() == "finished"
    (job,) = play.started
    assert keys == [job.key]
    expected = ("toys", {"own": "1"}) if place == INSTEAD else ("books", {"shop": "a"})
    assert (job.spider, job.arguments) == expected
    assert ("own" in job.tags) is (place == BEFORE)


def test_3c2_coroutines_around_the_methods_of_the_mixin() -> None:
    class Coroutines(AsyncSchedulerCrawlManagerMixin, Shops):
        async def workflow_loop(self) -> bool:
            own_part(self)
            goes_on = await super().workflow_loop()
            own_part(self)
            return goes_on

        async def check_running_jobs(self) -> None:
            await super().check_running_jobs()
            own_part(self)

    play = ManagerPlay(Coroutines)
    assert play.until_closed() == "finished"
    assert play.stats[CALLS] == 6
