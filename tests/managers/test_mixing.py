"""Classes of authors in front of and behind the mixin, and items whose parameters are on record."""

import asyncio
from typing import Any

import pytest

from crawler_lifecycle.flows.model.requests import RetryItems
from crawler_lifecycle.managers import AsyncSchedulerCrawlManagerMixin, CrawlManager, JobParams
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from tests.managers.authors import Shops, shops_with
from tests.managers.play import Play, nothing, play_of


class Books(CrawlManager):
    name = "nightly"
    spider = "books"
    loop_mode = 60


def test_66_hooks_of_a_class_behind_the_mixin_are_called() -> None:
    class Behind(Shops):
        names = "a"

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            self.set_close_reason(f"own {outcome}")

    class Concurrent(AsyncSchedulerCrawlManagerMixin, Behind):
        pass

    play = play_of(Concurrent)
    assert play.run(play.end(outcome="failed")) == "own failed"


def test_66_starts_of_a_class_behind_the_mixin_are_called() -> None:
    class Behind(Shops):
        def schedule_spider_with_jobargs(self, job_args_override: Any = None, spider: str | None = None) -> Any:
            changed: Any = {**job_args_override, "tags": ["mine"]}
            return super().schedule_spider_with_jobargs(changed, spider)

    class Concurrent(AsyncSchedulerCrawlManagerMixin, Behind):
        pass

    play = play_of(Concurrent)
    play.run(nothing)
    assert [("mine" in tags) for tags in play.tags] == [True] * 3


@pytest.mark.parametrize("waits", [False, True])
def test_66_a_plain_hook_that_awaits_nothing_still_makes_the_retry(waits: bool) -> None:
    class Plain(AsyncSchedulerCrawlManagerMixin, Shops):
        names = "a"
        MAX_RETRIES = 1

        def bad_outcome_hook(self, *arguments: Any) -> None:
            super().bad_outcome_hook(*arguments)

        async def get_retry_override(self, *_: Any) -> JobParams:
            for _turn in range(3 if waits else 0):
                await asyncio.sleep(0.001)
            return {"spider_args": {"slow": "1"}}

    play = play_of(Plain)
    play.run(play.end(outcome="failed"), nothing)
    assert play.arguments == [{"shop": "a"}, {"shop": "a", "slow": "1", "retry_num": "1"}]


@pytest.mark.parametrize("is_caught", [False, True])
def test_66_a_failure_in_work_that_has_begun_is_told_once(is_caught: bool) -> None:
    class Fails(AsyncSchedulerCrawlManagerMixin, Shops):
        names = "a"
        MAX_RETRIES = 1

        async def bad_outcome_hook(self, *arguments: Any) -> None:
            work = super().bad_outcome_hook(*arguments)
            if is_caught:
                with pytest.raises(ValueError, match="no proxy"):
                    await work

        async def get_retry_override(self, *_: Any) -> JobParams:
            await asyncio.sleep(0)
            raise ValueError("no proxy")

    play = play_of(Fails)
    if is_caught:
        assert play.run(play.end(outcome="failed"), nothing) == "finished_with_failures"
    else:
        with pytest.raises(AuthorsFailure, match="no proxy"):
            play.run(play.end(outcome="failed"), nothing)


@pytest.mark.parametrize("is_async", [False, True])
def test_66_an_own_loop_learns_the_outcomes_at_once(is_async: bool) -> None:
    seen: list[dict[str, str]] = []

    class Plain(Shops):
        names = "ab"

        def workflow_loop(self) -> Any:
            outcomes = self.check_running_jobs()
            if outcomes:
                seen.append(dict(outcomes))
            return super().workflow_loop()

        def finished_ok_hook(self, *_: Any) -> None:
            self.stats.inc_value("ok")

    class Concurrent(AsyncSchedulerCrawlManagerMixin, Shops):
        names = "ab"

        async def workflow_loop(self) -> bool:
            outcomes = self.check_running_jobs()
            if outcomes:
                seen.append(dict(outcomes))
            return await super().workflow_loop()

        def finished_ok_hook(self, *_: Any) -> None:
            self.stats.inc_value("ok")

    play = play_of(Concurrent if is_async else Plain)
    play.run(play.end(1), play.end(2, outcome="failed"), nothing)
    first, second = (job.key for job in play.started)
    assert seen == [{first: "finished"}, {second: "failed"}]
    assert play.kit.stats["ok"] == 1


def test_66_a_retry_may_be_a_coroutine_around_the_default() -> None:
    class Concurrent(AsyncSchedulerCrawlManagerMixin, Shops):
        names = "a"
        MAX_RETRIES = 1

        async def bad_outcome_hook(self, *arguments: Any) -> None:
            await super().bad_outcome_hook(*arguments)

        async def get_retry_override(self, *_: Any) -> JobParams:
            await asyncio.sleep(0)
            return {"spider_args": {"slow": "1"}}

    play = play_of(Concurrent)
    play.run(play.end(outcome="failed"), nothing)
    assert play.arguments[1] == {"shop": "a", "slow": "1", "retry_num": "1"}


def test_29_31_a_job_keeps_its_parameters_over_a_death() -> None:
    class Own(Books):
        def on_start(self, resumed: bool = False) -> None:
            if not resumed:
                self.schedule_spider_with_jobargs({"spider_args": {"page": 1}})

    play = play_of(Own)
    play.crash("after commit")
    play.run(nothing)
    assert play.arguments == [{"page": "1"}]


def test_29_people_change_the_arguments_of_a_single_job() -> None:
    class Stays(Books):
        def _goes_on_after_its_job(self) -> bool:
            return True

    def retry(p: Play) -> None:
        p.flow.store.manager_doors.retry_items(p.flow.id, RetryItems(numbers=(1,), arguments={"page": 2}))

    play = play_of(Stays)
    play.run(play.end(outcome="failed"), retry, nothing)
    assert play.arguments == [{}, {"page": "2"}]


def test_13_a_generator_manager_without_pauses_is_warned_about() -> None:
    play = play_of(shops_with(loop_mode=0))
    assert play.run() is not None
    assert play.flow.events.count("manager") == 1


def test_13_a_generator_manager_with_pauses_is_not_warned_about() -> None:
    play = play_of(shops_with())
    play.run(nothing)
    assert "manager" not in play.flow.events
