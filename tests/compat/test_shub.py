"""A manager from shub-workflow with other import lines."""

from importlib import import_module
from typing import Any

import pytest

from crawler_lifecycle import managers
from crawler_lifecycle.compat.shub import base, crawl, script, utils
from crawler_lifecycle.testing import ManagerPlay
from tests.compat import shops

program: Any = shops


def test_a_manager_runs_with_other_imports() -> None:
    play = ManagerPlay(program.ShopManager)
    play.cycle()
    assert [job.arguments for job in play.running] == [{"shop": "alfa"}, {"shop": "beta"}]
    play.end(1, "failed")
    play.end(2, "finished")
    play.cycle()
    assert sorted(job.arguments.get("slow", "no") + job.arguments["shop"] for job in play.running) == [
        "nogamma",
        "yesalfa",
    ]
    assert play.until_closed() == "finished"
    play.close()


def test_all_names_of_a_module_are_our_own() -> None:
    for module in (base, crawl, script, utils):
        own = {name: getattr(managers, name) for name in module.__all__ if hasattr(managers, name)}
        assert {name: getattr(module, name) for name in own} == own
        assert own


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("base", ("CachedFinishedJobsMixin", "WorkFlowManager")),
        ("crawl", ("AsyncSchedulerCrawlManagerMixin", "CrawlManager", "GeneratorCrawlManager", "PeriodicCrawlManager")),
        ("crawl", ("FullJobParams", "JobParams", "SpiderArgs", "StopRetry", "get_jobseq")),
        ("script", ("JobDict", "JobKey", "Outcome", "SpiderName")),
        ("utils", ("get_kumo_loglevel",)),
    ],
)
def test_modules_have_the_names_of_shub_workflow(module: str, names: tuple[str, ...]) -> None:
    mirror = import_module(f"crawler_lifecycle.compat.shub.{module}")
    assert [name for name in names if not hasattr(mirror, name)] == []
