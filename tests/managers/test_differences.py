"""What a class takes from shub-workflow in vain, as `crawlctl flow check` names it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import CachedFinishedJobsMixin, GeneratorCrawlManager
from crawler_lifecycle.managers.arguments import command_line
from crawler_lifecycle.managers.differences import MEMBERS, NEVER_CALLED, differences
from crawler_lifecycle.managers.preview import preview
from crawler_lifecycle.managers.requesting import request_of
from crawler_lifecycle.managers.workflow_manager import WorkFlowManager
from tests.managers.reference import at_once, crawlmanager, input_files


class Old(GeneratorCrawlManager):
    name = "old"
    spider = "books"
    loop_mode = 60
    stats_interval = 30

    def __init__(self) -> None:
        super().__init__()
        self.project_settings: dict[str, Any] = {}

    def set_parameters_gen(self) -> Iterator[Any]:
        settings = self.get_sc_project_settings()  # type: ignore[attr-defined]
        yield {"key": self.project_settings["key"], **settings}

    def upload_stats(self) -> None:
        super().upload_stats()

    def is_running(self, key: str) -> bool:
        return super().is_running(key)

    def on_close(self) -> None:
        list(self.get_owned_jobs(state=["finished"], meta=["tags"], colour="red"))
        self.add_job("books", override={})  # type: ignore[call-arg]
        self.add_job("books", job_args_override={})


def in_vain(manager: type[WorkFlowManager]) -> list[str]:
    with command_line(()):
        return differences(manager())


def test_each_member_that_is_used_in_vain_is_named_with_its_place() -> None:
    named = {text.partition(": ")[2]: text.partition(": ")[0] for text in in_vain(Old)}
    assert set(named) == {
        "stats_interval has no effect: stats are stored with each reaction",
        f"self.get_sc_project_settings is not there: {MEMBERS['get_sc_project_settings']}",
        "an own upload_stats is never called: stats are stored with each reaction",
        f"an own is_running is never called: {NEVER_CALLED['is_running']}",
        "get_owned_jobs ignores meta: each job has all fields",
        "get_owned_jobs takes no argument colour",
        "add_job takes no argument override",
    }
    line = Old.set_parameters_gen.__code__.co_firstlineno + 1
    assert named[f"self.get_sc_project_settings is not there: {MEMBERS['get_sc_project_settings']}"] == (
        f"{__file__}, line {line}"
    )


@pytest.mark.parametrize("manager", [crawlmanager.CrawlManager, at_once.CrawlManager, input_files.CrawlManager])
def test_the_reference_examples_have_no_difference(manager: type[WorkFlowManager]) -> None:
    assert in_vain(manager) == []


def test_members_that_are_never_called_are_here() -> None:
    members = {*dir(WorkFlowManager), *dir(CachedFinishedJobsMixin)}
    assert members >= NEVER_CALLED.keys()


def test_the_limits_are_in_the_words_of_the_author() -> None:
    class Large(Old):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"url": "x" * 5000}
            yield {"units": 99}
            yield {"tags": ["short", "t" * 200]}
            yield {"job_settings": {"DELAY": None}}

    with command_line(()):
        result = preview(Large(), first=10, most=10)
    assert [job.problem for job in result.refused] == [
        "spider_args.url: expected at most 4096 characters",
        "units: expected at most 16.0, not 99.0; units multiply the memory in the catalogue",
        f"tags: '{'t' * 100}': expected at most 128 characters",
        "job_settings.DELAY: expected a text, a number, a list or a dict, not None: leave the name out",
    ]
    assert any("get_sc_project_settings" in difference for difference in result.differences)


def arguments(number: int, length: int = 1) -> dict[str, str]:
    return {f"name-{n}": "x" * length for n in range(number)}


@pytest.mark.parametrize(
    ("allowed", "refused", "limit"),
    [
        ({"spider_args": {"url": "x" * 4096}}, {"spider_args": {"url": "x" * 4097}}, "4,096 characters"),
        ({"job_settings": {"A": "x" * 4096}}, {"job_settings": {"A": "x" * 4097}}, "4,096 characters"),
        ({"spider_args": arguments(100)}, {"spider_args": arguments(101)}, "100 each"),
        ({"spider_args": {"n" * 128: "x"}}, {"spider_args": {"n" * 129: "x"}}, "of 128 characters"),
        ({"spider_args": arguments(15, 4096)}, {"spider_args": arguments(17, 4096)}, "65,536 bytes"),
        ({"job_settings": {"A": 1}}, {"job_settings": {"A": None}}, "leave the name out"),
        ({"units": 16}, {"units": 16.5}, "16, above 0"),
        ({"units": 0.5}, {"units": -1}, "16, above 0"),
        ({"tags": sorted(arguments(100))}, {"tags": sorted(arguments(101))}, "100, of 128 characters"),
        ({"tags": ["t" * 128]}, {"tags": ["t" * 129]}, "100, of 128 characters"),
        ({"labels": [f"a:{n}" for n in range(20)]}, {"labels": [f"a:{n}" for n in range(21)]}, "| 20 |"),
        ({"priority": -100}, {"priority": 101}, "-100 to 100"),
    ],
)
def test_the_limits_of_the_page_hold(allowed: Any, refused: Any, limit: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "managers.md").read_text()
    assert limit in page.partition("## Limits")[2].partition("\n## ")[0]
    spider: Any = {"spider": "books"}
    request_of(spider | allowed, ())
    (field,) = refused
    with pytest.raises(BadInput, match=field):
        request_of(spider | refused, ())
