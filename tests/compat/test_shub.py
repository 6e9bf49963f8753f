"""A manager from shub-workflow with other import lines."""

import json
import logging
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle import files, managers
from crawler_lifecycle.compat.shub import base, crawl, graph, script, utils
from crawler_lifecycle.compat.shub.graph import task
from crawler_lifecycle.compat.shub.utils import contexts, dupefilter, futils
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


def test_a_script_in_cycles_schedules_spiders(caplog: pytest.LogCaptureFixture) -> None:
    play = ManagerPlay(program.Refill)
    play.cycle()
    assert [(job.spider, job.arguments["shop"], "REFILL" in job.tags) for job in play.running] == [
        ("shop", "alfa", True),
        ("shop", "beta", True),
    ]
    play.end(1)
    play.cycle()
    assert [job.arguments["shop"] for job in play.running] == ["beta", "gamma"]
    play.end()
    with caplog.at_level(logging.INFO):
        assert play.cycle() == "finished"
    assert "'rounds': 3" in caplog.text
    assert (play.manager.name, play.manager.get_own_jobkey_from_env()) == ("Refill", play.managed.id)


def test_a_script_on_an_event_loop_schedules_spiders_together() -> None:
    play = ManagerPlay(program.Batch)
    assert play.cycle() == "finished"
    assert (play.stats["jobs"], len(play.started)) == (3, 3)


def test_mixins_and_command_lines_of_authors() -> None:
    with contexts.script_args(["--shop", "alfa"]):
        assert program.ShopScript().target == "alfa of shops"


def test_the_functions_for_files_take_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = f"{tmp_path}/inputs"
    futils.touch(f"{folder}/a.csv")
    with futils.get_file(f"{folder}/b.csv", "w") as file:
        file.write("b")
    assert futils.list_folder(folder, aws_key="key", aws_secret="secret") == [f"{folder}/a.csv", f"{folder}/b.csv"]
    helpers: list[dict[str, Any]] = []

    class Helper:
        def __init__(self, *keys: Any, **options: Any) -> None:
            helpers.append({"keys": keys, **options})

        def upload_file(self, path: str, dest: str) -> str:
            return f"{path} to {dest}"

    monkeypatch.setattr(futils, "FSHelper", Helper)
    uploaded = futils.upload_file(
        "a", "s3://b/c", aws_key="k", aws_secret="s", region="r", op_kwargs={"ACL": "private"}
    )
    assert uploaded == "a to s3://b/c"
    assert helpers == [
        {
            "keys": ("k", "s"), "aws_token": None, "region": "r",
            "op_kwargs_by_method_name": {"upload_file": {"ACL": "private"}},
        }
    ]  # fmt: skip


def test_no_function_for_files_is_missing() -> None:
    ours = {name for name, value in vars(files).items() if getattr(value, "__self__", None) is not None}
    assert {name for name in ours if not callable(getattr(futils, name, None))} == set()
    assert len(ours) > 10


def test_all_names_of_a_module_are_our_own() -> None:
    for module in (base, crawl, graph, script, task, utils):
        names = set(module.__all__)
        own = {name: getattr(managers, name) for name in names if hasattr(managers, name)}
        assert {name: getattr(module, name) for name in own} == own
        assert own


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("base", ("CachedFinishedJobsMixin", "WorkFlowManager", "WorkFlowManagerProtocol")),
        ("crawl", ("AsyncSchedulerCrawlManagerMixin", "CrawlManager", "GeneratorCrawlManager", "PeriodicCrawlManager")),
        ("crawl", ("FullJobParams", "JobParams", "SpiderArgs", "StopRetry", "get_jobseq")),
        ("script", ("BaseLoopScript", "BaseScript", "BaseScriptProtocol")),
        ("script", ("JobDict", "JobKey", "Outcome", "SpiderName")),
        ("crawl", ("CrawlManagerProtocol", "GeneratorCrawlManagerProtocol", "ScheduleArgs")),
        ("script", ("ArgumentParserScriptProtocol", "BaseLoopScriptProtocol", "CommandLineProgram", "JobMeta")),
        ("script", ("BaseLoopScriptAsyncMixin", "SCProjectClassProtocol")),
        ("utils", ("get_kumo_loglevel", "dash_retry_decorator", "hashstr")),
        ("utils", ("resolve_project_id", "resolve_shub_jobkey")),
        ("utils.dupefilter", ("DupesFilterProtocol", "SqliteDictDupesFilter")),
        ("graph", ("GraphManager",)),
        ("graph.task", ("BaseTask", "GraphManagerProtocol", "Resource", "ResourcesDict")),
        ("graph.task", ("SpiderTask", "Task", "TaskId")),
        ("utils.contexts", ("script_args",)),
        ("utils.monitor", ("SpiderStatsAggregatorMixin",)),
    ],
)
def test_modules_have_the_names_of_shub_workflow(module: str, names: tuple[str, ...]) -> None:
    mirror = import_module(f"crawler_lifecycle.compat.shub.{module}")
    assert [name for name in names if not hasattr(mirror, name)] == []


PAGE = "docs/howto/managers-from-shub-workflow.md"


@pytest.mark.parametrize(
    "module",
    [
        *("contrib.hubstorage", "contrib.sentry", "contrib.slack", "deliver", "deliver.base", "graph.utils", "issuer"),
        *("utils.alert_sender", "utils.clone_job", "utils.gcstorage", "utils.hcf", "utils.scanjobs"),
        *("utils.sesemail", "utils.watchdog"),
    ],
)
def test_a_module_without_a_counterpart_names_the_page_and_has_a_row(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"has no counterpart: .*{PAGE}"):
        import_module(f"crawler_lifecycle.compat.shub.{module}")
    known = module if module.startswith(("utils", "graph")) else module.partition(".")[0]
    assert f"`{known}`" in rows_of_absent()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("script", "ArgumentParserScript"), ("script", "SCProjectClass"), ("utils.monitor", "BaseMonitor")),
        *(("utils", "kumo_settings"), ("utils", "get_project_settings")),
    ],
)
def test_a_name_without_a_counterpart_names_the_page_and_has_a_row(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} has no counterpart: .*{PAGE}"):
        getattr(import_module(f"crawler_lifecycle.compat.shub.{module}"), name)
    assert f"`{name}`" in rows_of_absent()


def rows_of_absent() -> str:
    return (Path(__file__).parents[2] / PAGE).read_text().partition("## Modules without a counterpart")[2]


def test_unknown_modules_and_names_stay_plain_errors() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        import_module("crawler_lifecycle.compat.shub.nothing")
    assert not hasattr(script, "nothing")


def test_the_utilities_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROJECT_ID", raising=False)
    with pytest.raises(ValueError, match="--project-id"):
        utils.resolve_project_id()
    monkeypatch.setenv("PROJECT_ID", "17")
    assert (utils.resolve_project_id(), utils.resolve_project_id("x"), utils.resolve_project_id(3)) == (17, "x", 3)
    assert utils.hashstr("é") == "bf15be717ac1b080b4f1c456692825891ff5073d"
    assert utils.resolve_shub_jobkey() is None
    assert utils.dash_retry_decorator(len) is len


def test_a_script_gets_the_words_of_its_task(tmp_path: Path) -> None:
    script_file = tmp_path / "deliver.py"
    script_file.write_text("import sys\nassert __name__ == '__main__'\nprint(sys.argv[1:])\n")
    words = ["--to", "a b", "--all"]
    arguments = task.Task("deliver", "deliver.py", words).job_params()["spider_args"]
    done = subprocess.run(
        [sys.executable, "-m", "crawler_lifecycle.compat.shub.run_script", str(script_file)],
        env={**os.environ, "CRAWL_ARGUMENTS": json.dumps(arguments)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(words)


def test_a_graph_runs_with_other_imports() -> None:
    play = ManagerPlay(program.DeliveryGraph, "--root-jobs")
    play.cycle()
    assert [job.spider for job in play.running] == ["shop"]
    assert play.until_closed() == "finished"
    assert [job.arguments for job in play.started[1:]] == [{"cmd_args": "--part 0"}, {"cmd_args": "--part 1"}]


def test_a_filter_from_the_mirror_holds_sets_off() -> None:
    class Filtered(program.ShopManager):  # type: ignore[misc]
        @classmethod
        def create_dupe_filter(cls) -> Any:
            return dupefilter.SqliteDictDupesFilter()

    play = ManagerPlay(Filtered)
    assert (play.until_closed(), len(play.started)) == ("finished", 3)
