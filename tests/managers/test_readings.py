"""Readings of jobs in hooks, ends of jobs by their manager, and the author's own methods for starts and ends."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import AsyncSchedulerCrawlManagerMixin, CachedFinishedJobsMixin, CrawlManager, JobParams
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.testing import ManagerPlay, failed, stopped
from tests.kit.data.databases import ref_to
from tests.managers.authors import Shops

STATS = {"item_scraped_count": 5, "downloader/response_count": 7, "log_count/ERROR": 2}


class Looks(Shops):
    """Reads each job by its key in the hook for its end."""

    names = "ab"
    MAX_RETRIES = 1

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        metadata, job = self.get_job_metadata(jobkey), self.get_job(jobkey)
        assert job is not None
        assert (job.key, job.metadata) == (jobkey, metadata)
        names = ("spider", "spider_args", "state", "close_reason", "items", "pages", "errors", "missing")
        self.seen.append([self.get_metadata_key(metadata, name) for name in names])
        assert metadata["scrapystats"] == STATS
        assert metadata["pending_time"] <= metadata["running_time"] <= metadata["finished_time"]
        self.seen.append(self.get_keyvalue_job_tag("JOBSEQ", self.get_job_tags(jobkey)))


def looks(play: ManagerPlay) -> Looks:
    manager = play.manager
    assert isinstance(manager, Looks)
    return manager


def test_40_a_hook_reads_its_job_by_the_key() -> None:
    play = ManagerPlay(Looks)
    play.cycle()
    play.end(2, stats=STATS)
    play.cycle()
    assert looks(play).seen == [["books", {"shop": "b"}, "finished", "finished", 5, 7, 2, None], "0000000002"]
    assert looks(play).get_job("unknown") is None
    assert looks(play).get_job_metadata("unknown") is None
    assert looks(play).get_job_tags("unknown") == []
    assert looks(play).get_keyvalue_job_tag("OTHER", ["OTHERS=1"]) is None


def test_46_jobs_of_all_states_are_listed_with_former_attempts() -> None:
    play = ManagerPlay(Looks)
    play.cycle()
    play.end(1, "failed")
    play.cycle()
    manager = looks(play)
    listed = [(job["number"], job["attempt"], job["state"]) for job in manager.get_jobs()]
    assert listed == [(1, 2, "running"), (2, 1, "running"), (1, 1, "finished")]  # the newest first
    assert [job["attempt"] for job in manager.get_jobs(state="finished", count=1)] == [1]
    tagged = manager.get_jobs_with_tags("books", ["JOBSEQ=0000000001.r1", "FLOW_ID=play"])
    assert [job.metadata["attempt"] for job in tagged] == [2]
    assert manager.get_project_running_spiders() == {"books"}
    assert manager.get_project_running_spiders(only_crawlmanagers=True) == set()
    running = manager.get_running_jobs()
    assert list(running) == [job.key for job in play.running]
    assert [spider for spider, _ in running.values()] == ["books", "books"]
    assert [params["spider_args"] for _, params in running.values()] == [{"shop": "a", "retry_num": "1"}, {"shop": "b"}]


def test_46_jobs_of_the_project_are_listed_whoever_started_them() -> None:
    play = ManagerPlay(Looks)
    store, entry = play.managed.store, Crawler(name="toys")
    for request in (RunRequest(crawler="toys", labels=["project:7"], tags=["t"]), RunRequest(crawler="cars")):
        store.runs.create(NewRun(request, entry, 1, request.crawler, "first"))
    play.cycle()
    manager = looks(play)
    assert [job["spider"] for job in manager.get_jobs(7)] == ["toys"]
    assert [job["spider"] for job in manager.get_jobs()] == ["books", "books", "cars", "toys"]
    assert [job.key for job in manager.get_jobs_with_tags("toys", ["t"], 7)] == ["toys"]
    assert manager.get_project_running_spiders() == {"books", "cars", "toys"}
    assert [job["spider"] for job in manager.get_owned_jobs(state="running")] == ["books", "books"]
    assert manager.get_job_tags("toys") == ["t"]
    assert manager.get_job_metadata("toys")["running_time"] is None  # the run is pending
    manager.add_job_tags("toys", ["t"])
    with pytest.raises(BadInput, match="toys is no job of this manager"):
        manager.finish("toys")
    with pytest.raises(BadInput, match="toys is no job of this manager"):
        manager.add_job_tags("toys", ["u"])
    manager.project_id = 7
    assert manager.get_project_running_spiders() == {"toys"}


def test_46_a_manager_waits_for_a_run_of_others() -> None:
    class Waits(Shops):
        def on_start(self, resumed: bool = False) -> None:
            states.append((self.is_running("toys"), self.is_finished("toys")))
            assert self.wait_for("toys", interval=5, timeout=5) == {"toys"}
            store.tasks.cancel_queued(ref_to(toys), "stopped")
            store.runs.close(ref_to(toys), RunStatus.FAILED, "main_job_failed")
            assert self.wait_for("toys") == set()
            states.append((self.is_running("toys"), self.is_finished("toys")))

    states: list[tuple[bool, str | None]] = []
    play = ManagerPlay(Waits)
    store = play.managed.store
    toys = store.runs.create(NewRun(RunRequest(crawler="toys"), Crawler(name="toys"), 1, "toys", "first"))
    play.cycle(2)
    assert states == [(True, None), (False, "failed")]


@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.long
def test_46_67_each_job_of_an_item_is_told(deaths: bool) -> None:
    listed: list[tuple[int, str | None]] = []
    resumed: list[tuple[int, str | None]] = []

    class Tells(Shops):
        names = "ab"
        MAX_RETRIES = 2

        def resume_finished_job_hook(self, job: Any) -> None:
            resumed.append((job["attempt"], job["close_reason"]))

        def on_close(self) -> None:
            listed.extend((job["attempt"], job["close_reason"]) for job in self.get_finished_owned_jobs())

    play = ManagerPlay(Tells)
    play.cycle()
    for outcome in ("memusage_exceeded", "failed", failed("banned")):
        play.end(1, outcome)
        play.cycle()
    if deaths:
        play.replace()
    play.until_closed()
    assert listed == [(1, "memusage_exceeded"), (2, "failed"), (3, "banned"), (1, "finished")]
    assert resumed == (listed[:3] if deaths else [])


def test_48_a_canonical_name_joins_the_sums_of_spiders() -> None:
    class Joins(Shops):
        stats_only_total = False

        def set_parameters_gen(self) -> Iterator[Any]:
            yield from ({"spider": spider} for spider in ("shop_a", "shop_b", "toys"))

        def get_canonical_spidername(self, spidername: str) -> str:
            return spidername.partition("_")[0]

    play = ManagerPlay(Joins)
    play.cycle()
    assert play.manager.get_project_running_spiders(canonical=True) == {"shop", "toys"}
    play.end(stats={"item_scraped_count": 2})
    play.cycle()
    sums = {name: value for name, value in play.stats.items() if name.startswith("item_scraped_count")}
    assert sums == {"item_scraped_count/shop": 4, "item_scraped_count/toys": 2, "item_scraped_count/total": 6}


# ends by the manager


class Stalls(Shops):
    """Finishes its first job while it runs."""

    names = "ab"

    def __init__(self) -> None:
        super().__init__()
        self.failed_outcomes.append("stalled")
        self.ends: list[tuple[str, str]] = []

    def running_job_hook(self, jobkey: str) -> None:
        if self.get_keyvalue_job_tag("JOBSEQ", self.get_job_tags(jobkey)) == "0000000001":
            self.finish(jobkey, "stalled")

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        assert self.is_finished(jobkey) == outcome
        self.ends.append(("bad", outcome))

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        self.ends.append(("ok", outcome))


def stalled_play() -> ManagerPlay:
    play = ManagerPlay(Stalls)
    play.cycle()
    play.skip(seconds=60)
    return play


@pytest.mark.parametrize("end", [stopped(), stopped(forced=True)])
@pytest.mark.parametrize("dies", [False, True])
def test_44_finish_is_a_stop_and_its_reason_is_the_outcome_after_the_proof(end: Any, dies: bool) -> None:
    play = stalled_play()
    key = play.started[0].key
    assert set(play.stops) == {key}
    assert play.manager.is_running(key)
    play.skip(seconds=60)
    assert play.stops == [key]  # asked once
    if dies:
        play.replace()
        play.cycle()
        assert play.stops == [key, key]  # the host before may have died ahead of its request
    play.end(1, end)
    play.end(2)
    assert play.cycle() == "finished_with_failures"
    manager = play.manager
    assert isinstance(manager, Stalls)
    assert manager.ends == [("bad", "stalled"), ("ok", "finished")]
    assert [item.outcome for item in play.items] == ["stalled", "finished"]


@pytest.mark.parametrize("reason", ["enough", "finished"])
def test_44_the_reason_alone_decides_whether_a_finished_job_has_failed(reason: str) -> None:
    class Enough(Shops):
        names = "a"

        def running_job_hook(self, jobkey: str) -> None:
            self.finish(jobkey, reason)

    play = ManagerPlay(Enough)
    play.cycle()
    play.skip(seconds=60)
    play.end(1, stopped())
    assert play.cycle() == "finished"
    assert play.counts.completed == 1


def test_44_the_reasons_of_stops_are_stored_before_the_close_that_sends_the_stops() -> None:
    """A host that died between the two had stopped the jobs, and the next host did not know why."""

    class Ends(Shops):
        names = "ab"

        def workflow_loop(self) -> Any:
            continues = super().workflow_loop()
            if self.get_running_jobs():
                self.finish(close_reason="enough")
            return continues

        def on_close(self) -> None:
            for key in self.get_running_jobs():
                self.finish(key, "enough")

    play = ManagerPlay(Ends)
    play.crash("before close")
    assert len(play.stops) == 2
    for number in (1, 2):
        play.end(number, stopped())
    play.cycle()
    assert [item.outcome for item in play.items] == ["enough", "enough"]


def test_44_a_job_that_ends_by_itself_keeps_its_outcome() -> None:
    play = stalled_play()
    play.end(1, failed("banned"))
    play.end(2, stopped())
    play.cycle()
    manager = play.manager
    assert isinstance(manager, Stalls)
    assert manager.ends == [("bad", "banned"), ("bad", "cancelled")]


@pytest.mark.parametrize(("reason", "closes"), [("done early", True), ("finished", False), (None, False)])
def test_18_a_manager_finishes_itself(reason: str | None, closes: bool) -> None:
    class Ends(Shops):
        def base_loop_tasks(self) -> None:
            self.finish(close_reason=reason)

    play = ManagerPlay(Ends)
    play.cycle()
    assert play.close_reason == (reason if closes else None)


def test_44_a_job_is_finished_in_on_close_and_an_ended_or_unknown_job_is_not() -> None:
    class Closes(Shops):
        names = "ab"

        def workflow_loop(self) -> bool:
            super().workflow_loop()
            return not self.link.counts().completed

        def on_close(self) -> None:
            for job in self.get_owned_jobs(state=["running", "finished"]):
                self.finish(job["key"], "closed")
            self.finish("unknown", "closed")

    play = ManagerPlay(Closes)
    play.cycle()
    play.end(1)
    assert play.cycle() is not None
    assert play.stops == [play.started[1].key]


def test_44_a_reason_has_the_length_of_an_outcome() -> None:
    class Long(Shops):
        def running_job_hook(self, jobkey: str) -> None:
            self.finish(jobkey, "x" * 65)

    play = ManagerPlay(Long)
    play.cycle()
    with pytest.raises(AuthorsFailure, match="64 characters"):
        play.skip(seconds=60)


# own methods around starts and ends


def test_3c2_an_own_is_finished_decides_over_ends() -> None:
    questions: list[str] = []

    class Decides(Shops):
        names = "ab"
        ready = False

        def is_finished(self, key: str) -> str | None:
            questions.append(key)
            word = super().is_finished(key)
            return "few_items" if self.ready and key.endswith("-1") and word == "finished" else None

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            outcomes.append(outcome)

    outcomes: list[str] = []
    play = ManagerPlay(Decides)
    play.cycle()
    play.end()
    play.cycle()
    assert (sorted(questions), outcomes) == (sorted(job.key for job in play.started), [])
    Decides.ready = True
    assert play.until_closed() == "finished"
    assert outcomes == ["few_items", "few_items"]
    assert [item.outcome for item in play.items] == ["few_items", "few_items"]


def test_3c2_an_own_bad_word_makes_a_retry() -> None:
    class Decides(Shops):
        names = "a"
        MAX_RETRIES = 1

        def is_finished(self, key: str) -> str | None:
            word = super().is_finished(key)
            return "memusage_exceeded" if word == "finished" and len(play.started) == 1 else word

    play = ManagerPlay(Decides)
    assert play.until_closed() == "finished"
    assert len(play.started) == 2


class Wraps(Shops):
    """Changes each start by its own `schedule_spider`."""

    names = "ab"
    labels = ("site:{shop}",)

    def schedule_spider(  # type: ignore[override]
        self,
        spider: str,
        tags: Sequence[str] | None = None,
        units: float | None = None,
        project_id: int | None = None,
        **kwargs: Any,
    ) -> Any:
        kwargs["own"] = "1"
        kwargs.pop("country")
        assert [tag for tag in tags or () if tag.startswith("JOBSEQ=")]
        return super().schedule_spider(
            spider, tags=[*(tags or ()), "OWN"], units=(units or 1) * 2, project_id=project_id, **kwargs
        )


class WrapsAsync(AsyncSchedulerCrawlManagerMixin, Wraps):
    """The same on an event loop."""


class WrapsWithCoroutine(AsyncSchedulerCrawlManagerMixin, Shops):
    """Changes each start by a coroutine function."""

    names = "ab"
    labels = ("site:{shop}",)

    async def async_schedule_spider(self, spider: str, **parameters: Any) -> Any:
        parameters.pop("country")
        parameters["tags"] = [*parameters["tags"], "OWN"]
        parameters["units"] *= 2
        return await super().async_schedule_spider(spider, own="1", **parameters)


@pytest.mark.parametrize("manager", [Wraps, WrapsAsync, WrapsWithCoroutine])
def test_3c2_an_own_schedule_spider_is_called_for_each_start(manager: type[Shops]) -> None:
    line = ("--spider-args", '{"country": "de"}', "--job-settings", '{"X": 1}', "--units", "3")
    play = ManagerPlay(manager, *line)
    assert play.until_closed() == "finished"
    assert [job.arguments for job in play.started] == [{"shop": "a", "own": "1"}, {"shop": "b", "own": "1"}]
    assert [(job.settings, job.memory_factor) for job in play.started] == [({"X": "1"}, 6)] * 2
    assert [job.labels for job in play.started] == [("site:a",), ("site:b",)]
    assert all({"OWN", "FLOW_ID=play", f"JOBSEQ={job.number:010d}"} <= set(job.tags) for job in play.started)
    assert play.stats["crawlmanager/scheduled_jobs"] == 2


def test_3c2_an_own_schedule_spider_that_starts_nothing_leaves_the_item() -> None:
    class Refuses(Shops):
        names = "a"

        def schedule_spider(self, spider: str, **parameters: Any) -> Any:  # type: ignore[override]
            return None

        def base_loop_tasks(self) -> None:
            self.schedule_spider_with_jobargs({"tags": "text"})  # type: ignore[arg-type]

    play = ManagerPlay(Refuses)
    play.cycle()
    assert not play.started
    assert (play.counts.waiting, play.counts.refused) == (1, 1)


def test_29_schedule_spider_starts_a_job_without_the_command_line() -> None:
    class Books(CrawlManager):
        name, spider, loop_mode = "nightly", "books", 60

        def on_start(self, resumed: bool = False) -> None:
            keys.append(self.schedule_spider("toys", tags=["OWN"], units=2, a=1, job_settings={"X": 1}))

    keys: list[str] = []
    play = ManagerPlay(Books, "--spider-args", '{"country": "de"}')
    play.cycle()
    (job,) = play.started
    assert (job.key, job.spider, job.arguments, job.settings) == (keys[0], "toys", {"a": "1"}, {"X": "1"})
    assert job.memory_factor == 2
    assert {"OWN", "FLOW_ID=play"} <= set(job.tags)


def test_7_an_own_method_makes_the_tags_of_jobs() -> None:
    class Tags(Shops):
        names = "a"

        def _make_children_tags(self, tags: Sequence[str] | None) -> Sequence[str] | None:
            seen.append(list(tags or []))
            inherited = super()._make_children_tags(tags) or []
            return [tag for tag in (*inherited, "CHILD") if tag != "GONE"]

        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"shop": "a", "tags": ["GONE", "own"]}

    seen: list[list[str]] = []
    play = ManagerPlay(Tags)
    play.cycle()
    (job,) = play.started
    assert list(job.tags) == ["CHILD", "FLOW_ID=play", "JOBSEQ=0000000001", "PARENT_NAME=nightly", "own"]
    assert seen == [["GONE", "own", "JOBSEQ=0000000001"]]


class Reads(AsyncSchedulerCrawlManagerMixin, CachedFinishedJobsMixin, Shops):
    """Reads and calls what shub-workflow's managers have without a mention on the pages."""

    names = "ab"

    def parse_project_id(self, args: Any) -> int:
        return int(super().parse_project_id(args) or 0) + 1

    async def base_loop_tasks(self) -> None:
        self.update_finished_cache(17)
        self.state["running"] = {key: list(job) for key, job in self._running_job_keys.items()}
        for key in self._running_job_keys:
            await self.async_add_job_tags(key, ["SEEN"])
        await self.async_add_job_tags(tags=["OWN"])


def test_members_beside_the_pages_act_as_there() -> None:
    play = ManagerPlay(Reads, "--project-id", "16")
    play.cycle()
    assert play.state["running"] == {}
    assert {label for job in play.started for label in job.labels} == {"project:17"}
    assert play.manager.project_id == 17
    play.skip(minutes=1)
    first, second = (job.key for job in play.started)
    running: Any = play.state["running"]
    assert {key: spider for key, (spider, _) in running.items()} == {first: "books", second: "books"}
    assert running[first][1]["spider_args"] == {"shop": "a"}
    assert "SEEN" in play.manager.get_job_tags(first)
    assert "OWN" in play.manager.get_job_tags()
    play.end()
    assert play.cycle() == "finished"
