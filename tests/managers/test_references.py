"""The examples of the pages that users of shub-workflow know: tests/managers/reference."""

import asyncio
import logging
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.files import FSHelper
from crawler_lifecycle.managers import GeneratorCrawlManager, get_kumo_loglevel
from crawler_lifecycle.managers.authors import workflow_manager
from crawler_lifecycle.testing import ManagerPlay, assert_crash_safe, completed
from tests.kit.outside.stores import REGION, client_of
from tests.managers.reference import at_once, crawlmanager, input_files


def test_the_example_with_input_files_runs(moto: str, credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    monkeypatch.setenv("AWS_REGION", REGION)
    store = client_of("s3", moto)
    store.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    for number in range(6):
        store.put_object(Bucket="bucket", Key=f"inputs/{number}.csv", Body=b"")
    monkeypatch.setattr(input_files, "list_folder", FSHelper().list_folder)
    play = ManagerPlay(input_files.CrawlManager)
    play.cycle()
    assert (play.slept, len(play.running)) == ([120], 4)
    assert play.until_closed() == "finished"
    assert [job.arguments for job in play.started] == [{"input_file": f"s3://bucket/inputs/{n}.csv"} for n in range(6)]
    assert {job.spider for job in play.started} == {"example_spider"}


def test_the_example_with_the_mixin_runs_with_a_generator_in_place_of_the_dots() -> None:
    class CrawlManager(at_once.CrawlManager):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield from ({"page": number} for number in range(3))

    play = ManagerPlay(CrawlManager)
    play.cycle()
    assert play.slept == [30]
    assert play.until_closed() == "finished"
    assert [job.arguments for job in play.started] == [{"page": "0"}, {"page": "1"}, {"page": "2"}]


def test_the_whole_example_runs() -> None:
    play = ManagerPlay(crawlmanager.CrawlManager, family="f")
    play.cycle()
    assert len(play.running) == 4
    assert play.until_closed() == "finished"
    assert [job.arguments for job in play.started] == [{"page": str(number)} for number in range(10)]
    assert play.started[9].tags == ("FLOW_ID=f", "JOBSEQ=0000000010", "PARENT_NAME=crawl")


def test_the_whole_example_is_crash_safe() -> None:
    class Short(crawlmanager.CrawlManager):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield from ({"page": number} for number in (1, 2, 1))

    assert assert_crash_safe(Short, arguments=["--max-running-jobs", "1"], every=3) > 5


class Random(crawlmanager.CrawlManager):
    """A manager that differs from play to play."""

    plays = 0

    def on_start(self, resumed: bool = False) -> None:
        Random.plays += 1
        self.stats.set_value("play", Random.plays)

    def set_parameters_gen(self) -> Iterator[Any]:
        yield {"page": 1}


def test_a_manager_that_is_not_deterministic_is_told_apart_from_an_unsafe_one() -> None:
    with pytest.raises(AssertionError, match=r"not deterministic: two plays without a death differ(.|\n)*'play': 2"):
        assert_crash_safe(Random)


@pytest.mark.long
def test_deaths_are_restricted_to_methods_of_the_author() -> None:
    class Own(crawlmanager.CrawlManager):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield from ({"page": number} for number in range(2))

        def finished_ok_hook(self, *_: Any) -> None:
            self.stats.inc_value("pages")

    assert assert_crash_safe(Own, only="finished_ok_hook") == 2
    assert assert_crash_safe(Own, only=["finished_ok_hook", "before close"]) == 3
    assert 3 <= assert_crash_safe(Own, only="methods") <= 5, "the hooks and the generator"
    with pytest.raises(AssertionError, match=r"did not reach \['finished_okay'\], but \['after close'"):
        assert_crash_safe(Own, only="finished_okay")


def test_a_misspelt_outcome_is_refused() -> None:
    play = ManagerPlay(crawlmanager.CrawlManager)
    play.cycle()
    with pytest.raises(BadInput, match="'finishd' is no known outcome; did you mean 'finished'"):
        play.end(1, "finishd")
    assert len(play.running) == 4, "no job has ended"
    play.end(1, "closespider_timeout")
    play.end(2, "memusage_exceeded")
    play.end(3, completed("finishd"))
    assert len(play.running) == 1


def test_the_script_of_the_example_runs_its_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    monkeypatch.setattr(workflow_manager, "run_manager", lambda manager: runs.append(type(manager).__name__))
    monkeypatch.setattr("sys.argv", ["crawlmanager.py"])
    runpy.run_path(str(Path(crawlmanager.__file__)), run_name="__main__")
    assert runs == ["CrawlManager"]


def test_a_refused_argument_of_the_script_is_a_line_with_the_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["crawlmanager.py", "--load-sc-settings"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(Path(crawlmanager.__file__)), run_name="__main__")
    assert ended.value.code == 2
    usage, *_, line = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: crawlmanager.py [-h]")
    assert line.startswith("crawlmanager.py: error: argument --load-sc-settings: there is no Scrapy Cloud")


def test_66_run_is_a_coroutine_with_the_mixin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_manager, "run_manager", lambda _: "finished")
    monkeypatch.setattr("sys.argv", ["crawlmanager.py"])
    assert asyncio.run(at_once.CrawlManager().run()) == "finished"
    assert crawlmanager.CrawlManager().run() == "finished"
    assert issubclass(at_once.CrawlManager, GeneratorCrawlManager)


@pytest.mark.parametrize(
    ("value", "level"),
    [(None, logging.INFO), ("debug", logging.DEBUG), ("30", 30), ("nonsense", logging.INFO), ("", logging.INFO)],
)
def test_the_level_of_logs_comes_from_the_environment(
    value: str | None, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOG_LEVEL", raising=False)
    if value is not None:
        monkeypatch.setenv("LOG_LEVEL", value)
    assert get_kumo_loglevel() == level
